"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeGuard, TypeVar, runtime_checkable

from pydantic import JsonValue

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
    Interval,
    JobKind,
    Link,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, EntityMention, ExtractionResult, Lease, MergeRecord
from vmemo.models.results import DailyCount, Job, Status, Usage
from vmemo.models.search import (
    ClaimPair,
    EdgeQuery,
    Edges,
    Encoding,
    FactRevision,
    RevisionEdge,
    Scope,
    Scored,
    SearchRequest,
    SearchResult,
    StatementPair,
    StoredTokens,
    TokenVectors,
    Vectors,
)
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.settings import Redactor, Settings
from vmemo.models.webhooks import SignedWebhook


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
    """Facts and messages by number, messages with a minus sign, and the titles of the facts' episodes.

    The access count of a fact may be an earlier one.
    """

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


class BankReader(Protocol):
    """The searches of one bank and the data that ranking their results needs, all of one read transaction.

    Facts and messages are numbers of the store, those of messages with a minus sign. Records that do not exist are left
    out. `search` searches all channels of a recall, `edges` are those that leave some facts and entities, and
    `token_vectors` are in the order of the facts, with None for a fact without them. `revisions` are the links by which
    newer facts replace or outdate older ones, from and to some facts, with both ends in the scope.
    """

    def search(self, request: SearchRequest) -> SearchResult: ...
    def edges(self, query: EdgeQuery) -> Sequence[Edges]: ...
    def token_vectors(self, facts: Sequence[int]) -> Sequence[StoredTokens | None]: ...
    def revisions(self, scope: Scope, facts: Sequence[int]) -> Sequence[RevisionEdge]: ...
    def load(self, numbers: Sequence[int]) -> Loaded: ...
    def ids(self, numbers: Sequence[int]) -> Mapping[int, str]: ...
    def numbers(self, facts: Sequence[FactId]) -> Mapping[FactId, int]: ...
    def entity_names(self, entities: Sequence[int]) -> Mapping[int, str]: ...


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
    stored = [found.get(id) for id in facts]
    return [None if tokens is None else tokens.vectors for tokens in stored]


class Store(Protocol):
    """A database of banks. A write is committed as a whole or not at all.

    Searches and reads of a bank that does not exist raise BankNotFound. Lists come oldest first, in the order in which
    the records were made; `banks` and `hidden_banks` by name. Jobs are durable: queued in the commit that causes them,
    leased by one worker at a time, and done once.
    """

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

    async def hidden_banks(self) -> list[HiddenBank]: ...
    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it; return False if it does not exist."""
        ...

    async def revision(self, bank: BankId) -> BankRevision: ...
    async def commit(self, changes: Changes) -> bool:
        """Write changes in one transaction; return False, with nothing written, if a precondition does not hold."""
        ...

    async def optimise(self) -> None:
        """Optimise the indexes of all banks; raise StoreBusy if another process locks the database for too long."""
        ...

    async def status(self, bank: BankId) -> Status: ...
    async def daily_counts(self, bank: BankId) -> list[DailyCount]:
        """Return the numbers of messages and facts by day; days without any are left out."""
        ...

    async def append(
        self, bank: BankId, messages: Sequence[Message], *, process_at: datetime | None = None
    ) -> set[MessageId]:
        """Store messages durably; one whose id, or whose key in its document, exists is left out of the result.

        The job that processes pending ones is due at `process_at`, by default now.
        """
        ...

    async def read(self, bank: BankId, run: Callable[[BankReader], R]) -> R:
        """Run a function in one read transaction, outside of the caller's event loop.

        A recall is one such function. It has no effects, because a lost connection lets it be run again; errors that it
        raises itself pass through.
        """
        ...

    async def nearest(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> Sequence[Sequence[Scored]]:
        """Return for each vector the nearest current facts, none of a cosine below `floor`."""
        ...

    async def messages(self, bank: BankId, select: MessageSelect) -> list[Message]: ...
    async def facts(self, bank: BankId, select: FactSelect) -> list[Fact]: ...
    async def episodes(self, bank: BankId, select: EpisodeSelect) -> list[Episode]: ...
    async def entities(self, bank: BankId, select: EntitySelect) -> list[Entity]: ...
    async def cooccurring(self, bank: BankId, entities: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
        """Return for each entity those it shares a fact with."""
        ...

    async def mentions(self, bank: BankId, entities: Sequence[EntityId], *, named: bool = False) -> list[EntityMention]:
        """Return the mentions of entities in the order of their facts, closed ones included.

        With `named`, only those by another name than the entity's own.
        """
        ...

    async def merges(self, bank: BankId) -> list[MergeRecord]: ...
    async def links(self, bank: BankId, facts: Sequence[FactId] | None = None) -> list[Link]:
        """Return the stored links that leave these facts, or all."""
        ...

    async def confidence_changes(self, bank: BankId, opinion: FactId | None = None) -> list[ConfidenceChange]: ...
    async def former_profiles(self, bank: BankId) -> list[FormerProfile]: ...
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

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]: ...


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

    async def webhooks(self, bank: BankId) -> list[SignedWebhook]: ...


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


TextKind = Literal["query", "document"]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors. `name` identifies the vector space: a change of it is a change of space.

    `dimension` is 0 while a `LearningEmbedder` does not know it.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors: ...


@runtime_checkable
class LearningEmbedder(Embedder, Protocol):
    """An embedder that learns its dimension from its first answer, or from a bank that it wrote earlier."""

    def expect_dimension(self, dimension: int) -> None: ...


async def dimension_of(embedder: Embedder) -> int:
    """Return the dimension; an embedder that does not know it yet embeds a word."""
    return embedder.dimension or (await embedder.embed(["dimension"], "document")).shape[1]


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder whose one pass also gives a short vector for each token, by which recall reranks."""

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]: ...


