"""Reads of records, for every SQL store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection

from vmemo.models import (
    BankId,
    ConfidenceChange,
    Entity,
    EntityId,
    Episode,
    Fact,
    FactId,
    FormerProfile,
    Link,
    Message,
    RetentionScore,
)
from vmemo.models.changes import EntityMention, MergeRecord
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.sql import fact_revisions, maintenance, merge_rows, profiles, reads
from vmemo.stores.sql.base import Running
from vmemo.stores.sql.message_rows import bank_state


class ReadStore(Running):
    """Implements the `Reads` port over the shared statements."""

    @abstractmethod
    def _embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Return the vectors of the bank's facts by number."""

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]:
        """Return the messages of a selection."""
        return await self._read(self._with_bank(reads.messages_of), bank, select)

    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]:
        """Return the facts of a selection."""
        return await self._read(self._facts, bank, select)

    def _facts(self, connection: Connection, bank: BankId, select: FactSelect) -> list[Fact]:
        return reads.facts_of(connection, bank_state(connection, bank).seq, bank, select, self._embeddings)

    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]:
        """Return the episodes of a selection."""
        return await self._read(self._with_bank(reads.episodes_of), bank, select)

    async def consecutive_episodes(
        self, bank: BankId, *, gap: timedelta, largest: int, after: Episode | None = None, limit: int = 100
    ) -> list[tuple[Episode, Episode]]:
        """Return pairs of episodes, the second of which continues the document of the first."""
        find = self._with_bank(maintenance.consecutive)
        return await self._read(find, bank, gap=gap, largest=largest, after=after, limit=limit)

    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]:
        """Return the entities of a selection."""
        return await self._read(self._with_bank(reads.entities_of), bank, select)

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """Return for each entity those it shares a fact with."""
        return await self._read(self._with_bank(reads.cooccurring), bank, entities)

    async def mentions(self, bank: BankId, entities: Sequence[EntityId]) -> list[EntityMention]:
        """Return the mentions of entities, in the order of their facts."""
        return await self._read(self._with_bank(reads.entity_mentions), bank, entities)

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        """Return all merges in the order they were made."""
        return await self._read(self._with_bank(merge_rows.records), bank)

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Return the links that leave these facts, or all."""
        return await self._read(self._with_bank(reads.links_of), bank, facts)

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        """Return the confidence changes of one opinion, or of all, oldest first."""
        return await self._read(self._with_bank(fact_revisions.moved), bank, opinion)

    async def retention_scores(
        self, bank: BankId, *, after: FactId | None = None, limit: int = 500
    ) -> list[RetentionScore]:
        """Return what keeps facts in memory."""
        return await self._read(self._with_bank(maintenance.traces), bank, after, limit)

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        """Return the former profiles of the bank, oldest first."""
        return await self._read(self._with_bank(profiles.former), bank)
