"""Lifespan of the server: open the memory, run queued jobs beside requests, close the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from vmemo import Memory
from vmemo.errors import VmemoError
from vmemo.server.observability import Observer

SCHEDULE_SECONDS = 300.0
"""Seconds between two searches for banks without a queued maintenance job."""
RETRY_SECONDS = 1.0


@asynccontextmanager
async def lifespan(memory: Memory, observer: Observer, *, worker: bool, grace: float) -> AsyncGenerator[None]:
    """Open the memory, run its queued jobs while requests come in, and close it.

    Jobs that run at the end have `grace` seconds to finish; the rest return to the queue.
    """
    # Opening the store runs its migrations, so a server that accepts requests can answer them.
    await memory.auth.keys()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(memory.close)
        if worker:
            stop = asyncio.Event()
            await stack.enter_async_context(_background(_schedule(memory, observer, stop), stop, grace))
            await stack.enter_async_context(_background(_work(memory, observer, stop), stop, grace))
        yield


@asynccontextmanager
async def _background(work: Coroutine[object, object, None], stop: asyncio.Event, grace: float) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        stop.set()
        _, unfinished = await asyncio.wait([task], timeout=grace)
        for each in unfinished:
            each.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _work(memory: Memory, observer: Observer, stop: asyncio.Event) -> None:
    """Run queued jobs until `stop` is set, and start again after a failure of the database."""
    while not stop.is_set():
        try:
            await memory.work(stop, on_done=observer.job)
        except VmemoError as error:
            observer.background_error("worker", error)
            await _pause(stop, RETRY_SECONDS)


async def _schedule(memory: Memory, observer: Observer, stop: asyncio.Event) -> None:
    """Queue maintenance for every bank, including those created later."""
    while not stop.is_set():
        try:
            await memory.schedule_maintenance()
        except VmemoError as error:
            observer.background_error("maintenance", error)
        await _pause(stop, SCHEDULE_SECONDS)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
