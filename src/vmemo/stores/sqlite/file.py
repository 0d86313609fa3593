"""One SQLite file: its transactions, its errors, and the removal of deleted text."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from vmemo.errors import (
    DatabaseReplaced,
    InvalidInput,
    NotFound,
    StoreError,
    Unsupported,
    VmemoError,
)
from vmemo.models import new_id
from vmemo.stores.sql.compiled import STATEMENTS
from vmemo.stores.sql.message_rows import SCRUB, WRITES
from vmemo.stores.sqlite import pages
from vmemo.stores.sqlite.connection import ConnectionFactory
from vmemo.stores.sqlite.dialect import DRIVER
from vmemo.stores.sqlite.encryption import FileKey, KeySource
from vmemo.stores.sqlite.errors import DAMAGED, explain
from vmemo.stores.sqlite.file_inodes import FileInodes, log_size, replaced
from vmemo.stores.sqlite.raw import fetch
from vmemo.stores.sqlite.rekey import rekey_file

R = TypeVar("R")
REWRITE_AT_ONCE = 64 * 1024**2
"""Bytes of an encrypted file that is rewritten when something is forgotten; a larger one waits for maintenance."""
LOT = 2048
"""Pages that are overwritten while writers wait."""
ATTEMPTS = 10
"""Attempts to overwrite pages between the writes of others."""
TRUNCATE_MS = 200
"""Milliseconds that emptying the log waits for readers, while writers wait for it."""
RETRY_SECONDS, MOST_RETRY_SECONDS = 1.0, 60.0
"""Seconds between attempts to complete a scrub, which double until the longer time."""
REWRITTEN = "rewritten "
"""Begins the note of a scrub that has rewritten the file, so that only the log is left."""
_log = logging.getLogger(__name__)
_MERGE = "INSERT INTO message_words(message_words) VALUES('optimize')"
_NOTE_DEMAND = "INSERT INTO notes (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
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
        self._opened: FileInodes | None = None
        self._retry_at: float | None = None
        self._pause = RETRY_SECONDS

    def demand(self) -> None:
        """Raise NotFound for a missing file, which connecting would create."""
        if self.path is not None and not self.path.is_file():
            raise NotFound(f"There is no database {self.path}. Nothing was made; correct its name.")

    def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
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
        """Run in one write transaction that takes the write lock at once; then complete a scrub that is due again."""
        result = self._write(run)
        if self._retry_at is not None and monotonic() >= self._retry_at:
            self.scrub()
        return result

    def _write(self, run: Callable[[Connection], R]) -> R:
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
            self._opened = FileInodes.of(self.path)
            if self._opened.database is not None:
                pages.register(self._opened.database)
        return connection

    def _demand_same_file(self, effect: str) -> None:
        """Raise DatabaseReplaced if the file or its log is no longer the one that was opened."""
        if self.path is None or self._opened is None:
            return
        found = FileInodes.of(self.path)
        if found.log is not None and self._opened.log is None:
            self._opened = replace(self._opened, log=found.log)
        if found != self._opened:
            raise DatabaseReplaced(replaced(self.path, found, self._opened, effect))

    def _create(self) -> Engine:
        if self.path is not None:
            _make_folder(self.path.parent)
        pool = StaticPool if self.path is None else QueuePool
        # The connection used last is used next: its pages are still in its cache.
        reuse = {} if self.path is None else {"pool_use_lifo": True}
        connections = self._connections
        engine = create_engine(
            f"{DRIVER}://",
            module=connections.driver,
            creator=connections.connect,
            poolclass=pool,
            execution_options={"compiled_cache": STATEMENTS},
            **reuse,
        )
        event.listen(engine, "begin", _begin)
        return engine

    def scrub(self, *, patient: bool = False) -> bool:
        """Remove deleted text from the file; return True once none is left.

        A note in the file, written by the transaction that deletes, demands it. What readers, writers or a full disk
        prevent stays noted, and is tried again after later writes, when the file is opened, and by maintenance. The
        pages of a plain file are overwritten in place. An encrypted file is rewritten, a large one only if `patient`,
        because writers wait for that.
        """
        self._retry_at = None
        try:
            done = self._scrub(patient)
        except (StoreError, OSError) as error:
            _log.info("deleted text is not removed from the file yet: %s", error)
            done = False
        self._pause = RETRY_SECONDS if done else min(2 * self._pause, MOST_RETRY_SECONDS)
        self._retry_at = None if done else monotonic() + self._pause
        return done

    def _scrub(self, patient: bool) -> bool:
        demand = self.read(_scrub_demand)
        if demand is None:
            return True
        if self.path is not None and self._key is None and self._pages(self.path).count < pages.MOST_PAGES:
            return self._overwrite(self.path)
        if self.path is not None and not demand.startswith(REWRITTEN):
            large = self.size() > REWRITE_AT_ONCE
            if large and not patient:
                self._truncate_log()
                return False
            self._write(lambda c: c.exec_driver_sql(_MERGE))
            self._rewrite(on_disk=large and self._key is None)
            rewritten = REWRITTEN + demand
            return self._write(lambda c: _replace_demand(c, demand, rewritten)) and self._scrub_log(rewritten)
        return self._scrub_log(demand)

    def _overwrite(self, path: Path) -> bool:
        """Return free pages to the file system, and zero the copies of rows that SQLite left in other pages."""
        if self._write(_merged) is None:
            return True
        while (demand := self._write(_without_free_pages)) is None:
            pass
        if not self._truncate_log():
            return False
        file = self._pages(path)
        left = file.with_copies()
        for _ in range(ATTEMPTS + len(left) // LOT):
            if not self._truncate_log():
                return False
            following = self._overwrite_lot(path, file, left[:LOT], demand if len(left) <= LOT else None)
            if following is not None:
                demand, left = following, left[LOT:]
                if not left:
                    return not demand
        return False

    def _pages(self, path: Path) -> pages.PageFile:
        assert self._opened is not None
        assert self._opened.database is not None
        return pages.page_file(path, self._opened.database)

    def _overwrite_lot(
        self, path: Path, file: pages.PageFile, numbers: Sequence[int], demand: str | None
    ) -> str | None:
        """Overwrite pages while nobody writes; return the next demand, or None if that must be tried again.

        After the last pages, which come with the demand, it is empty unless more was deleted meanwhile.

        The transaction changes the database, so that other connections drop the pages that they have read. Its own
        connection is new and has read none of them.
        """
        self._demand_same_file("Nothing was written.")
        with self.named_errors(), closing(self._connections.connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if log_size(path) > 0:
                # Another transaction was written after the log was emptied; its pages in the log would come back.
                return None
            file.overwrite(numbers)
            done = "DELETE FROM notes WHERE name = ? AND value = ?"
            following = ""
            if demand is None or connection.execute(done, (SCRUB, demand)).rowcount == 0:
                following = new_id()
                connection.execute(_NOTE_DEMAND, (SCRUB, following))
            connection.execute("COMMIT")
            return following

    def _scrub_log(self, demand: str) -> bool:
        emptied = self.path is None or self._truncate_log()
        return emptied and self._write(lambda c: _replace_demand(c, demand, None))

    def _rewrite(self, *, on_disk: bool) -> None:
        """Copy all rows into new pages. Zeroed rows are not enough: SQLite leaves copies in pages that it rebuilt."""
        with self._outside_transactions() as connection:
            if on_disk:
                # A copy of a large file does not fit into memory. It holds no deleted text.
                connection.execute("PRAGMA temp_store=FILE")
            try:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA temp_store=MEMORY")

    def _truncate_log(self) -> bool:
        """Empty the log; return False if a reader still needs it. Writers wait meanwhile, so it does not wait long."""
        with self._outside_transactions() as connection:
            [busy_timeout] = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute(f"PRAGMA busy_timeout={min(busy_timeout, TRUNCATE_MS)}")
            try:
                return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
            finally:
                connection.execute(f"PRAGMA busy_timeout={busy_timeout}")

    def tidy(self) -> None:
        """Merge the text index, update the planner's statistics, and checkpoint as much of the log as readers allow."""
        self._write(_tidied)
        if self.path is not None:
            with self._outside_transactions() as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

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
        """Return the size of the file and its log in bytes."""
        if self.path is None:
            return 0
        return self.path.stat().st_size + log_size(self.path) if self.path.exists() else 0

    def abandon(self) -> None:
        """Drop connections that belong to a parent process; closing them here could disturb it."""
        _abandoned.append(self._engine)
        self._engine = self._opened = None

    def close(self) -> None:
        """Close every connection; SQLite then checkpoints the log."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if self._opened is not None and self._opened.database is not None:
            pages.unregister(self._opened.database)
        self._opened = None
        if self._key is not None:
            self._key.clear()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"The folder {folder} can't be made: {error.strerror}. Nothing was written.") from error


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _tidied(connection: Connection) -> None:
    connection.exec_driver_sql(_MERGE)
    # With a limit a large file is not read whole, and no samples of rows are kept in which forgotten text could stay.
    connection.exec_driver_sql("PRAGMA analysis_limit=1000")
    connection.exec_driver_sql("ANALYZE")


def _merged(connection: Connection) -> str | None:
    """Merge the text index, if a scrub is due, and return its demand."""
    demand = _scrub_demand(connection)
    if demand is not None:
        connection.exec_driver_sql(_MERGE)
    return demand


def _without_free_pages(connection: Connection) -> str | None:
    """Cut off some free pages; return a new demand, or None if free pages are left.

    A page of the end takes the place of each. A scrub of another process, which may have scanned that place before,
    finds another demand than its own and goes on.
    """
    demand = new_id()
    connection.exec_driver_sql(_NOTE_DEMAND, (SCRUB, demand))
    [(free,)] = fetch(connection, "PRAGMA freelist_count")
    [(mode,)] = fetch(connection, "PRAGMA auto_vacuum")
    # Files of earlier releases keep their free pages, which are zeroed, for later rows.
    for _ in range(min(free, LOT) if mode else 0):
        # The driver runs one step of it, which is one page.
        fetch(connection, "PRAGMA incremental_vacuum")
    return None if mode and free > LOT else demand


def _scrub_demand(connection: Connection) -> str | None:
    return connection.exec_driver_sql("SELECT value FROM notes WHERE name = ?", (SCRUB,)).scalar_one_or_none()


def _replace_demand(connection: Connection, demand: str, new: str | None) -> bool:
    """Note how far a scrub is, or that it is done; return False if more was deleted since it began."""
    if new is None:
        done = connection.exec_driver_sql("DELETE FROM notes WHERE name = ? AND value = ?", (SCRUB, demand))
    else:
        update = "UPDATE notes SET value = ? WHERE name = ? AND value = ?"
        done = connection.exec_driver_sql(update, (new, SCRUB, demand))
    return done.rowcount == 1
