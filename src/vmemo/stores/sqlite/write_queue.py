"""Group commit: write transactions that wait for each other are committed together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, TypeVar, cast

from sqlalchemy import Connection

from vmemo.errors import StoreBusy
from vmemo.stores.sql.prepared import driver_of
from vmemo.stores.sqlite.file import SqliteFile

R = TypeVar("R")
GROUP_SECONDS = 0.02
"""A transaction takes no further functions after this time, so that the first ones do not wait long."""
GROUP_SIZE = 64
"""Functions that share a transaction, at most."""


class _TransactionLost(Exception):
    """SQLite rolled the whole transaction back, such as on a full disk."""


@dataclass(eq=False)
class _Write:
    run: Callable[[Connection], Any]
    future: Future[Any] = field(default_factory=Future[Any])
    outcome: Any = None
    error: Exception | None = None

    def attempt(self, connection: Connection, file: SqliteFile) -> None:
        """Run in a savepoint, so that an error undoes nothing else."""
        self.outcome, self.error = None, None
        driver = driver_of(connection)
        driver.execute("SAVEPOINT of_write")
        try:
            with file.named_errors():
                self.outcome = self.run(connection)
        except Exception as error:
            # The error is the caller's, whatever it is; the other writes of the transaction go on.
            self.error = error
            if driver.in_transaction:
                driver.execute("ROLLBACK TO of_write")
        if not driver.in_transaction:
            raise _TransactionLost
        driver.execute("RELEASE of_write")

    def finish(self) -> None:
        if self.error is None:
            self.future.set_result(self.outcome)
        else:
            self.future.set_exception(self.error)


class WriteQueue:
    """The writes of a process to one file, in order. A sync to disk takes longer than most of them.

    Without it, threads would wait for the write lock in SQLite, which polls for it with growing pauses.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._waiting: deque[_Write] = deque()
        self._lock = Lock()
        self._active = False

    def submit(self, executor: Executor, run: Callable[[Connection], R]) -> Future[R]:
        """Queue a function; return the future of its committed result."""
        write = _Write(run)
        with self._lock:
            if not self._active:
                # Raises if the file was closed meanwhile.
                executor.submit(self._work)
                self._active = True
            self._waiting.append(write)
        return cast("Future[R]", write.future)

    def _work(self) -> None:
        while (first := self._next(last=True)) is not None:
            if self._waiting:
                self._write_group(first)
            else:
                self._write_alone(first)
                first.finish()

    def _next(self, *, last: bool = False) -> _Write | None:
        """Return the next write that was not cancelled; `last` ends the work of this thread if there is none."""
        with self._lock:
            while self._waiting:
                write = self._waiting.popleft()
                if write.future.set_running_or_notify_cancel():
                    return write
            self._active = self._active and not last
            return None

    def _write_alone(self, write: _Write) -> None:
        try:
            write.outcome, write.error = self._file.write(write.run), None
        # The error is the caller's.
        except Exception as error:
            write.outcome, write.error = None, error

    def _write_group(self, first: _Write) -> None:
        group = [first]
        try:
            self._file.write(lambda connection: self._run_group(connection, group))
        except StoreBusy as error:
            # Usually the transaction did not begin: the group is its first write, and the others are still queued.
            for write in group:
                write.error = error
        # Whatever prevents the transaction of all, each of them may still be possible, or has an error of its own.
        except Exception:
            for write in group:
                self._write_alone(write)
        for write in group:
            write.finish()

    def _run_group(self, connection: Connection, group: list[_Write]) -> None:
        """Run the first write of the group and those that follow in the queue, and add them to the group."""
        connection.begin()
        until = monotonic() + GROUP_SECONDS
        write: _Write | None = group[0]
        while write is not None:
            write.attempt(connection, self._file)
            full = len(group) >= GROUP_SIZE or monotonic() > until
            write = None if full else self._next()
            if write is not None:
                group.append(write)
