"""Answers in the caller's schema, and answers without a model (F7)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, Field, JsonValue
from reflect_fixtures import answers_in_turn, citing, memory_with_model, retain_lines, says

from vmemo import LLMUnusable, Memory, Unsupported
from vmemo_conformance.embedders import HashEmbedder

JSON: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "years": {"type": ["integer", "null"], "minimum": 0}},
    "required": ["city", "years"],
    "additionalProperties": False,
}


class Home(BaseModel):
    """A person's home."""

    city: str
    years: int | None = Field(ge=0)


ROME: JsonValue = {"city": "Rome", "years": None}


@pytest.mark.parametrize("schema", [Home, JSON], ids=["model", "schema"])
def test_an_answer_fills_the_callers_schema(sqlite_url: str, schema: type[BaseModel] | dict[str, JsonValue]) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, model = memory_with_model(sqlite_url, citing("In Rome {}.", "Rome"), structure=ROME)
    with memory:
        answer = memory.reflect_sync("Where does Vera live?", schema=schema)
        assert answer.data == ROME
        assert answer.plain == "In Rome."
        assert len(answer.facts) == 1
        assert answer.usage.calls == 2
        asked = model.received[1]
        assert asked.schema is not None
        assert set(asked.schema["properties"]) == {"city", "years"}  # type: ignore[arg-type]
        assert "In Rome." in asked.user
        assert "My sister Vera lives in Rome." in asked.user
        assert {each.step for each in memory.status_sync().spending} == {"reflect", "structure"}


@pytest.mark.parametrize("schema", [Home, JSON], ids=["model", "schema"])
@pytest.mark.parametrize("wrong", [{"city": 7, "years": None}, {"years": 1}, {"city": "Rome", "years": -1}, [], "Rome"])
def test_data_that_violates_the_schema_is_repaired_once(
    sqlite_url: str, schema: type[BaseModel] | dict[str, JsonValue], wrong: JsonValue
) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, _ = memory_with_model(sqlite_url, citing("In Rome {}.", "Rome"), structure=answers_in_turn(wrong, ROME))
    with memory:
        assert memory.reflect_sync("Where does Vera live?", schema=schema).data == ROME
    memory, _ = memory_with_model(sqlite_url, citing("In Rome {}.", "Rome"), structure=answers_in_turn(wrong))
    with memory, pytest.raises(LLMUnusable, match="structure"):
        memory.reflect_sync("Where does Vera live?", schema=schema)


def test_an_answer_that_is_not_found_fills_no_schema(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    memory, model = memory_with_model(sqlite_url, says("I don't know.", found=False))
    with memory:
        answer = memory.reflect_sync("Where does Tom live?", schema=Home)
        assert (answer.found, answer.data) == (False, None)
        assert [asked.step for asked in model.received] == ["reflect"]


def test_a_schema_without_a_model_raises_unsupported(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory, pytest.raises(Unsupported, match="language model"):
        memory.reflect_sync("Where does Vera live?", schema=Home)


# F7


def test_without_a_model_the_best_facts_are_quoted(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "My sister Vera lives in Rome.")
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        answer = memory.reflect_sync("What do you think of Vera living in Rome?")
        (fact,) = answer.facts
        assert answer.extractive
        assert "extractive: no language model is configured" in answer.text
        assert "no opinion is formed" in answer.text
        assert f"8 January 2024: Alice: My sister Vera lives in Rome. [{fact.id}]" in answer.text
        assert (answer.formed, memory.opinions_sync()) == ((), [])


def test_extractive_answers_are_dated(sqlite_url: str) -> None:
    retain_lines(sqlite_url, "I bought a boat yesterday.")
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory:
        answer = memory.reflect_sync("How many days ago did Alice buy a boat?", now=datetime(2024, 2, 23, tzinfo=UTC))
        assert "7 January 2024" in answer.text
        assert "- 8 January 2024: Alice: I bought a boat" in answer.text


def test_merging_a_background_without_a_model_raises_unsupported(sqlite_url: str) -> None:
    with Memory(sqlite_url, embedder=HashEmbedder()) as memory, pytest.raises(Unsupported, match="language model"):
        memory.add_background_sync("You are an engineer.")
