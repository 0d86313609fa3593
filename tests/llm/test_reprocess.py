"""Reprocessing a bank with another engine or embedder while it stays available."""

from __future__ import annotations

import asyncio

import pytest
from conversations import days, fast_settings, on_disk, open_memory, said, scripted_memory
from scripted_model import ScriptedModel

from vmemo import LLMUnavailable, Memory
from vmemo.errors import EmbedderMismatch
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import ReceivedRequest, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

STORES = ("sqlite",)

ALICE = [("Alice", "PERSON")]
GAMES = ("go", "golf", "bridge", "tennis", "chess")


def a_model() -> ScriptedModel:
    model = ScriptedModel()
    for game in GAMES:
        model.extracts(f"I play {game}.", f"Alice plays {game}.", entities=ALICE)
    return model


def local(url: str, embedder: HashEmbedder | None = None) -> Memory:
    return Memory(url, embedder=embedder or HashEmbedder())


def filled(url: str) -> None:
    with local(url) as memory:
        memory.retain_sync([said(f"I play {game}.", days(n)) for n, game in enumerate(GAMES)])
        memory.retain_sync("Kept in its own words.", infer=False)


def texts(memory: Memory) -> list[str]:
    return sorted(fact.text for fact in memory.facts_sync())


def test_reprocess_switches_between_the_local_engine_and_a_model(url: str) -> None:
    filled(url)
    with local(url) as memory:
        before, messages = texts(memory), [message.id for message in memory.messages_sync()]
    with scripted_memory(url, a_model()) as (memory, _):
        done = memory.reprocess_sync()
        assert len(done.derived) == 5
        assert texts(memory) == sorted(f"Alice plays {game}." for game in GAMES)
        assert [message.id for message in memory.messages_sync()] == messages
        assert memory.banks_sync() == ["default"]
        assert [hit.text for hit in memory.recall_sync("own words").hits if hit.verbatim] != []
    with local(url) as memory:
        memory.reprocess_sync()
        assert texts(memory) == before
        status = memory.status_sync()
        assert (status.messages, status.pending, status.entities) == (6, 0, 1)


def test_reprocess_keeps_the_old_facts_until_it_is_complete(url: str) -> None:
    filled(url)
    seen: list[list[str]] = []
    with local(url) as reader:

        def spying(asked: ReceivedRequest) -> object:
            seen.append([hit.text for hit in reader.recall_sync("Who plays chess?").hits[:1]])
            return a_model()(asked)

        with scripted_memory(url, spying) as (memory, _):  # pyright: ignore[reportArgumentType]
            memory.reprocess_sync()
        assert seen
        assert all(found == ["Alice: I play chess."] for found in seen)
        assert reader.recall_sync("Who plays chess?").hits[0].text == "Alice plays chess."


def test_messages_retained_during_reprocess_are_processed_once_in_each_derivation(url: str) -> None:
    filled(url)
    said_meanwhile: list[bool] = []
    with local(url) as writer:

        def interrupting(asked: ReceivedRequest) -> object:
            if not said_meanwhile:
                said_meanwhile.append(True)
                writer.retain_sync([said("I play chess.", days(50), speaker="Bruno")])
            return a_model()(asked)

        with scripted_memory(url, interrupting) as (memory, _):  # pyright: ignore[reportArgumentType]
            memory.reprocess_sync()
            status = memory.status_sync()
            assert (status.messages, status.pending) == (7, 0)
            told = [id for fact in memory.facts_sync() for id in fact.messages]
            assert len(told) == len(set(told)) == 6


def test_reprocess_raises_on_failure_and_resumes_when_called_again(url: str) -> None:
    filled(url)
    with local(url) as memory:
        before = texts(memory)
    with scripted_memory(url, a_model()) as (memory, server):
        server.faults("extract", [StatusResponse(500)])
        with pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        assert texts(memory) == before
        asked = len(server.received)
        memory.reprocess_sync()
        # Four of five were read before and are not read again.
        assert len(server.received) - asked <= 2
        assert texts(memory) == sorted(f"Alice plays {game}." for game in GAMES)


def test_reprocess_may_change_the_embedder_and_keeps_own_opinions(url: str) -> None:
    filled(url)
    other = HashEmbedder("other", 48)
    with pytest.raises(EmbedderMismatch), local(url, other):
        pass
    memory = local(url, other)
    memory.reprocess_sync()
    with memory:
        status = memory.status_sync()
        assert (status.embedder, status.dimension, status.facts) == ("other", 48, 5)
        assert memory.recall_sync("chess").hits[0].text == "Alice: I play chess."


def test_forgetting_during_reprocess_applies_to_the_new_derivation(url: str) -> None:
    filled(url)
    with scripted_memory(url, a_model()) as (memory, server):
        server.faults("extract", [StatusResponse(500)])
        with pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        (secret,) = [message.id for message in memory.messages_sync() if "golf" in message.content]
        memory.forget_sync(messages=[secret])
        assert b"golf" not in on_disk(url)
        memory.reprocess_sync()
        assert texts(memory) == sorted(f"Alice plays {game}." for game in GAMES if game != "golf")


def test_a_worker_does_not_touch_an_unfinished_reprocess(url: str) -> None:
    filled(url)
    with ScriptedServer(a_model()) as server:
        server.faults("extract", [StatusResponse(500)])
        with open_memory(url, server) as memory, pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        asked = len(server.received)
        with open_memory(url, server, retry_initial_seconds=0.0) as memory:
            assert memory.work_sync(once=True).jobs == 0
        assert len(server.received) == asked


def test_each_style_is_its_own_engine(sqlite_url: str) -> None:
    with ScriptedServer(a_model()) as server:
        for style in ("narrative", "atomic"):
            with open_memory(sqlite_url, server, style=style) as memory:
                if style == "narrative":
                    memory.retain_sync([said("I play go.")])
                memory.reprocess_sync()
                assert texts(memory) == ["Alice plays go."]
        assert "cannot be divided" in server.received[-1].system


def test_an_empty_bank_can_be_reprocessed(sqlite_url: str) -> None:
    async def run() -> int:
        async with Memory(sqlite_url, embedder=HashEmbedder(), settings=fast_settings()) as memory:
            await memory.reprocess()
            return (await memory.status()).facts

    assert asyncio.run(run()) == 0


def test_reprocess_keeps_manual_merges_and_splits(url: str) -> None:
    model = ScriptedModel()
    for name in ("Kit", "Dr. Nakamura", "Robert Hale", "Bob Hale"):
        model.extracts(f"met {name}.", f"Alice met {name}.", entities=[*ALICE, (name, "PERSON")])
    with scripted_memory(url, model) as (memory, _):
        for n, name in enumerate(("Kit", "Dr. Nakamura", "Robert Hale", "Bob Hale")):
            memory.retain_sync([said(f"I met {name}.", days(n))])
        memory.merge_entities_sync("Dr. Nakamura", "Kit")
        (bob,) = [merge for merge in memory.merges_sync() if merge.absorbed is None]
        memory.undo_merge_sync(bob.id)
        before = {entity.name: set(entity.aliases) for entity in memory.entities_sync()}
        assert before == {"Alice": set(), "Dr. Nakamura": {"Kit"}, "Robert Hale": set(), "Bob Hale": set()}
        memory.reprocess_sync()
        assert {entity.name: set(entity.aliases) for entity in memory.entities_sync()} == before
