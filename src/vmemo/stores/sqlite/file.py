"""One SQLite file: its transactions, its errors, and the removal of deleted text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from vmemo.errors import (
    DatabaseReplaced,
    InvalidInput,
    NotFound,
    ScrubDelayed,
    StoreBusy,
    StoreError,
    Unsupported,
    VmemoError,
)
from vmemo.stores.sql.compiled import STATEMENTS
from vmemo.stores.sql.message_rows import SCRUB, WRITES
from vmemo.stores.sqlite.connection import ConnectionFactory
from vmemo.stores.sqlite.dialect import DRIVER
from vmemo.stores.sqlite.encryption import FileKey, KeySource
from vmemo.stores.sqlite.rekey import rekey_file

R = TypeVar("R")
_MERGE = "INSERT INTO message_words(message_words) VALUES('optimize')"


class SqliteFile:
    """A file, or a database in memory when there is no path."""

    def __init__(self, path: Path | None, *, busy_seconds: float, key: KeySource | None = None) -> None:
        # Absolute, so that connections opened after a change of directory are to the same file.
        self.path = None if path is None else path.absolute()
        self._key = None if key is None else FileKey(key)
        self._connections = ConnectionFactory(self.path, busy_seconds=busy_seconds, key=self._key)
        self._engine: Engine | None = None
        self._opened: _Inodes | None = None

    def demand(self) -> None:
        """Raise NotFound for a missing file, which connecting would create."""
        if self.path is not None and not self.path.is_file():
            raise NotFound(f"There is no database {self.path}. Nothing was made; correct its name.")

    def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
        with self._named_errors(), self._connect() as connection:
            return run(connection)

    def write(self, run: Callable[[Connection], R]) -> R:
        """Run in one write transaction that takes the write lock at once."""
        with self._named_errors(), self._connect().execution_options(**{WRITES: True}) as connection:
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
            self._opened = _Inodes.of(self.path)
        return connection

    def _demand_same_file(self, effect: str) -> None:
        """Raise DatabaseReplaced if the file or its log is no longer the one that was opened."""
        if self.path is None or self._opened is None:
            return
        found = _Inodes.of(self.path)
        if found.log is not None and self._opened.log is None:
            self._opened = replace(self._opened, log=found.log)
        if found != self._opened:
            raise DatabaseReplaced(_replaced(self.path, found, self._opened, effect))

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

    def scrub(self) -> None:
        """Rewrite the file without deleted rows and empty the write-ahead log."""
        if self.path is None:
            self.write(lambda connection: _note_scrubbed(connection))
            return
        try:
            self.write(lambda c: c.exec_driver_sql(_MERGE))
            self._raw("VACUUM")
            self._truncate_log()
            self.write(_note_scrubbed)
        except StoreBusy as error:
            raise ScrubDelayed(_DELAYED) from error

    def tidy(self) -> None:
        """Merge the text index, update the planner's statistics, and checkpoint as much of the log as readers allow."""
        self.write(_tidied)
        if self.path is not None:
            self._raw("PRAGMA wal_checkpoint(PASSIVE)")

    def _truncate_log(self) -> None:
        busy = self._raw("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise ScrubDelayed(_DELAYED)

    def _raw(self, statement: str) -> int:
        """Run a statement outside any transaction; return the first number of its result, or 0."""
        with self._named_errors():
            assert self._engine is not None
            self._demand_same_file("Nothing was written.")
            raw = self._engine.raw_connection()
            try:
                cursor = raw.cursor()
                cursor.execute(statement)
                row = cursor.fetchone()
                return int(row[0]) if row else 0
            finally:
                raw.close()

    def rekey(self, new: KeySource | None) -> bool:
        """Encrypt the file with another key, or decrypt it; return False if it has that key already."""
        if self.path is None:
            raise Unsupported("A database in memory has no key. Name a file.")
        return rekey_file(self.path, self._key, None if new is None else FileKey(new))

    @contextmanager
    def _named_errors(self) -> Generator[None]:
        try:
            yield
        except VmemoError:
            raise
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"SQLite can't hold a value: {error}. The transaction was rolled back.") from error
        except (SQLAlchemyError, self._connections.driver.Error) as error:
            raise _explain(getattr(error, "orig", None) or error, self.path) from error
        except (ValueError, TypeError, LookupError) as error:
            # The rows were written by this package, so that they can be read unless they were changed.
            words = f"A stored value can't be read ({type(error).__name__}: {error}). The transaction was rolled back."
            raise StoreError(f"{words} {_DAMAGED.format(path=self.path)}") from error

    def size(self) -> int:
        """Return the size of the file and its log in bytes."""
        if self.path is None:
            return 0
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close every connection; SQLite then checkpoints the log."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._opened = None
        if self._key is not None:
            self._key.clear()


_DELAYED = (
    "The rows are deleted, but another connection kept the file from being rewritten, so traces may be left in it. "
    "Close other readers and forget again, or run `vmemo doctor`."
)


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


def _note_scrubbed(connection: Connection) -> None:
    connection.exec_driver_sql("DELETE FROM notes WHERE name = ?", (SCRUB,))


@dataclass(frozen=True)
class _Inodes:
    """Device and inode of a database and of its write-ahead log; None for a missing file."""

    database: tuple[int, int] | None
    log: tuple[int, int] | None

    @staticmethod
    def of(path: Path) -> _Inodes:
        return _Inodes(_inode(path), _inode(path.with_name(path.name + "-wal")))


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _replaced(path: Path, found: _Inodes, opened: _Inodes, effect: str) -> str:
    if found.database == opened.database:
        what = f"The log {path}-wal was deleted or replaced while the database was open. {effect} Leave it alone, close"
        return f"{what} this memory, so that its connections write their log into the file, and open it again."
    what = "deleted" if found.database is None else "replaced"
    return (
        f"The database {path} was {what} while it was open. {effect} Close this memory and open it again to use the "
        "file that has the name now."
    )


def _explain(error: BaseException, path: Path | None) -> StoreError:
    """Return the error to raise for one of SQLite, with the remedy."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or "locked" in str(error):
        return StoreBusy("Another process held the database for too long. Nothing was written; try again.")
    remedy = _REMEDIES.get(code)
    if remedy is None and "no such table" in str(error):
        remedy = _DAMAGED
    words = f"SQLite refused: {error}. The transaction was rolled back."
    return StoreError(words if remedy is None else f"{words} {remedy.format(path=path)}")


_DAMAGED = "The file {path} is damaged: check it with `vmemo doctor`, and restore a backup."
_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space on the disk of {path} and repeat the call.",
    sqlite3.SQLITE_READONLY: "Allow this user to write to {path} and its folder.",
    sqlite3.SQLITE_CANTOPEN: "{path} must be a file that this user may read and write, in a folder that exists.",
    sqlite3.SQLITE_IOERR: "The disk of {path} can't be read or written; check it, and the file with `vmemo doctor`.",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
