"""Entities, their mentions in facts, and merges of them."""

from __future__ import annotations

from pydantic import Field

from vmemo.models.base import Instant, Name, Record
from vmemo.models.ids import EntityId, EntityType


class Entity(Record):
    """A canonical identity with the other names it goes by."""

    id: EntityId
    name: Name
    type: EntityType = "OTHER"
    aliases: tuple[str, ...] = ()
    strangers: tuple[str, ...] = Field(default=(), description="names that were found to be another's")
    first_seen: Instant
    last_seen: Instant
    mentions: int = 0


class Mention(Record):
    """An entity's appearance in a fact; `said` is the name that the fact knows it by, where that is another."""

    id: EntityId
    name: str
    type: EntityType = "OTHER"
    said: str = ""


class Merge(Record):
    """A name, or an entity with its names, that became part of an entity; it can be undone."""

    id: str
    entity: EntityId
    absorbed: EntityId | None = Field(default=None, description="the entity that it was; None for a bare name")
    names: tuple[str, ...]
    reason: str
    at: Instant
    undone_at: Instant | None = None
