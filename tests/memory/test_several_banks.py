"""One call that searches several banks: fair to banks of any size, within one budget, each fact with its bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import EmbedderMismatch, InvalidInput, NotFound
from vmemo.models.search import Vectors
from vmemo.ports import TextKind
from vmemo_conformance.embedders import HashEmbedder

PEOPLE = ["Ana", "Ben", "Carla", "Dario", "Emil", "Fatima", "Goran", "Hanna", "Ivo", "Jana"]
PLACES = ["harbour", "market", "station", "museum", "library", "castle", "garden", "bakery", "school", "theatre"]
LARGE = [f"{person} met us at the {place} on day {number}." for number, place in enumerate(PLACES) for person in PEOPLE]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    """A large bank of a project, a small one of a person, and one of a team, with facts for different questions."""
    with Memory(":memory:", bank="project") as opened:
        opened.retain_sync([*LARGE, "The export job writes its files to the bucket shop-exports."])
        opened.retain_sync("Please always show amounts of money in euros.")
        me = opened.bank("me")
        me.retain_sync("My bicycle is a green Bianchi with eight gears.")
        me.retain_sync("Please always answer in German, and keep it short.")
        me.retain_sync("Please always show amounts of money in euros.")
        opened.bank("team").retain_sync("Our retrospective takes place on the last Friday of a month.")
        yield opened


@pytest.mark.parametrize(
    ("question", "bank", "answer"),
    [
        ("What kind of bicycle do I have?", "me", "Bianchi"),
        ("Where does the export job write its files?", "project", "shop-exports"),
        ("When is our retrospective?", "team", "last Friday"),
        ("Who met us at the castle on day 5?", "project", "castle"),
    ],
)
def test_the_right_fact_comes_first_whatever_the_size_of_its_bank(
    memory: Memory, question: str, bank: str, answer: str
) -> None:
    for banks in (["project", "me", "team"], ["team", "me", "project"]):
        found = memory.recall_sync(question, banks=banks)
        assert found.banks == tuple(banks)
        assert (found.hits[0].bank, answer in found.hits[0].text) == (bank, True)
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        assert memory.retrieve_sync(question, top_k=1, banks=banks).hits[0].id == found.hits[0].id


def test_one_bank_by_name_gives_what_it_gives_by_itself(memory: Memory) -> None:
    named = memory.recall_sync("What kind of bicycle do I have?", banks=["me"])
    alone = memory.bank("me").recall_sync("What kind of bicycle do I have?")
    assert named.hits == alone.hits
    assert named.answerable == alone.answerable


def test_all_banks_share_one_budget(memory: Memory) -> None:
    for max_tokens in (1, 40, 300):
        found = memory.recall_sync("Who met us at the castle?", max_tokens, banks=["project", "me", "team"])
        assert found.tokens == sum(hit.tokens for hit in found.hits) <= max_tokens
    assert len(memory.retrieve_sync("Who met us?", top_k=3, banks=["project", "me", "team"]).hits) == 3


def test_the_judgement_is_about_the_facts_of_all_banks(memory: Memory) -> None:
    question = "What kind of bicycle do I have?"
    without = memory.recall_sync(question, banks=["project", "team"]).answerable
    together = memory.recall_sync(question, banks=["project", "me"]).answerable
    assert without is not None
    assert together is not None
    assert without < 0.5 < together
    assert memory.recall_sync(question, banks=["project", "team"], min_answerable=0.5).hits == ()
    precise = memory.recall_sync(question, banks=["project", "me", "team"], precise=True)
    assert [hit.bank for hit in precise.hits] == ["me"]


def test_standing_instructions_of_every_bank_apply_and_equal_ones_once(memory: Memory) -> None:
    found = memory.recall_sync("What did the trip to the castle cost?", banks=["project", "me"])
    wishes = [fact.text.partition(": ")[2] for fact in found.instructions]
    assert sorted(wishes) == [
        "Please always answer in German, and keep it short.",
        "Please always show amounts of money in euros.",
    ]
    context = memory.context_sync("What did the trip to the castle cost?", banks=["project", "me"], precise=False)
    assert context.text.count("euros") == 1
    assert context.text.count("in German") == 1
    assert {fact.bank for fact in context.facts} == {"project", "me"}


def test_a_prompt_names_the_bank_of_each_fact_if_there_are_several(memory: Memory) -> None:
    found = memory.recall_sync("What kind of bicycle do I have?", banks=["project", "me"])
    prompt = found.to_prompt()
    assert "bank: the memory that a fact is from." in prompt
    shown = [line for line in prompt.splitlines() if line.startswith("- [")]
    assert shown
    for line in shown:
        [bank] = {hit.bank for hit in found.hits if hit.short_id in line} or {
            fact.bank for fact in found.instructions if fact.short_id in line
        }
        assert f"(bank {bank}" in line
    assert "(bank me" in memory.context_sync("What bicycle do I have?", banks=["project", "me"]).text
    assert "(bank " not in memory.recall_sync("What bicycle do I have?", banks=["me"]).to_prompt()


def test_a_context_of_several_banks_repeats_its_blocks_in_a_session(memory: Memory) -> None:
    first = memory.context_sync("When is our retrospective?", banks=["project", "me"], session="s")
    second = memory.context_sync("What kind of bicycle do I have?", banks=["project", "me"], session="s")
    assert first.prefix
    assert second.text.startswith(first.prefix)


def test_an_explanation_covers_all_banks(memory: Memory) -> None:
    why = memory.recall_sync("Who met us at the castle?", banks=["project", "me"], explain=True).explanation
    alone = memory.recall_sync("Who met us at the castle?", explain=True).explanation
    assert why is not None
    assert alone is not None
    assert why.candidates["keyword"] >= alone.candidates["keyword"]
    assert why.signals


def test_a_bank_that_is_missing_is_an_error_and_is_not_created(memory: Memory) -> None:
    with pytest.raises(NotFound, match="There is no bank 'nobody' here"):
        memory.recall_sync("Who?", banks=["project", "nobody"])
    assert "nobody" not in memory.banks_sync()


@pytest.mark.parametrize("banks", [[str(number) for number in range(17)], [""], "me", [1]])
def test_invalid_banks_are_refused(memory: Memory, banks: Sequence[str]) -> None:
    with pytest.raises(InvalidInput, match="banks"):
        memory.recall_sync("Who?", banks=banks)


class CountingEmbedder(HashEmbedder):
    """Counts the queries that it embeds."""

    queries = 0

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        self.queries += len(texts) if kind == "query" else 0
        return await super().embed(texts, kind)


def test_a_question_is_embedded_once_for_all_banks() -> None:
    embedder = CountingEmbedder()
    with Memory(":memory:", bank="one", embedder=embedder) as memory:
        memory.retain_sync("Ana sails in Kiel.")
        memory.bank("two").retain_sync("Ben climbs in Chamonix.")
        assert memory.recall_sync("Who climbs in Chamonix?", banks=["one", "two"]).hits[0].bank == "two"
        assert embedder.queries == 1


def test_a_bank_of_another_embedder_is_refused_by_name(tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", bank="one", embedder=HashEmbedder()) as memory:
        memory.retain_sync("Ana sails in Kiel.")
    with Memory(tmp_path / "m.db", bank="two") as memory:
        memory.retain_sync("Ben climbs in Chamonix.")
        with pytest.raises(EmbedderMismatch, match="one"):
            memory.recall_sync("Who climbs?", banks=["two", "one"])
