"""The server's store: one PostgreSQL database with pgvector, shared by any number of workers.

The process caches nothing of a bank: the database runs every search, and sees the writes of all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.errors import StoreError
from vmemo.models import BankId, Message, MessageId
from vmemo.models.auth import CompletedRequest
from vmemo.models.changes import Changes
from vmemo.models.results import Status
from vmemo.models.search import Scored, Vectors
from vmemo.models.select import MessageSelect
from vmemo.ports import HIDDEN, AppendCompletion, BankReader
from vmemo.stores.postgres import hnsw, maintenance, search
from vmemo.stores.postgres.pool import PostgresPool
from vmemo.stores.postgres.replica import ReplicaPool
from vmemo.stores.postgres.rows import PostgresSearchIndex
from vmemo.stores.postgres.search import PostgresBankSearch
from vmemo.stores.sql import auth_rows, bulk, message_rows, migrate, reads
from vmemo.stores.sql.commit import commit
from vmemo.stores.sql.message_rows import bank_state
from vmemo.stores.sql.schema import facts
from vmemo.stores.sql.search import SqlBankReader
from vmemo.stores.sql.store import SqlStore

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """A streaming replica, and the seconds that it may lag."""

    url: str = field(repr=False)
    max_lag: float


class PostgresStore(SqlStore[PostgresPool]):
    """Implements the Store port on one PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        busy_seconds: float = 60.0,
        index_from: int = hnsw.LARGE,
        replica: ReplicaOptions | None = None,
    ) -> None:
        super().__init__(PostgresPool(url, size=size, busy_seconds=busy_seconds), PostgresSearchIndex())
        self._index_from = index_from
        self._written_at: dict[BankId, float] = {}
        self.replica = None if replica is None else ReplicaStore(self, replica)
        """The same database with reads from a replica."""

    def __repr__(self) -> str:
        return f"PostgresStore({self._connections.address.public!r})"

    async def open(self, *, as_is: bool = False) -> None:
        """Connect, and create or upgrade the schema. Opening twice, or from several loops, is harmless."""
        if self._ready and not as_is:
            return
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
        if self.replica is not None:
            await self.replica.pool.close()
        await self._connections.close()

    def written_at(self, bank: BankId) -> float:
        """Return the time of this process's last write to a bank; access counts are none."""
        return self._written_at.get(bank, float("-inf"))

    def _note_write(self, bank: BankId) -> None:
        if self.replica is not None:
            self._written_at[bank] = monotonic()

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        """Wait until any process queues work."""
        return await self._database.notified(seconds, heard)

    async def append(
        self,
        bank: BankId,
        messages: Sequence[Message],
        *,
        completes: AppendCompletion | None = None,
        process_at: datetime | None = None,
    ) -> set[MessageId]:
        """Store messages durably; those of an attempt whose outcome was not known count as stored."""
        tried = set[MessageId]()

        def run(connection: Connection) -> set[MessageId]:
            number = bank_state(connection, bank).seq
            found = reads.messages_of(connection, number, MessageSelect(ids=sorted(tried))) if tried else []
            stored = self._append(connection, bank, messages, process_at) | {message.id for message in found}
            tried.update(stored)
            self._complete(connection, stored, completes)
            return stored

        try:
            return await self._database.write(run, repeatable=True)
        finally:
            self._note_write(bank)

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all; vector indexes of replaced vectors and banks are dropped.

        No table holds erased rows when this returns, and their space is released. Copies of them in the server's
        files, in its write-ahead log and in backups are the administrator's responsibility.
        """
        if changes.embeddings is not None:
            # The index of the old vectors goes first, or each new one would cost a search.
            state = await self._database.read(lambda c: bank_state(c, changes.bank))
            await self._drop_indexes(without=hnsw.name(state.seq, state.dimension))
        try:
            committed = await super().commit(changes)
        finally:
            if changes != Changes(bank=changes.bank, spending=changes.spending, accesses=changes.accesses):
                self._note_write(changes.bank)
        if committed and changes.rename is not None:
            await self._drop_indexes()
        if committed and changes.erase:
            await self._vacuum(await self._database.read(lambda c: self._parts_of(c, changes.bank)))
        return committed

    async def _commit(self, changes: Changes) -> bool:
        """Commit once: after an attempt of unknown outcome its facts are looked for."""
        if not changes.repeatable:
            return await super()._commit(changes)
        tried = False

        def run(connection: Connection) -> bool:
            nonlocal tried
            if tried and self._committed(connection, changes):
                return True
            tried = True
            return commit(connection, changes, self._index)

        return await self._database.write(run, repeatable=True)

    @staticmethod
    def _committed(connection: Connection, changes: Changes) -> bool:
        """Return True if the response or the facts are stored; other committed changes are refused as out of date."""
        if changes.completes is not None:
            return auth_rows.is_completed(connection, changes.completes.claim)
        if not changes.facts:
            return False
        bank = bank_state(connection, changes.bank).seq
        return bool(bulk.seqs_of(connection, facts, bank, [item.fact.id for item in changes.facts]))

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank, on the pool's loop."""
        return await self._database.read(
            lambda c: run(SqlBankReader(PostgresBankSearch(c, bank, index_from=self._index_from)))
        )

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each vector the nearest current facts."""
        return await self._database.read(
            lambda c: search.nearest(c, bank, vectors, limit=limit, floor=floor, index_from=self._index_from)
        )

    async def drop_bank(self, bank: BankId, *, completes: CompletedRequest | None = None) -> bool:
        """Delete a bank with everything in it, then release the space of its rows and indexes."""
        parts = await self._database.read(lambda c: self._parts_of(c, bank))
        dropped = await super().drop_bank(bank, completes=completes)
        if dropped and not bank.startswith(HIDDEN):
            await self._drop_indexes()
            await self._vacuum(parts)
        return dropped

    @staticmethod
    def _parts_of(connection: Connection, bank: BankId) -> list[str]:
        state = message_rows.state_or_none(connection, bank)
        return [] if state is None else maintenance.parts(connection, state.seq)

    async def scrub(self, *, patient: bool = False) -> bool:
        """Release the space of deleted rows, if `patient`; a commit that erases does that for its bank."""
        if patient:
            await self._vacuum(maintenance.TABLES)
        return True

    async def _vacuum(self, tables: Sequence[str]) -> None:
        with suppress(StoreError):
            await self._database.alone(maintenance.vacuum(tables))

    async def optimise(self) -> None:
        """Update the planner's statistics of changed tables, then build and drop vector indexes."""
        changed = await self._database.read(maintenance.changed)
        if changed:
            await self._database.alone(maintenance.analyse(changed))
        await hnsw.tend(self._database, self._index_from)

    async def _drop_indexes(self, without: str | None = None) -> None:
        """Drop vector indexes that no bank uses. A failure is harmless: maintenance drops those that are left."""
        with suppress(StoreError):
            await hnsw.tend(self._database, self._index_from, build=False, without=without)

    async def schema_version(self) -> str:
        """Return the version of the schema."""
        return await self._database.read(migrate.current) or "none"

    async def damage(self) -> list[str]:
        """Return the errors that amcheck finds in the indexes; empty if there are none or it is not installed."""
        return await self._database.read(maintenance.damage)

    async def status(self, bank: BankId) -> Status:
        """Return the bank's status; its size is that of the whole database."""
        found = await super().status(bank)
        return found.model_copy(update={"bytes": await self._database.read(maintenance.size)})


class ReplicaStore(PostgresStore):
    """A database with reads from a replica; writes, and reads of what this process just wrote, use the primary."""

    def __init__(self, primary: PostgresStore, options: ReplicaOptions) -> None:
        pool = primary._connections
        super().__init__(options.url, index_from=primary._index_from)
        self._primary = primary
        self._connections = self.pool = ReplicaPool(
            options.url, pool, size=pool.size, busy_seconds=pool.busy_seconds, max_lag=options.max_lag
        )
        # The primary opens and closes the database.
        self._ready = True

    @property
    def problem(self) -> str | None:
        """The reason why reads go to the primary, or None."""
        return self.pool.problem

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank."""
        await self.pool.check()
        return await (self._primary.read(bank, run) if self._behind(bank) else super().read(bank, run))

    async def _read(
        self, bank: BankId, run: Callable[Concatenate[Connection, int, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        await self.pool.check()
        read = self._primary._read if self._behind(bank) else super()._read
        return await read(bank, run, *args, **kwargs)

    def _behind(self, bank: BankId) -> bool:
        """Return True if the replica may lack a write of this process to a bank."""
        return self._primary.written_at(bank) >= self.pool.caught_up_at
