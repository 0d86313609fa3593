"""Entities, their mentions in facts, and merges of them."""

from __future__ import annotations

from pydantic import Field

from vmemo.models.base import Instant, Name, Record
from vmemo.models.ids import EntityId, EntityType


class Entity(Record):
    """A canonical entity with its aliases."""

    id: EntityId
    name: Name
    type: EntityType = "OTHER"
    aliases: tuple[str, ...] = ()
    not_aliases: tuple[str, ...] = Field(
        default=(),
        description="names that are not aliases, because a merge was undone",
    )
    first_seen: Instant
    last_seen: Instant
    mentions: int = 0


class Mention(Record):
    """An entity in a fact; `name_in_text` is the name used in the fact, if it differs from the entity's."""

    id: EntityId
    name: str
    type: EntityType = "OTHER"
    name_in_text: str = ""


class Merge(Record):
    """A reversible merge of a name, or of another entity with its names, into an entity."""

    id: str
    entity: EntityId
    absorbed: EntityId | None = Field(default=None, description="the merged entity; None for a bare name")
    names: tuple[str, ...]
    reason: str
    at: Instant
    undone_at: Instant | None = None
