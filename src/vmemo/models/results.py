"""What verbs report: what was stored and derived, what waits, what it cost, and what an answer rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

from pydantic import Field, JsonValue, PrivateAttr

from vmemo.errors import ProcessingDelayed, StoreError, VmemoError, error_class, public_name
from vmemo.models import BankId, ConfidenceChange, EpisodeId, Fact, FactId, JobKind, MessageId, Network
from vmemo.models.base import Instant, Record


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


class DerivationProblem(Record):
    """A failure to derive facts from messages that are stored and queued."""

    error: str = Field(description="the name of the error in `vmemo.errors`")
    detail: str = Field(description="the cause, and what to do")
    _cause: VmemoError | None = PrivateAttr(default=None)

    @classmethod
    def caused_by(cls, error: VmemoError) -> DerivationProblem:
        """Return the problem that an error is."""
        busy = isinstance(error, StoreError)
        detail = (
            f"Deriving facts failed: {error} The messages are stored and queued: do not retain them again; process() "
            "or a worker completes them."
        )
        problem = cls(error=ProcessingDelayed.__name__ if busy else public_name(error), detail=detail)
        problem._cause = error
        return problem

    def to_error(self, stored: tuple[MessageId, ...]) -> VmemoError:
        """Return the exception for the caller of retain, with the ids of the stored messages."""
        error = error_class(self.error)(self.detail)
        error.stored = stored
        error.__cause__ = self._cause
        return error


class Retained(Record):
    """The result of one retain or process."""

    stored: tuple[MessageId, ...] = Field(default=(), description="messages that were stored")
    derived: tuple[FactId, ...] = Field(default=(), description="new facts")
    revised: tuple[FactId, ...] = Field(default=(), description="facts that were closed or confirmed")
    episodes: tuple[EpisodeId, ...] = Field(default=(), description="episodes that were written")
    skipped: tuple[Skipped, ...] = Field(default=(), description="input that was not stored")
    pending: int = Field(default=0, description="messages that are not processed yet")
    usage: Usage = Field(default_factory=Usage)
    problem: DerivationProblem | None = Field(
        default=None, description="the reason why facts were not derived; the messages are stored and queued"
    )


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


class ProcessingProblem(Record):
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
    troubles: tuple[ProcessingProblem, ...] = ()
    backlog: tuple[Backlog, ...] = ()
    spending: tuple[Spending, ...] = ()
    scrub_pending: bool = False
    bytes: int = 0


class Citation(Record):
    """Something recalled that an answer rests on; its network tells whether that is evidence or a belief."""

    fact: FactId
    network: Network = "world"
    text: str
    mentioned_at: Instant


class MemoryLookup(Record):
    """A question that memory was asked on the way to an answer, and how much it brought that was new."""

    query: str
    found: int


class TextDelta(Record):
    """The next words of an answer that is being written."""

    text: str


class Retracted(Record):
    """What was written of an answer so far does not hold, and why; it is written anew."""

    reason: str


class Answer(Record):
    """What reflect says, what it rests on, and what it cost.

    `text` names what it rests on by ids in square brackets; `readable()` has footnotes in their place, and `plain`
    nothing. Evidence, profiles of entities, and beliefs are told apart: `facts`, `observations` and `opinions` are
    those that the answer cites, and `background` tells whether it rests on the bank's own background. `formed` and
    `moved` are what it did to the bank's opinions, `lookups` what memory was asked beyond the question, `steps` how the
    answer was worked out, `data` the answer in the caller's own shape, and `flaws` what is wrong with it that could
    not be mended. `notes` are the lines at the end of the text in which that, and what was looked for, is said.
    """

    query: str
    text: str
    citations: tuple[Citation, ...] = ()
    facts: tuple[Fact, ...] = ()
    observations: tuple[Fact, ...] = ()
    opinions: tuple[Fact, ...] = ()
    background: bool = False
    formed: tuple[Fact, ...] = ()
    moved: tuple[ConfidenceChange, ...] = ()
    lookups: tuple[MemoryLookup, ...] = ()
    steps: tuple[str, ...] = ()
    data: JsonValue = None
    flaws: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extractive: bool = False
    found: bool = True
    usage: Usage = Field(default_factory=Usage)

    @property
    def plain(self) -> str:
        """The text without its marks."""
        return self._marked({})

    def readable(self) -> str:
        """The text with numbers in place of ids, and below it what they stand for."""
        numbers = {citation.fact: f" [{n}]" for n, citation in enumerate(self.citations, start=1)}
        return "\n\n".join(filter(None, [self._marked(numbers), self.footnotes()]))

    def footnotes(self) -> str:
        """What the numbers of `readable()` stand for, a line each."""
        return "\n".join(f"[{n}] {_told(citation)}" for n, citation in enumerate(self.citations, start=1))

    def _marked(self, marks: Mapping[FactId, str]) -> str:
        text = self.text
        for citation in self.citations:
            text = re.sub(rf"\s*\[{re.escape(citation.fact)}\]", marks.get(citation.fact, ""), text)
        return text


def _told(citation: Citation) -> str:
    kind = f"{citation.network}: " if citation.network in ("opinion", "observation") else ""
    return f"{citation.mentioned_at.day} {citation.mentioned_at:%B %Y}: {kind}{citation.text}"


Event: TypeAlias = MemoryLookup | TextDelta | Retracted | Answer
"""What a reflection tells on its way; the answer comes last."""
