"""Lifespan of the server: open the memory, run queued jobs beside requests, close the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from vmemo import Memory
from vmemo_server.background import BackgroundWorker, in_background, schedule_maintenance
from vmemo_server.observability import Observer
from vmemo_server.state import ServerState


@asynccontextmanager
async def lifespan(
    memory: Memory, state: ServerState, observer: Observer, *, worker: BackgroundWorker | None, grace: float
) -> AsyncGenerator[None]:
    """Open the memory, run its queued jobs while requests come in, and close it.

    Jobs that run at the end have `grace` seconds to finish; the rest return to the queue.
    """
    # Opening the store runs its migrations, so a server that accepts requests can answer them.
    await state.open()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(memory.close)
        stack.push_async_callback(state.close)
        if worker is not None:
            stop = asyncio.Event()
            await stack.enter_async_context(in_background(schedule_maintenance(memory, observer, stop), stop, grace))
            await stack.enter_async_context(in_background(worker.run(stop), stop, grace))
        yield
