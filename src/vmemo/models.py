"""The frozen data that travels between stages, stores and doors. Words are those of the glossary in README."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NewType

from pydantic import Field, JsonValue, model_validator

from vmemo.record import Background, Content, Instant, Name, Record, Share, new_id, utc_now

BankId = NewType("BankId", str)
MessageId = NewType("MessageId", str)
EpisodeId = NewType("EpisodeId", str)
FactId = NewType("FactId", str)
EntityId = NewType("EntityId", str)

Role = Literal["user", "assistant", "system", "tool"]
Network = Literal["world", "experience", "opinion", "observation"]
LinkKind = Literal["temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents"]
EntityType = Literal["PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"]
Channel = Literal["semantic", "keyword", "graph", "temporal", "verbatim"]
QueryType = Literal["temporal", "update", "multi-hop", "preference", "assistant", "count", "factual", "general"]
Budget = Literal["low", "mid", "high"] | int
MessageState = Literal["pending", "grouped", "derived", "extracted", "raw"]
"""Unread; unread but placed in an episode; read into facts that repeat its words; read into facts that don't; kept for
recall by its words alone."""
Verdict = Literal["add", "merge", "supersede", "duplicate"]
Stance = Literal["reinforce", "weaken", "contradict", "neutral"]
JobKind = Literal["process", "extract", "opinions", "observe", "maintain"]
"""Work of a bank: read what is unread; read one episode; weigh opinions against new facts; describe an entity anew;
tidy the bank up."""
CauseKind = Literal["causes", "caused_by", "enables", "prevents"]


class Interval(Record):
    """A half-open stretch of time: start is inside, end is not; None is open."""

    start: Instant | None = None
    end: Instant | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("an interval's end must be later than its start")
        return self


class Message(Record):
    """An immutable line of the archive."""

    id: MessageId = Field(default_factory=lambda: MessageId(new_id()))
    role: Role = "user"
    content: Content
    speaker: Name | None = None
    timestamp: Instant = Field(default_factory=utc_now)
    document: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    recorded_at: Instant = Field(default_factory=utc_now)
    state: MessageState = "pending"
    key: str | None = Field(default=None, description="what makes it the same line of its document")
    error: str | None = None

    @property
    def voice(self) -> str:
        """Who speaks: the speaker's name, or else the role."""
        return self.speaker or self.role.capitalize()


class Episode(Record):
    """A topic-coherent run of messages."""

    id: EpisodeId
    title: str
    narrative: str
    started_at: Instant
    ended_at: Instant
    previous: EpisodeId | None = None
    messages: tuple[MessageId, ...] = ()
    recorded_at: Instant = Field(default_factory=utc_now)


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


class Move(Record):
    """A step of an opinion's confidence, with the facts that moved it."""

    opinion: FactId
    stance: Stance
    before: Share
    after: Share
    evidence: tuple[FactId, ...] = ()
    reason: str = ""
    at: Instant


class Link(Record):
    """A weighted edge between two facts. Entity links are computed from mentions and never stored."""

    source: FactId
    target: FactId
    kind: LinkKind
    weight: Share


class Fact(Record):
    """A self-contained memory unit in one of the four networks."""

    id: FactId
    bank: BankId
    network: Network
    text: str
    tokens: int = Field(ge=0, description="cl100k count of the text")
    context: str = Field(default="", description="what was said just before, searched but not shown")
    context_from: MessageId | None = None
    occurred_start: Instant | None = None
    occurred_end: Instant | None = None
    mentioned_at: Instant
    valid_at: Instant | None = None
    invalid_at: Instant | None = None
    recorded_at: Instant = Field(default_factory=utc_now)
    expired_at: Instant | None = None
    confidence: Share | None = None
    importance: Share = 0.5
    access_count: int = 0
    entities: tuple[Mention, ...] = ()
    messages: tuple[MessageId, ...] = ()
    episodes: tuple[EpisodeId, ...] = ()
    basis: tuple[FactId, ...] = Field(default=(), description="facts behind an opinion or observation")
    supersedes: FactId | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    engine: str = "local"
    embedding: tuple[float, ...] | None = Field(default=None, description="filled only when asked for")

    @classmethod
    def in_own_words(cls, message: Message, bank: BankId, count: Callable[[str], int]) -> Fact:
        """A message that no fact speaks for, in the shape of a fact and under the message's own id."""
        text = f"{message.voice}: {message.content}"
        return cls(
            id=FactId(message.id),
            bank=bank,
            network="world",
            text=text,
            tokens=count(text),
            mentioned_at=message.timestamp,
            valid_at=message.timestamp,
            recorded_at=message.recorded_at,
            messages=(message.id,),
            tags=message.tags,
            metadata=message.metadata,
            engine="verbatim",
        )

    @model_validator(mode="after")
    def _confident_only_in_opinions(self) -> Fact:
        if self.confidence is not None and self.network != "opinion":
            raise ValueError("confidence belongs to opinions only")
        return self


class Disposition(Record):
    """Three traits from 1 (low) to 5 (high)."""

    skepticism: int = Field(default=3, ge=1, le=5)
    literalism: int = Field(default=3, ge=1, le=5)
    empathy: int = Field(default=3, ge=1, le=5)


class Profile(Record):
    """The bank's character."""

    name: Name = "assistant"
    disposition: Disposition = Field(default_factory=Disposition)
    bias: Share = 0.5
    background: Background = ""


class FormerProfile(Record):
    """A profile that a bank had until another took its place; `reason` is what was told then."""

    profile: Profile
    until: Instant
    reason: str = ""


class Bank(Record):
    """An isolated container of memories."""

    id: Name
    profile: Profile = Field(default_factory=Profile)
    embedder: Name
    dimension: int = Field(ge=1)
    created_at: Instant = Field(default_factory=utc_now)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where a channel put a fact: rank from 1, and the channel's own score."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way through the graph: from a fact, or from an entity that the query names, to a fact."""

    source: FactId | EntityId
    target: FactId
    kind: LinkKind
    weight: float
    via: str = ""
    """The entity that both ends share."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """What the reranker did to a fact: its rank in the fused order, its rank after, and the reranker's own score."""

    before: int
    after: int
    score: float | None
    """None when there was nothing to compare the fact by, so that its fused score alone placed it."""


class Hit(Record):
    """One recalled fact with its score; `verbatim` marks a message's own words that no fact speaks for.

    `path` and `reranking` are there when the recall was asked to explain.
    """

    fact: Fact
    score: float
    channels: Mapping[Channel, Placing] = Field(default_factory=dict[Channel, Placing])
    verbatim: bool = False
    path: tuple[Step, ...] = ()
    reranking: Reranking | None = None

    @property
    def id(self) -> FactId:
        """The id to cite and to ask `why` about."""
        return self.fact.id

    @property
    def text(self) -> str:
        """The fact's text."""
        return self.fact.text

    @property
    def tokens(self) -> int:
        """The cl100k count of the text."""
        return self.fact.tokens


class Provenance(Record):
    """Where a fact comes from, and what it became; for an opinion also how its confidence moved."""

    fact: Fact
    episodes: tuple[Episode, ...] = ()
    messages: tuple[Message, ...] = ()
    basis: tuple[Provenance, ...] = ()
    moves: tuple[Move, ...] = ()
    superseded_by: tuple[Fact, ...] = ()
