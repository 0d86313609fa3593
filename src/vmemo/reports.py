"""What verbs report: what was stored and derived, what waits, what it cost, and what an answer rests on."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, JsonValue

from vmemo.models import BankId, EpisodeId, Fact, FactId, JobKind, MessageId
from vmemo.record import Instant, Record


class Usage(Record):
    """Model tokens and calls that an operation cost; `cost` is in dollars and counts only what prices are known of."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedded_texts: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            embedded_texts=self.embedded_texts + other.embedded_texts,
            cost=self.cost + other.cost,
        )


class Spending(Record):
    """What one step of the work has cost a bank with one model so far; `failures` are calls without a usable answer."""

    step: str
    model: str
    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class Job(Record):
    """A piece of queued work. `asked` counts how often it was asked for, `until` is the end of a worker's lease."""

    id: int
    bank: BankId
    kind: JobKind
    key: str = ""
    detail: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    asked: int = 1
    attempts: int = 0
    error: str | None = None
    due: Instant
    owner: str | None = None
    until: Instant | None = None
    created_at: Instant


class Skipped(Record):
    """Something that was handed in and not stored, and why."""

    what: str
    reason: str


class Retained(Record):
    """What one retain or process did."""

    stored: tuple[MessageId, ...] = ()
    derived: tuple[FactId, ...] = ()
    revised: tuple[FactId, ...] = ()
    episodes: tuple[EpisodeId, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    pending: int = 0
    usage: Usage = Field(default_factory=Usage)


class Forgotten(Record):
    """Counts of what was deleted, and how many messages were queued to be read again."""

    messages: int = 0
    facts: int = 0
    episodes: int = 0
    entities: int = 0
    requeued: int = 0


class Maintained(Record):
    """What maintenance did: episodes that became part of another, episodes told in fewer words, facts that faded, and
    whether the indexes were put in order."""

    joined: int = 0
    shortened: int = 0
    pruned: int = 0
    optimised: bool = False


class Trouble(Record):
    """An error that keeps messages from being processed."""

    error: str
    messages: int
    attempts: int
    since: Instant


class Backlog(Record):
    """Queued work of one kind: how much waits, runs now, or failed and will be tried again, and the last error."""

    kind: JobKind
    waiting: int = 0
    running: int = 0
    failed: int = 0
    error: str | None = None
    next_at: Instant | None = None


class Status(Record):
    """What a bank holds and what is left to do."""

    bank: str
    engine: str
    embedder: str
    dimension: int
    messages: int = 0
    pending: int = 0
    episodes: int = 0
    facts: int = 0
    closed_facts: int = 0
    entities: int = 0
    links: int = 0
    troubles: tuple[Trouble, ...] = ()
    backlog: tuple[Backlog, ...] = ()
    spending: tuple[Spending, ...] = ()
    scrub_pending: bool = False
    bytes: int = 0


class Citation(Record):
    """A recalled fact that an answer rests on."""

    fact: FactId
    text: str
    mentioned_at: Instant


class Answer(Record):
    """What reflect says, what it rests on, and what it cost."""

    query: str
    text: str
    citations: tuple[Citation, ...] = ()
    facts: tuple[Fact, ...] = ()
    opinions: tuple[Fact, ...] = ()
    extractive: bool = False
    found: bool = True
    usage: Usage = Field(default_factory=Usage)
