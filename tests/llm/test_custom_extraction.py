"""Extraction instructions and categories of the caller."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import JsonValue

from vmemo import Memory, Settings
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, RawText, ReceivedRequest

LINES = ["I run ten kilometres every morning.", "My sister Ines starts at the harbour clinic in May."]
SAID = datetime(2026, 3, 2, 9, tzinfo=UTC)
FACTS: list[JsonValue] = [
    {"what": "The user runs ten kilometres every morning.", "lines": [1], "categories": ["Health", "sports"]},
    {"what": "The user's sister Ines starts at the harbour clinic in May.", "lines": [2], "categories": "family"},
]


def _retained(settings: Settings, answer: JsonValue | RawText = None) -> tuple[Memory, list[ReceivedRequest]]:
    received: list[ReceivedRequest] = []

    def answers(request: ReceivedRequest) -> Any:
        received.append(request)
        if request.step == "extract":
            return answer or {"facts": FACTS}
        return {"facts": [{"text": LINES[0], "lines": [1], "categories": ["health"]}]}

    memory = Memory(":memory:", llm=FakeLLM(answers), embedder=HashEmbedder(), settings=settings)
    memory.retain_sync(LINES, timestamp=SAID, tags=["user:ana"])
    return memory, received


def test_a_request_without_instructions_and_categories_is_unchanged() -> None:
    plain, received = _retained(Settings(background=False))
    settings = Settings(background=False, extraction_instructions="Only health.", categories=("health",))
    custom, other = _retained(settings)
    with plain, custom:
        assert "categories" not in str(received[0].schema)
        assert other[0].system.startswith(received[0].system)
        assert other[0].user == received[0].user
        # What a model names unasked is not stored.
        assert {fact.tags for fact in plain.facts_sync()} == {("user:ana",)}


def test_instructions_are_added_between_markers_below_the_rules() -> None:
    memory, received = _retained(
        Settings(background=False, extraction_instructions="Keep {everything} about $health.\n")
    )
    with memory:
        added = received[0].system.partition("=== rules of the application ===")[2]
        assert added == "\nKeep {everything} about $health.\n=== end of these rules ==="
        assert "categories" not in str(received[0].schema)


def test_categories_become_tags_that_recall_filters_by() -> None:
    memory, received = _retained(Settings(background=False, categories=("health", "family", "work life")))
    with memory:
        assert '"health", "family", "work life"' in received[0].system
        assert "'enum': ['health', 'family', 'work life']" in str(received[0].schema)
        assert [fact.tags for fact in memory.facts_sync()] == [("user:ana", "health"), ("user:ana", "family")]
        found = memory.recall_sync("What does the user do?", tags=["family", "work life"], tags_match="any").facts
        assert [fact.tags[-1] for fact in found] == ["family"]


def test_a_small_model_assigns_categories_too() -> None:
    memory, received = _retained(Settings(background=False, categories=("health",)), RawText("no JSON"))
    with memory:
        assert received[-1].step == "extract_small"
        assert "'enum': ['health']" in str(received[-1].schema)
        assert [fact.tags for fact in memory.facts_sync()] == [("user:ana", "health")]


def test_both_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMEMO_EXTRACTION_INSTRUCTIONS", "Only health.")
    monkeypatch.setenv("VMEMO_CATEGORIES", "health, work life")
    settings = Settings.from_environment()
    assert (settings.extraction_instructions, settings.categories) == ("Only health.", ("health", "work life"))
