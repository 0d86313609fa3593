"""Commands about queued work: `worker`, `jobs` and `webhook`."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated

import typer
from rich.text import Text

from vmemo import Memory
from vmemo.cli.command import CommandGroup, Output, command
from vmemo.cli.options import DatabaseWithModels, MaintainEvery, OnBank, SomeBanks
from vmemo.cli.output import log_line, one_line, table, timestamp
from vmemo.cli.target import Target, require_banks, run
from vmemo.errors import StoreBusy, StoreError, VmemoError, public_name
from vmemo.jobs.worker import RunResult
from vmemo.models import utc_now
from vmemo.models.records import counted
from vmemo.models.requests import AddWebhookRequest
from vmemo.models.results import Job
from vmemo.settings import Settings

_SCHEDULE_SECONDS = 300.0
"""Seconds between two searches for banks without a queued maintenance job."""
_INTERRUPTED = 130
"""Exit code after a second signal."""


@command(
    "vmemo worker --llm openai:gpt-5-mini",
    "vmemo worker --bank alice --bank bob --maintain-every 0",
    "vmemo worker --once --json   runs due jobs and exits",
)
def worker(
    bank: SomeBanks = None,
    once: Annotated[bool, typer.Option("--once", help="Exit when no job is due.")] = False,
    maintain_every: MaintainEvery = 24.0,
    *,
    target: DatabaseWithModels,
) -> Output:
    """Run queued jobs of all banks. SIGINT or SIGTERM finishes running jobs and leaves the rest queued."""
    settings = target.settings(maintenance_every=maintain_every)
    try:
        outcome = asyncio.run(_serve(target, settings, bank or (), once=once))
    except asyncio.CancelledError as stopped:
        raise typer.Exit(_INTERRUPTED) from stopped
    done, failed = outcome.jobs - outcome.failed, outcome.failed
    return Output({"done": done, "failed": failed}, f"{counted(done, 'job')} done, {failed:,} failed")


async def _serve(target: Target, settings: Settings, banks: Sequence[str], *, once: bool) -> RunResult:
    await require_banks(target, *banks)
    memory, stop = Memory(target.url, settings=settings), asyncio.Event()
    try:
        with _stopping(stop):
            await memory.schedule_maintenance(banks=banks)
            upkeep = asyncio.create_task(_schedule(memory, banks, stop))
            try:
                return await memory.work(stop, once=once, banks=banks, on_done=_log, on_unavailable=_log_away)
            finally:
                upkeep.cancel()
                with suppress(asyncio.CancelledError):
                    await upkeep
    finally:
        await memory.close()


@contextmanager
def _stopping(stop: asyncio.Event) -> Generator[None]:
    """Handle signals: the first finishes running jobs, the second returns them to the queue."""
    loop, serving = asyncio.get_running_loop(), asyncio.current_task()

    def stop_or_cancel() -> None:
        if stop.is_set() and serving is not None:
            serving.cancel()
        stop.set()

    def handle(signal: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop_or_cancel)

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


async def _schedule(memory: Memory, banks: Sequence[str], stop: asyncio.Event) -> None:
    """Keep a maintenance job queued for each bank, new banks included."""
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), _SCHEDULE_SECONDS)
        except TimeoutError:
            # Retried at the next interval.
            with suppress(StoreBusy):
                await memory.schedule_maintenance(banks=banks)


def _log(job: Job, error: Exception | None, seconds: float) -> None:
    """Log one finished job, without memory text."""
    state = "done" if error is None else "failed"
    reason = "" if error is None else f" {_describe(error)}"
    log_line(f"{_now()} {state} {job.kind} bank={one_line(job.bank)} seconds={seconds:.2f}{reason}")


def _log_away(error: StoreError) -> None:
    log_line(f"{_now()} waiting {_describe(error)}")


def _describe(error: Exception) -> str:
    """Describe an error: our own errors contain no memory text, of others only the name is logged."""
    name = public_name(error)
    return f"{name}: {one_line(str(error).partition(chr(10))[0])}" if isinstance(error, VmemoError) else name


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@command("vmemo jobs", "vmemo jobs --bank alice --json")
def jobs(*, target: OnBank) -> Output:
    """List queued jobs with their errors and due times; `vmemo worker` and `vmemo process` run them."""
    queued, now = run(target, lambda memory: memory.jobs(), embeds=False), utc_now()
    rows = table("id>", "kind", "state", "due", "attempts>", "last error")
    for job in queued:
        running = job.until is not None and job.until > now
        state = "running" if running else "failed" if job.error is not None else "waiting"
        error = Text(one_line(job.error or ""), style="red")
        rows.add_row(str(job.id), job.kind, state, timestamp(job.due), str(job.attempts), error)
    return Output({"jobs": queued}, rows if queued else "The queue is empty.")


@command(
    "vmemo webhook add https://app.example/hooks/vmemo",
    "vmemo webhook add https://app.example/hooks/vmemo --event retained --event forgotten --bank alice --json",
    name="webhook add",
)
def add_webhook(
    url: Annotated[str, typer.Argument(metavar="URL", help="An https:// URL.")],
    event: Annotated[
        list[str] | None,
        typer.Option(metavar="EVENT", help="retained, revised or forgotten; repeatable. Default: all of them."),
    ] = None,
    *,
    target: OnBank,
) -> Output:
    """Add a webhook. Its signing secret is shown once; `vmemo serve` and `vmemo worker` deliver."""
    request = AddWebhookRequest.of({"url": url, **({"events": tuple(event)} if event else {})})
    added = run(target, lambda memory: memory.run(request), embeds=False)
    text = f"Webhook {added.id} gets {', '.join(added.events)} facts. Save the secret: it cannot be shown again."
    return Output(added, f"{added.secret}\n{text}")


@command("vmemo webhook list", "vmemo webhook list --bank alice --json", name="webhook list")
def list_webhooks(*, target: OnBank) -> Output:
    """List the webhooks of a bank, without their secrets."""
    found = run(target, lambda memory: memory.webhooks(), embeds=False)
    rows = table("id", "url", "events", "created", "disabled")
    for each in found:
        disabled = "" if each.disabled_at is None else timestamp(each.disabled_at)
        rows.add_row(each.id, Text(one_line(each.url)), ", ".join(each.events), timestamp(each.created_at), disabled)
    return Output({"webhooks": found}, rows if found else "There are no webhooks.")


@command("vmemo webhook delete 019a2c5e-0d3a-7c11-9b0e-3f5d8a1c2b4e", name="webhook delete")
def delete_webhook(
    webhook: Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook's id, from `vmemo webhook list`.")],
    *,
    target: OnBank,
) -> Output:
    """Delete a webhook with its queued deliveries."""
    gone = run(target, lambda memory: memory.delete_webhook(webhook), embeds=False)
    return Output(gone, f"Webhook {one_line(gone.id)} is deleted.")


webhook = CommandGroup(
    "webhook",
    "Add, list and delete webhooks: addresses that are notified of changed facts.",
    (add_webhook, list_webhooks, delete_webhook),
)
