"""Lifespan of the server: open the memory, run queued jobs and maintenance beside requests, close the memory.

Background work starts again after any failure, and the worker reports when it no longer works.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from vmemo import Memory
from vmemo_server.observability import Observer
from vmemo_server.state import ServerState

SCHEDULE_SECONDS = 300.0
"""Seconds between two searches for banks without a queued maintenance job."""
RETRY_SECONDS = 1.0
"""Seconds until work that failed is started again; doubled with each further failure."""
MAX_RETRY_SECONDS = 60.0
STUCK_SECONDS = 180.0
"""Seconds without a search for jobs after which a worker is stuck. Waiting for a busy database takes up to 60."""


class BackgroundWorker:
    """Runs queued jobs beside requests."""

    def __init__(self, memory: Memory, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory, self._observer, self._clock = memory, observer, clock
        self._polled_at = clock()
        self._running = self._failed = False

    async def run(self, stop: asyncio.Event) -> None:
        """Run queued jobs until `stop` is set."""
        self._running, self._polled_at = True, self._clock()
        try:
            await restarted(self._work, stop, self._note_failure)
        finally:
            self._running = False

    async def _work(self, stop: asyncio.Event) -> None:
        await self._memory.work(stop, on_done=self._observer.job, on_poll=self._note_poll)

    def _note_poll(self) -> None:
        self._polled_at, self._failed = self._clock(), False

    def _note_failure(self, error: Exception) -> None:
        self._failed = True
        self._observer.background_error("worker", error)

    @property
    def problem(self) -> str | None:
        """The reason why no jobs are run, or None while they are."""
        if not self._running:
            return "The worker does not run."
        if self._failed:
            return "The worker failed and is being started again; the log has the error."
        silent = self._clock() - self._polled_at
        return f"The worker has not looked for jobs for {silent:.0f} seconds." if silent > STUCK_SECONDS else None


async def schedule_maintenance(memory: Memory, observer: Observer, stop: asyncio.Event) -> None:
    """Queue maintenance for every bank, including those created later, until `stop` is set."""

    async def schedule(stop: asyncio.Event) -> None:
        while not stop.is_set():
            await memory.schedule_maintenance()
            await _pause(stop, SCHEDULE_SECONDS)

    await restarted(schedule, stop, lambda error: observer.background_error("maintenance", error))


async def restarted(
    work: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event, on_failure: Callable[[Exception], None]
) -> None:
    """Run work until `stop` is set, and start it again after a failure, each time a little later."""
    pause = RETRY_SECONDS
    while not stop.is_set():
        began = time.monotonic()
        try:
            await work(stop)
        except Exception as error:
            on_failure(error)
            pause = RETRY_SECONDS if time.monotonic() - began > MAX_RETRY_SECONDS else pause
            await _pause(stop, pause)
            pause = min(MAX_RETRY_SECONDS, 2 * pause)


@asynccontextmanager
async def in_background(
    work: Coroutine[object, object, None], stop: asyncio.Event, grace: float
) -> AsyncGenerator[None]:
    """Run work beside the block; afterwards set `stop`, wait `grace` seconds, and cancel it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        stop.set()
        _, unfinished = await asyncio.wait([task], timeout=grace)
        for each in unfinished:
            each.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


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
