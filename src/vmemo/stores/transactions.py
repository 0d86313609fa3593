"""Transactions of every store: retries, waits for a held bank, and the event loop that connections live on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from threading import Lock, Thread
from time import monotonic
from typing import Literal, TypeVar

from vmemo.errors import OutcomeUnknown, StoreBusy, StoreError
from vmemo.sync import ProcessGuard

R = TypeVar("R")
Step = Literal["connect", "run", "commit"]
"""The progress of a transaction."""
TRIES = 4
"""Attempts of a transaction that fails with a transient error."""
FIRST_PAUSE = 0.05
"""Seconds before the second try, varied at random; each further pause is twice as long."""
LONGEST_PAUSE = 1.0
"""Maximum seconds between two tries, varied at random."""


class TransientError(StoreBusy):
    """The transaction was rolled back by a transient error, and is tried again at once."""


async def with_retries(once: Callable[[], Awaitable[R]], *, repeatable: bool, seconds: float) -> R:
    """Run a transaction, again if it was rolled back by a transient error.

    If the outcome of its commit is unknown, a repeatable transaction is also run again, for at most `seconds`; any
    other raises OutcomeUnknown.
    """
    unsure, until, turn = None, 0.0, 0
    while True:
        try:
            return await once()
        except OutcomeUnknown as error:
            if not repeatable or (unsure is not None and time.monotonic() > until):
                raise
            if unsure is None:
                unsure, until = error, time.monotonic() + seconds
        except StoreError as error:
            if unsure is not None and (not isinstance(error, TransientError) or time.monotonic() > until):
                raise unsure from error
            if unsure is None and (not isinstance(error, TransientError) or turn == TRIES - 1):
                raise
        await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(turn, 10)) * random.uniform(0.5, 1.5))
        turn += 1


HELD_SECONDS = 60.0
"""Seconds that a commit waits for a bank that another process holds."""
HELD_PAUSE = 0.02
"""Seconds between two attempts to commit to a held bank."""


class BankHeld(Exception):
    """Another process holds the bank; the commit is to be tried again."""


async def commit_when_free(bank: str, commit: Callable[[], Awaitable[bool]]) -> bool:
    """Return the result of a commit, once no other process holds the bank; raise StoreBusy if that takes too long."""
    deadline = monotonic() + HELD_SECONDS
    while True:
        try:
            return await commit()
        except BankHeld:
            if monotonic() > deadline:
                raise StoreBusy(f"Another process holds the bank {bank!r}. Nothing was written; try again.") from None
        await asyncio.sleep(HELD_PAUSE)


_CLEANUP_SECONDS = 10.0
"""Seconds that `close` waits for canceled calls to clean up, for example to return their connections."""


@dataclass(frozen=True)
class _Running:
    """A loop, its thread, and the tasks that run on it. Only its thread changes the set."""

    loop: asyncio.AbstractEventLoop
    thread: Thread
    tasks: set[asyncio.Task[object]] = field(default_factory=set[asyncio.Task[object]])

    async def call(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        task = _current()
        self.tasks.add(task)
        try:
            return await work()
        finally:
            self.tasks.discard(task)

    async def finish(self, dispose: Callable[[], Coroutine[object, object, None]]) -> None:
        for task in self.tasks:
            # A second cancellation would interrupt the cleanup of the first.
            if not task.cancelling():
                task.cancel()
        await _end(self.tasks.copy())
        # A canceled call may have left the return of its connection to a task.
        await _end(asyncio.all_tasks() - {_current()})
        await dispose()


class LoopThread:
    """A loop that starts with the first call, and again after it was closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = Lock()
        self._guard = ProcessGuard()
        self._running: _Running | None = None

    async def run(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        self._guard.enter()
        with self._starting:
            if self._running is None:
                loop = asyncio.new_event_loop()
                self._running = _Running(loop, Thread(target=loop.run_forever, name=self._name, daemon=True))
                self._running.thread.start()
            done = asyncio.run_coroutine_threadsafe(self._running.call(work), self._running.loop)
        return await asyncio.wrap_future(done)

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Start a task on the loop, which runs until it ends or the loop is closed; call this on the loop."""
        running = self._running
        if running is None or running.loop is not asyncio.get_running_loop():
            # The loop of the call is being closed.
            work.close()
            return
        task = asyncio.create_task(work)
        running.tasks.add(task)
        task.add_done_callback(running.tasks.discard)

    async def close(self, dispose: Callable[[], Coroutine[object, object, None]]) -> bool:
        """Cancel all that runs, run `dispose` on the loop, and end its thread.

        Return False, without `dispose`, in a child of the process that started the thread: there it does not exist.
        """
        forked = self._guard.forked
        if forked:
            self._starting, self._running = Lock(), None
        self._guard.reset()
        with self._starting:
            running, self._running = self._running, None
        if running is None:
            return not forked
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(running.finish(dispose), running.loop))
        running.loop.call_soon_threadsafe(running.loop.stop)
        await asyncio.get_running_loop().run_in_executor(None, running.thread.join)
        running.loop.close()
        return True


async def _end(tasks: set[asyncio.Task[object]]) -> None:
    """Let tasks end by themselves; cancel those that take too long."""
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=_CLEANUP_SECONDS)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _current() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task
