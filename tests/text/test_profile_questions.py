"""Questions that ask for a profile or a summary, and those that ask for something in particular."""

from __future__ import annotations

import pytest

from vmemo.text.questions import asks_for_profile


@pytest.mark.parametrize(
    "question",
    [
        "Tell me about Alice.",
        "Who is Bruno Hale?",
        "What is my sister like?",
        "What do you know about Acme?",
        "Can you describe Carla?",
        "What kind of person is Dan?",
        "Summarize what happened with the kitchen.",
        "Give me an overview of the project",
    ],
)
def test_a_question_for_a_profile_or_summary_is_recognised(question: str) -> None:
    assert asks_for_profile(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who is Alice's dentist?",
        "Who is the head of the choir?",
        "Tell me about Alice's trip to the museum.",
        "What does Alice like?",
        "Where does Bruno live?",
        "Who was at the party on Friday?",
        "Tell me about it",
        "",
    ],
)
def test_a_question_for_something_in_particular_is_none(question: str) -> None:
    assert not asks_for_profile(question)
