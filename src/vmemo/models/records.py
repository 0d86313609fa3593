"""The records that a bank holds: messages and episodes, entities, facts and links, profiles, and their short ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import NamedTuple

from pydantic import Field, JsonValue, model_validator

from vmemo.models.base import (
    Background,
    BankId,
    Content,
    EntityId,
    EntityType,
    EpisodeId,
    FactId,
    Instant,
    JsonObject,
    LinkKind,
    MessageId,
    MessageState,
    Name,
    Network,
    Record,
    Role,
    Share,
    Stance,
    html_table,
    new_id,
    shortened,
    utc_now,
)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT = re.compile(r"([0-9a-f]{8})(?:-([0-9a-f]{6}))?")
TIME_ORDERED = ("6", "7")
"""Versions of UUIDs that begin with a time."""


class ShortId(NamedTuple):
    """The digits that a UUID begins with, and those that it ends with if it is ordered by time."""

    start: str
    end: str = ""


def short_id(id: str) -> str:
    """Return the short id of an id."""
    uuid = _UUID.fullmatch(id)
    if uuid is None:
        return id
    return f"{id[:8]}-{id[-6:]}" if uuid[1] in TIME_ORDERED else id[:8]


def parse_short_id(text: str) -> ShortId | None:
    """Return the parts of the short id of a UUID, or None if the text is not one."""
    short = _SHORT.fullmatch(text)
    return ShortId(short[1], short[2] or "") if short else None


class Message(Record):
    """An immutable stored message."""

    id: MessageId = Field(default_factory=lambda: MessageId(new_id()))
    role: Role = "user"
    content: Content
    speaker: Name | None = None
    timestamp: Instant = Field(default_factory=utc_now)
    document: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: JsonObject = Field(default_factory=dict[str, JsonValue])
    recorded_at: Instant = Field(default_factory=utc_now)
    state: MessageState = "pending"
    key: str | None = Field(default=None, description="identifies a repeated message in its document")
    error: str | None = None
    expires_at: Instant | None = Field(
        default=None, description="the time after which it and its facts are not recalled any more"
    )

    @property
    def voice(self) -> str:
        """The speaker's name, or else the role."""
        return self.speaker or self.role.capitalize()


def line_key(role: Role, speaker: str | None, content: str, *, time: datetime | None, number: int) -> str:
    """Return the key of a line of a document: a hash of its words, and of its number among equal lines of a request.

    The time counts only if the caller stated it.
    """
    line = json.dumps([role, speaker, content, None if time is None else time.isoformat()], ensure_ascii=False)
    return hashlib.blake2b(f"{number}\n{line}".encode(), digest_size=16).hexdigest()


class Episode(Record):
    """Consecutive messages of one topic."""

    id: EpisodeId
    title: str
    narrative: str
    started_at: Instant
    ended_at: Instant
    previous: EpisodeId | None = None
    messages: tuple[MessageId, ...] = ()
    recorded_at: Instant = Field(default_factory=utc_now)


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


COMPUTED_DATE = " (= "
"""The opening of a date that was computed and written after the words that name it: "yesterday (= 7 May 2023)"."""


class Interval(Record):
    """A half-open time interval [start, end); None means unbounded."""

    start: Instant | None = None
    end: Instant | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Interval:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("an interval's end must be later than its start")
        return self


class Link(Record):
    """A weighted edge between two facts. Entity links are computed from mentions and never stored."""

    source: FactId
    target: FactId
    kind: LinkKind
    weight: Share


