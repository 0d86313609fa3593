"""Connections to one SQLite file: transactions, errors, and scrubbing."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection as RawConnection
from sqlite3 import OperationalError as SqliteError
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import QueuePool, StaticPool

from vmemo.errors import InvalidInput, NotFound, ScrubDelayed, StoreBusy, StoreError
from vmemo.stores.sql.message_rows import SCRUB, WRITES

R = TypeVar("R")
_PRAGMAS = (
    # Every acknowledged message survives a power cut, for one fsync per commit.
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    "temp_store=MEMORY",
    "cache_size=-32000",
)

_MERGE = "INSERT INTO message_words(message_words) VALUES('optimize')"


class SqliteFile:
    """A file, or a database in memory when there is no path."""

    def __init__(self, path: Path | None, *, busy_seconds: float) -> None:
        self._path = path
        self._busy_ms = int(busy_seconds * 1000)
        self._engine: Engine | None = None

    def demand(self) -> None:
        """Raise NotFound for a missing file, which connecting would create."""
        if self._path is not None and not self._path.is_file():
            raise NotFound(f"There is no database {self._path}. Nothing was made; correct its name.")

    def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
        with _named_errors(), self._connect() as connection:
            return run(connection)

    def write(self, run: Callable[[Connection], R]) -> R:
        """Run in one write transaction that takes the write lock at once."""
        with _named_errors(), self._connect().execution_options(**{WRITES: True}) as connection:
            result = run(connection)
            connection.commit()
            return result

    def _connect(self) -> Connection:
        if self._engine is None:
            self._engine = self._create()
        return self._engine.connect()

    def _create(self) -> Engine:
        if self._path is not None:
            _make_folder(self._path.parent)
        name = "" if self._path is None else str(self._path)
        pool = StaticPool if self._path is None else QueuePool
        url = URL.create("sqlite", database=name)
        # The connection used last is used next: its pages are still in its cache.
        reuse = {} if self._path is None else {"pool_use_lifo": True}
        engine = create_engine(url, poolclass=pool, connect_args={"check_same_thread": False}, **reuse)
        event.listen(engine, "connect", self._prepare)
        event.listen(engine, "begin", _begin)
        return engine

    def _prepare(self, connection: DBAPIConnection, _: object) -> None:
        assert isinstance(connection, RawConnection)
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")
        # SQLite's own lower() knows ASCII only.
        connection.create_function("vmemo_fold", 1, str.casefold, deterministic=True)
        self._write_ahead(connection)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    def _write_ahead(self, connection: RawConnection) -> None:
        """Turn the log on. SQLite does not wait for others here, so processes that create a file take turns."""
        deadline = monotonic() + self._busy_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except SqliteError as error:
                if "locked" not in str(error) or monotonic() > deadline:
                    raise
            sleep(0.01)

    def scrub(self) -> None:
        """Rewrite the file without deleted rows and empty the write-ahead log."""
        if self._path is None:
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
        if self._path is not None:
            self._raw("PRAGMA wal_checkpoint(PASSIVE)")

    def _truncate_log(self) -> None:
        busy = self._raw("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise ScrubDelayed(_DELAYED)

    def _raw(self, statement: str) -> int:
        """Run a statement outside any transaction; return the first number of its result, or 0."""
        with _named_errors():
            assert self._engine is not None
            raw = self._engine.raw_connection()
            try:
                cursor = raw.cursor()
                cursor.execute(statement)
                row = cursor.fetchone()
                return int(row[0]) if row else 0
            finally:
                raw.close()

    def size(self) -> int:
        """Return the size of the file and its log in bytes."""
        if self._path is None:
            return 0
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close every connection; SQLite then checkpoints the log."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None


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


@contextmanager
def _named_errors() -> Generator[None]:
    try:
        yield
    except OperationalError as error:
        if "locked" in str(error.orig) or "busy" in str(error.orig):
            raise StoreBusy(
                "Another process held the database for too long. Nothing was written; try again."
            ) from error
        raise StoreError(f"SQLite refused: {error.orig}. The transaction was rolled back.") from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidInput(f"SQLite can't hold a value: {error}. The transaction was rolled back.") from error
    except DBAPIError as error:
        raise StoreError(f"SQLite refused: {error.orig}. The transaction was rolled back.") from error
