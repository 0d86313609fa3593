"""The embedded store: one SQLite file for rows, vectors and text, shared by any number of processes.

Vectors and terms are read into memory once per bank and refreshed by the bank's change counter, which the writes of
every process increase.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from vmemo.errors import DatabaseReplaced, InvalidInput, NotFound, StoreBusy, StoreError, Unsupported, VmemoError
from vmemo.models import BankId, EntityId, utc_now
from vmemo.models.results import Status
from vmemo.models.search import Scored, Vectors
from vmemo.ports import BankReader
from vmemo.stores.sql import migrate, reads, schema
from vmemo.stores.sql.bank_rows import DELETION, WRITES
from vmemo.stores.sql.statements import seqs_of
from vmemo.stores.sql.store import SqlStore
from vmemo.stores.sqlite.connection import ConnectionFactory, FileKey, KeySource, rekey_file
from vmemo.stores.sqlite.search import IndexCache, SqliteBankReader, SqliteSearchIndex
from vmemo.stores.values import micros
from vmemo.sync import ProcessGuard

DAMAGED = "The file {path} is damaged: check it with `vmemo doctor`, and restore a backup."

_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space on the disk of {path} and repeat the call.",
    sqlite3.SQLITE_READONLY: "Allow this user to write to {path} and its folder.",
    sqlite3.SQLITE_CANTOPEN: "{path} must be a file that this user may read and write, in a folder that exists.",
    sqlite3.SQLITE_IOERR: "The disk of {path} can't be read or written; check it, and the file with `vmemo doctor`.",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}


def explain(error: BaseException, path: Path | None) -> StoreError:
    """Return the error to raise for one of SQLite, with the remedy."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or "locked" in str(error):
        return StoreBusy("Another process held the database for too long. Nothing was written; try again.")
    remedy = _REMEDIES.get(code)
    if remedy is None and "no such table" in str(error):
        remedy = DAMAGED
    words = f"SQLite refused: {error}. The transaction was rolled back."
    return StoreError(words if remedy is None else f"{words} {remedy.format(path=path)}")


VACUUM_AT_ONCE = 64 * 1024**2
"""Bytes of a file that is rewritten at once, in about 0.4 s of CPU time; a larger one waits for maintenance."""
EMPTY_LOG_MS = 200
"""Milliseconds that emptying the log waits for readers, while writers wait for it."""
_log = logging.getLogger(__name__)
_MERGE_WORDS = "INSERT INTO message_words(message_words) VALUES('optimize')"
_abandoned: list[Engine | None] = []
"""Keeps connections of a parent process from being closed by garbage collection."""


