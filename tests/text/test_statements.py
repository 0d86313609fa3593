"""Division of a text into statements that can be outdated on their own."""

from __future__ import annotations

import pytest

from vmemo.text.split import split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("I live in Leeds.", ["I live in Leeds."]),
        ("I live in Leeds. My cat is grey", ["I live in Leeds.", "My cat is grey"]),
        ("Moved to Leeds!! It rains… a lot", ["Moved to Leeds!!", "It rains…", "a lot"]),
        ("I live in Leeds, and I work at a bakery.", ["I live in Leeds", "I work at a bakery."]),
        ("My feet hurt but the people are lovely", ["My feet hurt", "the people are lovely"]),
        ("I sold the car; we have two bikes", ["I sold the car", "we have two bikes"]),
        ("We got a dog and a cat.", ["We got a dog and a cat."]),
        ("I like tea and my brother.", ["I like tea and my brother."]),
        (
            "Dr. Smith said that the U.S. office in St. Ives is closed.",
            ["Dr. Smith said that the U.S. office in St. Ives is closed."],
        ),
        ("Thanks! I sold the car.", ["I sold the car."]),
        ("ok", []),
        ("", []),
        ("...", []),
    ],
)
def test_sentences_and_clauses_with_a_subject_are_statements(text: str, statements: list[str]) -> None:
    assert [each.text for each in split_statements(text)] == statements
