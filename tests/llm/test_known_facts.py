"""Known facts that the extraction is shown, and pairs that are judged afterwards, by a scripted revision model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from conversations import days, fast_settings, said
from scripted_model import ScriptedModel

from vmemo import Memory
from vmemo.models.search import StatementPair
from vmemo.retain import llm_pipeline
from vmemo.testing import FakeLLM, HashEmbedder

ALICE = ("Alice", "PERSON")


@dataclass(frozen=True)
class ScriptedRevisionModel:
    """Gives a probability to pairs whose earlier and later statements contain some words, and none to others."""

    suspects: Sequence[tuple[str, str]]
    name: str = "scripted"
    encoder: str = "hash"

    async def score(self, pairs: Sequence[StatementPair]) -> list[float]:
        """Return the probability of each pair."""
        return [0.9 * any(old in pair.earlier and new in pair.later for old, new in self.suspects) for pair in pairs]


def a_memory(url: str, llm: FakeLLM, *suspects: tuple[str, str]) -> Memory:
    revision_model = ScriptedRevisionModel(suspects)
    return Memory(url, llm=llm, embedder=HashEmbedder(), revision_model=revision_model, settings=fast_settings())


def shown(llm: FakeLLM) -> list[str]:
    """Return the known facts in the last extraction."""
    (*_, last) = [each.user for each in llm.received if each.step == "extract"]
    return [line.split(" | ")[2] for line in last.splitlines() if line.startswith("K") and "|" in line]


@pytest.fixture
def large_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select facts as in a bank that has more of them than are always shown."""
    monkeypatch.setattr(llm_pipeline, "FEW_FACTS", 0)


@pytest.mark.usefixtures("large_bank")
def test_facts_that_the_lines_may_outdate_are_shown_before_others(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("a pony", "Alice rides a pony.", entities=[ALICE])
    model.extracts("a boat", "Alice rents a boat.", entities=[ALICE])
    model.extracts("a kite", "Alice lost a kite on 7 January 2024.", start="2024-01-07", entities=[ALICE])
    model.extracts("Rex barks", "Rex barks at night.", entities=[("Rex", "OTHER")])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm, ("boat", "sold"), ("kite", "sold")) as memory:
        for day, words in enumerate(("I ride a pony.", "I rent a boat.", "I lost a kite.", "My dog Rex barks.")):
            memory.retain_sync([said(words, days(day))])
        memory.retain_sync([said("We sold it. Where is Rex?", days(9))])
        assert shown(llm) == ["Alice rents a boat.", "Alice lost a kite on 7 January 2024.", "Rex barks at night."]


@pytest.mark.usefixtures("large_bank")
def test_a_new_fact_that_probably_outdates_an_unseen_one_is_judged(sqlite_url: str) -> None:
    model = ScriptedModel(verdicts=[("out in May", "out in April", "supersede")])
    model.extracts("in April", "The book of Alice is out in April.", entities=[ALICE])
    model.extracts("it slipped", "The book of Alice is out in May.", entities=[ALICE])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm, ("out in April", "out in May")) as memory:
        memory.retain_sync([said("My book comes in April.")])
        memory.retain_sync([said("Sadly it slipped, that book.", days(9))])
        assert shown(llm) == []
        assert [each.step for each in llm.received][-1] == "judge"
        assert {fact.text: fact.invalid_at is None for fact in memory.facts_sync()} == {
            "The book of Alice is out in April.": False,
            "The book of Alice is out in May.": True,
        }


def test_a_small_bank_shows_all_its_facts(sqlite_url: str) -> None:
    model = ScriptedModel()
    model.extracts("in April", "The book of Alice is out in April.", entities=[ALICE])
    llm = FakeLLM(model)
    with a_memory(sqlite_url, llm) as memory:
        memory.retain_sync([said("My book comes in April.")])
        memory.retain_sync([said("Sadly it slipped, that book.", days(9))])
        assert shown(llm) == ["The book of Alice is out in April."]
