"""The protocols of a store: the archive, searching, reading, and the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

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
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, ForgetTarget
from vmemo.models.results import Forgotten, Status
from vmemo.models.search import ExpandRequest, Expansion, Scored, SearchRequest, SearchResult, Vectors
from vmemo.ports.upkeep import Housekeeping
from vmemo.ports.work import Identities, Queue


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The facts and messages that a recall returns, and the titles of the facts' episodes."""

    facts: Sequence[Fact]
    messages: Sequence[Message]
    titles: Mapping[EpisodeId, str]


HIDDEN = "\x1f"
"""The first character of names that users can't give."""


@dataclass(frozen=True, kw_only=True)
class HiddenBank:
    """A bank under construction: no list of banks contains it, and its jobs are leased only by its name.

    `replaces` is the bank it was derived from, and `note` is for whoever fills it.
    """

    bank: Bank
    replaces: BankId | None
    note: str


class MessageLog(Protocol):
    """The append-only archive and its queue of unread messages."""

    async def append(self, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        """Store messages durably; one whose id, or whose key in its document, exists is left out of the result."""
        ...

    async def pending(self, bank: BankId, limit: int) -> list[Message]:
        """The oldest unread messages that are in no episode yet, in order of time."""
        ...

    async def ungroup(self, bank: BankId) -> int:
        """Take unread messages out of their episodes again, with the jobs that would read them; their number."""
        ...

    async def before(self, bank: BankId, message: Message) -> Message | None:
        """The message that precedes this one in time within the same document."""
        ...

    async def messages(
        self,
        bank: BankId,
        ids: Sequence[MessageId] | None = None,
        *,
        document: str | None = None,
        after: MessageId | None = None,
        limit: int = 100,
    ) -> list[Message]:
        """Messages by id, or a page of the archive in the order it was stored."""
        ...


class Search(Protocol):
    """Searches over the facts and messages of a bank, and the data that ranking their results needs."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a recall, in one read transaction."""
        ...

    async def expand(self, request: ExpandRequest) -> Expansion:
        """Return edges and token vectors of candidates, in one read transaction."""
        ...

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each vector the nearest current facts, none of a cosine below `floor`."""
        ...

    async def load(self, bank: BankId, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        ...


class Library(Protocol):
    """Reading what was derived."""

    async def facts(
        self,
        bank: BankId,
        ids: Sequence[FactId] | None = None,
        *,
        after: FactId | None = None,
        limit: int = 100,
        with_embeddings: bool = False,
    ) -> list[Fact]:
        """Facts by id in the order asked for (missing ones left out), or a page in the order they were stored."""
        ...

    async def successors(self, bank: BankId, fact: FactId) -> list[Fact]:
        """Facts that supersede this one."""
        ...

    async def episodes(
        self,
        bank: BankId,
        ids: Sequence[EpisodeId] | None = None,
        *,
        after: EpisodeId | None = None,
        limit: int = 100,
    ) -> list[Episode]: ...
    async def last_episode(self, bank: BankId) -> Episode | None:
        """The episode that ended last."""
        ...

    async def episode_of(self, bank: BankId, message: MessageId) -> Episode | None:
        """The episode that holds a message."""
        ...

    async def facts_of(self, bank: BankId, episode: EpisodeId) -> list[Fact]:
        """The facts of an episode with their embeddings."""
        ...

    async def entities(
        self,
        bank: BankId,
        ids: Sequence[EntityId] | None = None,
        *,
        after: EntityId | None = None,
        limit: int = 100,
    ) -> list[Entity]: ...
    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Stored links that leave these facts, or all of the bank."""
        ...

    async def recent(self, bank: BankId, around: datetime, *, limit: int) -> list[Fact]:
        """Current facts mentioned nearest in time to a moment."""
        ...

    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """For each entity those it shares a fact with."""
        ...


class Store(MessageLog, Search, Library, Queue, Identities, Housekeeping, Protocol):
    """Durable home of memories. A write lands whole or not at all."""

    async def open(self, *, as_is: bool = False) -> None:
        """Open the database, and create or upgrade it; `as_is` refuses one that would have to be changed."""
        ...

    async def close(self) -> None: ...
    async def banks(self) -> list[Bank]: ...
    async def bank(self, bank: BankId) -> Bank | None: ...
    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        """Create the bank unless it exists; return the stored one.

        A bank whose name begins with `HIDDEN` is hidden, and only such a bank has a note or replaces another.
        """
        ...

    async def hidden_banks(self) -> list[HiddenBank]:
        """Return the hidden banks by name."""
        ...

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it; return False if it does not exist."""
        ...

    async def revision(self, bank: BankId) -> int:
        """A counter that grows with every change of the bank's facts."""
        ...

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        """The profiles that the bank had before, oldest first."""
        ...

    async def commit(self, changes: Changes) -> bool:
        """Write changes in one transaction; return False, with nothing written, if a precondition does not hold."""
        ...

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten: ...
    async def status(self, bank: BankId) -> Status: ...
