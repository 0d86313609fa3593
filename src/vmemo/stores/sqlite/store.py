"""The embedded store: one SQLite file for rows, vectors and text, shared by any number of processes.

Each call runs whole in a worker thread on a plain connection, so that nothing blocks the event loop and the store
works from any number of loops. Vectors and terms are read into memory once per bank and refreshed by the bank's
change counter, which every process's writes move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from sqlalchemy import Connection

from vmemo.models import BankId, FactId, MessageId
from vmemo.models.changes import ForgetTarget
from vmemo.models.results import Forgotten, Status
from vmemo.models.search import ExpandRequest, Expansion, Scored, SearchRequest, SearchResult, Vectors
from vmemo.ports import HIDDEN, Loaded
from vmemo.stores.sql import forget, migrate
from vmemo.stores.sql.store import SqlStore
from vmemo.stores.sqlite import rows, search
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.index.cache import IndexCache

P = ParamSpec("P")
R = TypeVar("R")


class SqliteStore(SqlStore):
    """Fulfils the Store port on one SQLite file."""

    _search_index = rows.SqliteSearchIndex()

    def __init__(self, path: Path | None, *, threads: int = 4, busy_seconds: float = 60.0) -> None:
        self._file = SqliteFile(path, busy_seconds=busy_seconds)
        # A database in memory lives in its one connection, so its calls take turns.
        self._threads = 1 if path is None else threads
        self._pool: ThreadPoolExecutor | None = None
        self._indexes = IndexCache()
        self._opening = Lock()
        self._ready = False

    async def open(self, *, as_is: bool = False) -> None:
        """Open the file and create or upgrade its schema. Opening twice, or from several loops, is harmless."""
        with self._opening:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="vmemo-sqlite")
        await self._run(self._prepare, as_is)

    def _prepare(self, as_is: bool) -> None:
        with self._opening:
            if as_is:
                self._file.demand()
                migrate.refuse_other(self._file.read(migrate.current))
                self._ready = True
            elif not self._ready:
                version = self._file.read(migrate.current)
                migrate.refuse_newer(version)
                if version != migrate.HEAD:
                    self._file.write(migrate.upgrade)
                self._ready = True

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._run(self._file.close)
            self._pool.shutdown()
            self._pool = None
            self._ready = False
            self._indexes.clear()

    async def _run(self, run: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        assert self._pool is not None, "the store is not open"
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: run(*args, **kwargs))

    async def _read(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(lambda: self._file.read(lambda connection: run(connection, *args, **kwargs)))

    async def _write(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(lambda: self._file.write(lambda connection: run(connection, *args, **kwargs)))

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a recall."""
        return await self._read(search.search, self._indexes, request)

    async def expand(self, request: ExpandRequest) -> Expansion:
        """Return edges and token vectors of candidates."""
        return await self._read(search.expand, self._indexes, request)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each vector the nearest current facts."""
        return await self._read(search.nearest, self._indexes, bank, vectors, limit=limit, floor=floor)

    async def load(self, bank: BankId, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages with the titles of the facts' episodes."""
        return await self._read(search.load_hits, self._indexes, bank, facts, messages)

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten:
        """Delete a target, then rewrite the file so that no trace of it is left in it."""
        forgotten = await super().forget(bank, target)
        await self.scrub()
        return forgotten

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it, then rewrite the file so that no trace of it is left."""
        dropped = await super().drop_bank(bank)
        if dropped and not bank.startswith(HIDDEN):
            await self.scrub()
        return dropped

    async def scrub(self) -> None:
        """Rewrite the file and empty its log; raises ScrubDelayed while another connection is in the way."""
        self._indexes.clear()
        await self._run(self._file.scrub)

    async def optimise(self) -> None:
        """Merge the text index, let SQLite measure what its plans rest on, and fold the log into the file."""
        await self._run(self._file.tidy)

    async def schema_version(self) -> str:
        """The schema's number."""
        return await self._read(migrate.current) or "none"

    async def damage(self) -> list[str]:
        """Return the errors that SQLite's integrity check reports; empty for a sound file."""
        found = await self._read(
            lambda connection: connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
        )
        return [str(line) for line in found if line != "ok"]

    async def status(self, bank: BankId) -> Status:
        """Return the bank's status; the size is that of the whole file."""
        found = await super().status(bank)
        return found.model_copy(update={"bytes": await self._run(self._file.size)})

    def _unindex(self, connection: Connection, bank: int, removal: forget.Removal) -> None:
        rows.unindex(connection, bank, removal)

    def _embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        return {
            seq: tuple(np.frombuffer(vector, "<f2").astype(float).tolist())
            for seq, vector in rows.vectors(connection, seqs)
        }
