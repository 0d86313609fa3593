"""The client has the library's verbs, and each does at a server what it does at home."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from live_server import LiveServer, live_server
from vmemo import Disposition, Interval, InvalidInput, LLMFailed, Memory, Message, NotFound, Profile, Unsupported
from vmemo.client import Client
from vmemo.errors import VmemoError
from vmemo.models import FactId, MessageId
from vmemo.testing import FakeLLM, HashEmbedder, StatusResponse

AT_HOME = {"work", "schedule_maintenance", "reembed", "left_to_reprocess"}
"""What is done where the database is: queued work is the server's own, and so is its embedder."""
VERBS = {name: verb for name, verb in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_"}
REMOTE = sorted(name for name in VERBS if name.removesuffix("_sync") not in AT_HOME)
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
TALK = [
    Message(content="I moved to Lisbon with Ben.", speaker="Ana", timestamp=NOON, document="chat", tags=("home",)),
    Message(content="Ben bought a red kettle.", speaker="Ana", timestamp=NOON + timedelta(minutes=1), document="chat"),
    Message(content="Ruth likes tea with Ana.", speaker="Ana", timestamp=NOON, metadata={"n": None}),
]


@pytest.mark.parametrize("name", REMOTE)
def test_a_verb_of_the_library_is_a_verb_of_the_client_with_the_same_signature(name: str) -> None:
    ours, theirs = getattr(Client, name), VERBS[name]
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)
    assert inspect.isasyncgenfunction(ours) == inspect.isasyncgenfunction(theirs)
    assert ours.__doc__