class SqliteFile:
    """A file, or a database in memory when there is no path."""

    def __init__(self, path: Path | None, *, busy_seconds: float, key: KeySource | None = None) -> None:
        # Absolute, so that connections opened after a change of directory are to the same file.
        self.path = None if path is None else path.absolute()
        self._key = None if key is None else FileKey(key)
        self._connections = ConnectionFactory(self.path, busy_seconds=busy_seconds, key=self._key)
        self._engine: Engine | None = None
        self._opened: list[tuple[int, int] | None] | None = None

    def demand(self) -> None:
        """Raise NotFound for a missing file, which connecting would create."""
        if self.path is not None and not self.path.is_file():
            raise NotFound(f"There is no database {self.path}. Nothing was made; correct its name.")

    def read(self, run: Callable[[Connection], R]) -> R:
        with self.named_errors(), self._connect() as connection, self.reading():
            return run(connection)

    @contextmanager
    def snapshot(self) -> Generator[Connection]:
        """Open a read transaction. Only errors of opening it are translated; reads belong in `reading()`."""
        with self.named_errors():
            connection = self._connect()
        with connection:
            yield connection

    @contextmanager
    def reading(self) -> Generator[None]:
        """Translate the errors of a read. An invalid value is a stored one: the file is damaged, no input is wrong."""
        with self.named_errors():
            try:
                yield
            except InvalidInput as error:
                raise ValueError(str(error)) from error

    def write(self, run: Callable[[Connection], R]) -> R:
        """Run in one write transaction that takes the write lock at once."""
        with self.named_errors(), self._connect().execution_options(**{WRITES: True}) as connection:
            result = run(connection)
            self._demand_same_file("Nothing was written.")
            connection.commit()
            # What is acknowledged must be in the file that has the name.
            self._demand_same_file("The transaction was written to the former file only.")
            return result

    def _connect(self) -> Connection:
        if self._engine is None:
            self._engine = self._create()
        # A new connection to another file would apply the log of the former one to it.
        self._demand_same_file("Nothing was written.")
        connection = self._engine.connect()
        if self.path is not None and self._opened is None:
            self._opened = _inodes(self.path)
        return connection

    def _demand_same_file(self, effect: str) -> None:
        """Raise DatabaseReplaced if the file or its log is no longer the one that was opened.

        SQLite would go on writing to a file that has no name any more.
        """
        if self.path is None or self._opened is None:
            return
        database, log = _inodes(self.path)
        if database != self._opened[0]:
            change = "deleted" if database is None else "replaced"
            raise DatabaseReplaced(
                f"The database {self.path} was {change} while it was open. {effect} Close this memory and open it "
                "again to use the file that has the name now."
            )
        if self._opened[1] is None:
            self._opened[1] = log
        elif log != self._opened[1]:
            raise DatabaseReplaced(
                f"The log {_log_of(self.path)} was deleted or replaced while the database was open. {effect} Leave it "
                "alone, close this memory, so that its connections write their log into the file, and open it again."
            )

    def _create(self) -> Engine:
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                words = f"The folder {self.path.parent} can't be made: {error.strerror}. Nothing was written."
                raise StoreError(words) from error
        pool = StaticPool if self.path is None else QueuePool
        # The connection used last is used next: its pages are still in its cache.
        reuse = {} if self.path is None else {"pool_use_lifo": True}
        made = self._connections
        engine = create_engine("sqlite://", module=made.driver, creator=made.connect, poolclass=pool, **reuse)
        event.listen(engine, "begin", _begin)
        return engine

    def scrub(self, *, patient: bool = False) -> bool:
        """Vacuum the file if something was deleted since the last time; return True once no deleted text is left in it.

        `secure_delete` has zeroed the deleted rows. Merging the text index removes their words, and emptying the log
        removes former pages. Copies of rows stay in pages that SQLite has split or merged until VACUUM rewrites the
        file. Writers wait for that, so a large file is rewritten only if `patient`. The next call does what a reader
        or a full disk prevents.
        """
        try:
            return self._scrub(patient)
        except StoreError as error:
            _log.info("deleted text is not removed from the file yet: %s", error)
            return False

    def _scrub(self, patient: bool) -> bool:
        last = "SELECT value FROM notes WHERE name = ?"
        deletion = self.read(lambda c: c.exec_driver_sql(last, (DELETION,)).scalar_one_or_none())
        if deletion is None:
            return True
        if self.path is not None:
            large = self.size() > VACUUM_AT_ONCE
            self.write(lambda c: c.exec_driver_sql(_MERGE_WORDS))
            # A reader that keeps the log from being emptied would keep the rewritten file in it.
            if not self._empty_log() or (large and not patient):
                return False
            self._vacuum(on_disk=large and self._key is None)
            if not self._empty_log():
                return False
        # The note has another value if more was deleted meanwhile.
        done = "DELETE FROM notes WHERE name = ? AND value = ?"
        return self.write(lambda c: c.exec_driver_sql(done, (DELETION, deletion)).rowcount) == 1

    def _vacuum(self, *, on_disk: bool) -> None:
        """Copy all rows into new pages; a copy of a large file does not fit into memory, and holds no deleted text."""
        with self._outside_transactions() as connection:
            connection.execute(f"PRAGMA temp_store={'FILE' if on_disk else 'MEMORY'}")
            try:
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA temp_store=MEMORY")

    def _empty_log(self) -> bool:
        """Empty the log; return False if a reader still needs it. Writers wait meanwhile, so it does not wait long."""
        with self._outside_transactions() as connection:
            [busy_timeout] = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute(f"PRAGMA busy_timeout={min(busy_timeout, EMPTY_LOG_MS)}")
            try:
                return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            finally:
                connection.execute(f"PRAGMA busy_timeout={busy_timeout}")

    def optimise(self) -> None:
        """Merge the text index, update the planner's statistics, and vacuum the file if something was deleted."""
        self.write(_optimised)
        self.scrub(patient=True)

    @contextmanager
    def _outside_transactions(self) -> Generator[sqlite3.Connection]:
        with self.named_errors():
            assert self._engine is not None
            self._demand_same_file("Nothing was written.")
            pooled = self._engine.raw_connection()
            try:
                # The connections of SQLCipher have the same methods.
                yield cast("sqlite3.Connection", pooled.driver_connection)
            finally:
                pooled.close()

    def rekey(self, new: KeySource | None) -> bool:
        """Encrypt the file with another key, or decrypt it; return False if it has that key already."""
        if self.path is None:
            raise Unsupported("A database in memory has no key. Name a file.")
        return rekey_file(self.path, self._key, None if new is None else FileKey(new))

    @contextmanager
    def named_errors(self) -> Generator[None]:
        """Translate the errors of SQLite and of its driver."""
        try:
            yield
        except VmemoError:
            raise
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"SQLite can't hold a value: {error}. The transaction was rolled back.") from error
        except (SQLAlchemyError, self._connections.driver.Error) as error:
            raise explain(getattr(error, "orig", None) or error, self.path) from error
        except (ValueError, TypeError, LookupError) as error:
            # The rows were written by this package, so that they can be read unless they were changed.
            words = f"A stored value can't be read ({type(error).__name__}: {error}). The transaction was rolled back."
            raise StoreError(f"{words} {DAMAGED.format(path=self.path)}") from error

    def size(self) -> int:
        if self.path is None:
            return 0
        return sum(found.st_size for found in map(_stat, (self.path, _log_of(self.path))) if found is not None)

    def abandon(self) -> None:
        """Drop connections that belong to a parent process; closing them here could disturb it."""
        _abandoned.append(self._engine)
        self._engine = self._opened = None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._opened = None
        if self._key is not None:
            self._key.clear()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _optimised(connection: Connection) -> None:
    connection.exec_driver_sql(_MERGE_WORDS)
    # With a limit a large file is not read whole, and no samples of rows are kept in which forgotten text could stay.
    connection.exec_driver_sql("PRAGMA analysis_limit=1000")
    connection.exec_driver_sql("ANALYZE")


