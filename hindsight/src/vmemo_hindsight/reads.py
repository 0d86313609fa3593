"""All records of a bank, page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from vmemo.memory import Memory
from vmemo.models import Entity, Fact, Message
from vmemo.models.requests import LARGEST_PAGE
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import paged


def every_fact(memory: Memory) -> AsyncGenerator[Fact]:
    """Yield all facts, including closed ones, in the order they were stored."""
    return paged(lambda after: memory.store.facts(memory.name, FactSelect(after=after, limit=LARGEST_PAGE)))


def every_message(memory: Memory, document: str | None = None) -> AsyncGenerator[Message]:
    """Yield all messages, or those of a document, in the order they were stored."""
    return paged(
        lambda after: memory.store.messages(
            memory.name, MessageSelect(document=document, after=after, limit=LARGEST_PAGE)
        )
    )


def every_entity(memory: Memory) -> AsyncGenerator[Entity]:
    """Yield all entities in the order they were first seen."""
    return paged(lambda after: memory.store.entities(memory.name, EntitySelect(after=after, limit=LARGEST_PAGE)))
