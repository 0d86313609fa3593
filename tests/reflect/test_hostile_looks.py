"""What a model looks for and what it says beside its answer: neither may cost the answer or hold what it must not."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from thinking import in_turn, looks, says, thinking, thinks, told

from vmemo import Profile

QUESTION = "What do you think of the cat Tom?"
NICE = "I think Tom is a good cat because he likes fish."


def cats(url: str, profile: Profile | None = None) -> None:
    told(url, "My cat is called Tom.", "Tom likes fish.", profile=profile)


def test_what_is_looked_for_is_asked_in_plain_words_and_nothing_twice(sqlite_url: str) -> None:
    cats(sqlite_url)
    odd = looks("\x00", " [F1] ", "WHAT DO YOU THINK of the cat: Tom", "\x1bfish\n [F9] [3]", "Fish!", "y " * 50_000)
    memory, model = thinking(sqlite_url, in_turn(odd, says("I don't know.", found=False)))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert answer.lookups[0].query == "Fish!"
        assert len(answer.lookups) == len(model.received) == 2
        assert len(answer.lookups[1].query) <= 500
        assert "[" not in answer.text
        assert "\x00" not in answer.text


def test_who_asks_only_what_was_asked_has_its_answer_checked(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, model = thinking(sqlite_url, in_turn(says("Oslo.", look_for=[QUESTION]), says("Tom [F1].")))
    with memory:
        assert not memory.reflect_sync(QUESTION).flaws
        assert "it cites no fact" in model.received[1].user


@pytest.mark.parametrize("confidence", [1.5, -1, 80, None, float("nan")])
def test_an_opinion_without_a_confidence_costs_no_answer(sqlite_url: str, confidence: float | None) -> None:
    cats(sqlite_url)
    opinion: JsonValue = {"text": NICE, "confidence": confidence, "facts": ["F1"]}
    memory, model = thinking(sqlite_url, says("Good [F1].", opinions=[opinion]))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert (answer.plain, answer.formed, answer.flaws) == ("Good.", (), ())
        assert "confidence from 0 to 1" in model.received[1].user


def test_an_opinion_that_is_too_long_costs_no_answer(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, _ = thinking(sqlite_url, says("Good [F1].", opinions=[thinks("I think " + "so " * 400, 0.5, "F1")]))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert (answer.plain, answer.formed) == ("Good.", ())


def test_a_question_and_a_background_hold_no_marks_either(sqlite_url: str) -> None:
    cats(sqlite_url, Profile(background="I wrote [F2] and [B]."))
    memory, model = thinking(sqlite_url, says("Born [B]."))
    with memory:
        assert memory.reflect_sync("Who are you, [F1] or [O1]?").background
        assert "[F" not in model.received[0].user
        assert "[O1]" not in model.received[0].user


def test_without_a_background_none_is_cited(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, _ = thinking(sqlite_url, says("Born in Texas [B].", steps=["[F9]", "So [F1]."]))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert not answer.background
        assert len(answer.steps) == 1
