"""The protocols of a store: the archive, searching, reading, and the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, runtime_checkable

from vmemo.errors import NotFound
from vmemo.models import (
    Bank,
    BankId,
    BankRevision,
    ConfidenceChange,
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
    RetentionScore,
)
from vmemo.models.changes import Changes, EntityMention, MergeRecord
from vmemo.models.results import DailyCount, Status
from vmemo.models.search import ExpandRequest, Expansion, FactOutline, Scored, SearchRequest, SearchResult, Vectors
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports.work import Queue

R = TypeVar("R")


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

    `replaces` is the bank it was derived from, and `note` is for the process that fills it.
    """

    bank: Bank
    replaces: BankId | None
    note: str


class BankNotFound(NotFound):
    """There is no bank of this name, or not any more."""

    def __init__(self, bank: str) -> None:
        super().__init__(f"There is no bank {bank!r} here.")
        self.bank = bank


class MessageLog(Protocol):
    """The archive of messages."""

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        """Store messages durably; one whose id, or whose key in its document, exists is left out of the result.

        The job that processes pending ones is due at `process_at`, by default now.
        """
        ...


class BankReader(Protocol):
    """The searches of one bank and the data that ranking their results needs, all of one read transaction."""

    def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a recall."""
        ...

    def expand(self, request: ExpandRequest) -> Expansion:
        """Return edges, token vectors and revisions of candidates."""
        ...

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        ...

    def outline(self, facts: Sequence[FactId]) -> Sequence[FactOutline]:
        """Return the outlines of facts in the order of the ids; those that do not exist are left out."""
        ...


class Search(Protocol):
    """Searches over the facts and messages of a bank. A bank that does not exist raises BankNotFound."""

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction, outside of the caller's event loop.

        A recall is one such function. It has no effects, because a lost connection lets it be run again; errors that it
        raises itself pass through.
        """
        ...

    async def expand(self, request: ExpandRequest) -> Expansion:
        """Return what `BankReader.expand` does, in a transaction of its own."""
        ...

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> Sequence[Sequence[Scored]]:
        """Return for each vector the nearest current facts, none of a cosine below `floor`."""
        ...


class Reads(Protocol):
    """Reads of the records of a bank. A bank that does not exist raises BankNotFound."""

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]: ...
    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]: ...
    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]: ...
    async def consecutive_episodes(
        self, bank: BankId, *, gap: timedelta, largest: int, after: Episode | None = None, limit: int = 100
    ) -> list[tuple[Episode, Episode]]:
        """Return pairs of processed episodes, the second of which continues the document of the first within `gap`.

        Together they hold at most `largest` messages. Pairs come in the order in which the second one ended; `after`
        is the second one of the last pair that was seen, and need not exist any more.
        """
        ...

    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]: ...
    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """Return for each entity those it shares a fact with."""
        ...

    async def mentions(self, bank: BankId, entities: Sequence[EntityId], *, named: bool = False) -> list[EntityMention]:
        """Return the mentions of entities, closed facts included, in the order of their facts.

        With `named`, only those by another name than the entity's own.
        """
        ...

    async def merges(self, bank: BankId) -> list[MergeRecord]:
        """Return all merges in the order they were made, undone ones included."""
        ...

    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Return the stored links that leave these facts, or all."""
        ...

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]:
        """Return the confidence changes of one opinion, or of all, oldest first."""
        ...

    async def retention_scores(
        self, bank: BankId, *, after: FactId | None = None, limit: int = 500
    ) -> list[RetentionScore]:
        """Return the retention scores of current world and experience facts in the order they were mentioned.

        Pinned facts, and facts that a current opinion or observation rests on, are left out.
        """
        ...

    async def former_profiles(self, bank: BankId) -> list[FormerProfile]:
        """Return the former profiles of the bank, oldest first."""
        ...


class Store(MessageLog, Search, Reads, Queue, Protocol):
    """A database of banks. A write is committed as a whole or not at all."""

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

    async def revision(self, bank: BankId) -> BankRevision:
        """Return the revision of the bank's memories."""
        ...

    async def commit(self, changes: Changes) -> bool:
        """Write changes in one transaction; return False, with nothing written, if a precondition does not hold."""
        ...

    async def optimise(self) -> None:
        """Optimise the indexes of all banks; raise StoreBusy if another process locks the database for too long."""
        ...

    async def status(self, bank: BankId) -> Status: ...
    async def daily_counts(self, bank: BankId) -> list[DailyCount]:
        """Return the numbers of messages and facts by day, oldest first; days without any are left out."""
        ...


@runtime_checkable
class ReplicatedStore(Protocol):
    """A store that may have a replica: the same data, read from a copy that may be a little old."""

    @property
    def replica(self) -> Store | None: ...
