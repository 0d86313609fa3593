"""A server's life: what it opens before the first request, does beside them, and finishes after the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from vmemo import Memory
from vmemo.errors import VmemoError
from vmemo.server.observability import Watcher

LOOK = 300.0
"""Seconds between two looks for banks that have no maintenance queued."""


@asynccontextmanager
async def living(memory: Memory, watcher: Watcher, *, works: bool, grace: float) -> AsyncGenerator[None]:
    """Open the memory, do its queued work while requests come, and close it.

    What runs at the end has `grace` seconds to finish; what is left then goes back to the queue.
    """
    # Migrations run here, so that a server which is up can also answer.
    await memory.gate.keys()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(memory.close)
        if works:
            stop = asyncio.Event()
            await stack.enter_async_context(_beside(_tend(memory, watcher, stop), stop, grace))
            await stack.enter_async_context(_beside(_work(memory, watcher, stop), stop, grace))
        yield


@asynccontextmanager
async def _beside(doing: Coroutine[object, object, None], stop: asyncio.Event, grace: float) -> AsyncGenerator[None]:
    task = asyncio.create_task(doing)
    try:
        yield
    finally:
        stop.set()
        _, late = await asyncio.wait([task], timeout=grace)
        for each in late:
            each.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _work(memory: Memory, watcher: Watcher, stop: asyncio.Event) -> None:
    """Do queued work until told to stop. A database that is away is asked again."""
    while not stop.is_set():
        try:
            await memory.work(stop, on_done=watcher.work)
        except VmemoError as error:
            watcher.trouble("worker", error)
            await _pause(stop, 1.0)


async def _tend(memory: Memory, watcher: Watcher, stop: asyncio.Event) -> None:
    """See to it that each bank has a maintenance queued, those too that are made meanwhile."""
    while not stop.is_set():
        try:
            await memory.schedule_maintenance()
        except VmemoError as error:
            watcher.trouble("maintenance", error)
        await _pause(stop, LOOK)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
