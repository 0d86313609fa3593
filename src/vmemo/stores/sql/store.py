"""What all SQL stores share: the port's methods over the shared statements.

A dialect says how a function runs on a connection, how facts and words are indexed, and how they are searched.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.errors import StoreBusy
from vmemo.models import (
    Bank,
    BankId,
    Entity,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    FormerProfile,
    Link,
    Mention,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, ForgetTarget, NewJob
from vmemo.models.results import Forgotten, Status
from vmemo.ports import HiddenBank
from vmemo.stores.sql import (
    auth_rows,
    bank_rows,
    forget,
    message_rows,
    name_rows,
    profiles,
    queue,
    reads,
    statistics,
)
from vmemo.stores.sql.auth_store import GateStore
from vmemo.stores.sql.commit import BankHeld, commit
from vmemo.stores.sql.entity_store import IdentityStore
from vmemo.stores.sql.maintenance_store import HousekeepingStore
from vmemo.stores.sql.message_rows import bank_state
from vmemo.stores.sql.queue_store import QueueStore
from vmemo.stores.sql.schema import entities, episodes, facts
from vmemo.stores.sql.search_index import SearchIndex

P = ParamSpec("P")
R = TypeVar("R")
HELD_SECONDS = 60.0
"""How long a commit waits for a bank that another process holds."""
HELD_PAUSE = 0.02
"""Seconds between two attempts to commit to a held bank."""


class SqlStore(QueueStore, IdentityStore, HousekeepingStore, GateStore):
    """The shared part of every SQL store."""

    _search_index: SearchIndex

    @abstractmethod
    def _unindex(self, connection: Connection, bank: int, removal: forget.Removal) -> None:
        """Remove from the indexes what is about to be forgotten."""

    async def banks(self) -> list[Bank]:
        """Every bank by name."""
        return await self._read(message_rows.all_banks)

    async def bank(self, bank: BankId) -> Bank | None:
        """The bank, or None."""
        return await self._read(message_rows.find_bank, bank)

    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        """Create the bank unless it exists; return the stored one."""
        return await self._insist(bank_rows.create, bank, replaces, note)

    async def hidden_banks(self) -> list[HiddenBank]:
        """Return the hidden banks."""
        return await self._read(bank_rows.hidden)

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it."""
        return await self._insist(bank_rows.drop, bank, self._search_index)

    async def revision(self, bank: BankId) -> int:
        """The bank's change counter."""
        return (await self._read(bank_state, bank)).revision

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        """The profiles that the bank had before."""
        return await self._read(self._with_bank(profiles.former), bank)

    async def append(self, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        """Store messages durably."""
        return await self._write(self._append, bank, messages)

    def _append(self, connection: Connection, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        number = bank_state(connection, bank).seq
        stored = message_rows.append(connection, number, messages)
        worded = [(seq, message.content) for seq, message in stored if message.state != "derived"]
        self._search_index.add_words(connection, number, worded)
        if any(message.state == "pending" for _, message in stored):
            queue.enqueue(connection, number, [NewJob(kind="process")])
        return {message.id for _, message in stored}

    async def pending(self, bank: BankId, limit: int) -> list[Message]:
        """The oldest unread messages."""
        return await self._read(self._with_bank(message_rows.pending), bank, limit)

    async def before(self, bank: BankId, message: Message) -> Message | None:
        """The message before this one in its document."""
        return await self._read(self._with_bank(message_rows.before), bank, message)

    async def messages(
        self,
        bank: BankId,
        ids: Sequence[MessageId] | None = None,
        *,
        document: str | None = None,
        after: MessageId | None = None,
        limit: int = 100,
    ) -> list[Message]:
        """Messages by id, or a page of the archive."""
        if ids is not None:
            return await self._read(self._with_bank(message_rows.by_id), bank, ids)
        return await self._read(self._with_bank(message_rows.page), bank, document, after, limit)

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all, once no other process holds the bank."""
        deadline = monotonic() + HELD_SECONDS
        while True:
            try:
                return await self._commit(changes)
            except BankHeld:
                if monotonic() > deadline:
                    raise StoreBusy(
                        f"Another process holds the bank {changes.bank!r}. Nothing was written; try again."
                    ) from None
            await asyncio.sleep(HELD_PAUSE)

    async def _commit(self, changes: Changes) -> bool:
        return await self._write(commit, changes, self._search_index)

    async def facts(
        self,
        bank: BankId,
        ids: Sequence[FactId] | None = None,
        *,
        after: FactId | None = None,
        limit: int = 100,
        with_embeddings: bool = False,
    ) -> list[Fact]:
        """Facts by id, or a page."""
        return await self._read(self._facts, bank, ids, after, limit, with_embeddings)

    def _facts(
        self,
        connection: Connection,
        bank: BankId,
        ids: Sequence[FactId] | None,
        after: FactId | None,
        limit: int,
        with_embeddings: bool,
    ) -> list[Fact]:
        number = bank_state(connection, bank).seq
        if ids is None:
            rows = reads.rows_after(connection, facts, number, after, limit)
        else:
            rows = reads.rows_by_id(connection, facts, number, ids)
        vectors = self._embeddings(connection, number, [row.seq for row in rows]) if with_embeddings else {}
        return reads.facts_of(connection, number, bank, rows, vectors)

    async def successors(self, bank: BankId, fact: FactId) -> list[Fact]:
        """Facts that supersede this one."""
        return await self._read(self._successors, bank, fact)

    def _successors(self, connection: Connection, bank: BankId, fact: FactId) -> list[Fact]:
        number = bank_state(connection, bank).seq
        return reads.facts_of(connection, number, bank, reads.successors(connection, number, fact), {})

    async def recent(self, bank: BankId, around: datetime, *, limit: int) -> list[Fact]:
        """Current facts mentioned nearest to a moment."""
        return await self._read(self._recent, bank, around, limit)

    def _recent(self, connection: Connection, bank: BankId, around: datetime, limit: int) -> list[Fact]:
        number = bank_state(connection, bank).seq
        rows = reads.recent(connection, number, around, limit)
        return reads.facts_of(connection, number, bank, rows, {})

    async def episodes(
        self,
        bank: BankId,
        ids: Sequence[EpisodeId] | None = None,
        *,
        after: EpisodeId | None = None,
        limit: int = 100,
    ) -> list[Episode]:
        """Episodes by id, or a page."""
        return await self._read(self._episodes, bank, ids, after, limit)

    def _episodes(
        self,
        connection: Connection,
        bank: BankId,
        ids: Sequence[EpisodeId] | None,
        after: EpisodeId | None,
        limit: int,
    ) -> list[Episode]:
        number = bank_state(connection, bank).seq
        if ids is None:
            rows = reads.rows_after(connection, episodes, number, after, limit)
        else:
            rows = reads.rows_by_id(connection, episodes, number, ids)
        return reads.episodes_of(connection, number, rows)

    async def episode_of(self, bank: BankId, message: MessageId) -> Episode | None:
        """The episode that holds a message."""
        return await self._read(self._with_bank(reads.holding), bank, message)

    async def facts_of(self, bank: BankId, episode: EpisodeId) -> list[Fact]:
        """The facts of an episode with their embeddings."""
        return await self._read(self._facts_of, bank, episode)

    def _facts_of(self, connection: Connection, bank: BankId, episode: EpisodeId) -> list[Fact]:
        number = bank_state(connection, bank).seq
        rows = reads.fact_rows_of(connection, number, episode)
        vectors = self._embeddings(connection, number, [row.seq for row in rows])
        return reads.facts_of(connection, number, bank, rows, vectors)

    async def last_episode(self, bank: BankId) -> Episode | None:
        """The episode that ended last."""
        return await self._read(self._with_bank(reads.last_episode), bank)

    async def entities(
        self,
        bank: BankId,
        ids: Sequence[EntityId] | None = None,
        *,
        after: EntityId | None = None,
        limit: int = 100,
    ) -> list[Entity]:
        """Entities by id, or a page."""
        return await self._read(self._entities, bank, ids, after, limit)

    def _entities(
        self,
        connection: Connection,
        bank: BankId,
        ids: Sequence[EntityId] | None,
        after: EntityId | None,
        limit: int,
    ) -> list[Entity]:
        number = bank_state(connection, bank).seq
        if ids is None:
            rows = reads.rows_after(connection, entities, number, after, limit)
        else:
            rows = reads.rows_by_id(connection, entities, number, ids)
        return reads.entities_of(connection, number, rows)

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Links that leave these facts, or all."""
        return await self._read(self._with_bank(reads.links_of), bank, facts)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """For each entity those it shares a fact with."""
        return await self._read(self._with_bank(reads.cooccurring), bank, entities)

    async def named(self, bank: BankId, text: str) -> list[Mention]:
        """Entities that a text names."""
        return await self._read(self._with_bank(name_rows.named), bank, text)

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten:
        """Delete a target with all that rests on it."""
        return await self._write(self._forget, bank, target)

    def _forget(self, connection: Connection, bank: BankId, target: ForgetTarget) -> Forgotten:
        number = bank_state(connection, bank).seq
        auth_rows.drop_replies(connection, bank)
        bank_rows.drop_derived(connection, number, self._search_index)
        removal = forget.plan(connection, number, target)
        self._unindex(connection, number, removal)
        if target.bank:
            forget.remove_bank(connection, number)
        else:
            forget.remove(connection, number, removal)
            message_rows.bump(connection, number, purge=True)
        return removal.counts()

    async def status(self, bank: BankId) -> Status:
        """What the bank holds and what is left to do."""
        return await self._read(statistics.status, bank)
