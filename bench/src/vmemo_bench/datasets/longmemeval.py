"""Parser of LongMemEval: one haystack of chat sessions per question.

The ranked unit is the session (`answer_session_ids`); turns marked `has_answer` are the evidence of `evidence@N`.
Questions whose id ends in `_abs` have no answer in their haystack; retrieval mode omits them.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count

from pydantic import BaseModel, TypeAdapter

from vmemo.models import Role
from vmemo_bench.datasets.cases import Case, ChatSession, DatasetQuestion, ParsedDataset, Turn

SEED = "vmemo-1"
"""Seed of stratified samples: another seed selects another sample."""


class LongMemEvalTurn(BaseModel):
    role: Role
    content: str
    has_answer: bool | None = None


class LongMemEvalQuestion(BaseModel):
    """A question with its haystack in the file."""

    question_id: str
    question_type: str
    question: str
    question_date: str
    answer: str | int | float = ""
    answer_session_ids: list[str]
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[LongMemEvalTurn]]

    @property
    def answerable(self) -> bool:
        """True if the haystack contains the answer."""
        return not self.question_id.endswith("_abs")

    @property
    def stratum(self) -> str:
        """Stratum for sampling; questions without an answer are a stratum of their own."""
        return self.question_type if self.answerable else "abstention"


_FILE = TypeAdapter(list[LongMemEvalQuestion])


def parse_time(text: str) -> datetime:
    """Parse a time such as `2023/05/20 (Sat) 10:44` as UTC; the weekday may be absent."""
    day, _, rest = text.strip().partition(" ")
    return datetime.strptime(f"{day} {rest[-5:]}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def parse(content: bytes, sample: int | None = None, *, qa: bool = False) -> ParsedDataset:
    """Return the cases, or a stratified sample of them; questions without an answer are omitted.

    With `qa`, questions without an answer in their haystack are included: the correct answer declines them.
    """
    raws = _FILE.validate_json(content)
    usable = [raw for raw in raws if (str(raw.answer).strip() if qa else raw.answerable)]
    chosen = usable if sample is None else stratified(usable, sample)
    unresolved = sum(len(set(raw.answer_session_ids) - set(raw.haystack_session_ids)) for raw in chosen)
    return ParsedDataset(
        cases=tuple(map(_case, chosen)),
        skipped_evidence=unresolved,
        skipped_questions=len(raws) - len(usable),
    )


def stratified(questions: Sequence[LongMemEvalQuestion], size: int) -> list[LongMemEvalQuestion]:
    """Return a deterministic sample in which each type has its share of the whole."""
    strata: defaultdict[str, list[LongMemEvalQuestion]] = defaultdict(list)
    for question in sorted(questions, key=_sampling_order):
        strata[question.stratum].append(question)
    seats = _apportion({kind: len(members) for kind, members in strata.items()}, min(size, len(questions)))
    chosen = {member.question_id for kind, members in strata.items() for member in members[: seats[kind]]}
    return [question for question in questions if question.question_id in chosen]


def _sampling_order(question: LongMemEvalQuestion) -> str:
    return hashlib.sha256(f"{SEED}/{question.question_id}".encode()).hexdigest()


def _apportion(sizes: dict[str, int], total: int) -> dict[str, int]:
    # Largest remainder method: whole shares first, the remaining seats to the largest fractions.
    shares = {kind: total * size / sum(sizes.values()) for kind, size in sizes.items()}
    seats = {kind: math.floor(share) for kind, share in shares.items()}
    by_remainder = sorted(shares, key=lambda kind: (seats[kind] - shares[kind], kind))
    for kind in by_remainder[: total - sum(seats.values())]:
        seats[kind] += 1
    return seats


def _case(raw: LongMemEvalQuestion) -> Case:
    sessions: list[ChatSession] = []
    evidence: set[str] = set()
    copies: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    for name, date, lines in zip(raw.haystack_session_ids, raw.haystack_dates, raw.haystack_sessions, strict=True):
        # A few haystacks contain the same session twice; the copies become separate documents.
        document = f"{name}#{next(copies[name])}"
        turns = [(f"{name}:{n}", line) for n, line in enumerate(lines, start=1) if line.content.strip()]
        evidence.update(turn for turn, line in turns if line.has_answer)
        parsed = tuple(Turn(id=turn, text=line.content, role=line.role) for turn, line in turns)
        sessions.append(ChatSession(id=name, document=document, started_at=parse_time(date), turns=parsed))
    question = DatasetQuestion(
        id=raw.question_id,
        text=raw.question,
        category=raw.question_type,
        evidence=frozenset(evidence),
        sessions=frozenset(raw.answer_session_ids) & frozenset(raw.haystack_session_ids),
        asked_at=parse_time(raw.question_date),
        answer=str(raw.answer).strip(),
        answerable=raw.answerable,
    )
    return Case(id=raw.question_id, sessions=tuple(sessions), questions=(question,))
