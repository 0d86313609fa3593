"""Parser of BEAM: long chats of one user with an assistant, and probing questions of ten types with rubrics.

A batch of a chat is one session: its first turn has the date that also holds for the turns which follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pydantic import BaseModel, JsonValue, TypeAdapter

from vmemo.models import Role
from vmemo_bench.datasets.cases import Case, ChatSession, DatasetQuestion, ParsedDataset, Turn

_MARKER = re.compile(r"\s*->->[^\n]*\Z")
"""The marker that ends a user's turn."""
_ABSTENTION = "abstention"
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
"""Fields of the correct answer, which depend on the type of a question."""


class BeamTurn(BaseModel):
    """A turn in the file; `time_anchor` dates it and the turns that follow."""

    role: Role
    id: int
    content: str
    time_anchor: str | None = None


class BeamBatch(BaseModel):
    turns: list[list[BeamTurn]]


class BeamFiles(NamedTuple):
    """The name of a conversation, and the contents of its files."""

    name: str
    chat: bytes
    questions: bytes


_CHAT = TypeAdapter(list[BeamBatch])
_QUESTIONS = TypeAdapter(dict[str, list[dict[str, JsonValue]]])


def parse_turns(content: bytes) -> Iterator[tuple[datetime, Turn]]:
    """Yield the turns of a chat with their times; turns before the first date are omitted."""
    for session in _sessions(content):
        yield from ((session.started_at, turn) for turn in session.turns)


def parse(conversations: Sequence[BeamFiles], *, qa: bool = False) -> ParsedDataset:
    """Return the cases; questions without valid evidence are omitted, unless they are answered and judged (`qa`)."""
    cases: list[Case] = []
    unresolved = omitted = 0
    for files in conversations:
        sessions = tuple(_sessions(files.chat))
        known = {turn.id for session in sessions for turn in session.turns}
        asked = list(_questions(files))
        unresolved += sum(len(question.evidence - known) for question in asked)
        kept = [question for question in asked if qa or question.evidence & known]
        omitted += len(asked) - len(kept)
        cases.append(Case(id=files.name, sessions=sessions, questions=tuple(kept)))
    return ParsedDataset(cases=tuple(cases), skipped_evidence=unresolved, skipped_questions=omitted)


def _sessions(content: bytes) -> Iterator[ChatSession]:
    said: datetime | None = None
    for number, batch in enumerate(_CHAT.validate_json(content), start=1):
        turns: list[Turn] = []
        for raw in (raw for group in batch.turns for raw in group):
            if raw.time_anchor:
                said = datetime.strptime(raw.time_anchor, "%B-%d-%Y").replace(tzinfo=UTC)
            if said is not None:
                turns.append(Turn(id=str(raw.id), text=_MARKER.sub("", raw.content), role=raw.role))
        if said is not None and turns:
            name = f"session-{number}"
            yield ChatSession(id=name, document=name, started_at=said, turns=tuple(turns))


def _questions(files: BeamFiles) -> Iterator[DatasetQuestion]:
    for category, questions in sorted(_QUESTIONS.validate_json(files.questions).items()):
        for number, raw in enumerate(questions):
            rubric = raw["rubric"]
            yield DatasetQuestion(
                id=f"{files.name}/{category}/{number}",
                text=str(raw["question"]),
                category=category,
                evidence=frozenset(_ids(raw.get("source_chat_ids"))),
                answer=next((str(raw[name]) for name in _ANSWERS if raw.get(name)), ""),
                answerable=category != _ABSTENTION,
                rubric=tuple(map(str, rubric if isinstance(rubric, list) else [rubric])),
            )


def _ids(value: JsonValue) -> Iterator[str]:
    """Yield the ids of turns, which are nested in lists, or in objects by their meaning."""
    if isinstance(value, int):
        yield str(value)
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _ids(part)
