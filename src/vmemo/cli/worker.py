"""`vmemo worker`: a process that runs queued jobs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, EmbedderName, Model
from vmemo.cli.output import counted, log_line, one_line, print_json, stdout
from vmemo.cli.target import Target, require_banks
from vmemo.errors import StoreBusy, StoreError, VmemoError, public_name
from vmemo.jobs.worker import RunResult
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
    bank: Annotated[
        list[str] | None, typer.Option("--bank", metavar="NAME", help="Only this bank; repeatable.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Exit when no job is due.")] = False,
    maintain_every: Annotated[
        float, typer.Option(min=0.0, metavar="HOURS", help="Hours between maintenance runs; 0 disables them.")
    ] = 24.0,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    embedder: EmbedderName = None,
    as_json: AsJson = False,
) -> None:
    """Run queued jobs of all banks. SIGINT or SIGTERM finishes running jobs and leaves the rest queued."""
    target = Target(db, "default", llm, embedder)
    settings = target.settings(maintenance_every=maintain_every)
    try:
        outcome = asyncio.run(_serve(target, settings, bank or (), once=once))
    except asyncio.CancelledError as stopped:
        raise typer.Exit(_INTERRUPTED) from stopped
    done, failed = outcome.jobs - outcome.failed, outcome.failed
    if as_json:
        print_json({"done": done, "failed": failed})
    else:
        stdout().print(f"{counted(done, 'job')} done, {failed:,} failed")


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
    """Log that the database is unavailable; work resumes when it is back."""
    log_line(f"{_now()} waiting {_describe(error)}")


def _describe(error: Exception) -> str:
    """Describe an error: our own errors contain no memory text, of others only the name is logged."""
    name = public_name(error)
    return f"{name}: {one_line(str(error).partition(chr(10))[0])}" if isinstance(error, VmemoError) else name


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