class Fact(Record):
    """A self-contained memory in one of the four networks."""

    id: FactId
    bank: BankId
    network: Network
    text: str
    tokens: int = Field(ge=0, description="cl100k count of the text")
    context: str = Field(default="", description="the preceding message, searched but not shown")
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
    basis: tuple[FactId, ...] = Field(default=(), description="facts that an opinion or observation is based on")
    supersedes: FactId | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonObject = Field(default_factory=dict[str, JsonValue])
    engine: str = "local"
    instruction: bool = Field(default=False, description="a standing instruction of the user to the agent")
    pinned: bool = Field(default=False, description="marked by the user; maintenance never closes it")
    reason: str = Field(default="", description="the reason given for this version, if it was edited by hand")
    expires_at: Instant | None = Field(default=None, description="the time after which it is not recalled any more")
    embedding: tuple[float, ...] | None = Field(default=None, description="set only if requested")

    @classmethod
    def in_own_words(cls, message: Message, bank: BankId, count: Callable[[str], int]) -> Fact:
        """Return a message without facts of its own as a fact with the message's id."""
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
            expires_at=message.expires_at,
        )

    @property
    def is_rest(self) -> bool:
        """True for what still holds of a superseded fact: another version of it, which rests on the new fact."""
        return self.supersedes is not None and bool(self.basis) and self.network in ("world", "experience")

    @property
    def short_id(self) -> str:
        """The short id, which prompts show and `why` accepts."""
        return short_id(self.id)

    @property
    def validity(self) -> str:
        """The days on which it was true, in UTC, such as "2024-02-06 to 2024-07-04" or "since 2024-07-04"."""
        start = self.valid_at or self.mentioned_at
        if self.invalid_at is None:
            return f"since {start.date()}" if self.expired_at is None else "no longer believed"
        return f"{start.date()} to {self.invalid_at.date()}" if start < self.invalid_at else "never"

    def __repr__(self) -> str:
        closed = ", closed" if self.expired_at else ""
        return f"<Fact {self.short_id} {self.network}, {self.mentioned_at:%Y-%m-%d}{closed}: {shortened(self.text)!r}>"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        state = "closed" if self.expired_at else "current"
        row = (self.short_id, f"{self.mentioned_at:%Y-%m-%d}", self.network, state, self.text)
        return html_table("Fact", ("id", "date", "network", "state", "fact"), [row])

    @model_validator(mode="after")
    def _confident_only_in_opinions(self) -> Fact:
        if self.confidence is not None and self.network != "opinion":
            raise ValueError("confidence belongs to opinions only")
        return self


def first_expiry(times: Iterable[datetime | None]) -> datetime | None:
    """Return when what rests on facts and messages with these expiries expires: with the first of them."""
    return min((time for time in times if time is not None), default=None)


class ConfidenceChange(Record):
    """A change of an opinion's confidence, with its evidence."""

    opinion: FactId
    stance: Stance
    before: Share
    after: Share
    evidence: tuple[FactId, ...] = ()
    reason: str = ""
    at: Instant


@dataclass(frozen=True, kw_only=True)
class RetentionScore:
    """The values that decide how long a fact is kept; `stated_at` is when a message last stated it."""

    fact: FactId
    importance: float
    access_count: int
    stated_at: datetime


MIN_SUPPORT = 0.5
"""Share of its facts that must still be true; at exactly this share an observation no longer holds."""
PERSON_FACTS = 5
"""Facts from which a person has a profile."""
OTHER_FACTS = 12
"""Facts from which an organization or a product has one; places, events and concepts have none."""


def least_facts(type: EntityType) -> int | None:
    """Return the number of facts from which an entity has a profile; None for types that have none."""
    if type == "PERSON":
        return PERSON_FACTS
    return OTHER_FACTS if type in ("ORGANIZATION", "PRODUCT") else None


def is_true(fact: Fact | None, now: datetime) -> bool:
    """Return True if a fact is stored, believed and true at a time."""
    return fact is not None and fact.expired_at is None and (fact.invalid_at is None or fact.invalid_at > now)


def is_supported(observation: Fact, basis: Mapping[FactId, Fact], now: datetime) -> bool:
    """Return True if more than half of the facts behind an observation are true; one of two may be what it is about."""
    held = sum(is_true(basis.get(id), now) for id in observation.basis)
    return held > MIN_SUPPORT * len(observation.basis)


class Disposition(Record):
    """Three traits from 1 (low) to 5 (high)."""

    skepticism: int = Field(default=3, ge=1, le=5)
    literalism: int = Field(default=3, ge=1, le=5)
    empathy: int = Field(default=3, ge=1, le=5)


class Profile(Record):
    """The name, disposition and background of a bank's agent."""

    name: Name = "assistant"
    disposition: Disposition = Field(default_factory=Disposition)
    bias: Share = 0.5
    background: Background = ""


class FormerProfile(Record):
    """A replaced profile; `reason` is the text that caused the change."""

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


SMALL_EMBEDDER = "vmemo-encoder-1-small"
"""The name of the packaged embedder that `embedder="small"` selects."""


def reembed_command(bank: str, embedder: str) -> str:
    """Return the command that switches a bank to an embedder."""
    host, _, model = embedder.rpartition("#")
    named = f" --embedder {f'URL#{model}' if host else embedder}" if ":" in embedder else ""
    if embedder == SMALL_EMBEDDER:
        named = " --embedder small"
    return f"vmemo reembed --bank {quote(bank)}{named}"
