"""The graph store: one Neo4j database with native vector and full-text indexes, shared by any number of workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar

from vmemo.errors import VmemoError
from vmemo.models import (
    Bank,
    BankId,
    BankRevision,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    Fact,
    FactId,
    FormerProfile,
    JobKind,
    Link,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, EntityMention, Lease, MergeRecord, NewJob
from vmemo.models.results import DailyCount, Job, Status
from vmemo.models.search import Scored, Vectors
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.webhooks import SignedWebhook
from vmemo.ports import BankReader, HiddenBank
from vmemo.stores.transactions import commit_when_free
from vmemo_neo4j import banks, index, memories, queue, reads, schema, search, statistics
from vmemo_neo4j.banks import bank_state
from vmemo_neo4j.commit import CommitRefused, commit
from vmemo_neo4j.connection import Neo4jConnection, Transaction, forget_old_commits
from vmemo_neo4j.messages import append as append_messages

P = ParamSpec("P")
R = TypeVar("R")
CONSISTENT = 5
"""Attempts to read a bank that changes meanwhile; the last one counts, whatever happens."""


class Neo4jStore:
    """Implements the Store port on one Neo4j database."""

    def __init__(
        self, url: str, *, size: int = 10, busy_seconds: float = 60.0, index_from: int = index.INDEX_FROM
    ) -> None:
        self._connections = Neo4jConnection(url, size=size, busy_seconds=busy_seconds)
        self._index_from = index_from
        self._ready = False

    def __repr__(self) -> str:
        return f"Neo4jStore({self._connections.address.public!r})"

    @property
    def _database(self) -> Neo4jConnection:
        # A call after close() must not open connections again.
        assert self._ready, "the store is not open"
        return self._connections

    async def open(self, *, as_is: bool = False) -> None:
        """Connect, and create or upgrade the schema. Opening twice, or from several loops, is harmless."""
        try:
            await schema.prepare(self._connections, as_is=as_is)
            if not as_is:
                await banks.purge(self._connections)
        except VmemoError:
            await self._connections.close()
            raise
        self._ready = True

    async def close(self) -> None:
        """Close all connections."""
        self._ready = False
        await self._connections.close()

    async def _read(
        self,
        bank: BankId,
        run: Callable[Concatenate[Transaction, str, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Read from a bank with a function that takes its key."""

        async def within(tx: Transaction) -> tuple[R, bool]:
            before = await bank_state(tx, bank)
            found = await run(tx, before.key, *args, **kwargs)
            return found, await bank_state(tx, bank) == before

        return await self._consistent(within)

    async def _consistent(self, run: Callable[[Transaction], Awaitable[tuple[R, bool]]]) -> R:
        """Run a read, again if the bank changed meanwhile.

        Each statement sees what was committed before it, so a commit in between would mix two states.
        """
        for _ in range(CONSISTENT - 1):
            found, same = await self._database.read(run)
            if same:
                return found
        return (await self._database.read(run))[0]

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction of a bank, in a thread of its own."""

        async def within(tx: Transaction) -> tuple[R, bool]:
            searched = await search.opened(tx, bank)
            found = await asyncio.to_thread(run, searched)
            return found, await bank_state(tx, bank) == searched.state

        return await self._consistent(within)

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        return await self._read(bank, search.neighbours, vectors, limit=limit, floor=floor)

    async def banks(self) -> list[Bank]:
        """Return the banks by name."""
        return await self._database.read(banks.all_banks)

    async def bank(self, bank: BankId) -> Bank | None:
        """Return the bank, or None."""
        return await self._database.read(lambda tx: banks.find_bank(tx, bank))

    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        return await self._database.write(lambda tx: banks.create(tx, bank, replaces, note), repeatable=True)

    async def hidden_banks(self) -> list[HiddenBank]:
        return await self._database.read(banks.hidden)

    async def drop_bank(self, bank: BankId) -> bool:
        dropped = await self._database.write_once(lambda tx: banks.drop(tx, bank))
        if dropped:
            await banks.purge(self._database)
        return dropped

    async def revision(self, bank: BankId) -> BankRevision:
        return (await self._database.read(lambda tx: bank_state(tx, bank))).bank_revision

    async def status(self, bank: BankId) -> Status:
        """Return the status of a bank."""
        return await self._database.read(lambda tx: statistics.status(tx, bank))

    async def daily_counts(self, bank: BankId) -> list[DailyCount]:
        return await self._read(bank, statistics.daily_counts)

    async def optimise(self) -> None:
        """Delete what is left of deleted banks and ended transactions; build and drop vector indexes."""
        await banks.purge(self._database)
        await self._database.write(forget_old_commits, repeatable=True)
        await index.maintain_vector_indexes(self._database, self._index_from)

    async def scrub(self, *, patient: bool = False) -> bool:
        """Delete what is left of deleted banks."""
        await banks.purge(self._database)
        return True

    async def schema_version(self) -> str:
        """Return the version of the schema."""
        return await self._database.read(schema.current) or "none"

    async def damage(self) -> list[str]:
        """Return the indexes that can't be used."""
        return await self._database.read(statistics.damage)

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        async def run(tx: Transaction) -> set[MessageId]:
            key = (await bank_state(tx, bank, lock=True)).key
            stored = await append_messages(tx, key, messages)
            if any(message.state == "pending" for message in stored):
                await queue.enqueue(tx, key, [NewJob(kind="process", due=process_at)])
            return {message.id for message in stored}

        return await self._database.write_once(run)

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all, once no other process holds the bank.

        No node holds erased text when this returns. Copies of it in the server's transaction logs and backups are the
        administrator's responsibility.
        """
        committed = await commit_when_free(changes.bank, lambda: self._commit(changes))
        if committed and (changes.rename is not None or changes.erase):
            await banks.purge(self._database)
        return committed

    async def _commit(self, changes: Changes) -> bool:
        try:
            return await self._database.write_once(lambda tx: commit(tx, changes))
        except CommitRefused:
            return False

    async def lease(  # noqa: PLR0913 - each narrows the selection
        self,
        owner: str,
        seconds: float,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        limit: int = 1,
        due: bool = True,
        beside: Sequence[int] = (),
        except_banks: Sequence[BankId] = (),
    ) -> list[Job]:
        async def run(tx: Transaction) -> list[Job]:
            key = None if bank is None else (await bank_state(tx, bank)).key
            return await queue.lease(
                tx,
                owner,
                seconds,
                bank=key,
                kinds=kinds,
                limit=limit,
                due=due,
                beside=beside,
                except_banks=except_banks,
            )

        return await self._database.write_once(run)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        return [lease for lease in leases if await self._renew(lease, seconds)]

    async def _renew(self, lease: Lease, seconds: float) -> bool:
        return await self._database.write(lambda tx: queue.renew(tx, lease, seconds), repeatable=True)

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        async def run(tx: Transaction) -> Lease | None:
            return await queue.hold(tx, (await bank_state(tx, bank, lock=True)).key, owner, seconds)

        return await self._database.write_once(run)

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        return await self._read(bank, queue.listed, kinds)

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]:
        return await self._read(bank, reads.messages_of, select)

    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]:
        return await self._read(bank, reads.facts_of, bank, select)

    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]:
        """Return the episodes of a selection."""
        return await self._read(bank, reads.episodes_of, select)

    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]:
        """Return the entities of a selection."""
        return await self._read(bank, reads.entities_of, select)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        return await self._read(bank, reads.cooccurring, entities)

    async def mentions(self, bank: BankId, entities: Sequence[EntityId], *, named: bool = False) -> list[EntityMention]:
        return await self._read(bank, reads.entity_mentions, entities, named=named)

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        return await self._read(bank, memories.merges)

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        return await self._read(bank, reads.links_of, facts)

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        return await self._read(bank, memories.confidence_changes, opinion)

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        return await self._read(bank, banks.former_profiles)

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]:
        return await self._read(bank, queue.webhooks)
