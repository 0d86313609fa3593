"""Selections: the filters, order and limit of a read from a store.

All filters of a selection must hold. With `ids` the records come in the order of the ids, and missing ones are left
out. A page continues after the record `after`. A `limit` of None reads everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from vmemo.models import EntityId, EpisodeId, FactId, Message, MessageId, MessageState, Network
from vmemo.models.records import ShortId

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class MessageSelect:
    """Messages in the order they were stored."""

    ids: Sequence[MessageId] | None = None
    after: MessageId | None = None
    document: str | None = None
    state: MessageState | None = None
    containing: Sequence[str] = ()
    """Only messages that contain each of these texts, in upper or lower case."""
    preceding: Message | None = None
    """Only messages earlier than this one in its document, the latest first."""
    short_id: ShortId | None = None
    """Only messages whose ids have this short id."""
    expiring_until: datetime | None = None
    """Only messages that expire at this time or earlier, in the order of their expiry."""
    by_time: bool = False
    """Order by the time of the messages."""
    last_first: bool = False
    """Reverse the order in which they were stored; a page continues in this order."""
    limit: int | None = None

    @staticmethod
    def oldest_pending(limit: int) -> MessageSelect:
        """Select the oldest messages that wait to be processed, in order of time."""
        return MessageSelect(state="pending", by_time=True, limit=limit)


@dataclass(frozen=True, kw_only=True)
class FactSelect:
    """Facts in the order they were stored, including closed ones."""

    ids: Sequence[FactId] | None = None
    after: FactId | None = None
    episode: EpisodeId | None = None
    entities: Sequence[EntityId] | None = None
    """Only facts that mention one of these entities."""
    messages: Sequence[MessageId] | None = None
    """Only facts that one of these messages states, or is evidence of."""
    context: Sequence[MessageId] | None = None
    """Only facts that were extracted with one of these messages as context."""
    basis: Sequence[FactId] | None = None
    """Only facts that rest on one of these."""
    supersedes: Sequence[FactId] | None = None
    """Only facts that replaced one of these."""
    short_id: ShortId | None = None
    """Only facts whose ids have this short id."""
    networks: Sequence[Network] = ()
    containing: Sequence[str] = ()
    """Only facts that contain each of these texts, in upper or lower case."""
    current: bool = False
    """Only facts that are believed and true now."""
    closed: bool = False
    """Only facts that are not believed or not true any more."""
    mentioned_before: datetime | None = None
    """Only facts that were mentioned before this time."""
    instructions: bool = False
    """Only standing instructions of the user."""
    pinned: bool = False
    """Only facts that the user pinned."""
    feedback: bool = False
    """Only facts that the user judged as hits."""
    around: datetime | None = None
    """Order by the distance of the mention from this time, nearest first."""
    newest_first: bool = False
    """Order by the time of the mention, newest first; a page continues in this order."""
    limit: int | None = None
    with_embeddings: bool = False

    @staticmethod
    def about(entity: EntityId, *, limit: int) -> FactSelect:
        """Select the newest current world and experience facts that mention an entity."""
        return FactSelect(
            entities=[entity], current=True, networks=("world", "experience"), newest_first=True, limit=limit
        )

    @staticmethod
    def believed(network: Network) -> FactSelect:
        """Select the current facts of a network, with their embeddings."""
        return FactSelect(current=True, networks=(network,), with_embeddings=True)


@dataclass(frozen=True, kw_only=True)
class EpisodeSelect:
    """Episodes in the order they were stored."""

    ids: Sequence[EpisodeId] | None = None
    after: EpisodeId | None = None
    messages: Sequence[MessageId] | None = None
    """Only episodes that hold one of these messages."""
    last_first: bool = False
    """Order by the end of the episodes, the last one first; a page continues in this order."""
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class EntitySelect:
    """Entities in the order they were first seen."""

    ids: Sequence[EntityId] | None = None
    after: EntityId | None = None
    names: Sequence[str] | None = None
    """Only entities that go by one of these names, in any spelling of the same folded form."""
    containing: str | None = None
    """Only entities with a name that contains this text, in any spelling of the same folded form."""
    with_not_aliases: bool = False
    """Only entities with names that were found to be another's."""
    most_mentioned: bool = False
    """Order by the number of facts that mention the entities; a page starts at `offset`."""
    counted: bool = True
    """With the number of facts that mention the entities; if False, a store may leave out what takes time to count."""
    offset: int = 0
    limit: int | None = None


def first_of(records: Sequence[T]) -> T | None:
    return records[0] if records else None
