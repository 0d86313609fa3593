"""Invalid lookups, opinions and steps: none of them invalidates the answer."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from reflect_fixtures import answers_in_turn, lookup_request, memory_with_model, opinion_json, retain_lines, says

from vmemo import Profile

STORES = ("sqlite",)

QUESTION = "What do you think of the cat Tom?"
NICE = "I think Tom is a good cat because he likes fish."


def cats(url: str, profile: Profile | None = None) -> None:
    retain_lines(url, "My cat is called Tom.", "Tom likes fish.", profile=profile)


def test_lookup_queries_are_cleaned_and_not_repeated(sqlite_url: str) -> None:
    cats(sqlite_url)
    odd = lookup_request(
        "\x00", " [F1] ", "WHAT DO YOU THINK of the cat: Tom", "\x1bfish\n [F9] [3]", "Fish!", "y " * 50_000
    )
    memory, model = memory_with_model(sqlite_url, answers_in_turn(odd, says("I don't know.", found=False)))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert answer.lookups[0].query == "Fish!"
        assert len(answer.lookups) == len(model.received) == 2
        assert len(answer.lookups[1].query) <= 500
        assert "[" not in answer.text
        assert "\x00" not in answer.text


def test_an_answer_with_only_repeated_lookups_is_checked(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, model = memory_with_model(
        sqlite_url, answers_in_turn(says("Oslo.", calls=[{"tool": "search", "query": QUESTION}]), says("Tom [F1]."))
    )
    with memory:
        assert not memory.reflect_sync(QUESTION).flaws
        assert "it cites no fact" in model.received[1].user


@pytest.mark.parametrize("confidence", [1.5, -1, 80, None, float("nan")])
def test_an_opinion_without_confidence_does_not_invalidate_the_answer(
    sqlite_url: str, confidence: float | None
) -> None:
    cats(sqlite_url)
    opinion: JsonValue = {"text": NICE, "confidence": confidence, "facts": ["F1"]}
    memory, model = memory_with_model(sqlite_url, says("Good [F1].", opinions=[opinion]))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert (answer.plain, answer.formed, answer.flaws) == ("Good.", (), ())
        assert "confidence from 0 to 1" in model.received[1].user


def test_a_too_long_opinion_does_not_invalidate_the_answer(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, _ = memory_with_model(
        sqlite_url, says("Good [F1].", opinions=[opinion_json("I think " + "so " * 400, 0.5, "F1")])
    )
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert (answer.plain, answer.formed) == ("Good.", ())


def test_marks_in_the_question_and_the_background_are_escaped(sqlite_url: str) -> None:
    cats(sqlite_url, Profile(background="I wrote [F2] and [B]."))
    memory, model = memory_with_model(sqlite_url, says("Born [B]."))
    with memory:
        assert memory.reflect_sync("Who are you, [F1] or [O1]?").background
        assert "[F" not in model.received[0].user
        assert "[O1]" not in model.received[0].user


def test_a_missing_background_cannot_be_cited(sqlite_url: str) -> None:
    cats(sqlite_url)
    memory, _ = memory_with_model(sqlite_url, says("Born in Texas [B].", steps=["[F9]", "So [F1]."]))
    with memory:
        answer = memory.reflect_sync(QUESTION)
        assert not answer.background
        assert len(answer.steps) == 1
