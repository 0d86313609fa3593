"""The tense of a question moves later statements up or down among the best candidates."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vmemo import Memory, Message
from vmemo.models.settings import Settings

SAID = (
    ("My desk is on the second floor.", datetime(2024, 1, 5, tzinfo=UTC)),
    ("My desk is on the fourth floor.", datetime(2024, 9, 5, tzinfo=UTC)),
    ("We keep two goats behind the house.", datetime(2024, 3, 1, tzinfo=UTC)),
    ("The choir practises on Mondays.", datetime(2024, 4, 1, tzinfo=UTC)),
    ("My bicycle was stolen at the station.", datetime(2024, 5, 1, tzinfo=UTC)),
    ("Salma bakes bread with rye flour.", datetime(2024, 6, 1, tzinfo=UTC)),
)


@pytest.mark.parametrize(
    ("question", "floor"),
    [("Which floor is my desk on now?", "fourth"), ("Which floor was my desk on before?", "second")],
)
def test_a_question_about_the_present_prefers_the_later_statement(question: str, floor: str) -> None:
    # Without revision, only the tense tells the two statements apart; the others show how near both are.
    with Memory(":memory:", settings=Settings(revision=False)) as memory:
        memory.retain_sync([Message(role="user", content=text, timestamp=at) for text, at in SAID])
        assert floor in memory.recall_sync(question).hits[0].text
