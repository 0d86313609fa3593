"""The server's store: one PostgreSQL database with pgvector, shared by any number of workers.

The process caches nothing of a bank: the database runs every search, and sees the writes of all workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection

from vmemo.errors import NotFound, StoreBusy, StoreError
from vmemo.models import BankId, Message, MessageId
from vmemo.models.changes import Changes
from vmemo.models.results import Status
from vmemo.models.search import Scored, Vectors
from vmemo.models.select import MessageSelect
from vmemo.ports import HIDDEN, BankReader
from vmemo.stores.postgres import schema
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.postgres.search import PostgresBankSearch, PostgresSearchIndex
from vmemo.stores.sql import migrate, reads, statements
from vmemo.stores.sql.bank_rows import bank_state
from vmemo.stores.sql.schema import facts
from vmemo.stores.sql.store import SqlStore, commit_changes

R = TypeVar("R")
INDEX_FROM = 50_000
"""Facts from which on a bank is searched by the vector index; an exact scan takes about 5 ms for each 10,000 facts."""
ANALYSED_AFTER = 2_000
"""Facts that a process writes before it updates the planner's statistics, as an import does."""


class _ReadPool(PostgresPool):
    """Reads on connections to another server with the same data; writes on those of the primary."""

    def __init__(self, url: str, primary: PostgresPool) -> None:
        super().__init__(url, size=primary.size, busy_seconds=primary.busy_seconds)
        self._primary = primary

    async def read(self, run: Callable[[Connection], R]) -> R:
        try:
            return await super().read(run)
        except NotFound:
            # A bank that was just created may not have arrived.
            return await self._primary.read(run)

    async def write(self, run: Callable[[Connection], R], *, patient: bool = False, repeatable: bool = False) -> R:
        return await self._primary.write(run, patient=patient, repeatable=repeatable)


class PostgresStore(SqlStore[PostgresPool]):
    """Implements the Store port on one PostgreSQL database."""

    def __init__(
        self,
        url: str,
        *,
        size: int = 10,
        busy_seconds: float = 60.0,
        index_from: int = INDEX_FROM,
        read_url: str | None = None,
    ) -> None:
        super().__init__(PostgresPool(url, size=size, busy_seconds=busy_seconds), PostgresSearchIndex())
        self._index_from = index_from
        self._unanalysed = 0
        self.replica: PostgresStore | None = None
        """The same database with reads from `read_url`."""
        if read_url is not None:
            self.replica = copy(self)
            self.replica._connections = _ReadPool(read_url, self._connections)
            self.replica._ready = True

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
        self._ready = False
        if self.replica is not None:
            await self.replica._connections.close()
        await self._connections.close()

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        return await self._database.notified(seconds, heard)

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        """Store messages durably; those of an attempt whose outcome was not known count as stored."""
        tried = set[MessageId]()

        def run(connection: Connection) -> set[MessageId]:
            number = bank_state(connection, bank).seq
            found = reads.messages_of(connection, number, MessageSelect(ids=sorted(tried))) if tried else []
            stored = self._append(connection, bank, messages, process_at) | {message.id for message in found}
            tried.update(stored)
            return stored

        return await self._database.write(run, repeatable=True)

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all.

        No table holds erased rows when this returns, and their space is released. Copies of them in the server's
        files, in its write-ahead log and in backups are the administrator's responsibility.
        """
        committed = await super().commit(changes)
        if committed and changes.erase:
            await self._vacuum()
        self._unanalysed += len(changes.facts)
        if self._unanalysed >= ANALYSED_AFTER:
            self._unanalysed = 0
            with suppress(StoreError):
                await self._analyse()
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
            return commit_changes(connection, changes, self._index)

        return await self._database.write(run, repeatable=True)

    @staticmethod
    def _committed(connection: Connection, changes: Changes) -> bool:
        """Return True if the facts are stored; other committed changes are refused as out of date."""
        if not changes.facts:
            return False
        bank = bank_state(connection, changes.bank).seq
        return bool(statements.seqs_of(connection, facts, bank, [item.fact.id for item in changes.facts]))

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank, on the pool's loop."""
        return await self._database.read(lambda c: run(self._search(c, bank)))

    def _search(self, connection: Connection, bank: BankId) -> PostgresBankSearch:
        return PostgresBankSearch(connection, bank, index_from=self._index_from)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        return await self._database.read(lambda c: self._search(c, bank).neighbours(vectors, limit=limit, floor=floor))

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it, then release the space of its rows."""
        dropped = await super().drop_bank(bank)
        if dropped and not bank.startswith(HIDDEN):
            await self._vacuum()
        return dropped

    async def scrub(self, *, patient: bool = False) -> bool:
        """Release the space of deleted rows, if `patient`; a commit that erases does that itself."""
        if patient:
            await self._vacuum()
        return True

    async def _vacuum(self) -> None:
        with suppress(StoreError):
            await self._database.run_outside_transactions(schema.vacuum(schema.TABLES))

    async def _analyse(self) -> None:
        changed = await self._database.read(schema.changed)
        if changed:
            await self._database.run_outside_transactions(schema.analyse(changed))

    async def optimise(self) -> None:
        """Update the planner's statistics of changed tables, then build the vector index if a bank needs it."""
        await self._analyse()
        for statement in await self._database.read(lambda c: schema.index_statements(c, self._index_from)):
            # Two processes that begin at once wait for each other until the server ends one; the next run builds again.
            with suppress(StoreBusy):
                await self._database.run_outside_transactions(statement)

    async def damage(self) -> list[str]:
        """Return the errors that amcheck finds in the indexes; empty if there are none or it is not installed."""
        return await self._database.read(schema.damage)

    async def status(self, bank: BankId) -> Status:
        """Return the bank's status; its size is that of the whole database."""
        found = await super().status(bank)
        return found.model_copy(update={"bytes": await self._database.read(schema.size)})
