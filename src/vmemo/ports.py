"""The protocols that stores and providers fulfil. A class of your own works without inheriting any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from vmemo.models import (
    Bank,
    BankId,
    Entity,
    EntityId,
    EntityType,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Forgotten,
    Interval,
    Link,
    Mention,
    Message,
    MessageId,
    Network,
    Profile,
    Status,
    Usage,
)
from vmemo.searches import Edge, EdgeQuery, Ranking, Scored, TextQuery, TimeQuery, Vector, VectorQuery

Vectors: TypeAlias = NDArray[np.float32]
"""Unit vectors as rows, shape (count, dimension)."""
TokenVectors: TypeAlias = NDArray[np.float32]
"""Short vectors of a text's tokens as rows: unit ones of a document, a query's as long as each token counts."""
TextKind = Literal["query", "document"]


class Encoding(NamedTuple):
    """What a text is found by: its vector, and its tokens' vectors where the embedder gives them."""

    vector: Vector
    tokens: TokenVectors | None = None


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. `name` identifies the vector space: a change of it is a change of space."""

    @property
    def name(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors: ...


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder whose one pass also gives a short vector for each token, by which recall reranks."""

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]: ...


async def encodings(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
    """Texts as vectors, with token vectors where the embedder gives them."""
    if isinstance(embedder, TokenEmbedder):
        return await embedder.encode(texts, kind)
    return [Encoding(vector) for vector in await embedder.embed(texts, kind)]


@runtime_checkable
class Reranker(Protocol):
    """Says how well each text answers a query: the higher, the better, on any scale."""

    @property
    def name(self) -> str: ...
    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]: ...


class TokenCounter(Protocol):
    """Counts a text's cl100k tokens."""

    def __call__(self, text: str, /) -> int: ...


@dataclass(frozen=True)
class Loaded:
    """Facts as recall shows them."""

    facts: Sequence[Fact]
    titles: Mapping[EpisodeId, str]


@dataclass(frozen=True, kw_only=True)
class NewFact:
    """A fact with the vectors it is found and ranked by."""

    fact: Fact
    embedding: Vector
    tokens: TokenVectors | None = None

    @property
    def encoding(self) -> Encoding:
        """Its vectors together."""
        return Encoding(self.embedding, self.tokens)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Everything derived from some unread messages; it lands whole, and only if all of them are still unread.

    `revision` is the bank's when the batch was begun: if facts were written since, nothing lands either, so that
    entities and links are never decided against an outdated bank. `space` is the embedder's name; a bank of another
    embedder refuses the batch. An episode whose id exists is replaced.
    `words_kept` tells that the facts repeat the messages' words; otherwise the messages stay searchable themselves.
    """

    bank: BankId
    claims: Sequence[MessageId]
    episodes: Sequence[Episode] = ()
    facts: Sequence[NewFact] = ()
    entities: Sequence[Entity] = ()
    links: Sequence[Link] = ()
    revision: int
    space: str
    words_kept: bool = True


@dataclass(frozen=True, kw_only=True)
class ForgetTarget:
    """What to forget: exactly one of these."""

    messages: Sequence[MessageId] = ()
    document: str | None = None
    entity: EntityId | None = None
    bank: bool = False


class MessageLog(Protocol):
    """The append-only archive and its queue of unread messages."""

    async def append(self, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        """Store messages durably; one whose id, or whose key in its document, exists is left out of the result."""
        ...

    async def pending(self, bank: BankId, limit: int) -> list[Message]:
        """The oldest unread messages in order of time."""
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

    async def record_failure(self, bank: BankId, ids: Sequence[MessageId], error: str) -> None:
        """Note on unread messages why they could not be processed."""
        ...


class Search(Protocol):
    """The ways of finding candidates."""

    async def nearest(self, query: VectorQuery) -> Ranking: ...
    async def matching(self, query: TextQuery) -> Ranking: ...
    async def verbatim(self, query: TextQuery) -> Ranking:
        """Messages whose words no fact repeats; ids are message ids."""
        ...

    async def during(self, query: TimeQuery) -> Ranking: ...
    async def named(self, bank: BankId, text: str) -> list[Mention]:
        """Entities whose name, or another name of theirs, stands in a text as whole words."""
        ...

    async def edges(self, query: EdgeQuery) -> list[Edge]: ...
    async def token_vectors(self, bank: BankId, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """The facts' token vectors in the order asked for; None for a fact that has none."""
        ...

    async def neighbours(self, bank: BankId, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """For each vector the nearest current facts."""
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
    async def load(self, bank: BankId, ids: Sequence[FactId]) -> Loaded:
        """Facts by id in the order asked for, with the titles of their episodes, all of one moment."""
        ...

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


class Store(MessageLog, Search, Library, Protocol):
    """Durable home of memories. A write lands whole or not at all."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def banks(self) -> list[Bank]: ...
    async def bank(self, bank: BankId) -> Bank | None: ...
    async def create_bank(self, bank: Bank) -> Bank:
        """Create the bank unless it exists; return the stored one."""
        ...

    async def revision(self, bank: BankId) -> int:
        """A counter that grows with every change of the bank's facts."""
        ...

    async def save_profile(self, bank: BankId, profile: Profile) -> None: ...
    async def write(self, batch: Batch) -> bool:
        """Land a batch whole; False, and nothing changed, if its messages or revision are out of date."""
        ...

    async def replace_embeddings(
        self, bank: BankId, embedder: str, vectors: Mapping[FactId, Encoding], *, dimension: int
    ) -> bool:
        """Switch a bank's vectors in one step; False, and nothing changed, if facts are missing from `vectors`."""
        ...

    async def touch(self, bank: BankId, counts: Mapping[FactId, int]) -> None:
        """Add to access counts."""
        ...

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten: ...
    async def status(self, bank: BankId) -> Status: ...
    async def restore(self, bank: Bank, records: Iterator[RestoreRecord]) -> None:
        """Load an exported bank into this store, whole or not at all; refuses a bank that exists."""
        ...


@dataclass(frozen=True, kw_only=True)
class Found:
    """An entity as the text names it, before it is resolved."""

    name: str
    type: EntityType = "OTHER"


class NameReader(Protocol):
    """Finds the names in texts. Called from a worker thread."""

    def __call__(self, texts: Sequence[str], /) -> Sequence[Sequence[Found]]: ...


class TimeReader(Protocol):
    """Finds the times that a text names, against the moment it was said. Called from any thread."""

    def __call__(self, text: str, reference: datetime, /) -> Sequence[Interval]: ...


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A fact as an engine reads it, before it is embedded, resolved and linked."""

    network: Network
    text: str
    mentioned_at: datetime
    recorded_at: datetime
    messages: tuple[MessageId, ...]
    context: str = ""
    context_from: MessageId | None = None
    occurred: tuple[datetime, datetime] | None = None
    entities: tuple[Found, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    key: str = ""
    """Tells this draft from others of its bank; the fact's id follows from it, so reading again gives the same."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What an engine made of one run of messages."""

    drafts: tuple[Draft, ...]
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Extractor(Protocol):
    """Reads messages and writes drafts of facts. `keeps_words` tells whether drafts repeat the messages' own words."""

    @property
    def name(self) -> str: ...
    @property
    def keeps_words(self) -> bool: ...
    async def read(self, messages: Sequence[Message], before: Message | None) -> Reading: ...


RestoreRecord: TypeAlias = Message | Episode | Entity | NewFact | Link
