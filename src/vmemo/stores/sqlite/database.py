"""The threads that use a SQLite file: one that writes, and several that read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.errors import StoreBusy
from vmemo.fork import ProcessGuard
from vmemo.stores.sqlite.file import SqliteFile

P = ParamSpec("P")
R = TypeVar("R")
GROUP_SECONDS, GROUP_SIZE = 0.02, 64
"""A transaction takes no further writes after this time, so that the first ones do not wait long, or this many."""


class _Threads(NamedTuple):
    readers: ThreadPoolExecutor
    writer: ThreadPoolExecutor


@dataclass(eq=False)
class _Write:
    run: Callable[[Connection], Any]
    future: Future[Any] = field(default_factory=Future[Any])


class SqliteDatabase:
    """Runs each transaction of a file, or of a database in memory, whole in a worker thread.

    Writes that wait for each other are committed together, because a sync to disk takes longer than most of them: 300
    messages that are added at once are stored four times as fast. In one thread they also do not wait in SQLite, which
    polls for the write lock with growing pauses.
    """

    def __init__(self, file: SqliteFile, *, threads: int) -> None:
        self.file = file
        self._most_readers = threads
        self._lock = Lock()
        self._guard = ProcessGuard()
        self._threads: _Threads | None = None
        self._waiting: deque[_Write] = deque()

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run a function in one read transaction."""
        return await self.run(self.file.read, run)

    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R:
        """Run a function in one write transaction; the outcome of a commit is always known here."""
        threads, write = self._started(), _Write(run)
        with self._lock:
            # Raises if the threads were ended meanwhile.
            threads.writer.submit(self._write_group)
            self._waiting.append(write)
        return await asyncio.wrap_future(write.future)

    def _write_group(self) -> None:
        """Commit the writes that wait, unless an earlier call did."""
        first = self._next_write()
        if first is None:
            return
        group = [first]
        try:
            outcomes = self.file.write(lambda connection: self._run_group(connection, group))
        except Exception as error:
            if len(group) == 1 or isinstance(error, StoreBusy):
                for write in group:
                    write.future.set_exception(error)
            else:
                # The error may be that of one of them.
                for write in group:
                    self._write_alone(write)
        else:
            for write, outcome in zip(group, outcomes, strict=True):
                write.future.set_result(outcome)

    def _run_group(self, connection: Connection, group: list[_Write]) -> list[Any]:
        """Run the first write, and those that wait meanwhile, which are added to the group."""
        until, outcomes = monotonic() + GROUP_SECONDS, [group[0].run(connection)]
        while len(group) < GROUP_SIZE and monotonic() < until and (write := self._next_write()) is not None:
            group.append(write)
            outcomes.append(write.run(connection))
        return outcomes

    def _write_alone(self, write: _Write) -> None:
        try:
            outcome = self.file.write(write.run)
        except Exception as error:
            write.future.set_exception(error)
        else:
            write.future.set_result(outcome)

    def _next_write(self) -> _Write | None:
        """Return the next write that was not cancelled."""
        with self._lock:
            while self._waiting:
                write = self._waiting.popleft()
                if write.future.set_running_or_notify_cancel():
                    return write
            return None

    async def run(self, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in a thread that reads."""
        call = partial(run, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._started().readers, call)

    def _started(self) -> _Threads:
        self._guard.enter()
        with self._lock:
            if self._threads is None:
                writer = ThreadPoolExecutor(1, thread_name_prefix="vmemo-write")
                # A database in memory lives in its one connection, so its calls take turns.
                alone = self.file.path is None
                readers = writer if alone else ThreadPoolExecutor(self._most_readers, thread_name_prefix="vmemo-read")
                self._threads = _Threads(readers, writer)
            return self._threads

    async def close(self) -> None:
        """Close all connections and end the threads; the next call starts new ones."""
        if self._guard.forked:
            self._lock, self._threads, self._waiting = Lock(), None, deque()
            self.file.abandon()
        self._guard.reset()
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.get_running_loop().run_in_executor(threads.writer, self.file.close)
            threads.writer.shutdown()
            threads.readers.shutdown()
