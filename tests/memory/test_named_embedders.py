"""Memories whose embedder is given by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from vmemo import Memory, Settings
from vmemo.errors import EmbedderMismatch, EmbeddingFailed, InvalidInput
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import Fault, ReceivedRequest, StatusResponse
from vmemo_conformance.llm_server import ScriptedServer

CAT = "I adopted a cat named Pixel from the shelter in Bergen."
SETTINGS = Settings(attempts=1)


class EmbeddingServer(ScriptedServer):
    """A server whose embeddings fail while `down` is true, or for requests with a text."""

    def __init__(self) -> None:
        self.down = False
        self.fails_on: str | None = None
        super().__init__({"embed": self._reply})

    @property
    def name(self) -> str:
        return f"{self.url}#m"

    def _reply(self, received: ReceivedRequest) -> JsonValue | Fault:
        failing = self.fails_on is not None and self.fails_on in str(received.body["input"])
        return StatusResponse(503) if self.down or failing else None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with EmbeddingServer() as running:
        yield running


def test_a_named_embedder_retains_and_recalls(server: EmbeddingServer, tmp_path: Path) -> None:
    async def work() -> None:
        async with Memory(tmp_path / "m.db", embedder=server.name, settings=SETTINGS) as memory:
            await memory.retain(CAT)
            found = await memory.recall("Which cat did I adopt?")
            status = await memory.status()
        assert "Pixel" in found.hits[0].fact.text
        assert (status.embedder, status.dimension) == (server.name.removeprefix("http://").replace("/v1", ""), 64)

    asyncio.run(work())


def test_the_environment_names_the_embedder(
    server: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VMEMO_EMBEDDER", "openai:text-embedding-3-small")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with Memory(tmp_path / "m.db") as memory:
        memory.retain_sync(CAT)
        assert memory.status_sync().embedder == "openai:text-embedding-3-small"
    assert {received.model for received in server.received} == {"text-embedding-3-small"}


def test_a_message_is_stored_while_the_service_is_down_and_processed_later(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    with Memory(tmp_path / "m.db", embedder=server.name, settings=SETTINGS) as memory:
        memory.retain_sync(CAT)
    server.down = True
    # A new process learns the dimension from the bank, and a new bank from another one of the same embedder.
    with Memory(tmp_path / "m.db", embedder=server.name, settings=SETTINGS) as memory:
        for bank in (memory, memory.bank("other")):
            with pytest.raises(EmbeddingFailed, match=r"status 503.* stored and queued") as caught:
                bank.retain_sync("My sister Ines moved to Lisbon.")
            assert len(caught.value.stored) == 1
        with pytest.raises(EmbeddingFailed, match="503"):
            memory.recall_sync("Where does Ines live?")
        server.down = False
        memory.process_sync()
        memory.bank("other").process_sync()
        for bank in (memory, memory.bank("other")):
            assert bank.status_sync().pending == 0
            assert "Lisbon" in bank.recall_sync("Where does Ines live?").hits[0].fact.text


def test_a_failure_in_the_middle_of_many_messages_keeps_all_and_resumes(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    messages = [f"The gauge number {number} showed {number * 7} bar." for number in range(230)]
    with Memory(tmp_path / "m.db", embedder=server.name, settings=SETTINGS) as memory:
        memory.retain_sync(CAT)
        server.fails_on = "number 150 "
        with pytest.raises(EmbeddingFailed) as caught:
            memory.retain_sync(messages)
        assert len(caught.value.stored) == memory.status_sync().pending == 230
        before = len(server.received)
        server.fails_on = None
        memory.process_sync()
        status = memory.status_sync()
    assert (status.pending, status.facts) == (0, 231)
    # Only the batch that failed is requested again; the others were cached.
    assert len(str([received.body["input"] for received in server.received[before:]])) < 230 * 40
    assert sum("number 3 " in str(received.body["input"]) for received in server.received) == 1


def test_the_first_bank_needs_one_answer_and_nothing_is_stored_without(server: EmbeddingServer, tmp_path: Path) -> None:
    server.down = True
    with Memory(tmp_path / "m.db", settings=SETTINGS) as packaged:
        assert packaged.banks_sync() is not None
    memory = Memory(tmp_path / "n.db", embedder=server.name, settings=SETTINGS)
    with pytest.raises(EmbeddingFailed, match=r"503.*Nothing was stored: a new bank needs the dimension"):
        memory.retain_sync(CAT)
    server.down = False
    memory.retain_sync(CAT)
    assert memory.status_sync().messages == 1
    memory.close_sync()


def test_another_embedder_is_refused_with_the_command_that_switches(server: EmbeddingServer, tmp_path: Path) -> None:
    with Memory(tmp_path / "m.db", embedder=HashEmbedder("old")) as memory:
        memory.retain_sync(CAT)
    named = Memory(
        tmp_path / "m.db",
        embedder="ollama:nomic-embed-text",
        settings=Settings(embedder_url=server.url, attempts=1),
    )
    command = "`vmemo reembed --bank default --embedder ollama:nomic-embed-text`"
    with pytest.raises(EmbedderMismatch, match=f"'old' .64 dimensions.*'ollama:nomic-embed-text'.*Run {command}"):
        named.retain_sync("Maya lives in Bergen.")
    assert server.received == []
    assert named.reembed_sync() == 1
    assert "Pixel" in named.recall_sync("Which cat did I adopt?").hits[0].fact.text
    named.close_sync()


def test_vectors_of_another_dimension_under_the_same_name_are_refused(server: EmbeddingServer, tmp_path: Path) -> None:
    name = server.name.removeprefix("http://").replace("/v1", "")
    with Memory(tmp_path / "m.db", embedder=HashEmbedder(name, dimension=32)) as memory:
        memory.retain_sync(CAT)
    with (
        Memory(tmp_path / "m.db", embedder=server.name, settings=SETTINGS) as memory,
        pytest.raises(EmbeddingFailed, match="64 dimensions, but 32 before"),
    ):
        memory.recall_sync("Which cat?")


def test_the_disk_cache_serves_a_named_embedder(server: EmbeddingServer, tmp_path: Path) -> None:
    settings = Settings(attempts=1, embedding_cache=tmp_path / "vectors.db")
    with Memory(tmp_path / "m.db", embedder=server.name, settings=settings) as memory:
        memory.retain_sync(CAT)
    server.down = True
    with Memory(tmp_path / "m.db", embedder=server.name, settings=settings) as memory:
        assert memory.reembed_sync() == 1


@pytest.mark.parametrize("embedder", [7, object(), ["openai:m"]])
def test_an_embedder_of_another_type_is_refused(embedder: object) -> None:
    with pytest.raises(InvalidInput, match="a text such as openai:text-embedding-3-small, or an object with name"):
        Memory(":memory:", embedder=embedder)  # pyright: ignore[reportArgumentType]
