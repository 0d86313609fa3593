"""A handle to work that goes on in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from concurrent.futures import Future
from typing import Generic, Literal, TypeVar

from vmemo.sync import portal

R = TypeVar("R")


class Task(Generic[R]):
    """Await it from any loop, poll it with `state`, or wait for it with `result()`; `cancel()` stops it.

    What was written before a cancellation stays, and what was not stays queued.
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
        """How far it is."""
        if not self._future.done():
            return "running"
        if self._future.cancelled():
            return "cancelled"
        return "done" if self._future.exception() is None else "failed"

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def cancel(self) -> bool:
        """Ask it to stop; False if it has ended already."""
        return self._future.cancel()

    def result(self, timeout: float | None = None) -> R:
        """Wait without a loop, and return the result or raise its error. Not for use on the loop that runs it."""
        return self._future.result(timeout)

    def __await__(self) -> Generator[None, None, R]:
        return asyncio.wrap_future(self._future).__await__()
