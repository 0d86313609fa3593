"""The client has the verbs of the library, with the same results and errors."""

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
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, StatusResponse

LOCAL_ONLY = {
    *("work", "schedule_maintenance", "reembed", "left_to_reprocess"),
    *("replace_messages", "import_from", "preview_forget"),
    *("limit_requests", "observed", "without_creation"),
}
"""Verbs of the process that owns the database: its jobs, its embedder and its transactions."""
VERBS = {name: verb for name, verb in inspect.getmembers(Memory, inspect.isfunction) if name[0] != "_"}
REMOTE = sorted(name for name in VERBS if name.removesuffix("_sync") not in LOCAL_ONLY)
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
MESSAGES = [
    Message(content="I moved to Lisbon with Ben.", speaker="Ana", timestamp=NOON, document="chat", tags=("home",)),
    Message(content="Ben bought a red kettle.", speaker="Ana", timestamp=NOON + timedelta(minutes=1), document="chat"),
    Message(content="Ruth likes tea with Ana.", speaker="Ana", timestamp=NOON, metadata={"n": None}),
]


@pytest.mark.parametrize("name", REMOTE)
def test_client_verb_has_the_signature_of_the_library(name: str) -> None:
    remote, local = getattr(Client, name), VERBS[name]
    assert inspect.signature(remote) == inspect.signature(local)
    assert inspect.iscoroutinefunction(remote) == inspect.iscoroutinefunction(local)
    assert inspect.isasyncgenfunction(remote) == inspect.isasyncgenfunction(local)
    assert remote.__doc__