def _inodes(path: Path) -> list[tuple[int, int] | None]:
    """Return device and inode of a database and of its log; None for a missing file."""
    found = [_stat(path), _stat(_log_of(path))]
    return [None if each is None else (each.st_dev, each.st_ino) for each in found]


@cache
def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


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


class SqliteStore(SqlStore[SqliteDatabase]):
    """Implements the Store port on one SQLite file."""

    def __init__(
        self, path: Path | None, *, threads: int = 4, busy_seconds: float = 60.0, key: KeySource | None = None
    ) -> None:
        file = SqliteFile(path, busy_seconds=busy_seconds, key=key)
        super().__init__(SqliteDatabase(file, threads=threads), SqliteSearchIndex())
        self._indexes = IndexCache()
        self._opening = Lock()

    def __repr__(self) -> str:
        return f"SqliteStore({str(self._connections.file.path or ':memory:')!r})"

    async def open(self, *, as_is: bool = False) -> None:
        """Open the file and create or upgrade its schema. Opening twice, or from several loops, is harmless."""
        if not self._ready or as_is:
            await self._connections.run(self._prepare, self._connections.file, as_is)

    def _prepare(self, file: SqliteFile, as_is: bool) -> None:
        with self._opening:
            if as_is:
                file.demand()
                migrate.refuse_other(file.read(migrate.current))
            elif not self._ready:
                version = file.read(migrate.current)
                migrate.refuse_newer(version)
                if version != migrate.HEAD:
                    file.write(migrate.upgrade)
                file.scrub()
            self._ready = True

    async def close(self) -> None:
        self._ready = False
        await self._connections.close()
        self._indexes.clear()

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank, in a worker thread."""

        def read(file: SqliteFile) -> R:
            with file.snapshot() as connection:
                with file.reading():
                    index = self._indexes.get(connection, bank)
                self._indexes.loaded.trim()
                return run(SqliteBankReader(connection, bank, index, self._indexes.loaded, file.reading))

        return await self._database.run(read, self._database.file)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """Read from the index in memory who shares a fact with whom, which takes the database a join for each."""

        def find(connection: Connection) -> dict[EntityId, set[EntityId]]:
            index = self._indexes.get(connection, bank)
            own = seqs_of(connection, schema.entities, index.number, entities)
            beside = index.mentions.beside(list(own.values()), reads.LATEST)
            ids = reads.entity_ids(connection, index.number, sorted(set[int]().union(*beside)))
            return {EntityId(id): {ids[n] for n in others} for id, others in zip(own, beside, strict=True)}

        return await self._database.read(find)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:

        def find(connection: Connection) -> list[list[Scored]]:
            index = self._indexes.get(connection, bank)
            found = index.neighbours(vectors, index.current(micros(utc_now())), limit, floor)
            return reads.scored(connection, index.number, found)

        return await self._database.read(find)

    async def scrub(self, *, patient: bool = False) -> bool:
        """Vacuum the file if something was deleted; return False if deleted text may be left in it."""
        return await self._database.run(self._database.file.scrub, patient=patient)

    async def optimise(self) -> None:
        """Merge the text index, update the planner's statistics, and vacuum the file if something was deleted."""
        await self._database.run(self._database.file.optimise)

    async def rekey(self, key: KeySource | None) -> bool:
        """Close the file and encrypt it with another key, or decrypt it; return False if it has that key already."""
        await self.close()
        return await self._connections.run(self._connections.file.rekey, key)

    async def damage(self) -> list[str]:
        """Return the errors that SQLite's integrity check reports; empty for a sound file."""
        found = await self._database.read(lambda c: c.exec_driver_sql("PRAGMA integrity_check").scalars().all())
        return [str(line) for line in found if line != "ok"]

    async def status(self, bank: BankId) -> Status:
        found = await super().status(bank)
        return found.model_copy(update={"bytes": await self._database.run(self._database.file.size)})
