"""The common form of all datasets: cases of chat sessions with questions about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from vmemo.models import Role
from vmemo_bench.options import DatasetName

RankedUnit = Literal["turn", "session"]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn of a session; the evidence of a question refers to its id."""

    id: str
    text: str
    speaker: str | None = None
    role: Role = "user"


@dataclass(frozen=True, kw_only=True)
class ChatSession:
    """One session of a conversation; it becomes one document of the bank."""

    id: str
    document: str
    started_at: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetQuestion:
    """A question with the turns, and where the dataset names them the sessions, that answer it.

    `asked_at` is the time of the question, if the dataset states one. `answer` is the correct answer, or the dataset's
    comment on a question that cannot be answered; `lure` is a wrong answer that such a question invites.
    """

    id: str
    text: str
    category: str
    evidence: frozenset[str]
    sessions: frozenset[str] = frozenset()
    asked_at: datetime | None = None
    answer: str = ""
    answerable: bool = True
    lure: str = ""
    rubric: tuple[str, ...] = ()
    """Criteria by which an answer is scored, if the dataset has them in place of one correct answer."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One conversation or haystack, retained into its own bank, and the questions about it."""

    id: str
    sessions: tuple[ChatSession, ...]
    questions: tuple[DatasetQuestion, ...]


@dataclass(frozen=True, kw_only=True)
class ParsedDataset:
    """Cases of a file, and the numbers of unresolved evidence references and of omitted questions."""

    cases: tuple[Case, ...]
    skipped_evidence: int
    skipped_questions: int


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Cases to run, a digest of their files, the ranked unit, and the tokens to recall."""

    name: DatasetName
    digest: str
    unit: RankedUnit
    max_tokens: int
    parsed: ParsedDataset
    cases: tuple[Case, ...]
