"""Times of questions, each resolved against the time at which it is asked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from vmemo.models import Interval
from vmemo.text.temporal import find_times

Borders = tuple[str | None, str | None]


class Question(BaseModel):
    """A question, the time at which it is asked, and the accepted ranges; none if nothing should be found."""

    model_config = ConfigDict(extra="forbid")

    q: str
    now: datetime
    expect: list[Borders]


TABLE = Path(__file__).parent / "temporal_questions.jsonl"
QUESTIONS = [Question.model_validate_json(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]


def _borders(interval: Interval) -> Borders:
    start, end = interval.start, interval.end
    return start and f"{start:%Y-%m-%d}", end and f"{end:%Y-%m-%d}"


def _found(question: Question) -> list[Borders]:
    found = find_times(question.q, question.now)
    return [_borders(each.broad_interval) for each in found]


def _is_right(question: Question) -> bool:
    found = _found(question)
    return bool(found) == bool(question.expect) and all(borders in question.expect for borders in found)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.q)
def test_a_question_is_resolved_against_the_time_it_is_asked(question: Question) -> None:
    assert _is_right(question), _found(question)
