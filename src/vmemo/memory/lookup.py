"""Reads by id, for interfaces that present records in another shape than the verbs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from vmemo.models import Bank, BankId, Entity, EntityId, Episode, Fact, FactId, Link, Message, MessageId
from vmemo.models.requests import LARGEST_PAGE
from vmemo.models.results import DailyCount
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Store, TokenCounter
from vmemo.ports.store import paged


@dataclass(frozen=True)
class Lookup:
    """Records of one existing bank; missing records are left out."""

    name: BankId
    store: Store
    tokens: TokenCounter
    models: bool
    """True if a language model is configured."""

    async def banks(self) -> list[Bank]:
        """Return all banks of this store, in order of their names."""
        await self.store.open()
        return await self.store.banks()

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return messages by id."""
        return await self.store.messages(self.name, MessageSelect(ids=list(dict.fromkeys(ids)))) if ids else []

    async def facts(self, ids: Sequence[FactId]) -> list[Fact]:
        """Return facts in the order of the ids."""
        return await self.store.facts(self.name, FactSelect(ids=list(dict.fromkeys(ids)))) if ids else []

    async def entity(self, id: str) -> Entity | None:
        """Return an entity by its id."""
        return first_of(await self.store.entities(self.name, EntitySelect(ids=[EntityId(id)])))

    async def entities(self, ids: Sequence[EntityId]) -> list[Entity]:
        """Return entities by id."""
        return await self.store.entities(self.name, EntitySelect(ids=list(dict.fromkeys(ids)))) if ids else []

    async def links(self, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Return the stored links that leave these facts, or all."""
        return await self.store.links(self.name, facts)

    async def select_messages(self, select: MessageSelect) -> list[Message]:
        """Return the messages of a selection."""
        return await self.store.messages(self.name, select)

    async def select_facts(self, select: FactSelect) -> list[Fact]:
        """Return the facts of a selection."""
        return await self.store.facts(self.name, select)

    async def select_entities(self, select: EntitySelect) -> list[Entity]:
        """Return the entities of a selection."""
        return await self.store.entities(self.name, select)

    async def select_episodes(self, select: EpisodeSelect) -> list[Episode]:
        """Return the episodes of a selection."""
        return await self.store.episodes(self.name, select)

    async def growth(self) -> list[DailyCount]:
        """Return the numbers of messages and facts by day, oldest first."""
        return await self.store.daily_counts(self.name)

    def every_fact(self) -> AsyncGenerator[Fact]:
        """Yield all facts, including closed ones, in the order they were stored."""
        return paged(lambda after: self.store.facts(self.name, FactSelect(after=after, limit=LARGEST_PAGE)))

    def every_message(self, document: str | None = None) -> AsyncGenerator[Message]:
        """Yield all messages, or those of a document, in the order they were stored."""
        return paged(
            lambda after: self.store.messages(
                self.name, MessageSelect(document=document, after=after, limit=LARGEST_PAGE)
            )
        )

    def every_entity(self) -> AsyncGenerator[Entity]:
        """Yield all entities in the order they were first seen."""
        return paged(lambda after: self.store.entities(self.name, EntitySelect(after=after, limit=LARGEST_PAGE)))
