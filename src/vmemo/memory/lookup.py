"""Reads by id, for interfaces that present records in another shape than the verbs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from vmemo.models import Bank, BankId, Entity, EntityId, Fact, FactId, Link, Message, MessageId
from vmemo.models.request_fields import LARGEST_PAGE
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import Store, TokenCounter


@dataclass(frozen=True)
class Lookup:
    """Records of one existing bank; missing records are left out."""

    name: BankId
    store: Store
    tokens: TokenCounter
    models: bool
    """True if a language model is configured."""

    async def banks(self) -> list[Bank]:
        """All banks of this store, in order of their names."""
        await self.store.open()
        return await self.store.banks()

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Messages by id."""
        return await self.store.messages(self.name, MessageSelect(ids=list(dict.fromkeys(ids)))) if ids else []

    async def facts(self, ids: Sequence[FactId]) -> list[Fact]:
        """Facts by id in the order asked for."""
        return await self.store.facts(self.name, FactSelect(ids=list(dict.fromkeys(ids)))) if ids else []

    async def entity(self, id: str) -> Entity | None:
        """An entity by its id."""
        return next(iter(await self.store.entities(self.name, EntitySelect(ids=[EntityId(id)]))), None)

    async def links(self) -> list[Link]:
        """All stored links."""
        return await self.store.links(self.name)

    async def every_fact(self) -> AsyncGenerator[Fact]:
        """All facts, closed ones too, in the order they were stored."""
        page = await self.store.facts(self.name, FactSelect(limit=LARGEST_PAGE))
        while page:
            for fact in page:
                yield fact
            page = await self.store.facts(self.name, FactSelect(after=page[-1].id, limit=LARGEST_PAGE))

    async def every_message(self, document: str | None = None) -> AsyncGenerator[Message]:
        """All messages, or those of a document, in the order they were stored."""
        page = await self.store.messages(self.name, MessageSelect(document=document, limit=LARGEST_PAGE))
        while page:
            for message in page:
                yield message
            page = await self.store.messages(
                self.name, MessageSelect(document=document, after=page[-1].id, limit=LARGEST_PAGE)
            )

    async def every_entity(self) -> AsyncGenerator[Entity]:
        """All entities in the order they were first seen."""
        page = await self.store.entities(self.name, EntitySelect(limit=LARGEST_PAGE))
        while page:
            for entity in page:
                yield entity
            page = await self.store.entities(self.name, EntitySelect(after=page[-1].id, limit=LARGEST_PAGE))
