"""Short lines of one speaker within a minute, which are embedded together and cited one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from builders import NOON, WordEmbedder, open_memory

from vmemo import Message

PARTY = ["so the party", "the blue door", "ring twice"]
EMBEDDED = ["so the party", "so the party the blue door", "the blue door ring twice"]


def line(text: str, second: float, speaker: str | None = "Mira") -> Message:
    return Message(content=text, speaker=speaker, timestamp=NOON + timedelta(seconds=second), document="chat")


def lines(*texts: str) -> list[Message]:
    return [line(text, 10 * n) for n, text in enumerate(texts)]


def embedded(embedder: WordEmbedder) -> list[str]:
    return [text.removeprefix("8 May 2023. Mira: ") for text in embedder.documents]


def test_a_short_line_is_embedded_with_the_one_before_and_cites_its_own_message(sqlite_url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as memory:
        given = lines(*PARTY)
        memory.retain_sync(given)
        assert embedded(embedder) == EMBEDDED
        cited = {fact.text: fact.messages for fact in memory.facts_sync()}
        assert cited == {f"Mira: {message.content}": (message.id,) for message in given}


def test_lines_that_arrive_one_by_one_are_embedded_alike(sqlite_url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as memory:
        for message in lines(*PARTY):
            memory.retain_sync(message)
        assert embedded(embedder) == EMBEDDED


def test_reprocess_and_reembed_embed_short_lines_alike(sqlite_url: str) -> None:
    with open_memory(sqlite_url) as memory:
        memory.retain_sync(lines(*PARTY))
    for again in ("reprocess_sync", "reembed_sync"):
        embedder = WordEmbedder()
        with open_memory(sqlite_url, embedder=embedder) as memory:
            getattr(memory, again)()
            assert sorted(embedded(embedder)) == sorted(EMBEDDED)


def test_forgetting_a_line_embeds_the_next_one_without_it(sqlite_url: str) -> None:
    embedder = WordEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as memory:
        given = lines(*PARTY)
        memory.retain_sync(given)
        embedder.documents.clear()
        memory.forget_sync(messages=[given[0].id])
        memory.process_sync()
        assert embedded(embedder) == ["the blue door", "the blue door ring twice"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (line("so the party", 0, "Jon"), line("the blue door", 10)),
        (line("so the party", 0, None), line("the blue door", 10, None)),
        (line("so the party", 0), line("the blue door", 61)),
        (line("the party is on.", 0), line("the blue door", 10)),
        (line("so the party is at the old mill again", 0), line("the blue door", 10)),
        (line("so the party", 0), line("the blue door is behind the old mill", 10)),
    ],
    ids=["another speaker", "no name", "a minute later", "after a sentence", "after a longer line", "a longer line"],
)
def test_other_lines_are_embedded_alone(sqlite_url: str, first: Message, second: Message) -> None:
    embedder = WordEmbedder()
    with open_memory(sqlite_url, embedder=embedder) as memory:
        memory.retain_sync([first, second])
        assert [text.partition(": ")[2] for text in embedder.documents] == [first.content, second.content]
