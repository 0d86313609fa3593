"""Our own conversations: sessions of named turns, questions with evidence and a kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, TypeAdapter

from vmemo_bench.datasets.cases import Case, Parsed, Question, Session, Turn


class RawTurn(BaseModel):
    """A turn as the file holds it."""

    id: str
    speaker: str
    text: str


class RawSession(BaseModel):
    """A session as the file holds it."""

    n: int
    date: str
    turns: list[RawTurn]


class RawQuestion(BaseModel):
    """A question as the file holds it; kind `adversarial` has no evidence."""

    question: str
    kind: str
    evidence: list[str] = []
    answer: str = ""
    asked_at: str | None = None


class RawConversation(BaseModel):
    """A conversation as the file holds it."""

    id: str
    sessions: list[RawSession]
    questions: list[RawQuestion]


_FILE = TypeAdapter(RawConversation)


def parse_time(text: str) -> datetime:
    """A day or a time in ISO 8601, taken as UTC where it has no zone."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse(contents: Sequence[bytes], *, qa: bool = False) -> Parsed:
    """Cases, evidence strings that name no turn, and questions left out because no evidence remains.

    With `qa` all are in that have an answer, also those whose answer is that it is not known.
    """
    cases: list[Case] = []
    unresolved = left_out = 0
    for content in contents:
        raw = _FILE.validate_json(content)
        known = {turn.id for session in raw.sessions for turn in session.turns}
        asked = [(f"{raw.id}/{n}", question) for n, question in enumerate(raw.questions)]
        unresolved += sum(piece not in known for _, q in asked for piece in set(q.evidence))
        kept = [(name, q) for name, q in asked if (q.answer if qa else known & set(q.evidence))]
        questions = tuple(_question(name, q, known) for name, q in kept)
        left_out += len(asked) - len(questions)
        sessions = tuple(map(_session, raw.sessions))
        cases.append(Case(id=raw.id, sessions=sessions, questions=questions))
    return Parsed(cases=tuple(cases), skipped_evidence=unresolved, skipped_questions=left_out)


def _session(raw: RawSession) -> Session:
    name = f"session-{raw.n}"
    return Session(id=name, document=name, started_at=parse_time(raw.date), turns=tuple(map(_turn, raw.turns)))


def _turn(raw: RawTurn) -> Turn:
    role = "assistant" if raw.speaker == "Assistant" else "user"
    return Turn(id=raw.id, text=raw.text, speaker=raw.speaker, role=role)


def _question(name: str, raw: RawQuestion, known: set[str]) -> Question:
    return Question(
        id=name,
        text=raw.question,
        category=raw.kind,
        evidence=frozenset(raw.evidence) & known,
        asked_at=parse_time(raw.asked_at) if raw.asked_at else None,
        answer=raw.answer,
        answerable=raw.kind != "adversarial",
    )
