"""What every dataset is turned into: cases, each one bank's worth of sessions with questions about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from vmemo.models import Role
from vmemo_bench.options import DatasetName

Unit = Literal["turn", "session"]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One line of a session; questions name it by its id."""

    id: str
    text: str
    speaker: str | None = None
    role: Role = "user"


@dataclass(frozen=True, kw_only=True)
class Session:
    """One sitting; it becomes one document of the bank."""

    id: str
    document: str
    started_at: datetime
    turns: tuple[Turn, ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with the turns, and where the dataset names them the sessions, that answer it.

    `asked_at` is the moment it is asked, where the dataset tells. `answer` is the right answer, or what is said in its
    place of a question that memory can't answer; `lure` is a wrong answer that such a question invites.
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


@dataclass(frozen=True, kw_only=True)
class Case:
    """One conversation or haystack, kept in a bank of its own, and the questions asked of it."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What a parser made of a file: cases, evidence that names nothing in it, and questions left out."""

    cases: tuple[Case, ...]
    skipped_evidence: int
    skipped_questions: int


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Cases to run, the files they come from, the unit that is ranked, and how deep to recall for it."""

    name: DatasetName
    digest: str
    unit: Unit
    max_tokens: int
    parsed: Parsed
    cases: tuple[Case, ...]
