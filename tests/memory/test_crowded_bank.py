"""C4 and C6: the graph and count questions in a bank where one person is mentioned in almost every fact."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from builders import NOON, WordEmbedder

from databases import NewDatabase
from vmemo import Memory, Message, Recalled
from vmemo.recall import load, pipeline
from vmemo.recall.rank import FAN

STORES = ("sqlite",)

HOBBIES = ("paints", "swims", "bakes", "climbs", "reads")
NEIGHBOURS = [f"Nadia {HOBBIES[n % 5]} with neighbour number {n} on the weekend." for n in range(140)]
PATH = [
    "Nadia gave the old cello to Tomasz.",
    "Tomasz rents a workshop beside the canal.",
]
CINEMA = [
    *(f"Nadia went to the cinema for the film number {n}." for n in range(6)),
    *(f"Nadia went to the cinema in town number {n}." for n in range(3)),
]


@pytest.fixture(scope="module")
def crowded(new_database: NewDatabase) -> Iterator[str]:
    """140 facts about one person, two that lead on from her, and nine visits to the cinema, six of them together."""
    lines = [
        Message(content=line, speaker=f"Speaker {n}", timestamp=NOON + timedelta(days=2 * n))
        for n, line in enumerate([*NEIGHBOURS, *PATH])
    ]
    evening = NOON + timedelta(days=900)
    times = [*(timedelta(minutes=n) for n in range(6)), *(timedelta(days=9 + 5 * n) for n in range(3))]
    lines += [
        Message(content=line, speaker="Diary", timestamp=evening + time)
        for line, time in zip(CINEMA, times, strict=True)
    ]
    with new_database() as url:
        with Memory(url, embedder=WordEmbedder()) as memory:
            memory.retain_sync(lines)
        yield url


def recalled(url: str, question: str, *, max_tokens: int = 4096) -> Recalled:
    with Memory(url, embedder=WordEmbedder()) as memory:
        return memory.recall_sync(question, explain=True, max_tokens=max_tokens)


def test_the_graph_leads_to_facts_of_an_entity_with_many_mentions(crowded: str) -> None:
    found = recalled(crowded, "What did Nadia do with her cello?")
    assert found.explanation is not None
    assert [entity.name for entity in found.explanation.entities] == ["Nadia"]
    assert found.explanation.candidates["graph"] >= FAN
    (cello,) = [hit for hit in found.hits if "cello" in hit.text]
    assert [step.via for step in cello.path] == ["Nadia"]


def test_the_graph_goes_on_from_an_entity_with_many_mentions_at_the_default_budget(crowded: str) -> None:
    found = recalled(crowded, "What did Nadia do with her cello?")
    (workshop,) = [hit for hit in found.hits if "workshop" in hit.text]
    assert [step.via for step in workshop.path] == ["Nadia", "Tomasz"]


def test_a_count_question_takes_more_candidates(crowded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = recalled(crowded, "How often did Nadia swim?", max_tokens=60)
    monkeypatch.setattr(pipeline, "GATHER", 0.1)
    plain = recalled(crowded, "How often did Nadia swim?", max_tokens=60)
    assert plain.explanation is not None
    assert wide.explanation is not None
    assert plain.explanation.candidates["keyword"] < wide.explanation.candidates["keyword"]
    assert max(plain.tokens, wide.tokens) <= 60


@pytest.mark.parametrize(
    "question", ["How many times was Nadia at the cinema?", "List all times that Nadia went to the cinema."]
)
def test_a_count_question_is_answered_from_several_episodes(
    crowded: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def episodes() -> int:
        return len({hit.fact.episodes[0] for hit in recalled(crowded, question, max_tokens=100).hits})

    several = episodes()
    monkeypatch.setattr(load, "REPEATED_EPISODE", 1.0)
    assert several > episodes()
