"""The records of a bank (messages, episodes, entities, facts, links, profiles), and the types of their fields."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time as time_of_day, timedelta
from functools import cache
from html import escape
from shlex import quote
from typing import Annotated, Literal, NamedTuple, NewType, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    Strict,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from vmemo.errors import InvalidInput

Values = TypeVar("Values", bound=Mapping[str, JsonValue])
AnyRecord = TypeVar("AnyRecord", bound="Record")
MAX_CONTENT = 1_000_000
"""Maximum characters of a message; longer content must be split by the caller."""
MAX_BACKGROUND = 600
"""Maximum characters of a profile's background."""
MAX_DEPTH = 64
"""Maximum nesting of metadata; serializers fail on values that are nested a few hundred levels deep."""
MAX_NAME = 512
"""Maximum characters of a bank, document, speaker or tag name."""


def utc_now() -> datetime:
    return datetime.now(UTC)


def shifted(time: datetime, seconds: float) -> datetime:
    """Return the time that many seconds later; the first or the last one there is, instead of one beyond."""
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if seconds > 0 else datetime.min.replace(tzinfo=UTC)


def new_id() -> str:
    """Return a new UUID version 7; its text order is its time order."""
    milliseconds = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds << 80) | (0x7 << 76) | ((tail >> 64 & 0xFFF) << 64) | (0b10 << 62) | (tail & (1 << 62) - 1)
    return str(uuid.UUID(int=value))


def new_fact_id() -> str:
    """Return a new random UUID: short ids, its first digits, differ from fact to fact."""
    return str(uuid.uuid4())


def _parse_instant(value: object) -> object:
    """Accept datetimes and ISO 8601 texts only; a number would be read as seconds since 1970."""
    if not isinstance(value, datetime | str):
        raise ValueError(f"must be a datetime or ISO 8601 text, not {type(value).__name__}")
    return parse_time(value) if isinstance(value, str) else value


def parse_time(text: str) -> datetime:
    """Return the time of an ISO 8601 text; a date is its midnight in UTC. Raise ValueError for any other text.

    A time of day without a time zone is returned as a naive datetime.
    """
    try:
        if len(text) <= len("2024-01-01"):
            return datetime.combine(date.fromisoformat(text), time_of_day.min, UTC)
        return datetime.fromisoformat(text)
    except ValueError:
        example = "such as 2024-01-31 or 2024-01-31T09:30Z"
        raise ValueError(f"{text[:40]!r} is not a date and time in ISO 8601 format, {example}") from None


def _to_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999 in UTC") from None


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("must be valid Unicode without lone surrogates") from error
    return text


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty or blank")
    return text


def json_object(values: Values) -> Values:
    """Return metadata; raise ValueError unless every interface can write it as JSON."""
    if not values:
        return values
    if _depth(values) > MAX_DEPTH:
        raise ValueError(f"must not be nested more than {MAX_DEPTH} levels deep")
    try:
        json.dumps(dict(values), ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"must be JSON in valid Unicode: {type(error).__name__}") from error
    return values


def _depth(value: JsonValue | Mapping[str, JsonValue]) -> int:
    """Return the number of containers inside one another; validation has refused more than a few hundred."""
    if not isinstance(value, Mapping | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, Mapping) else value), default=0)


