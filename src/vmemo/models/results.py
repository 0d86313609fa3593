"""The results of verbs: what was stored and derived, what is queued, what it cost, and answers with their evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue, PrivateAttr

from vmemo.errors import (
    ExtractionFailed,
    InvalidInput,
    ProcessingDelayed,
    StoreError,
    VmemoError,
    error_class,
    public_name,
)
from vmemo.models import BankId, ConfidenceChange, EpisodeId, Fact, FactId, JobKind, MessageId, Network
from vmemo.models.records import Instant, Record, counted, html_block, html_table, short_id, shortened


class Usage(Record):
    """Model calls and tokens of an operation; `cost` is in dollars and includes only models with a known price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    embedded_texts: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage.of({name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})


class Spending(Record):
    """The cost of one step with one model in a bank so far; `failures` counts calls without a valid answer."""

    step: str
    model: str
    calls: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        counts = ("calls", "failures", "input_tokens", "output_tokens", "cost")
        return self.model_copy(update={name: getattr(self, name) + getattr(other, name) for name in counts})

    @property
    def usage(self) -> Usage:
        return self.as_a(Usage)


class Job(Record):
    """A queued job. `requests` counts how often it was requested, `until` is the end of a worker's lease."""

    id: int
    bank: BankId
    kind: JobKind
    key: str = ""
    detail: Mapping[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    requests: int = 1
    attempts: int = 0
    error: str | None = None
    due: Instant
    owner: str | None = None
    until: Instant | None = None
    created_at: Instant


class Skipped(Record):
    """Input that was not stored, and the reason."""

    what: str
    reason: str


def _public(error: Exception) -> tuple[str, str]:
    """Return the name of the public class, and the cause in words."""
    if isinstance(error, StoreError | InvalidInput):
        # The rest of a store's message is about its own transaction, not about the stored messages.
        return ProcessingDelayed.__name__, str(error).partition(". ")[0]
    if isinstance(error, VmemoError):
        return public_name(error), str(error)
    # The text of another library's error may hold anything.
    return ExtractionFailed.__name__, f"{type(error).__name__} was raised; status() shows its message"


class DerivationProblem(Record):
    """A failure to derive facts from messages that are stored and queued."""

    error: str = Field(description="the name of the error in `vmemo.errors`")
    detail: str = Field(description="the cause, and what to do")
    _cause: Exception | None = PrivateAttr(default=None)

    @classmethod
    def caused_by(cls, error: Exception) -> DerivationProblem:
        """Return the problem that an error is, under the name of its public class."""
        kind, cause = _public(error)
        detail = (
            f"Deriving facts failed: {cause.rstrip('.')}. The messages are stored and queued: do not retain them "
            "again; the next retain() or process(), or a worker, processes them."
        )
        problem = cls(error=kind, detail=detail)
        problem._cause = error
        return problem

    def to_error(self, stored: tuple[MessageId, ...] = ()) -> VmemoError:
        """Return the exception for the caller of retain or process, with the ids of the messages that it stored."""
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
    redacted: int = Field(default=0, description="messages whose text or metadata the redaction changed")
    usage: Usage = Field(default_factory=Usage)
    problem: DerivationProblem | None = Field(
        default=None, description="the reason why facts were not derived; the messages are stored and queued"
    )

    def __repr__(self) -> str:
        problem = f", {self.problem.error}" if self.problem else ""
        sizes = [counted(len(self.stored), "message"), counted(len(self.derived), "fact")]
        sizes += [f"{number:,} {name}" for name, number in self._counts()[len(sizes) :] if number]
        return f"<Retained {', '.join(sizes)}{problem}>"

    def _repr_html_(self) -> str:
        rows = [(name, f"{number:,}") for name, number in self._counts()]
        rows += [("problem", self.problem.detail)] if self.problem else []
        return html_table("Retained", ("", ""), rows)

    def _counts(self) -> list[tuple[str, int]]:
        done = [("messages", len(self.stored)), ("facts", len(self.derived)), ("revised", len(self.revised))]
        return [*done, ("skipped", len(self.skipped)), ("pending", self.pending)]

    @staticmethod
    def combined(parts: Sequence[Retained]) -> Retained:
        return Retained(
            stored=tuple(id for part in parts for id in part.stored),
            derived=tuple(id for part in parts for id in part.derived),
            revised=tuple(dict.fromkeys(id for part in parts for id in part.revised)),
            episodes=tuple(dict.fromkeys(id for part in parts for id in part.episodes)),
            skipped=tuple(each for part in parts for each in part.skipped),
            pending=sum(part.pending for part in parts),
            redacted=sum(part.redacted for part in parts),
            usage=sum((part.usage for part in parts), Usage()),
        )


class Forgotten(Record):
    """Numbers of deleted records, and of messages that were queued to be processed again."""

    messages: int = 0
    facts: int = 0
    episodes: int = 0
    entities: int = 0
    requeued: int = 0
    scrub_pending: bool = Field(
        default=False,
        description="The deleted rows are overwritten, but the database file is not rewritten yet: it may hold copies "
        "of the text until maintenance.",
    )


class Maintained(Record):
    """The result of maintenance."""

    forgotten: int = Field(default=0, description="messages that had expired and were forgotten")
    joined: int = Field(default=0, description="episodes that became part of another")
    shortened: int = Field(default=0, description="episodes whose narrative was shortened")
    pruned: int = Field(default=0, description="facts that were closed because their retention score is low")
    optimised: bool = Field(default=False, description="True if the indexes were optimised")


class ProcessingProblem(Record):
    """An error that keeps messages from being processed."""

    error: str
    messages: int
    attempts: int
    since: Instant


class Backlog(Record):
    """Queued jobs of one kind: waiting, running, failed and to be tried again, and the last error."""

    kind: JobKind
    waiting: int = 0
    running: int = 0
    failed: int = 0
    error: str | None = None
    next_at: Instant | None = None


class Status(Record):
    """The counts, the backlog and the problems of a bank."""

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
    problems: tuple[ProcessingProblem, ...] = ()
    backlog: tuple[Backlog, ...] = ()
    spending: tuple[Spending, ...] = ()
    scrub_pending: bool = False
    bytes: int = 0


class DailyCount(Record):
    """The messages of one day (UTC), and the facts that were mentioned on it."""

    day: Instant
    messages: int = 0
    facts: int = 0


class Citation(Record):
    """A recalled fact that an answer cites; its network distinguishes evidence from opinions and observations."""

    fact: FactId
    network: Network = "world"
    text: str
    mentioned_at: Instant

    @property
    def short_id(self) -> str:
        """The fact's short id, which `why` accepts."""
        return short_id(self.fact)


LookupTool = Literal["search", "timeline", "count", "between"]
"""The closest memories, all statements on a subject, the distinct ones, or the time between two events."""


class MemoryLookup(Record):
    """A further query to memory during a reflection, and the number of new facts that it found."""

    query: str
    found: int
    tool: LookupTool = "search"


class TextDelta(Record):
    """The next part of an answer's text."""

    text: str


class Retracted(Record):
    """The text streamed so far is retracted for this reason; the answer starts again."""

    reason: str


class Answer(Record):
    """An answer of reflect, its evidence and its cost."""

    query: str
    text: str = Field(description="the answer; ids in square brackets cite facts")
    citations: tuple[Citation, ...] = Field(default=(), description="the cited facts, in the order of the text")
    facts: tuple[Fact, ...] = Field(default=(), description="cited facts of the networks world and experience")
    observations: tuple[Fact, ...] = Field(default=(), description="cited observations")
    opinions: tuple[Fact, ...] = Field(default=(), description="cited opinions")
    background: bool = Field(default=False, description="True if the answer uses the bank's own background")
    formed: tuple[Fact, ...] = Field(default=(), description="opinions that the answer formed")
    confidence_changes: tuple[ConfidenceChange, ...] = Field(
        default=(), description="changes that the answer made to the confidence of opinions"
    )
    lookups: tuple[MemoryLookup, ...] = Field(default=(), description="queries to memory beyond the question itself")
    steps: tuple[str, ...] = Field(default=(), description="the computation of the answer, step by step")
    data: JsonValue = Field(default=None, description="the answer in the caller's schema")
    flaws: tuple[str, ...] = Field(default=(), description="errors of the answer that could not be repaired")
    notes: tuple[str, ...] = Field(default=(), description="lines at the end of the text that state flaws and lookups")
    extractive: bool = Field(default=False, description="True if facts are quoted without a language model")
    found: bool = Field(default=True, description="False if memory does not hold the answer, or probably not")
    usage: Usage = Field(default_factory=Usage)

    def __repr__(self) -> str:
        cited = counted(len(self.citations), "citation")
        return f"<Answer to {shortened(self.query)!r}, {cited}: {shortened(self.plain)!r}>"

    def _repr_html_(self) -> str:
        return html_block(f"Answer to {shortened(self.query)!r}", self.readable())

    @property
    def plain(self) -> str:
        """The text without citations."""
        return self._with_citations({})

    def readable(self) -> str:
        """Return the text with numbered citations, followed by the footnotes; quoted facts with their short ids."""
        if self.extractive:
            return self._with_citations({citation.fact: f" [{citation.short_id}]" for citation in self.citations})
        numbers = {citation.fact: f" [{n}]" for n, citation in enumerate(self.citations, start=1)}
        return "\n\n".join(filter(None, [self._with_citations(numbers), self.footnotes()]))

    def footnotes(self) -> str:
        """Return the cited facts by number with their short ids, one per line."""
        return "\n".join(f"[{n}] {_footnote(citation)}" for n, citation in enumerate(self.citations, start=1))

    def _with_citations(self, marks: Mapping[FactId, str]) -> str:
        text = self.text
        for citation in self.citations:
            text = re.sub(rf"\s*\[{re.escape(citation.fact)}\]", marks.get(citation.fact, ""), text)
        return text


def _footnote(citation: Citation) -> str:
    kind = f"{citation.network}: " if citation.network in ("opinion", "observation") else ""
    return f"{citation.mentioned_at.day} {citation.mentioned_at:%B %Y}: {kind}{citation.text} [{citation.short_id}]"


Event: TypeAlias = MemoryLookup | TextDelta | Retracted | Answer
"""An event of a reflection; the answer is the last one."""
