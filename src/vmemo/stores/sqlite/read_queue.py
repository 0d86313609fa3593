"""Reads take turns: threads that compute at the same time spend much of it waiting for the interpreter's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, TypeVar, cast

R = TypeVar("R")
LATE = 0.1
"""Seconds after which a read is long, and others do not wait for it any more."""


@dataclass(eq=False)
class _Read:
    run: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future[Any])
    since: float = field(default_factory=monotonic)
    """When it was queued, and later when it began."""

    @property
    def late(self) -> bool:
        return monotonic() - self.since >= LATE

    def finish(self) -> None:
        try:
            self.future.set_result(self.run())
        # The error is the caller's.
        except BaseException as error:
            self.future.set_exception(error)


class ReadQueue:
    """The reads of a process from one file, in order, on one thread; on more of them while some read takes long."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting: deque[_Read] = deque()
        self._running: set[_Read] = set()
        self._lock = Lock()
        self._active = 0

    def submit(self, executor: Executor, run: Callable[[], R]) -> tuple[Future[R], bool]:
        """Queue a function; return the future of its result, and True if others are run before it."""
        read = _Read(run)
        with self._lock:
            waits = self._active > sum(other.late for other in self._running)
            if not waits and self._active < self._threads:
                self._start(executor)
            self._waiting.append(read)
        return cast("Future[R]", read.future), waits

    def help(self, executor: Executor) -> None:
        """Start another thread if the next read has waited for long."""
        with self._lock:
            if self._waiting and self._active < self._threads and self._waiting[0].late:
                self._start(executor)

    def _start(self, executor: Executor) -> None:
        # Raises if the file was closed meanwhile.
        executor.submit(self._work)
        self._active += 1

    def _work(self) -> None:
        read: _Read | None = None
        while (read := self._next(read)) is not None:
            read.finish()

    def _next(self, done: _Read | None) -> _Read | None:
        """Return the next read that was not cancelled. Without any, the work of this thread ends."""
        with self._lock:
            self._running -= {done}
            while self._waiting:
                read = self._waiting.popleft()
                if read.future.set_running_or_notify_cancel():
                    read.since = monotonic()
                    self._running.add(read)
                    return read
            self._active -= 1
            return None