Instant = Annotated[AwareDatetime, BeforeValidator(_parse_instant), AfterValidator(_to_utc)]
"""A timezone-aware datetime, converted to UTC, also from ISO 8601 text; naive datetimes are rejected."""
Text = Annotated[str, Strict(), Field(max_length=MAX_CONTENT), AfterValidator(_storable)]
Content = Annotated[Text, AfterValidator(_not_blank)]
Name = Annotated[str, Strict(), Field(max_length=MAX_NAME), AfterValidator(_storable), AfterValidator(_not_blank)]
Background = Annotated[str, Strict(), Field(max_length=MAX_BACKGROUND), AfterValidator(_storable)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
JsonObject = Annotated[Mapping[str, JsonValue], AfterValidator(json_object)]
"""Metadata: values that are filtered by, and that every interface returns."""


class Record(BaseModel):
    """A frozen model; invalid values raise `InvalidInput` with the field's name and the reason."""

    # Build validators at first use, to keep the import of vmemo fast.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    def __init__(self, /, **data: object) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise InvalidInput(_explain(type(self).__name__, error)) from error

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the validated record of these values, as the constructor does."""
        return cls(**values)

    def __str__(self) -> str:
        return super().__str__() if type(self).__repr__ is BaseModel.__repr__ else repr(self)

    def as_a(self, kind: type[AnyRecord]) -> AnyRecord:
        """Return the record of another kind with the fields that it has in common with this one."""
        return kind.of({name: getattr(self, name) for name in kind.model_fields if name in type(self).model_fields})

    @classmethod
    def trusted(cls, values: Mapping[str, object]) -> Self:
        """Return a record without validation, for stored values; all fields must be present.

        Recall builds hundreds of records at a time, and this takes a tenth of the time of validation.
        """
        record = cls.__new__(cls)
        object.__setattr__(record, "__dict__", values)
        object.__setattr__(record, "__pydantic_fields_set__", _field_names(cls))
        object.__setattr__(record, "__pydantic_extra__", None)
        object.__setattr__(record, "__pydantic_private__", None)
        return record


@cache
def _field_names(kind: type[BaseModel]) -> set[str]:
    """Return the field names of a model, as one shared set that nothing modifies."""
    return set(kind.model_fields)


def _explain(name: str, error: ValidationError) -> str:
    lines = [f"{'.'.join(map(str, e['loc'])) or name}: {in_words(e['type'], e['msg'])}" for e in error.errors()]
    return f"{name} is not valid: " + "; ".join(lines)


_RULES = {
    "timezone_aware": "a datetime needs a time zone; naive datetimes are refused. Write datetime(..., tzinfo=UTC), "
    "or value.astimezone() for local time, or add Z or an offset such as +02:00 to a text",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
}


def in_words(kind: str, message: str) -> str:
    """Return the rule that a validation error of Pydantic states, such as "must be text"."""
    rule = message.removeprefix("Value error, ").replace("Input should", "must", 1).replace("String should", "must", 1)
    return _RULES.get(kind, rule)


BankId = NewType("BankId", str)
MessageId = NewType("MessageId", str)
EpisodeId = NewType("EpisodeId", str)
FactId = NewType("FactId", str)
EntityId = NewType("EntityId", str)
Role = Literal["user", "assistant", "system", "tool", "document"]
"""document: text that nobody says to the agent, such as a web page; it is data, as a tool's output is."""
Network = Literal["world", "experience", "opinion", "observation"]
LinkKind = Literal[
    "temporal", "semantic", "entity", "causes", "caused_by", "enables", "prevents", "replaces", "outdates"
]
"""Stores number the kinds in this order. A newer fact replaces one that it closed, and outdates one that it may."""
RevisionKind = Literal["replaces", "outdates"]
EntityType = Literal["PERSON", "ORGANIZATION", "LOCATION", "PRODUCT", "CONCEPT", "EVENT", "OTHER"]
Channel = Literal["semantic", "keyword", "graph", "temporal", "verbatim"]
QueryType = Literal["temporal", "update", "multi-hop", "preference", "assistant", "count", "factual", "general"]
QuestionTense = Literal["present", "past", "former"]
"""present; past: an earlier event or state, which may last; former: a state that is over, or how it changed."""
Budget = Literal["low", "mid", "high"] | int
MessageState = Literal["pending", "grouped", "derived", "extracted", "raw", "curated"]
"""pending; grouped: pending and placed in an episode; derived: its facts keep its words; extracted: its facts do not;
raw: stored without facts, for verbatim recall; curated: one of its facts was edited or deleted by hand, so that it is
neither processed again nor recalled by its words."""
Verdict = Literal["add", "merge", "supersede", "duplicate"]
Stance = Literal["reinforce", "weaken", "contradict", "neutral"]
JobKind = Literal["process", "extract", "opinions", "observe", "maintain", "webhook"]
"""process: pending messages; extract: one episode; opinions: update by new facts; observe: describe an entity;
maintain: maintenance of the bank; webhook: the delivery of one event."""
HitStatus = Literal["current", "maybe_outdated", "former"]
"""current; maybe_outdated: a newer fact may replace it, or a claim of it; former: it held before, or is no longer
believed."""
CauseKind = Literal["causes", "caused_by", "enables", "prevents"]


class BankRevision(NamedTuple):
    """One state of a bank's memories: `number` grows with every change.

    The identity never repeats: a bank that is created again under the name of a deleted one has another.
    """

    identity: str
    number: int

    def next(self) -> BankRevision:
        return BankRevision(self.identity, self.number + 1)


TagsMatch = Literal["all", "any", "exact", "all_or_none", "any_or_none"]
"""The tags that a fact must have: all of those requested, at least one, or exactly these. The last two also accept
facts without tags, except opinions and observations, which never have tags."""
Permission = Literal["read", "write", "admin"]
"""Access to a bank; each level includes those before it."""
ALL_BANKS = "*"
"""The pattern of an API key that matches every bank."""


def is_placeholder(secret: str) -> bool:
    """Return True for text that documentation has in the place of a key, such as `vmemo_…` or `${VMEMO_API_KEY}`."""
    return "…" in secret or secret.endswith("...") or secret.startswith(("${", "<"))


SHOWN = 5
"""Records of a list that are shown."""


def shortened(text: str, width: int = 100) -> str:
    """Return a text on one line, cut to `width` characters."""
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width and len(text) <= 4 * width else f"{line[: width - 1]}…"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def with_lines(head: str, lines: Sequence[str]) -> str:
    """Return `<head>` with the first lines below it, and the number of the others."""
    more = [f"  and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
    return "\n".join([f"<{head}>", *(f"  {line}" for line in lines[:SHOWN]), *more])


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in which every text is escaped: a stored script is text."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    style = ' style="text-align:left"'
    return f"<table><caption{style}>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def html_block(caption: str, text: str) -> str:
    """Return a caption and a text as it is, both escaped."""
    return f'<p>{escape(caption)}</p><pre style="white-space:pre-wrap">{escape(text)}</pre>'


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_SHORT = re.compile(r"([0-9a-f]{8})(?:-([0-9a-f]{6}))?")
TIME_ORDERED = ("6", "7")
"""Versions of UUIDs that begin with a time."""


class ShortId(NamedTuple):
    """The digits that a UUID begins with, and those that it ends with if it is ordered by time."""

    start: str
    end: str = ""


def short_id(id: str) -> str:
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
        default=(), description="names that are not aliases, because a merge was undone"
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


class Claim(Record):
    """A part of a fact's text that a later statement ended, or may have ended; what stands beside it still holds."""

    text: str
    start: int = Field(ge=0, description="first character in the text of the fact")
    end: int = Field(ge=1, description="character after the last one")
    valid_at: Instant | None = None
    invalid_at: Instant | None = Field(default=None, description="set only if a later statement certainly ended it")
    outdated: Share = Field(description="calibrated probability that it is not true any more; 1 if it certainly ended")
    replaced_by: FactId = Field(description="the later fact")


IS_PROCEDURE: Mapping[str, str] = {"kind": "procedure"}
"""Metadata of a fact that is a procedure: steps in their order."""
FEEDBACK = "vmemo.feedback"
"""The key of the feedback on a fact in its metadata."""
MAX_FEEDBACK = 20
"""Questions for which one fact keeps feedback: the latest."""


class Feedback(Record):
    """A user's judgement of a fact that a question recalled."""

    question: str
    useful: bool
    reason: str = ""
    at: Instant


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
    claims: tuple[Claim, ...] = Field(
        default=(), description="the parts of the text that a later statement ended or may have ended, in their order"
    )
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

    def marked_text(self, mark: Callable[[Claim], str]) -> str:
        """Return the text with claims in brackets after their marks; a claim with an empty mark has none."""
        parts: list[str] = []
        reached = 0
        for claim in self.claims:
            if claim.start >= reached and (said := mark(claim)):
                parts += (self.text[reached : claim.start], f"[{said}: {self.text[claim.start : claim.end]}]")
                reached = claim.end
        return "".join(parts) + self.text[reached:]

    @property
    def text_with_ends(self) -> str:
        """The text with the last day of each claim that ends, and of the whole fact if that ends: for a prompt."""
        start = self.valid_at or self.mentioned_at

        def until(end: datetime | None) -> str:
            if end is None:
                return ""
            return f"until {end - timedelta(seconds=1):%d %b %Y}" if end > start else "never true"

        whole = until(self.invalid_at)
        return self.marked_text(lambda claim: until(claim.invalid_at)) + (f" ({whole})" if whole else "")

    @property
    def is_procedure(self) -> bool:
        """True for steps in their order, which are kept together."""
        return IS_PROCEDURE.items() <= self.metadata.items()

    @property
    def feedback(self) -> tuple[Feedback, ...]:
        """The judgements of the fact by question, oldest first."""
        try:
            return _FEEDBACK.validate_python(self.metadata.get(FEEDBACK, ()))
        except ValidationError:
            # A message came with metadata of this name.
            return ()

    @property
    def short_id(self) -> str:
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

    def _repr_html_(self) -> str:
        state = "closed" if self.expired_at else "current"
        row = (self.short_id, f"{self.mentioned_at:%Y-%m-%d}", self.network, state, self.text)
        return html_table("Fact", ("id", "date", "network", "state", "fact"), [row])

    @model_validator(mode="after")
    def _confident_only_in_opinions(self) -> Fact:
        if self.confidence is not None and self.network != "opinion":
            raise ValueError("confidence belongs to opinions only")
        return self


_FEEDBACK = TypeAdapter(tuple[Feedback, ...], config=ConfigDict(defer_build=True))


def with_feedback(metadata: Mapping[str, JsonValue], feedback: Sequence[Feedback]) -> dict[str, JsonValue]:
    """Return metadata with this feedback in place of the one that it had."""
    latest: list[JsonValue] = [each.model_dump(mode="json") for each in feedback[-MAX_FEEDBACK:]]
    kept = {name: value for name, value in metadata.items() if name != FEEDBACK}
    return {**kept, FEEDBACK: latest} if latest else kept


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
    return fact is not None and fact.expired_at is None and (fact.invalid_at is None or fact.invalid_at > now)


def is_supported(observation: Fact, basis: Mapping[FactId, Fact], now: datetime) -> bool:
    """Return True if more than half of the facts behind an observation are true; one of two may be what it is about."""
    held = sum(is_true(basis.get(id), now) for id in observation.basis)
    return held > MIN_SUPPORT * len(observation.basis)


def ended_behind(observation: Fact, basis: Mapping[FactId, Fact], at: datetime) -> list[str]:
    """Return the facts behind an observation, and claims of them, that had ended by then or are no longer stored."""
    behind = [basis.get(id) for id in observation.basis]
    parts = [part for fact in behind if fact for part in (fact, *fact.claims)]
    ended = [part.text for part in parts if part.invalid_at is not None and part.invalid_at <= at]
    return [*ended, *(["a forgotten fact"] if None in behind else [])]


class Disposition(Record):
    """Three traits from 1 (low) to 5 (high)."""

    skepticism: int = Field(default=3, ge=1, le=5, description="1 (trusting) to 5 (skeptical)")
    literalism: int = Field(default=3, ge=1, le=5, description="1 (reads between the lines) to 5 (literal)")
    empathy: int = Field(default=3, ge=1, le=5, description="1 (detached) to 5 (empathetic)")


class Profile(Record):
    """The name, disposition and background of a bank's agent."""

    name: Name = Field(default="assistant", description="the agent's name")
    disposition: Disposition = Field(default_factory=Disposition)
    bias: Share = Field(default=0.5, description="how strongly the profile shapes answers; 0 is facts only")
    background: Background = Field(default="", description="the background, in the first person")

    def changed(self, values: Mapping[str, object]) -> Profile:
        """Return the profile with other values for some of its fields, and for traits of its disposition."""
        traits = {name: value for name, value in values.items() if name in Disposition.model_fields}
        own = {name: value for name, value in values.items() if name not in traits}
        return Profile.of({**self.model_dump(), **own, "disposition": {**self.disposition.model_dump(), **traits}})


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


DEEP_EMBEDDER = "vmemo-encoder-2.1-deep"
"""The name of the packaged embedder that `embedder="deep"` selects."""


def reembed_command(bank: str, embedder: str) -> str:
    """Return the command that switches a bank to an embedder."""
    host, _, model = embedder.rpartition("#")
    named = f" --embedder {f'URL#{model}' if host else embedder}" if ":" in embedder else ""
    if embedder == DEEP_EMBEDDER:
        named = " --embedder deep"
    return f"vmemo reembed --bank {quote(bank)}{named}"
