"""Deriving a bank anew with another engine or embedder, while it goes on answering."""

from __future__ import annotations

import asyncio

import pytest
from model import Model
from talk import days, on_disk, open_memory, quick, said, talking

from vmemo import LLMUnavailable, Memory
from vmemo.errors import EmbedderMismatch
from vmemo.testing import HashEmbedder, ReceivedRequest, ScriptedServer, StatusResponse

ALICE = [("Alice", "PERSON")]
GAMES = ("go", "golf", "bridge", "tennis", "chess")


def a_model() -> Model:
    model = Model()
    for game in GAMES:
        model.tells(f"I play {game}.", f"Alice plays {game}.", entities=ALICE)
    return model


def local(url: str, embedder: HashEmbedder | None = None) -> Memory:
    return Memory(url, embedder=embedder or HashEmbedder())


def filled(url: str) -> None:
    with local(url) as memory:
        memory.retain_sync([said(f"I play {game}.", days(n)) for n, game in enumerate(GAMES)])
        memory.retain_sync("Kept in its own words.", infer=False)


def texts(memory: Memory) -> list[str]:
    return sorted(fact.text for fact in memory.facts_sync())


def test_a_bank_of_the_local_engine_is_derived_anew_by_a_model_and_back(url: str) -> None:
    filled(url)
    with local(url) as memory:
        before, messages = texts(memory), [message.id for message in memory.messages_sync()]
    with talking(url, a_model()) as (memory, _):
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


def test_the_bank_answers_from_what_it_has_until_the_new_derivation_is_there(url: str) -> None:
    filled(url)
    seen: list[list[str]] = []
    with local(url) as reader:

        def spying(asked: ReceivedRequest) -> object:
            seen.append([hit.text for hit in reader.recall_sync("Who plays chess?").hits[:1]])
            return a_model()(asked)

        with talking(url, spying) as (memory, _):  # pyright: ignore[reportArgumentType]
            memory.reprocess_sync()
        assert seen
        assert all(found == ["Alice: I play chess."] for found in seen)
        assert reader.recall_sync("Who plays chess?").hits[0].text == "Alice plays chess."


def test_what_arrives_meanwhile_is_there_once_in_the_old_derivation_and_once_in_the_new(url: str) -> None:
    filled(url)
    said_meanwhile: list[bool] = []
    with local(url) as writer:

        def interrupting(asked: ReceivedRequest) -> object:
            if not said_meanwhile:
                said_meanwhile.append(True)
                writer.retain_sync([said("I play chess.", days(50), speaker="Bruno")])
            return a_model()(asked)

        with talking(url, interrupting) as (memory, _):  # pyright: ignore[reportArgumentType]
            memory.reprocess_sync()
            status = memory.status_sync()
            assert (status.messages, status.pending) == (7, 0)
            told = [id for fact in memory.facts_sync() for id in fact.messages]
            assert len(told) == len(set(told)) == 6


def test_a_failure_is_raised_changes_nothing_and_is_gone_on_from(url: str) -> None:
    filled(url)
    with local(url) as memory:
        before = texts(memory)
    with talking(url, a_model()) as (memory, server):
        server.faults("extract", [StatusResponse(500)])
        with pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        assert texts(memory) == before
        asked = len(server.received)
        memory.reprocess_sync()
        # Four of five were read before and are not read again.
        assert len(server.received) - asked <= 2
        assert texts(memory) == sorted(f"Alice plays {game}." for game in GAMES)


def test_the_embedder_may_change_with_it_and_opinions_of_ones_own_stay(url: str) -> None:
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


def test_forgetting_meanwhile_reaches_the_new_derivation(url: str) -> None:
    filled(url)
    with talking(url, a_model()) as (memory, server):
        server.faults("extract", [StatusResponse(500)])
        with pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        (secret,) = [message.id for message in memory.messages_sync() if "golf" in message.content]
        memory.forget_sync(messages=[secret])
        assert b"golf" not in on_disk(url)
        memory.reprocess_sync()
        assert texts(memory) == sorted(f"Alice plays {game}." for game in GAMES if game != "golf")


def test_a_worker_leaves_a_half_made_derivation_to_whoever_makes_it(url: str) -> None:
    filled(url)
    with ScriptedServer(a_model()) as server:
        server.faults("extract", [StatusResponse(500)])
        with open_memory(url, server) as memory, pytest.raises(LLMUnavailable):
            memory.reprocess_sync()
        asked = len(server.received)
        with open_memory(url, server, retry_initial_seconds=0.0) as memory:
            assert memory.work_sync(once=True).jobs == 0
        assert len(server.received) == asked


def test_two_styles_are_two_engines(url: str) -> None:
    with ScriptedServer(a_model()) as server:
        for style in ("narrative", "atomic"):
            with open_memory(url, server, style=style) as memory:
                if style == "narrative":
                    memory.retain_sync([said("I play go.")])
                memory.reprocess_sync()
                assert texts(memory) == ["Alice plays go."]
        assert "can't be divided" in server.received[-1].system


def test_an_empty_bank_can_be_derived_anew(url: str) -> None:
    async def run() -> int:
        async with Memory(url, embedder=HashEmbedder(), settings=quick()) as memory:
            await memory.reprocess()
            return (await memory.status()).facts

    assert asyncio.run(run()) == 0


def test_what_was_merged_or_parted_by_hand_stays_so(url: str) -> None:
    model = Model()
    for name in ("Kit", "Dr. Nakamura", "Robert Hale", "Bob Hale"):
        model.tells(f"met {name}.", f"Alice met {name}.", entities=[*ALICE, (name, "PERSON")])
    with talking(url, model) as (memory, _):
        for n, name in enumerate(("Kit", "Dr. Nakamura", "Robert Hale", "Bob Hale")):
            memory.retain_sync([said(f"I met {name}.", days(n))])
        memory.merge_entities_sync("Dr. Nakamura", "Kit")
        (bob,) = [merge for merge in memory.merges_sync() if merge.absorbed is None]
        memory.undo_merge_sync(bob.id)
        before = {entity.name: set(entity.aliases) for entity in memory.entities_sync()}
        assert before == {"Alice": set(), "Dr. Nakamura": {"Kit"}, "Robert Hale": set(), "Bob Hale": set()}
        memory.reprocess_sync()
        assert {entity.name: set(entity.aliases) for entity in memory.entities_sync()} == before
