"""`vmemo worker`: a process that does the queued work of all banks, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Annotated

import typer

from vmemo import Memory
from vmemo.cli.command import command
from vmemo.cli.options import DEFAULT_DB, AsJson, Db, Model
from vmemo.cli.output import clipped, many, print_json, stdout
from vmemo.cli.target import Place, demand
from vmemo.errors import StoreBusy, StoreError, VmemoError, public_name
from vmemo.jobs.run_result import RunResult
from vmemo.models.results import Job
from vmemo.settings import Settings

_LOOK = 300.0
"""Seconds between two looks for banks that have no maintenance queued."""
_TWICE = 130


@command(
    "vmemo worker --llm openai:gpt-5-mini",
    "vmemo worker --bank alice --bank bob --maintain-every 0",
    "vmemo worker --once --json   does what is due and leaves",
)
def worker(
    bank: Annotated[
        list[str] | None, typer.Option("--bank", metavar="NAME", help="Only this bank; repeatable.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when nothing is due.")] = False,
    maintain_every: Annotated[
        float, typer.Option(min=0.0, metavar="HOURS", help="Hours from one maintenance to the next; 0 is never.")
    ] = 24.0,
    db: Db = DEFAULT_DB,
    llm: Model = None,
    as_json: AsJson = False,
) -> None:
    """Do the queued work of all banks. SIGINT or SIGTERM lets it finish what runs and leaves the rest queued."""
    place = Place(db, "default", llm)
    settings = place.settings()
    settings = replace(settings, upkeep=replace(settings.upkeep, every=maintain_every))
    try:
        outcome = asyncio.run(_serve(place, settings, bank or (), once=once))
    except asyncio.CancelledError as stopped:
        raise typer.Exit(_TWICE) from stopped
    done, failed = outcome.jobs - outcome.failed, outcome.failed
    if as_json:
        print_json({"done": done, "failed": failed})
    else:
        stdout().print(f"{many(done, 'piece')} of work done, {failed:,} failed")


async def _serve(place: Place, settings: Settings, banks: Sequence[str], *, once: bool) -> RunResult:
    await demand(place, *banks)
    memory, stop = Memory(place.url, settings=settings), asyncio.Event()
    try:
        with _stopping(stop):
            await memory.schedule_maintenance(banks=banks)
            upkeep = asyncio.create_task(_schedule(memory, banks, stop))
            try:
                return await memory.work(stop, once=once, banks=banks, on_done=_log, on_away=_log_away)
            finally:
                upkeep.cancel()
                with suppress(asyncio.CancelledError):
                    await upkeep
    finally:
        await memory.close()


@contextmanager
def _stopping(stop: asyncio.Event) -> Generator[None]:
    """A first signal lets what runs finish, a second one gives it back to the queue."""
    loop, serving = asyncio.get_running_loop(), asyncio.current_task()

    def told() -> None:
        if stop.is_set() and serving is not None:
            serving.cancel()
        stop.set()

    def heard(signal: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(told)

    before = {each: signal.signal(each, heard) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


async def _schedule(memory: Memory, banks: Sequence[str], stop: asyncio.Event) -> None:
    """See to it that each bank has a maintenance queued, those too that are made meanwhile."""
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), _LOOK)
        except TimeoutError:
            # A database that is busy now is looked at again later.
            with suppress(StoreBusy):
                await memory.schedule_maintenance(banks=banks)


def _log(job: Job, error: Exception | None, seconds: float) -> None:
    """One line for a piece of work, without a word of any memory."""
    state = "done" if error is None else "failed"
    said = "" if error is None else f" {_said(error)}"
    typer.echo(f"{_now()} {state} {job.kind} bank={clipped(job.bank)} seconds={seconds:.2f}{said}", err=True)


def _log_away(error: StoreError) -> None:
    """One line when the database is found to be away; the work goes on when it is back."""
    typer.echo(f"{_now()} waiting {_said(error)}", err=True)


def _said(error: Exception) -> str:
    """Our own errors quote no memory; of others only the name is safe to tell."""
    name = public_name(error)
    return f"{name}: {clipped(str(error).partition(chr(10))[0])}" if isinstance(error, VmemoError) else name


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
