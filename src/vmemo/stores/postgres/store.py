"""The server's store: one PostgreSQL database with pgvector, shared by any number of workers.

Nothing of a bank is kept in the process: every search is asked of the database, and sees what any worker wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, delete

from vmemo.errors import StoreError
from vmemo.models import BankId, FactId, Message, MessageId
from vmemo.models.changes import Changes, ForgetTarget
from vmemo.models.results import Forgotten, Status
from vmemo.models.search import ExpandRequest, Expansion, Scored, SearchRequest, SearchResult, Vectors
from vmemo.models.select import MessageSelect
from vmemo.ports import HIDDEN, Loaded
from vmemo.stores.postgres import hnsw, maintenance, rows, search
from vmemo.stores.postgres.pool import PostgresPool
from vmemo.stores.sql import batch_rows, forget, message_rows, migrate, reads
from vmemo.stores.sql.commit import commit
from vmemo.stores.sql.message_rows import SCRUB, bank_state
from vmemo.stores.sql.schema import facts, notes
from vmemo.stores.sql.store import SqlStore

P = ParamSpec("P")
R = TypeVar("R")


class PostgresStore(SqlStore):
    """Fulfils the Store port on one PostgreSQL database."""

    _search_index = rows.PostgresSearchIndex()

    def __init__(self, url: str, *, size: int = 10, busy_seconds: float = 60.0, index_from: int = hnsw.LARGE) -> None:
        self._connections = PostgresPool(url, size=size, busy_seconds=busy_seconds)
        self._index_from = index_from
        self._ready = False

    @property
    def _pool(self) -> PostgresPool:
        # Who is late must not open connections that nobody closes.
        assert self._ready, "the store is not open"
        return self._connections

    async def open(self, *, as_is: bool = False) -> None:
        """Connect, and create or upgrade the schema. Opening twice, or from several loops, is harmless."""
        version = await self._connections.read(migrate.current)
        migrate.refuse_newer(version)
        if as_is:
            migrate.refuse_other(version)
        elif version != migrate.HEAD:
            await self._connections.write(migrate.upgrade, patient=True, repeatable=True)
        self._ready = True

    async def close(self) -> None:
        """Close all connections."""
        self._ready = False
        await self._connections.close()

    async def _read(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._pool.read(lambda connection: run(connection, *args, **kwargs))

    async def _write(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._pool.write(lambda connection: run(connection, *args, **kwargs))

    async def _insist(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._pool.write(lambda connection: run(connection, *args, **kwargs), repeatable=True)

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        """Wait until work is queued, by whichever process."""
        return await self._pool.notified(seconds, heard)

    async def append(self, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        """Store messages durably. What a try wrote whose outcome was not known at first counts as stored."""
        tried = set[MessageId]()

        def run(connection: Connection) -> set[MessageId]:
            number = bank_state(connection, bank).seq
            found = reads.messages_of(connection, number, MessageSelect(ids=sorted(tried))) if tried else []
            stored = self._append(connection, bank, messages) | {message.id for message in found}
            tried.update(stored)
            return stored

        return await self._insist(run)

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all; vector indexes of replaced vectors and banks are dropped."""
        if changes.embeddings is not None:
            # The index of the old vectors goes first, or each new one would cost a search.
            state = await self._read(bank_state, changes.bank)
            await self._drop_indexes(without=hnsw.name(state.seq, state.dimension))
        committed = await super().commit(changes)
        if committed and changes.rename is not None:
            await self._drop_indexes()
        return committed

    async def _commit(self, changes: Changes) -> bool:
        """Commit once: after an attempt of unknown outcome its facts are looked for."""
        if not changes.repeatable:
            return await self._write(commit, changes, self._search_index)
        tried = False

        def run(connection: Connection) -> bool:
            nonlocal tried
            if tried and self._committed(connection, changes):
                return True
            tried = True
            return commit(connection, changes, self._search_index)

        return await self._insist(run)

    @staticmethod
    def _committed(connection: Connection, changes: Changes) -> bool:
        """Return True if the facts are stored; committed changes without facts are refused as out of date."""
        if not changes.facts:
            return False
        bank = bank_state(connection, changes.bank).seq
        return bool(batch_rows.seqs_of(connection, facts, bank, [item.fact.id for item in changes.facts]))

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a recall."""
        return await self._read(search.search, request, index_from=self._index_from)

    async def expand(self, request: ExpandRequest) -> Expansion:
        """Return edges and token vectors of candidates."""
        return await self._read(search.expand, request, index_from=self._index_from)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each vector the nearest current facts."""
        return await self._read(search.nearest, bank, vectors, limit=limit, floor=floor, index_from=self._index_from)

    async def load(self, bank: BankId, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages with the titles of the facts' episodes."""
        return await self._read(search.load_hits, bank, facts, messages)

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it, then release the space of its rows and indexes."""
        parts = await self._read(self._parts_of, bank)
        dropped = await super().drop_bank(bank)
        if dropped and not bank.startswith(HIDDEN):
            # There is no file to rewrite here.
            await self._insist(lambda connection: connection.execute(delete(notes).where(notes.c.name == SCRUB)))
            await self._drop_indexes()
            await self._vacuum(parts)
        return dropped

    @staticmethod
    def _parts_of(connection: Connection, bank: BankId) -> list[str]:
        state = message_rows.state_or_none(connection, bank)
        return [] if state is None else maintenance.parts(connection, state.seq)

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten:
        """Delete a target, then let the server give the room of its rows free.

        What is forgotten is gone from every table when this returns. What is left of deleted rows in the server's
        files, in its write-ahead log and in backups is in the administrator's hands.
        """
        parts = await self._read(self._with_bank(maintenance.parts), bank)
        forgotten = await super().forget(bank, target)
        if target.bank:
            await self._drop_indexes()
        await self._vacuum(parts)
        return forgotten

    def _forget(self, connection: Connection, bank: BankId, target: ForgetTarget) -> Forgotten:
        forgotten = super()._forget(connection, bank, target)
        # There is no file to rewrite here.
        connection.execute(delete(notes).where(notes.c.name == SCRUB))
        return forgotten

    async def scrub(self) -> None:
        """Give the room of deleted rows free in all tables, as far as this user may and nobody is in the way."""
        await self._vacuum(maintenance.TABLES)

    async def _vacuum(self, tables: Sequence[str]) -> None:
        with suppress(StoreError):
            await self._pool.alone(maintenance.vacuum(tables))

    async def optimise(self) -> None:
        """Let PostgreSQL measure what its plans rest on, where it has changed; then build and drop vector indexes."""
        changed = await self._read(maintenance.changed)
        if changed:
            await self._pool.alone(maintenance.analyse(changed))
        await hnsw.tend(self._pool, self._index_from)

    async def _drop_indexes(self, without: str | None = None) -> None:
        """Drop vector indexes that are of no use any more. They are in nobody's way: maintenance drops what is left."""
        with suppress(StoreError):
            await hnsw.tend(self._pool, self._index_from, build=False, without=without)

    async def schema_version(self) -> str:
        """The schema's number."""
        return await self._read(migrate.current) or "none"

    async def damage(self) -> list[str]:
        """Return the errors that amcheck finds in the indexes; empty if there are none or it is not installed."""
        return await self._read(maintenance.damage)

    async def status(self, bank: BankId) -> Status:
        """Return the bank's status; its size is that of the whole database."""
        found = await super().status(bank)
        return found.model_copy(update={"bytes": await self._read(maintenance.size)})

    def _unindex(self, connection: Connection, bank: int, removal: forget.Removal) -> None:
        rows.unindex(connection, bank, removal)

    def _embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        return rows.embeddings(connection, bank, seqs)
