"""What is noted of a question on its way: what was recalled for it, how it was answered, and the verdicts on that."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from vmemo.models import Network
from vmemo.models.results import MemoryLookup, Usage

Judge = Literal["strict", "lenient"]
JUDGES: tuple[Judge, ...] = get_args(Judge)


class _Noted(BaseModel):
    model_config = ConfigDict(frozen=True)


class Held(_Noted):
    """How much the bank of a case holds."""

    case: str
    messages: int
    facts: int


class Shown(_Noted):
    """A recalled fact: its place, what each channel thought of it, and whether it is evidence."""

    rank: int
    score: float
    day: str
    text: str
    channels: Mapping[str, int]
    """Ranks by channel."""
    evidence: bool


class Recollection(_Noted):
    """What recall brings for a question, the first facts of it whole."""

    id: str
    type: str
    """What kind of question recall takes it for."""
    tokens: int
    count: int
    metrics: Mapping[str, float]
    facts: tuple[Shown, ...]
    timings: Mapping[str, float]


class Cited(_Noted):
    """Something that an answer rests on."""

    network: Network
    day: str
    text: str
    evidence: bool


class Answered(_Noted):
    """An answer without its marks. What is None or empty is not known of answers from elsewhere."""

    id: str
    text: str
    found: bool | None = None
    steps: tuple[str, ...] = ()
    looked: tuple[MemoryLookup, ...] = ()
    cited: tuple[Cited, ...] | None = None
    flaws: tuple[str, ...] | None = None
    usage: Usage = Usage()
    ms: float | None = None

    @property
    def digest(self) -> str:
        """What verdicts on this very answer are noted under."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()[:16]


class Verdict(_Noted):
    """What one judge says of one answer."""

    id: str
    judge: Judge
    answer: str
    """The answer's digest."""
    correct: bool
    reason: str = ""
    usage: Usage = Usage()

    @property
    def key(self) -> str:
        """The same only for the same judge of the same answer to the same question."""
        return verdict_key(self.id, self.judge, self.answer)


def verdict_key(question: str, judge: Judge, answer: str) -> str:
    """What a verdict is found by."""
    return f"{judge} {answer} {question}"


class Examined(_Noted):
    """A question with all that came of it."""

    id: str
    category: str
    rule: str
    question: str
    asked_on: str
    gold: str
    answerable: bool
    answer: Answered
    strict: Verdict
    lenient: Verdict
    recalled: Recollection | None
    cost: float
    """In dollars, of answering and judging."""

    @property
    def disputed(self) -> bool:
        """Whether the judges disagree."""
        return self.strict.correct != self.lenient.correct