def gives_tokens(embedder: Embedder) -> TypeGuard[TokenEmbedder]:
    """Return True for a `TokenEmbedder`. `isinstance` reads all properties of an embedder, which takes longer."""
    return hasattr(embedder, "encode")


async def encodings(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
    """Embed texts, with token vectors if the embedder returns them."""
    if gives_tokens(embedder):
        return await embedder.encode(texts, kind)
    return [Encoding(vector) for vector in await embedder.embed(texts, kind)]


@runtime_checkable
class Closable(Protocol):
    """A model that holds connections."""

    async def close(self) -> None: ...


@runtime_checkable
class Reranker(Protocol):
    """Says how well each text answers a query: the higher, the better, on any scale."""

    @property
    def name(self) -> str: ...
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]: ...


@runtime_checkable
class RevisionModel(Protocol):
    """Estimates the probability that a later statement makes an earlier one outdated.

    `encoder` names the embedder whose cosines it takes: with another embedder the model is not used. `score` returns
    one probability for each pair, and `score_claims` one for each claim of an earlier statement that has several; both
    run off the event loop.
    """

    @property
    def name(self) -> str: ...
    @property
    def encoder(self) -> str: ...
    async def score(self, pairs: Sequence[StatementPair]) -> Sequence[float]: ...
    async def score_claims(self, claims: Sequence[ClaimPair]) -> Sequence[float]: ...


class TokenCounter(Protocol):
    """Counts a text's cl100k tokens."""

    def __call__(self, text: str, /) -> int: ...


@dataclass(frozen=True, kw_only=True)
class LLMRequest:
    """One request to a language model, whose answer must be JSON that matches `schema`.

    `step` names the purpose (extract, judge, ...); servers that require a schema name receive it. With `omit_empty` the
    answer may leave out optional fields; otherwise servers may require all of them.
    """

    step: str
    system: str
    user: str
    schema: Mapping[str, JsonValue]
    max_tokens: int = 4096
    omit_empty: bool = False


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The unmodified text that the model returned, and its usage."""

    text: str
    usage: Usage


@runtime_checkable
class LLM(Protocol):
    """A language model. `name` is recorded with every fact that it extracts.

    `complete` returns an answer or raises an `LLMFailed` error; it retries transient failures itself.
    """

    @property
    def name(self) -> str: ...
    async def complete(self, request: LLMRequest) -> Completion: ...


@runtime_checkable
class StreamingLLM(LLM, Protocol):
    """A language model that can stream its answer.

    `stream` yields text deltas and finally the whole `Completion`; it raises the same errors as `complete`.
    """

    def stream(self, request: LLMRequest) -> AsyncGenerator[str | Completion]: ...


class TimeReader(Protocol):
    """Finds the times in a text, relative to the time of its message. Called from any thread."""

    def __call__(self, text: str, reference: datetime, /) -> Sequence[Interval]: ...


@runtime_checkable
class Extractor(Protocol):
    """Extracts drafts of facts from messages. `keeps_words` is True if drafts repeat the messages' own words."""

    @property
    def name(self) -> str: ...
    @property
    def keeps_words(self) -> bool: ...
    async def read(self, messages: Sequence[Message], before: Message | None) -> ExtractionResult: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Context:
    """One memory's store, models and settings, shared by its banks."""

    store: Store
    embedder: Embedder
    owns_embedder: bool = False
    """True if the memory made the embedder itself and closes it."""
    extractor: Extractor
    """Extracts facts when there is no language model."""
    llm: LLM | None
    owns_llm: bool = False
    """True if the memory made the model itself and closes it."""
    counter: TokenCounter
    reranker: Reranker | Literal["late", "none"] = "late"
    revision_model: RevisionModel | None = None
    """Decides which known facts new ones make outdated when there is no language model; None leaves it to rules."""
    time_reader: TimeReader | None = None
    """Finds times in other languages than English."""
    redactor: Redactor | None = None
    """Removes from messages what must not be stored."""
    settings: Settings

    @property
    def engine(self) -> str:
        """The name of the engine that extracts facts."""
        return self.extractor.name if self.llm is None else self.llm.name
