"""The protocols of a store: the archive, searching, reading, jobs, webhooks, and the whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from vmemo.errors import NotFound, StoreError
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
    JobKind,
    Link,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, EntityMention, Lease, MergeRecord
from vmemo.models.results import DailyCount, Job, Status
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    FactRevision,
    RevisionEdge,
    Scope,
    Scored,
    SearchRequest,
    SearchResult,
    TokenVectors,
    Vectors,
)
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.webhooks import SignedWebhook


class Queue(Protocol):
    """Durable jobs: queued in the commit that causes them, leased by one worker at a time, done once."""

    async def lease(  # noqa: PLR0913 - each narrows the selection
        self,
        owner: str,
        seconds: float,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        limit: int = 1,
        due: bool = True,
        beside: Sequence[int] = (),
        except_banks: Sequence[BankId] = (),
    ) -> list[Job]:
        """Lease the oldest jobs without a valid lease, of one bank or of all, of some kinds or of all.

        `due=False` also takes jobs that wait for a retry; jobs in `beside` and of `except_banks` are excluded. Jobs of
        a hidden bank are leased only if the bank is named.
        """
        ...

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Extend leases by some seconds; return those that are still valid."""
        ...

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        """Hold the whole bank; return None if another process holds it.

        Commits that change its memories wait, unless they name this lease, until it is finished or has expired.
        """
        ...

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        """Return the queued jobs of a bank, oldest first."""
        ...


@runtime_checkable
class WorkNotifier(Protocol):
    """A queue that signals new jobs. Other queues are polled."""

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        """Wait until any process queues a job that is due, or for some seconds; return the number of signals so far.

        It returns at once if that number is greater than `heard`, so that no signal is missed between two calls. A
        queue that never misses a signal may wait longer than `seconds`.
        """
        ...


@runtime_checkable
class Scrubber(Protocol):
    """A store that removes the bytes of deleted text from files of its own."""

    async def scrub(self, *, patient: bool = False) -> bool:
        """Remove what is left of deleted text; return False if something prevents it for now.

        The store tries again by itself. Only if `patient` may it take long, or make others wait.
        """
        ...


R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """Facts and messages by number, messages with a minus sign, and the titles of the facts' episodes."""

    facts: Mapping[int, Fact]
    messages: Mapping[int, Message]
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
    """The searches of one bank and the data that ranking their results needs, all of one read transaction.

    Facts and messages are numbers of the store, those of messages with a minus sign.
    """

    def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a recall."""
        ...

    def edges(self, query: EdgeQuery) -> Sequence[Edge]:
        """Return the edges that leave some facts and entities."""
        ...

    def token_vectors(self, facts: Sequence[int]) -> Sequence[TokenVectors | None]:
        """Return token vectors in the order of the facts; None for a fact without them."""
        ...

    def revisions(self, scope: Scope, facts: Sequence[int]) -> Sequence[RevisionEdge]:
        """Return the links by which newer facts replace or outdate older ones, from and to some facts.

        Both ends are facts of the scope.
        """
        ...

    def load(self, numbers: Sequence[int]) -> Loaded:
        """Return facts and messages, with the titles of the facts' episodes; those that do not exist are left out."""
        ...

    def ids(self, numbers: Sequence[int]) -> Mapping[int, str]:
        """Return the ids of facts and messages."""
        ...

    def numbers(self, facts: Sequence[FactId]) -> Mapping[FactId, int]:
        """Return the numbers of facts by id; those that do not exist are left out."""
        ...

    def entity_names(self, entities: Sequence[int]) -> Mapping[int, str]:
        """Return the names of entities by number."""
        ...


def fact_revisions(reader: BankReader, scope: Scope, facts: Sequence[FactId]) -> list[FactRevision]:
    """Return the links by which newer facts replace or outdate older ones, from and to some facts, by ids."""
    edges = reader.revisions(scope, list(reader.numbers(facts).values()))
    ids = reader.ids(sorted({number for edge in edges for number in (edge.newer, edge.older)}))
    return [
        FactRevision(FactId(ids[edge.newer]), FactId(ids[edge.older]), edge.kind, edge.probability) for edge in edges
    ]


def fact_tokens(reader: BankReader, facts: Sequence[FactId]) -> list[TokenVectors | None]:
    """Return the token vectors of facts by ids, in their order; None for a fact without them."""
    numbers = reader.numbers(facts)
    found = dict(zip(numbers, reader.token_vectors(list(numbers.values())), strict=True))
    return [found.get(id) for id in facts]


class Search(Protocol):
    """Searches over the facts and messages of a bank. A bank that does not exist raises BankNotFound."""

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction, outside of the caller's event loop.

        A recall is one such function. It has no effects, because a lost connection lets it be run again; errors that it
        raises itself pass through.
        """
        ...

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> Sequence[Sequence[Scored]]:
        """Return for each vector the nearest current facts, none of a cosine below `floor`."""
        ...


class Reads(Protocol):
    """Reads of the records of a bank. A bank that does not exist raises BankNotFound."""

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]: ...
    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]: ...
    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]: ...
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


@runtime_checkable
class WebhookStore(Protocol):
    """A store whose commits queue a delivery for each webhook that wants their events.

    Webhooks are written by `Changes`, belong to one bank, are deleted with it, stay with it when a bank derived from
    it takes its place, and are never exported.
    """

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]:
        """Return the webhooks of a bank, oldest first."""
        ...


class Identified(Protocol):
    """A record with an id to page by."""

    @property
    def id(self) -> Any: ...


Item = TypeVar("Item", bound=Identified)


async def paged(page: Callable[[Any], Awaitable[Sequence[Item]]]) -> AsyncGenerator[Item]:
    """Yield all records of a listing; `page` returns those after an id, or the first for None."""
    last: Item | None = None
    while items := await page(last.id if last is not None else None):
        for item in items:
            yield item
        last = items[-1]


@asynccontextmanager
async def renewed(renew: Callable[[], Awaitable[object]], seconds: float) -> AsyncGenerator[None]:
    """Call `renew` every so many seconds inside this context; the next call follows one that the store refuses."""

    async def repeat() -> None:
        while True:
            await asyncio.sleep(seconds)
            with suppress(StoreError):
                await renew()

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
