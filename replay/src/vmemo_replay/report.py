"""The report of a replay: what each configuration gave at each turn, and its totals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError

from vmemo.errors import InvalidInput
from vmemo.models.records import HitStatus, Instant, Record, in_words

FORMAT, VERSION = "vmemo-replay", 1
HitFlag = Literal["stale", "noise"]
"""A hit with an outdated claim that bears on the turn, or whose score is far below the best one."""
TurnFlag = Literal["stale", "unanswerable", "noise"]
"""A stale hit that does not come below what outdated it; a question whose answer memory probably does not hold;
hits that are mostly noise."""
TURN_FLAGS: tuple[TurnFlag, ...] = ("stale", "unanswerable", "noise")


class Prices(Record):
    """Dollars per million tokens that a language model reads and writes."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)

    def cents(self, read: int, written: int = 0) -> float:
        return (read * self.input + written * self.output) / 10_000


class Said(Record):
    """A message of the transcript."""

    id: str
    role: str
    speaker: str | None
    time: Instant
    session: int
    text: str
    tokens: int


class KnownFact(Record):
    """A fact of the bank as it is at the end of the replay, and what outdated it."""

    id: str
    text: str
    network: str
    said_at: Instant
    known_at: Instant
    messages: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    instruction: bool = False
    closed: bool = Field(default=False, description="certainly outdated; otherwise it may be")
    outdated_at: Instant | None = None
    outdated_by: str | None = Field(default=None, description="id of the fact that outdated it, or may have")


class GivenHit(Record):
    """A hit of a recall."""

    fact: str
    score: float
    status: HitStatus = "current"
    flags: tuple[HitFlag, ...] = ()
    outdated_by: tuple[str, ...] = Field(
        default=(), description="ids of the facts that outdated what bears on the turn"
    )
    verbatim: bool = False
    different: bool = Field(default=False, description="another configuration did not give this statement")


class Given(Record):
    """What one configuration gave at one turn."""

    hits: tuple[GivenHit, ...] = Field(default=(), description="the first hits")
    found: int = Field(default=0, description="all hits")
    tokens: int = 0
    noise_tokens: int = 0
    milliseconds: float = 0.0
    answerable: float | None = None
    context: Mapping[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    context_tokens: int = 0
    context_milliseconds: float = 0.0
    answer: str | None = None
    cited: tuple[str, ...] = ()
    answer_milliseconds: float = 0.0
    cents: float = Field(default=0.0, description="of the context and, with a model, of the answer")
    flags: tuple[TurnFlag, ...] = ()


class Turn(Record):
    """A message of a user, and what each configuration gave before it was retained."""

    number: int = Field(description="the number of its message in the report, from 0")
    question: bool = False
    before: int = Field(default=0, description="tokens of all messages before it")
    given: tuple[Given, ...] = ()
    different: bool = False


class Totals(Record):
    """Sums and shares over all turns of one configuration."""

    turns: int = 0
    questions: int = 0
    hits: int = 0
    tokens: int = 0
    noise_tokens: int = 0
    context_tokens: int = 0
    transcript_tokens: int = Field(default=0, description="if each turn were given all messages before it instead")
    stale: int = 0
    unanswerable: int = 0
    noise: int = 0
    recall_p50: float = 0.0
    recall_p95: float = 0.0
    context_p50: float = 0.0
    context_p95: float = 0.0
    cents: float = Field(default=0.0, description="of contexts and answers")
    retain_cents: float = 0.0
    transcript_cents: float = 0.0
    calls: int = 0
    seconds: float = Field(default=0.0, description="of the whole replay")


class Column(Record):
    """One configuration: its parts, its facts in the order in which they were stored, and its totals."""

    label: str
    engine: str
    embedder: str
    facts: tuple[KnownFact, ...] = ()
    totals: Totals = Field(default_factory=Totals)


Mark = Literal["right", "wrong"]


class Marked(Record):
    """What a reader marked at a turn: hits by message, or that nothing should have been given."""

    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    silent: bool = False


class Report(Record):
    """A replay."""

    format: Literal["vmemo-replay"] = FORMAT
    version: Literal[1] = VERSION
    created_at: Instant
    files: tuple[str, ...]
    origin: str | None = Field(default=None, description="the value of --from")
    messages: tuple[Said, ...]
    turns: tuple[Turn, ...]
    columns: tuple[Column, ...]
    prices: Prices | None = None
    threshold: float
    notes: tuple[str, ...] = ()
    marks: Mapping[str, Marked] = Field(default_factory=dict[str, Marked], description="by id of the turn's message")


def read_report(path: Path) -> Report:
    """Return the report of a file; raise InvalidInput if it is none."""
    try:
        return TypeAdapter(Report).validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} can't be read: {error.strerror}.") from error
    except InvalidInput as error:
        raise InvalidInput(f"{path} is not a report of `vmemo replay --json`: {error}") from error
    except (ValidationError, ValueError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else None
        rule = "is not JSON" if first is None else in_words(first["type"], first["msg"])
        place = "" if first is None else ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{path} is not a report of `vmemo replay --json`: {place} {rule}.") from error


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that a share of the values does not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def as_json(report: Report) -> str:
    """Return the report as JSON that may also stand in a script element; values that are the default are left out."""
    values = {"format": FORMAT, "version": VERSION, **report.model_dump(mode="json", exclude_defaults=True)}
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
