"""The type by which a question is answered, on a table of questions."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from vmemo.models import QueryType
from vmemo.text.questions import analyse_query
from vmemo.text.questions.types import answer_type, asks_for_former_state

NOW = datetime(2024, 5, 10, tzinfo=UTC)


class TypedQuestion(BaseModel):
    """A question with the types that fit, if it matters, and True if it asks for a former state."""

    model_config = ConfigDict(extra="forbid")

    question: str
    types: list[QueryType] = []
    former: bool = False


LINES = (Path(__file__).parent / "questions_by_type.jsonl").read_text(encoding="utf-8").splitlines()
QUESTIONS = [TypedQuestion.model_validate_json(line) for line in LINES]


def _answered(question: str) -> QueryType:
    return answer_type(question, analyse_query(question, NOW).type)


def test_questions_are_answered_by_what_they_ask_for() -> None:
    typed = [each for each in QUESTIONS if each.types]
    found = [(each.question, _answered(each.question), each.types) for each in typed]
    assert [each for each in found if each[1] not in each[2]] == []


def test_only_questions_about_an_earlier_state_ask_for_it() -> None:
    assert [each.question for each in QUESTIONS if asks_for_former_state(each.question) != each.former] == []
