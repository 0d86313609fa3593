"""Texts in other languages than English, to which English rules do not apply."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict

import pytest

from vmemo import Memory, Message
from vmemo.text.names import find_names
from vmemo.text.names.lexicon import MAX_CHARACTERS, is_foreign
from vmemo_conformance.embedders import HashEmbedder


class Line(TypedDict):
    """A line of a conversation and the names that the English rules may find in it."""

    language: str
    text: str
    names: list[str]


LINES: list[Line] = [
    json.loads(line)
    for line in Path(__file__).with_name("language_lines.jsonl").read_text(encoding="utf-8").splitlines()
]
FOREIGN = [line["text"] for line in LINES if line["language"] != "en"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["text"])
def test_names_are_found_in_english_and_never_in_other_languages(line: Line) -> None:
    assert is_foreign(line["text"]) == (line["language"] != "en")
    assert [entity.name for entity in find_names(line["text"])] == line["names"]


def test_the_table_has_enough_lines() -> None:
    assert len(FOREIGN) >= 60
    assert len(LINES) - len(FOREIGN) >= 60
    languages = "de fr es it pt nl pl tr ru zh ja ko ar en".split()
    assert {line["language"] for line in LINES} == set(languages)


@pytest.mark.parametrize("word", ["Ich", "Gestern", "Gestern!", "La", "Mañana", "Hier", "Ich auch", "Demain?", "Oggi"])
def test_a_single_function_word_is_not_a_name(word: str) -> None:
    assert find_names(word) == ()


def test_speakers_are_found_in_every_language() -> None:
    for text, speaker in [
        ("Gestern war ich mit Maria in Hamburg.", "Maria"),
        ("昨天我和小明在北京吃饭。", "小明"),
        ("Вчера я обедал с Машей в Москве.", "Машей"),
    ]:
        assert [entity.name for entity in find_names(text, speakers=[speaker])] == [speaker]


def test_only_the_beginning_of_a_long_text_is_examined() -> None:
    german = "Ich habe gestern mit Maria in Hamburg gegessen. "
    assert is_foreign(german * 20_000)
    assert not is_foreign("I had dinner with her in the city and then we went home. " * 10 + german * 20_000)
    assert MAX_CHARACTERS < 1000


def test_a_german_conversation_has_only_its_speakers_as_entities() -> None:
    said = [
        ("Jonas", "Ich wohne jetzt in Leipzig und arbeite bei der Stadt."),
        ("Petra", "Gestern habe ich deine Schwester im Supermarkt getroffen."),
        ("Jonas", "Ich wohne nicht mehr in Leipzig, wir sind nach Dresden gezogen."),
    ]
    with Memory(":memory:", embedder=HashEmbedder()) as memory:
        messages = [Message(speaker=speaker, content=text) for speaker, text in said]
        memory.retain_sync(messages)
        assert {entity.name for entity in memory.entities_sync()} == {"Jonas", "Petra"}
        facts = memory.facts_sync()
        assert len(facts) == 3
        assert all(fact.invalid_at is None or fact.invalid_at > datetime.now(UTC) for fact in facts)
