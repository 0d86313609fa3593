"""Corrections in words."""

import pytest

from vmemo.text.corrections import is_correction


@pytest.mark.parametrize(
    "text",
    [
        "Sorry, I meant 60 months.",
        "correction: the van is blue",
        "Scratch that, 24,000.",
        "Wait, no, scratch that. We meet on Friday.",
        "Please do. A correction, having counted again: there are 43 chapters.",
        "By the way, sorry, I wrote 5,600 for the room, I meant 6,500.",
        "Forget what I said about the flat.",
    ],
)
def test_a_speaker_takes_back_an_own_statement(text: str) -> None:
    assert is_correction(text)


@pytest.mark.parametrize(
    "text",
    [
        "I live in Oslo now.",
        "The correction you gave me was good.",
        "I'm sorry about the noise.",
        "Actually I like it.",
        "She meant well.",
    ],
)
def test_other_statements_correct_nothing(text: str) -> None:
    assert not is_correction(text)
