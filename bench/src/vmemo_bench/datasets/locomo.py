"""Parser of LoCoMo: conversations of two people, with evidence named by turn (`D3:12`)."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, JsonValue, TypeAdapter

from vmemo_bench.datasets.cases import Case, ChatSession, DatasetQuestion, ParsedDataset, Turn

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""Category 5 is unanswerable by design and is omitted from retrieval scores."""
ADVERSARIAL = 5


class LocomoTurn(BaseModel):
    dia_id: str
    speaker: str
    text: str
    blip_caption: str | None = None


class LocomoQuestion(BaseModel):
    question: str
    category: int
    evidence: list[str] = []
    answer: str | int | float | None = None
    adversarial_answer: str | None = None

    @property
    def gold(self) -> str:
        """The answer as text; a few are numbers, and most of category 5 have none."""
        return "" if self.answer is None else str(self.answer).strip()


class LocomoConversation(BaseModel):
    """A conversation in the file; `conversation` has keys `session_N` and `session_N_date_time`."""

    sample_id: str
    conversation: dict[str, JsonValue]
    qa: list[LocomoQuestion]


_FILE = TypeAdapter(list[LocomoConversation])
_TURNS = TypeAdapter(list[LocomoTurn])


def parse_time(text: str) -> datetime:
    """Parse a time such as `1:56 pm on 8 May, 2023` as UTC."""
    return datetime.strptime(text.strip(), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def parse(content: bytes, *, qa: bool = False) -> ParsedDataset:
    """Return the cases; questions of category 5, or without valid evidence, are omitted.

    With `qa`, the questions are those whose answer can be judged, with evidence or without.
    """
    cases: list[Case] = []
    unresolved = omitted = 0
    for raw in _FILE.validate_json(content):
        sessions = _sessions(raw.conversation)
        known = {turn.id for session in sessions for turn in session.turns}
        named = [(f"{raw.sample_id}/{n}", q) for n, q in enumerate(raw.qa)]
        asked = [(name, q) for name, q in named if (_can_be_judged(q) if qa else q.category in CATEGORIES)]
        unresolved += sum(turn not in known for _, q in asked for turn in set(q.evidence))
        questions = tuple(_question(name, q, known) for name, q in asked if qa or known & set(q.evidence))
        omitted += len(raw.qa) - len(questions)
        cases.append(Case(id=raw.sample_id, sessions=sessions, questions=questions))
    return ParsedDataset(cases=tuple(cases), skipped_evidence=unresolved, skipped_questions=omitted)


def _sessions(conversation: dict[str, JsonValue]) -> tuple[ChatSession, ...]:
    keys = [key for key in conversation if key.removeprefix("session_").isdecimal()]
    return tuple(_session(int(key.removeprefix("session_")), conversation) for key in keys)


def _session(number: int, conversation: dict[str, JsonValue]) -> ChatSession:
    name = f"session-{number}"
    turns = tuple(_turn(raw) for raw in _TURNS.validate_python(conversation[f"session_{number}"]))
    started = parse_time(str(conversation[f"session_{number}_date_time"]))
    return ChatSession(id=name, document=name, started_at=started, turns=turns)


def _turn(raw: LocomoTurn) -> Turn:
    photo = f" [photo: {raw.blip_caption}]" if raw.blip_caption else ""
    return Turn(id=raw.dia_id, text=raw.text + photo, speaker=raw.speaker)


def _question(name: str, raw: LocomoQuestion, known: set[str]) -> DatasetQuestion:
    return DatasetQuestion(
        id=name,
        text=raw.question,
        category=CATEGORIES.get(raw.category, "adversarial"),
        evidence=frozenset(raw.evidence) & known,
        answer=raw.gold,
        # A few adversarial questions have an answer: that the premise is false.
        answerable=raw.category != ADVERSARIAL or bool(raw.gold),
        lure=raw.adversarial_answer or "",
    )


def _can_be_judged(raw: LocomoQuestion) -> bool:
    return raw.category == ADVERSARIAL or (raw.category in CATEGORIES and bool(raw.gold))
