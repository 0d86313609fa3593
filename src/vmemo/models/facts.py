"""Facts, links between them, and confidence changes of opinions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field, JsonValue, model_validator

from vmemo.models.base import Instant, JsonObject, Record, Share, utc_now
from vmemo.models.display import html_table, shortened
from vmemo.models.entities import Mention
from vmemo.models.ids import BankId, EpisodeId, FactId, LinkKind, MessageId, Network, Stance
from vmemo.models.messages import Message
from vmemo.models.short_ids import short_id

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