def test_client_has_no_verb_that_the_library_lacks() -> None:
    assert {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"} == set(REMOTE)


def test_reads_return_the_same_records(server: LiveServer, database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        memory.retain_sync(MESSAGES)
        memory.profile_sync(Profile(name="Mira", disposition=Disposition(empathy=5)))
        fact = memory.facts_sync()[0].id
        assert client.profile_sync() == memory.profile_sync()
        assert client.former_profiles_sync() == memory.former_profiles_sync()
        assert client.messages_sync(document="chat") == memory.messages_sync(document="chat")
        assert client.messages_sync(after=MESSAGES[0].id, limit=1) == memory.messages_sync(
            after=MESSAGES[0].id, limit=1
        )
        assert client.episodes_sync() == memory.episodes_sync()
        assert client.facts_sync(limit=1000) == memory.facts_sync(limit=1000)
        assert client.facts_sync(with_embeddings=True) == memory.facts_sync(with_embeddings=True)
        assert client.entities_sync() == memory.entities_sync()
        assert client.why_sync(fact) == memory.why_sync(fact)
        assert client.opinions_sync() == client.observations_sync() == client.trajectory_sync(fact) == []
        assert client.jobs_sync() == memory.jobs_sync()
        assert client.banks_sync() == memory.banks_sync() == ["a"]
        assert client.status_sync() == memory.status_sync().model_copy(update={"bytes": client.status_sync().bytes})


def test_queries_return_the_same_results(server: LiveServer, database: str) -> None:
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        memory.retain_sync(MESSAGES)
        spring = Interval(start=NOON - timedelta(days=30), end=NOON + timedelta(days=30))
        remote, local = (
            each.recall_sync(
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
            for each in (client, memory)
        )
        assert remote.hits == local.hits
        assert (remote.query, remote.explanation) == (local.query, local.explanation)
        assert remote.to_prompt() == local.to_prompt()
        assert client.retrieve_sync("kettle", 1).facts == memory.retrieve_sync("kettle", 1).facts
        assert client.retrieve_sync("Lisbon", tags=["home"]).facts[0].tags == ("home",)
        assert client.context_sync("kettle", "Ana", 300).text == memory.context_sync("kettle", "Ana", 300).text
        assert client.reflect_sync("Who has a kettle?") == memory.reflect_sync("Who has a kettle?")
        events = list(client.reflect_stream_sync("Who has a kettle?"))
        assert events == list(memory.reflect_stream_sync("Who has a kettle?"))


def test_writes_are_visible_to_the_library(server: LiveServer, database: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with Client(server.url, "team/a 100%?#..") as client:
            retained = await client.retain(MESSAGES)
            assert retained.stored == tuple(message.id for message in MESSAGES)
            assert len(retained.derived) == 3
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
            [hen] = (await client.retain("I have a hen.", speaker="Ana", document="hens", ttl=3600)).derived
            grey = await client.update(hen, "Ana has a grey hen.", "she said so")
            assert (await client.get(grey.short_id)).reason == "she said so"
            assert grey.expires_at is not None
            assert (await client.pin(grey.id)).pinned
            assert not (await client.unpin(grey.id)).pinned
            assert [fact.id for fact in await client.history(hen)] == [hen, grey.id]
            assert (await client.delete(grey.id)).facts == 2
            webhook = await client.add_webhook("https://app.example/hook", ["forgotten"])
            assert webhook.secret.startswith("whsec_")
            assert await client.webhooks() == [webhook.public()]
            assert await client.delete_webhook(webhook.id) == webhook.public()
            assert (await client.maintain()).optimised
            assert len((await client.reprocess()).derived) > 0
            assert (await client.forget(document="lines")).messages == 2
            assert (await client.forget(messages=[MESSAGES[0].id])).messages == 1
            assert await client.export(tmp_path / "there.jsonl") > 5
            assert await client.bank("..").import_bank(tmp_path / "there.jsonl") == 6

    asyncio.run(work())
    with Memory(database, "..", embedder=HashEmbedder()) as memory:
        texts = [message.content for message in memory.messages_sync()]
        assert texts[:2] == [message.content for message in MESSAGES[1:]]
        assert texts[2:] == ["I have a cat.", "I have a dog.", "And fish?", "No fish."]
        assert memory.messages_sync()[1].metadata == {"n": None}
        assert memory.messages_sync()[0].timestamp == MESSAGES[1].timestamp
        memory.export_sync(tmp_path / "here.jsonl")
    with Client(server.url, "..") as client:
        client.export_sync(tmp_path / "there.jsonl")
        assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
        assert client.forget_sync(bank=True).messages == 6
        assert not client.exists_sync()


def test_open_creates_the_bank_and_reads_do_not(server: LiveServer) -> None:
    client = Client(server.url, "new")
    assert not client.exists_sync()
    with pytest.raises(NotFound, match="no bank 'new'"):
        client.recall_sync("Anything?")
    with client.bank("new") as same:
        assert same.exists_sync()
        assert repr(same) == f"Client(host='{server.url.removeprefix('http://')}', bank='new')"
    client.close_sync()


INVALID_CALLS: Sequence[Callable[[Memory | Client, Path], object]] = [
    lambda memory, folder: memory.why_sync("nothing"),
    lambda memory, folder: memory.get_sync("nothing"),
    lambda memory, folder: memory.update_sync("nothing", " "),
    lambda memory, folder: memory.delete_sync("nothing"),
    lambda memory, folder: memory.pin_sync("nothing"),
    lambda memory, folder: memory.retain_sync("x", ttl=0),
    lambda memory, folder: memory.recall_sync(""),
    lambda memory, folder: memory.recall_sync("x", max_tokens=0),
    lambda memory, folder: memory.recall_sync("x", networks=["dreams"]),  # pyright: ignore[reportArgumentType]
    lambda memory, folder: memory.recall_sync("x", now=datetime(2024, 1, 1)),  # noqa: DTZ001
    lambda memory, folder: memory.reflect_sync("x", schema={"type": "array"}),
    lambda memory, folder: memory.reflect_sync("x", max_lookups=9),
    lambda memory, folder: memory.retain_sync([]),
    lambda memory, folder: memory.retain_sync("half \ud800"),
    lambda memory, folder: memory.retain_sync("x", tags="red"),
    lambda memory, folder: memory.facts_sync(limit=0),
    lambda memory, folder: memory.facts_sync(after=FactId("nothing")),
    lambda memory, folder: memory.messages_sync(after=MessageId("\ud800")),
    lambda memory, folder: memory.forget_sync(),
    lambda memory, folder: memory.forget_sync(document="none"),
    lambda memory, folder: memory.merge_entities_sync("Ann", "Bob"),
    lambda memory, folder: memory.undo_merge_sync("none"),
    lambda memory, folder: memory.add_webhook_sync("http://app.example"),
    lambda memory, folder: memory.add_webhook_sync("https://10.0.0.1/hook"),
    lambda memory, folder: memory.add_webhook_sync("https://app.example", []),
    lambda memory, folder: memory.delete_webhook_sync("none"),
    lambda memory, folder: memory.add_background_sync("You are tall."),
    lambda memory, folder: memory.import_bank_sync(folder / "none.jsonl"),
    lambda memory, folder: memory.import_bank_sync(folder / "missing.jsonl"),
    lambda memory, folder: memory.export_sync(folder / "no" / "folder.jsonl"),
    lambda memory, folder: memory.bank(""),
]


def test_errors_are_those_of_the_library(server: LiveServer, database: str, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("nothing\n", encoding="utf-8")
    with Memory(database, "a", embedder=HashEmbedder()) as memory, Client(server.url, "a") as client:
        for call in INVALID_CALLS:
            with pytest.raises(VmemoError) as local_error:
                call(memory, tmp_path)
            with pytest.raises(VmemoError) as remote_error:
                call(client, tmp_path)
            assert type(remote_error.value) is type(local_error.value)
        with pytest.raises(InvalidInput) as error:
            client.bank("z").import_bank_sync(tmp_path / "none.jsonl")
        assert str(tmp_path.parent) not in str(error.value)
        assert str(error.value).startswith("The body: line 1")
        with pytest.raises(Unsupported, match="needs a language model"):
            client.reflect_sync("x", schema={"type": "object", "properties": {}})


def test_retain_with_a_failing_model_raises_and_stores_the_messages(database: str) -> None:
    model = FakeLLM({"extract": [StatusResponse(400)] * 9})
    with live_server(database, llm=model) as server, Client(server.url, "a") as client:
        with pytest.raises(LLMFailed) as failed:
            client.retain_sync("I have a grey cat.")
        assert type(failed.value).__name__ == "LLMDenied"
        assert [message.content for message in client.messages_sync()] == ["I have a grey cat."]
        assert client.status_sync().pending == 1


def test_banks_reads_every_page(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmemo.client.client.LARGEST_PAGE", 2)
    with Client(server.url, "a") as client:
        for name in ("b", "c", "d"):
            client.bank(name).open_sync()
        assert client.banks_sync() == ["a", "b", "c", "d"]
