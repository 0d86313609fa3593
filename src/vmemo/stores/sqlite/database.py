"""The transactions of a SQLite file, each run whole in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.fork import ProcessGuard
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.read_queue import LATE, ReadQueue
from vmemo.stores.sqlite.write_queue import WriteQueue

P = ParamSpec("P")
R = TypeVar("R")


class SqliteDatabase:
    """A file or a database in memory, and the threads that use it: one that writes, and several that read."""

    def __init__(self, file: SqliteFile, *, threads: int) -> None:
        self.file = file
        # A database in memory lives in its one connection, so its calls take turns.
        self._threads = 1 if file.path is None else threads
        self._starting = Lock()
        self._guard = ProcessGuard()
        self._executor: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._reads, self._writes = ReadQueue(self._threads), WriteQueue(file)

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run a function in one read transaction."""
        return await self.run(self.file.read, run)

    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R:
        """Run a function in one write transaction; the outcome of a commit is always known here."""
        _, writer = self._threads_started()
        return await asyncio.wrap_future(self._writes.submit(writer, run))

    async def run(self, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function in a worker thread."""
        executor, writer = self._threads_started()
        if executor is writer:
            return await asyncio.get_running_loop().run_in_executor(executor, lambda: run(*args, **kwargs))
        future, waits = self._reads.submit(executor, lambda: run(*args, **kwargs))
        if waits:
            asyncio.get_running_loop().call_later(LATE, self._help)
        return await asyncio.wrap_future(future)

    def _help(self) -> None:
        if self._executor is not None:
            self._reads.help(self._executor)

    def _threads_started(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Return the threads that read and the thread that writes."""
        self._guard.enter()
        with self._starting:
            if self._executor is None or self._writer is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="vmemo-sqlite")
                one = self.file.path is None
                self._writer = self._executor if one else ThreadPoolExecutor(1, thread_name_prefix="vmemo-write")
            return self._executor, self._writer

    async def close(self) -> None:
        """Close all connections and end the threads; the next call starts new ones."""
        if self._guard.forked:
            self._starting, self._executor, self._writer = Lock(), None, None
            self._reads, self._writes = ReadQueue(self._threads), WriteQueue(self.file)
            self.file.abandon()
        self._guard.reset()
        with self._starting:
            executor, writer, self._executor, self._writer = self._executor, self._writer, None, None
        if executor is not None and writer is not None:
            await asyncio.get_running_loop().run_in_executor(writer, self.file.close)
            writer.shutdown()
            executor.shutdown()
