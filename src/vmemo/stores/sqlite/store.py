"""The embedded store: one SQLite file for rows, vectors and text, shared by any number of processes.

Vectors and terms are read into memory once per bank and refreshed by the bank's change counter, which the writes of
every process increase.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, utc_now
from vmemo.models.results import Status
from vmemo.models.search import Scored, Vectors
from vmemo.ports import BankReader
from vmemo.stores.sql import migrate, reads
from vmemo.stores.sql.store import SqlStore
from vmemo.stores.sqlite.connection import KeySource
from vmemo.stores.sqlite.database import SqliteDatabase, SqliteFile
from vmemo.stores.sqlite.search import IndexCache, SqliteBankReader, SqliteSearchIndex
from vmemo.stores.values import micros

R = TypeVar("R")


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
                return run(SqliteBankReader(file, connection, bank, index))

        return await self._database.run(read, self._database.file)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:

        def find(connection: Connection) -> list[list[Scored]]:
            index = self._indexes.get(connection, bank)
            found = index.neighbours(vectors, index.current(micros(utc_now())), limit, floor)
            ids = reads.ids_of(connection, index.number, list({seq for seqs, _ in found for seq in seqs}))
            return [[Scored(FactId(ids[seq]), score) for seq, score in zip(*each, strict=True)] for each in found]

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
