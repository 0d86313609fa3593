"""Random banks: a memory that has searched before returns what a new one does, and arrays rank as plain code does."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from builders import NOON, open_memory

from vmemo import Memory, Message
from vmemo.models import Channel, ChannelPlacement, FactId, MessageId
from vmemo.models.search import Ranking
from vmemo.models.settings import Fusion
from vmemo.recall.fuse import RANK_CONSTANT, ChannelRanking, fuse, placements

PEOPLE = ("Mira Lund", "Owen", "Ingrid Voss", "Priya", "Mira")
PLACES = ("Oslo", "Lima", "Ghent", "Nairobi")
THINGS = ("a red bike", "the old oven", "two tulips", "a used boat", "the blue lamp")
DONE = ("bought", "sold", "painted", "lost", "repaired")
QUESTIONS = (
    "What did Mira Lund buy in Oslo?",
    "Who painted the old oven last week?",
    "Where does Priya live now?",
    "What did Owen do in May 2023 and where did Ingrid Voss go?",
)
Shown = list[tuple[object, ...]]


def a_message(source: random.Random, number: int) -> Message:
    person, place = source.choice(PEOPLE), source.choice(PLACES)
    text = source.choice(
        (
            f"I {source.choice(DONE)} {source.choice(THINGS)} with {person} in {place} yesterday.",
            f"{person} lives in {place} now, and works there since 3 May 2023.",
            f"We saw {person} near {place}; it was number {number}.",
        )
    )
    return Message(content=text, speaker=source.choice(PEOPLE), timestamp=NOON + timedelta(minutes=7 * number))


async def shown(memory: Memory) -> list[Shown]:
    """Everything that recalls return, without access counts, which are written later."""
    found = [await memory.recall(question, 300, now=NOON + timedelta(days=40)) for question in QUESTIONS]
    found += [await memory.recall(QUESTIONS[0], 300, at_time=NOON + timedelta(hours=2), include_expired=True)]
    return [
        [
            (hit.model_dump(exclude={"fact": {"access_count"}}), [recalled.titles[id] for id in hit.fact.episodes])
            for hit in recalled.hits
        ]
        for recalled in found
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_memory_that_has_searched_returns_what_a_new_one_does(tmp_path: Path, seed: int) -> None:
    async def run() -> None:
        source, url, number = random.Random(seed), f"sqlite:///{tmp_path / 'memory.db'}", 0
        one, other = open_memory(url), open_memory(url)
        forgotten: set[str] = set()
        for _ in range(12):
            writer = source.choice((one, other))
            stored: list[MessageId] = [message.id for message in await writer.messages()]
            facts: list[FactId] = [each.id for each in await writer.facts(limit=500) if each.expired_at is None]
            action = source.choice(("retain", "retain", "forget", "pin", "edit")) if facts else "retain"
            match action:
                case "forget":
                    gone = source.choice(stored)
                    forgotten |= {fact.id for fact in await writer.facts(limit=500) if fact.messages == (gone,)}
                    await writer.forget(messages=[gone])
                case "pin":
                    await writer.pin(source.choice(facts))
                case "edit":
                    await writer.update(source.choice(facts), f"Mira Lund moved to Lima, said number {number}.")
                case _:
                    await writer.retain([a_message(source, number + n) for n in range(8)])
                    number += 8
            async with open_memory(url) as new:
                expected = await shown(new)
            assert await shown(one) == expected, action
            assert await shown(other) == expected, action
            assert not forgotten & {hit["fact"]["id"] for found in expected for hit, _ in found}  # type: ignore[index]
        await one.close()
        await other.close()

    asyncio.run(run())


@pytest.mark.parametrize("method", ["sum", "rank"])
@pytest.mark.parametrize("seed", range(5))
def test_rankings_are_fused_and_placed_as_plain_code_does(seed: int, method: Fusion) -> None:
    source = np.random.default_rng(seed)
    channels: list[Channel] = ["semantic", "semantic", "keyword", "temporal", "graph"]
    rankings: list[ChannelRanking] = []
    for channel in channels:
        numbers = source.permutation(np.concatenate([np.arange(-20, 0), np.arange(1, 60)]))[: source.integers(0, 50)]
        scores = np.sort(source.random(len(numbers)))[::-1] + 0.5
        rows = np.stack([numbers, numbers % 7, numbers], axis=1).astype(np.int64)
        rankings.append(ChannelRanking(channel, Ranking(rows, scores, 0.4), float(source.random())))
    expected: dict[int, float] = defaultdict(float)
    placed: dict[int, dict[Channel, ChannelPlacement]] = defaultdict(dict)
    for channel, ranking, weight in rankings:
        for rank, (number, score) in enumerate(zip(ranking.numbers.tolist(), ranking.scores.tolist(), strict=True), 1):
            points = (score - 0.4) / (ranking.scores[0] - 0.4) if method == "sum" else 1 / (RANK_CONSTANT + rank)
            expected[number] += weight * points
            if channel not in placed[number] or rank < placed[number][channel].rank:
                placed[number][channel] = ChannelPlacement(rank, score)
    _, found = fuse(rankings[:3], rankings[3:], method)
    assert found.numbers.tolist() == sorted(expected, key=lambda number: -expected[number])
    assert found.scores.tolist() == pytest.approx(sorted(expected.values(), reverse=True))
    assert found.tokens.tolist() == [number % 7 for number in found.numbers.tolist()]
    wanted = found.numbers[::2].tolist()
    assert placements(rankings, wanted) == {number: placed[number] for number in wanted}
