"""F2: the profile in words. Every disposition reads differently, and bias says how much of it shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest
from reflect_fixtures import character, citing, memory_with_model, retain_lines, systems
from syrupy.assertion import SnapshotAssertion

from vmemo import Disposition, Profile
from vmemo.reflect.answer_prompt import describe_bias, describe_character, describe_disposition

ALL = [Disposition(skepticism=a, literalism=b, empathy=c) for a, b, c in product(range(1, 6), repeat=3)]
BIASES = [0.0, 0.05, 0.2, 0.3, 0.5, 0.7, 0.8, 0.95, 1.0]


def test_all_dispositions_in_words(snapshot: SnapshotAssertion) -> None:
    wordings = {f"{each.skepticism}{each.literalism}{each.empathy}": describe_disposition(each) for each in ALL}
    assert len(wordings) == 125
    assert wordings == snapshot


def test_no_two_dispositions_read_the_same() -> None:
    assert len({describe_disposition(each) for each in ALL}) == 125


@pytest.mark.parametrize("trait", ["skepticism", "literalism", "empathy"])
def test_each_value_of_a_trait_has_a_wording_of_its_own(trait: str) -> None:
    """Turning one trait changes its own sentence and no other."""
    sentences: list[set[str]] = [
        set(re.split(r"(?<=\.) ", describe_disposition(Disposition(**{trait: value})))) for value in range(1, 6)
    ]
    shared = sentences[0] & sentences[1]
    assert len(shared) == 2
    assert len({frozenset(each - shared) for each in sentences}) == 5


def test_disposition_wordings_are_whole_sentences_in_the_second_person() -> None:
    for each in ALL:
        sentences = re.split(r"(?<=\.) ", describe_disposition(each))
        assert len(sentences) == 3
        for sentence in sentences:
            assert re.fullmatch(r"You \w+[^.]*\.", sentence), sentence
            assert "  " not in sentence
            assert not re.search(r"\b(\w+) \1\b", sentence)
            assert not re.search(r"\d", sentence)


def test_bias_goes_from_facts_alone_to_open_opinion(snapshot: SnapshotAssertion) -> None:
    assert {f"{bias:.2f}": describe_bias(bias) for bias in BIASES} == snapshot
    assert "facts only" in describe_bias(0.0)
    assert "openly opinionated" in describe_bias(1.0)
    assert len({describe_bias(bias) for bias in BIASES}) == 6


def test_without_bias_the_disposition_has_no_effect() -> None:
    assert len({describe_character(Profile(disposition=each, bias=0.0)) for each in ALL}) == 1
    assert len({describe_character(Profile(disposition=each, bias=0.1)) for each in ALL}) == 125


def test_the_profile_reaches_the_model_in_words_and_not_in_numbers(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My cat is called Tom.", profile=character(5, 1, 2, bias=0.9, name="Vera"))
    memory, model = memory_with_model(sqlite_url, citing("Tom {}.", "Tom"))
    with memory:
        memory.reflect_sync("What is the cat called?")
        (system,) = systems(model)
        assert describe_disposition(Disposition(skepticism=5, literalism=1, empathy=2)) in system
        assert describe_bias(0.9) in system
        assert "You are Vera." in system
        assert not re.search(r"skepticism|literalism|0\.9", system)


def test_two_profiles_are_shown_the_same_facts(tmp_path: Path) -> None:
    shown: list[str] = []
    for place, profile in enumerate((character(1, 2, 5), character(5, 5, 1))):
        url = f"sqlite:///{tmp_path / str(place)}.db"
        retain_lines(url, "My cat is called Tom.", "Tom likes fish.", profile=profile)
        memory, model = memory_with_model(url, citing("Tom {}.", "Tom likes"))
        with memory:
            answer = memory.reflect_sync("What does Tom like?")
            shown.append(model.received[0].user)
            assert [fact.text for fact in answer.facts] == ["Alice: Tom likes fish."]
    assert (
        shown[0].partition("The question")[2].splitlines()[1:] == shown[1].partition("The question")[2].splitlines()[1:]
    )


def test_all_prompts_of_a_reflection(sqlite_url: str, snapshot: SnapshotAssertion) -> None:
    """The complete prompt, because every change of it changes behaviour."""
    retain_lines(
        sqlite_url,
        "My cat is called Tom.",
        "Tom likes fish.",
        profile=character(2, 3, 4, background="I like cats."),
    )
    memory, model = memory_with_model(sqlite_url, citing("Fish {}.", "fish"))
    with memory:
        memory.reflect_sync("When did Alice say what Tom likes?", now=datetime(2024, 2, 1, tzinfo=UTC))
        (asked,) = model.received
        assert (asked.system, asked.user) == snapshot