def test_the_client_has_no_verb_that_the_library_lacks() -> None:
    assert {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"} == set(REMOTE)


def test_reading_over_the_wire_gives_the_same_records(server: LiveServer, database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        memory.retain_sync(TALK)
        memory.profile_sync(Profile(name="Mira", disposition=Disposition(empathy=5)))
        fact = memory.facts_sync()[0].id
        assert client.profile_sync() == memory.profile_sync()
        assert client.former_profiles_sync() == memory.former_profiles_sync()
        assert client.messages_sync(document="chat") == memory.messages_sync(document="chat")
        assert client.messages_sync(after=TALK[0].id, limit=1) == memory.messages_sync(after=TALK[0].id, limit=1)
        assert client.episodes_sync() == memory.episodes_sync()
        assert client.facts_sync(limit=1000) == memory.facts_sync(limit=1000)
        assert client.facts_sync(with_embeddings=True) == memory.facts_sync(with_embeddings=True)
        assert client.entities_sync() == memory.entities_sync()
        assert client.why_sync(fact) == memory.why_sync(fact)
        assert client.opinions_sync() == client.observations_sync() == client.trajectory_sync(fact) == []
        assert client.jobs_sync() == memory.jobs_sync()
        assert client.banks_sync() == memory.banks_sync() == ["a"]
        assert client.status_sync() == memory.status_sync().model_copy(update={"bytes": client.status_sync().bytes})


def test_searching_over_the_wire_finds_the_same(server: LiveServer, database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        memory.retain_sync(TALK)
        spring = Interval(start=NOON - timedelta(days=30), end=NOON + timedelta(days=30))
        recalled, same = (
            door.recall_sync(
                "Who has a kettle?\x00",
                500,
                "low",
                networks={"world"},  # pyright: ignore[reportArgumentType]
                known_at=datetime.now(UTC),
                occurred=spring,
                recency_half_life=timedelta(days=2),
                importance_weight=0.5,
                now=NOON,
                explain=True,
            )
            for door in (client, memory)
        )
        assert recalled.hits == same.hits
        assert (recalled.query, recalled.explanation) == (same.query, same.explanation)
        assert recalled.to_prompt() == same.to_prompt()
        assert client.retrieve_sync("kettle", 1).facts == memory.retrieve_sync("kettle", 1).facts
        assert client.retrieve_sync("Lisbon", tags=["home"]).facts[0].tags == ("home",)
        assert client.reflect_sync("Who has a kettle?") == memory.reflect_sync("Who has a kettle?")
        told = list(client.reflect_stream_sync("Who has a kettle?"))
        assert told == list(memory.reflect_stream_sync("Who has a kettle?"))


def test_writing_over_the_wire_is_found_at_home(server: LiveServer, database: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(server.url, "team/a 100%?#..") as client:
            kept = await client.retain(TALK)
            assert kept.stored == tuple(message.id for message in TALK)
            assert len(kept.derived) == 3
            again = await client.retain(["The kettle is red."] * 2, document="lines", role="assistant")
            assert len(again.stored) == 2
            assert (
                len((await client.retain(["The kettle is red."] * 2, document="lines", role="assistant")).skipped) == 2
            )
            await client.add_message("I have a cat.", speaker="Ana")
            await client.add_messages(["I have a dog."], infer=False)
            await client.add_exchange("And fish?", "No fish.", tags=["pets"])
            assert await client.process_async() is not None
            names = [entity.name for entity in await client.entities()]
            merge = await client.merge_entities("Ben", "Ruth", "the same one")
            assert [each.reason for each in await client.merges()] == ["the same one"]
            assert await client.undo_merge(merge.id)
            assert sorted(names) == sorted(entity.name for entity in await client.entities())
            assert (await client.maintain()).optimised
            assert len((await client.reprocess()).derived) > 0
            assert (await client.forget(document="lines")).messages == 2
            assert (await client.forget(messages=[TALK[0].id])).messages == 1
            assert await client.export(tmp_path / "there.jsonl") > 5
            assert await client.bank("..").import_bank(tmp_path / "there.jsonl") == 6

    asyncio.run(work())
    with Memory(database, "..", embedder=HashEmbedder()) as memory:
        texts = [message.content for message in memory.messages_sync()]
        assert texts[:2] == [message.content for message in TALK[1:]]
        assert texts[2:] == ["I have a cat.", "I have a dog.", "And fish?", "No fish."]
        assert memory.messages_sync()[1].metadata == {"n": None}
        assert memory.messages_sync()[0].timestamp == TALK[1].timestamp
        memory.export_sync(tmp_path / "here.jsonl")
    with Client(server.url, "..") as client:
        client.export_sync(tmp_path / "there.jsonl")
        assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
        assert client.forget_sync(bank=True).messages == 6
        assert not client.exists_sync()


def test_opening_makes_the_bank_and_asking_for_it_does_not(server: LiveServer) -> None:
    client = Client(server.url, "new")
    assert not client.exists_sync()
    with pytest.raises(NotFound, match="no bank 'new'"):
        client.recall_sync("Anything?")
    with client.bank("new") as same:
        assert same.exists_sync()
        assert repr(same) == f"Client(host='{server.url.removeprefix('http://')}', bank='new')"
    client.close_sync()


WRONG: Sequence[Callable[[Memory | Client, Path], object]] = [
    lambda door, folder: door.why_sync("nothing"),
    lambda door, folder: door.recall_sync(""),
    lambda door, folder: door.recall_sync("x", max_tokens=0),
    lambda door, folder: door.recall_sync("x", networks=["dreams"]),  # pyright: ignore[reportArgumentType]
    lambda door, folder: door.recall_sync("x", now=datetime(2024, 1, 1)),  # noqa: DTZ001
    lambda door, folder: door.reflect_sync("x", schema={"type": "array"}),
    lambda door, folder: door.reflect_sync("x", max_lookups=9),
    lambda door, folder: door.retain_sync([]),
    lambda door, folder: door.retain_sync("half \ud800"),
    lambda door, folder: door.retain_sync("x", tags="red"),
    lambda door, folder: door.facts_sync(limit=0),
    lambda door, folder: door.facts_sync(after=FactId("nothing")),
    lambda door, folder: door.messages_sync(after=MessageId("\ud800")),
    lambda door, folder: door.forget_sync(),
    lambda door, folder: door.forget_sync(document="none"),
    lambda door, folder: door.merge_entities_sync("Ann", "Bob"),
    lambda door, folder: door.undo_merge_sync("none"),
    lambda door, folder: door.add_background_sync("You are tall."),
    lambda door, folder: door.import_bank_sync(folder / "none.jsonl"),
    lambda door, folder: door.import_bank_sync(folder / "missing.jsonl"),
    lambda door, folder: door.export_sync(folder / "no" / "folder.jsonl"),
    lambda door, folder: door.bank(""),
]


def test_errors_are_those_of_the_library(server: LiveServer, database: str, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("nothing\n", encoding="utf-8")
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        for wrong in WRONG:
            with pytest.raises(VmemoError) as here:
                wrong(memory, tmp_path)
            with pytest.raises(VmemoError) as there:
                wrong(client, tmp_path)
            assert type(there.value) is type(here.value)
        with pytest.raises(InvalidInput) as told:
            client.bank("z").import_bank_sync(tmp_path / "none.jsonl")
        assert str(tmp_path.parent) not in str(told.value)
        assert str(told.value).startswith("The body: line 1")
        with pytest.raises(Unsupported, match="needs a language model"):
            client.reflect_sync("x", schema={"type": "object", "properties": {}})


def test_what_a_model_fails_to_read_is_stored_and_the_error_is_raised(database: str) -> None:
    model = FakeLLM({"extract": [StatusResponse(400)] * 9})
    with live_server(database, llm=model) as server, Client(server.url, "a") as client:
        with pytest.raises(LLMFailed) as failed:
            client.retain_sync("I have a grey cat.")
        assert type(failed.value).__name__ == "LLMDenied"
        assert [message.content for message in client.messages_sync()] == ["I have a grey cat."]
        assert client.status_sync().pending == 1


def test_names_of_many_banks_come_in_one_list(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmemo.memory.reads.LARGEST_PAGE", 2)
    with Client(server.url, "a") as client:
        for name in ("b", "c", "d"):
            client.bank(name).open_sync()
        assert client.banks_sync() == ["a", "b", "c", "d"]
