"""Parser of our own conversations: sessions of turns with ids, questions with evidence and a kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, TypeAdapter

from vmemo_bench.datasets.cases import Case, ChatSession, DatasetQuestion, ParsedDataset, Turn


class OursTurn(BaseModel):
    id: str
    speaker: str
    text: str


class OursSession(BaseModel):
    n: int
    date: str
    turns: list[OursTurn]


class OursQuestion(BaseModel):
    """A question in the file; kind `adversarial` has no evidence."""

    question: str
    kind: str
    evidence: list[str] = []
    answer: str = ""
    asked_at: str | None = None


class OursConversation(BaseModel):
    id: str
    sessions: list[OursSession]
    questions: list[OursQuestion]


_FILE = TypeAdapter(OursConversation)


def parse_time(text: str) -> datetime:
    """Parse a date or time in ISO 8601, as UTC if it has no time zone."""
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def parse(contents: Sequence[bytes], *, qa: bool = False) -> ParsedDataset:
    """Return the cases; questions without valid evidence are omitted.

    With `qa`, all questions with an answer are included, also those whose answer is that it is not known.
    """
    cases: list[Case] = []
    unresolved = omitted = 0
    for content in contents:
        raw = _FILE.validate_json(content)
        known = {turn.id for session in raw.sessions for turn in session.turns}
        asked = [(f"{raw.id}/{n}", question) for n, question in enumerate(raw.questions)]
        unresolved += sum(turn not in known for _, q in asked for turn in set(q.evidence))
        kept = [(name, q) for name, q in asked if (q.answer if qa else known & set(q.evidence))]
        questions = tuple(_question(name, q, known) for name, q in kept)
        omitted += len(asked) - len(questions)
        sessions = tuple(map(_session, raw.sessions))
        cases.append(Case(id=raw.id, sessions=sessions, questions=questions))
    return ParsedDataset(cases=tuple(cases), skipped_evidence=unresolved, skipped_questions=omitted)


def _session(raw: OursSession) -> ChatSession:
    name = f"session-{raw.n}"
    return ChatSession(id=name, document=name, started_at=parse_time(raw.date), turns=tuple(map(_turn, raw.turns)))


def _turn(raw: OursTurn) -> Turn:
    role = "assistant" if raw.speaker == "Assistant" else "user"
    return Turn(id=raw.id, text=raw.text, speaker=raw.speaker, role=role)


def _question(name: str, raw: OursQuestion, known: set[str]) -> DatasetQuestion:
    return DatasetQuestion(
        id=name,
        text=raw.question,
        category=raw.kind,
        evidence=frozenset(raw.evidence) & known,
        asked_at=parse_time(raw.asked_at) if raw.asked_at else None,
        answer=raw.answer,
        answerable=raw.kind != "adversarial",
    )
