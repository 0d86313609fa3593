"""A handle to a coroutine that runs in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Generic, Literal, TypeVar

from vmemo.sync import portal

R = TypeVar("R")


class Task(Generic[R]):
    """Await it from any event loop, poll `state`, or block on `result()`; `cancel()` stops it.

    Writes before a cancellation stay; the rest stays queued.
    """

    def __init__(self, work: Coroutine[object, object, R]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._future: Future[R] = portal.submit(work)
        else:
            self._future = asyncio.run_coroutine_threadsafe(work, loop)

    @property
    def state(self) -> Literal["running", "done", "failed", "cancelled"]:
        """The state of the task."""
        if not self._future.done():
            return "running"
        if self._future.cancelled():
            return "cancelled"
        return "done" if self._future.exception() is None else "failed"

    def done(self) -> bool:
        """Return True if it has ended, successfully or not."""
        return self._future.done()

    def cancel(self) -> bool:
        """Request cancellation; return False if it has ended already."""
        return self._future.cancel()

    def result(self, timeout: float | None = None) -> R:
        """Block until it ends, and return its result or raise its error. Do not call this on the loop that runs it."""
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, R]:
        return asyncio.wrap_future(self._future).__await__()
