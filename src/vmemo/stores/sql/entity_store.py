"""Who is who, and the ways of opinions: the methods of `Identities` over the shared statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from sqlalchemy import Connection

from vmemo.models import BankId, ConfidenceChange, EntityId, Fact, FactId
from vmemo.models.changes import EntityMention, MergeRecord
from vmemo.stores.sql import fact_revisions, merge_rows, reads
from vmemo.stores.sql.base import Running
from vmemo.stores.sql.message_rows import bank_state


class IdentityStore(Running):
    """Fulfils the Identities port."""

    @abstractmethod
    def _embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Vectors of the bank's facts by number."""

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        """Return all merges in the order they were made."""
        return await self._read(self._with_bank(merge_rows.records), bank)

    async def mentions(self, bank: BankId, entities: Sequence[EntityId]) -> list[EntityMention]:
        """Return the mentions of entities, in the order of their facts."""
        return await self._read(self._with_bank(reads.entity_mentions), bank, entities)

    async def facts_about(self, bank: BankId, entity: EntityId, *, limit: int = 100) -> list[Fact]:
        """Current facts that mention an entity, newest first."""
        return await self._read(self._facts_about, bank, entity, limit)

    @staticmethod
    def _facts_about(connection: Connection, bank: BankId, entity: EntityId, limit: int) -> list[Fact]:
        number = bank_state(connection, bank).seq
        return reads.facts_of(connection, number, bank, reads.about(connection, number, entity, limit), {})

    async def believed(self, bank: BankId, network: Literal["opinion", "observation"]) -> list[Fact]:
        """Current facts of a network with their embeddings."""
        return await self._read(self._believed, bank, network)

    def _believed(self, connection: Connection, bank: BankId, network: Literal["opinion", "observation"]) -> list[Fact]:
        number = bank_state(connection, bank).seq
        rows = reads.believed(connection, number, network)
        vectors = self._embeddings(connection, number, [row.seq for row in rows])
        return reads.facts_of(connection, number, bank, rows, vectors)

    async def moves(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        """Steps of opinions, oldest first."""
        return await self._read(self._with_bank(fact_revisions.moved), bank, opinion)
