"""C4 and C10: a fact that shares neither meaning nor words with the question, two entities away from it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from builders import NOON, TopicEmbedder

from databases import NewDatabase
from vmemo import Memory, Message, Settings
from vmemo.models import Channel
from vmemo.models.settings import CHANNELS

STORES = ("sqlite",)

QUESTION = "Which instrument does Nadia's dog's vet play?"
CHAIN = (
    "My friend Nadia adopted a dog and named it Biscuit.",
    "Yesterday Biscuit was taken to Dr. Okafor because of a limp.",
    "Every Tuesday Dr. Okafor practises the cello until midnight.",
)
OTHERS = tuple(f"On day {n} nothing but rain fell on the roofs of Leith." for n in range(40))
TOPICS = TopicEmbedder({"nadia": (1, 0, 0, 0), "limp": (0, 1, 0, 0), "cello": (0, 0, 1, 0), "rain": (0, 0, 0, 1)})


@pytest.fixture(scope="module")
def chained(new_database: NewDatabase) -> Iterator[str]:
    """A bank where each line was said on a day of its own, so that none is another's context or neighbour in time."""
    lines = [
        Message(content=line, speaker=f"Speaker {n}", timestamp=NOON + timedelta(days=3 * n))
        for n, line in enumerate([*CHAIN, *OTHERS])
    ]
    with new_database() as url:
        with Memory(url, embedder=TOPICS) as memory:
            memory.retain_sync(lines)
        yield url


def texts(url: str, channels: frozenset[Channel]) -> list[str]:
    with Memory(url, embedder=TOPICS, settings=Settings(channels=channels)) as memory:
        return [hit.text for hit in memory.recall_sync(QUESTION, max_tokens=100_000, budget="high").hits]


def test_similarity_and_words_alone_do_not_find_the_second_hop(chained: str) -> None:
    found = texts(chained, frozenset({"semantic", "keyword"}))
    assert any(CHAIN[0] in text for text in found)
    assert not any("cello" in text for text in found)


def test_the_graph_channel_finds_the_second_hop(chained: str) -> None:
    found = texts(chained, CHANNELS)
    assert any("cello" in text for text in found)
    assert texts(chained, CHANNELS - {"graph"}) == texts(chained, frozenset({"semantic", "keyword"}))


def test_explain_shows_the_path_to_the_second_hop(chained: str) -> None:
    with Memory(chained, embedder=TOPICS) as memory:
        found = memory.recall_sync(QUESTION, explain=True)
        assert found.explanation is not None
        assert found.explanation.type == "multi-hop"
        assert [entity.name for entity in found.explanation.entities] == ["Nadia"]
        by_text = {hit.id: hit.text for hit in found.hits}
        (answer,) = [hit for hit in found.hits if "cello" in hit.text]
        assert set(answer.channels) == {"graph"}
        assert [step.via for step in answer.path] == ["Nadia", "Biscuit", "Dr. Okafor"]
        assert [step.kind for step in answer.path] == ["entity", "entity", "entity"]
        assert answer.path[0].source == found.explanation.entities[0].id
        assert ["Biscuit" in by_text[answer.path[0].target], "limp" in by_text[answer.path[1].target]] == [True, True]
        assert answer.path[-1].target == answer.id
