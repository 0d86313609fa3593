"""Records of a QA run: the recalled context of a question, its answer, and the verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal

from vmemo.models import Network
from vmemo.models.results import MemoryLookup, Usage
from vmemo_bench.json_files import FileRecord

Judge = Literal["strict", "lenient", "rubric"]
JUDGES: tuple[Judge, ...] = ("strict", "lenient")
"""Judges of a question with one correct answer; a question with a rubric has a judge of its own."""


class BankSize(FileRecord):
    case: str
    messages: int
    facts: int


class RecalledFact(FileRecord):
    """A recalled fact with its rank, its rank in each channel, and whether it is evidence."""

    rank: int
    score: float
    day: str
    text: str
    channels: Mapping[str, int]
    evidence: bool


class RecalledContext(FileRecord):
    """Facts recalled for a question before it is answered, the first of them with their text."""

    id: str
    type: str
    """Question type that recall detected."""
    tokens: int
    count: int
    metrics: Mapping[str, float]
    facts: tuple[RecalledFact, ...]
    timings: Mapping[str, float]


class CitedFact(FileRecord):
    """A fact, observation or opinion that an answer cites."""

    network: Network
    day: str
    text: str
    evidence: bool


class GivenAnswer(FileRecord):
    """An answer without citation marks. Fields that are None or empty are not known for imported answers."""

    id: str
    text: str
    found: bool | None = None
    steps: tuple[str, ...] = ()
    lookups: tuple[MemoryLookup, ...] = ()
    cited: tuple[CitedFact, ...] | None = None
    flaws: tuple[str, ...] | None = None
    usage: Usage = Usage()
    ms: float | None = None

    @property
    def digest(self) -> str:
        """Identifies this answer in the keys of its verdicts."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:16]


class JudgeVerdict(FileRecord):
    """The verdict of one judge on one answer."""

    id: str
    judge: Judge
    answer: str
    """Digest of the answer."""
    correct: bool
    scores: tuple[float, ...] = ()
    """Scores of the criteria of a rubric; the answer is correct if all of them are met."""
    reason: str = ""
    usage: Usage = Usage()

    @property
    def key(self) -> str:
        return verdict_key(self.id, self.judge, self.answer)


def verdict_key(question: str, judge: Judge, answer: str) -> str:
    """Return the key of the verdict of a judge on an answer, given by its digest."""
    return f"{judge} {answer} {question}"


class JudgedQuestion(FileRecord):
    """A question with its recalled context, its answer, the verdicts, and the cost in dollars."""

    id: str
    category: str
    rule: str
    question: str
    asked_on: str
    gold: str
    answerable: bool
    answer: GivenAnswer
    strict: JudgeVerdict | None = None
    lenient: JudgeVerdict | None = None
    rubric: JudgeVerdict | None = None
    recalled: RecalledContext | None
    cost: float

    @property
    def verdicts(self) -> tuple[JudgeVerdict, ...]:
        """The verdicts on the answer: of two judges, or by a rubric."""
        return tuple(verdict for verdict in (self.strict, self.lenient, self.rubric) if verdict is not None)

    @property
    def judging(self) -> Usage:
        """The usage of all judges."""
        return sum((verdict.usage for verdict in self.verdicts), Usage())

    @property
    def disputed(self) -> bool:
        return len({verdict.correct for verdict in self.verdicts}) > 1
