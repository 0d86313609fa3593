"""CrewAI with vmemo: the contract of a storage backend, and a crew driven by a scripted model."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crewai.memory import MemoryRecord
from crewai.memory.storage.backend import StorageBackend
from pydantic import JsonValue

from vmemo import Memory
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.fake_llm import FakeLLM, Refusal, Script
from vmemo_conformance.llm_server import ScriptedServer
from vmemo_integrations.crewai import VmemoStorage, crew_memory

MONDAY = datetime(2024, 5, 6, 9, 0)  # noqa: DTZ001 - the times of CrewAI have no time zone
RECORDS = [
    MemoryRecord(
        id="home",
        content="Ana lives in Porto.",
        scope="/people/ana",
        categories=["place"],
        metadata={"page": 3, "list": [1]},
        importance=0.9,
        source="chat",
        private=True,
        created_at=MONDAY,
    ),
    MemoryRecord(id="job", content="Ben works in Braga.", scope="/people/ben", categories=["place", "work"]),
    MemoryRecord(id="tea", content="The team drinks green tea.", scope="/team", created_at=MONDAY + timedelta(days=1)),
]


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    monkeypatch.setenv("OPENAI_API_KEY", "unused")


@pytest.fixture
def storage(memory: Memory) -> VmemoStorage:
    storage = VmemoStorage(memory)
    storage.save(RECORDS)
    return storage


def found(storage: VmemoStorage, query: str, **options: Any) -> list[str]:
    [vector] = storage.embed([query])
    return [record.id for record, _ in asyncio.run(storage.asearch(vector, **options))]


def test_records_come_back_as_they_were_saved(storage: VmemoStorage) -> None:
    assert isinstance(storage, StorageBackend)
    assert storage.get_record("home") == RECORDS[0]
    assert storage.get_record("nothing") is None
    assert [record.id for record in storage.list_records()] == ["job", "tea", "home"]
    assert [record.id for record in storage.list_records(limit=1, offset=1)] == ["tea"]


def test_a_secret_is_redacted_and_the_record_stays_readable(storage: VmemoStorage) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    storage.save([MemoryRecord(id=secret, content=f"The key is {secret}.", metadata={"password": secret, "n": 1})])
    record = storage.get_record(secret)
    assert record is not None
    assert (record.id, record.metadata["n"]) == (secret, 1)
    assert secret not in record.content
    assert secret not in str(record.metadata)


def test_a_search_ranks_records_by_recall_and_filters_them(storage: VmemoStorage) -> None:
    [vector] = storage.embed(["Where does Ana live?"])
    (best, score), *_ = storage.search(vector)
    assert best == RECORDS[0]
    assert 0 < score <= 1
    assert found(storage, "Where does Ana live?", limit=1) == ["home"]
    assert found(storage, "Ana lives, Ben works, the team drinks", scope_prefix="/people/") == ["home", "job"]
    assert found(storage, "Ana lives, Ben works", scope_prefix="/peo") == []
    assert found(storage, "Ana lives, Ben works", categories=["work", "x"]) == ["job"]
    assert found(storage, "Ana lives, Ben works", metadata_filter={"page": 3}) == ["home"]
    assert found(storage, "Where does Ana live?", min_score=1.1) == []


def test_a_vector_of_another_embedder_is_refused(storage: VmemoStorage) -> None:
    with pytest.raises(ValueError, match=r"embedder=storage\.embed"):
        storage.search([0.1, 0.2])


def test_an_update_replaces_a_record_and_its_facts(storage: VmemoStorage, memory: Memory) -> None:
    storage.update(RECORDS[0].model_copy(update={"content": "Ana lives in Faro."}))
    record = storage.get_record("home")
    assert record is not None
    assert record.content == "Ana lives in Faro."
    assert storage.count() == 3
    assert not any("Porto" in fact.text for fact in memory.facts_sync())


def test_an_update_may_change_the_fields_around_a_text(storage: VmemoStorage) -> None:
    changed = RECORDS[0].model_copy(update={"importance": 0.1, "categories": ["city"]})
    storage.update(changed)
    assert storage.get_record("home") == changed
    assert storage.list_categories("/people/ana") == {"city": 1}


def test_records_are_deleted_by_all_criteria_together(storage: VmemoStorage, memory: Memory) -> None:
    memory.retain_sync("This was said elsewhere.", document="chat")
    assert storage.delete(record_ids=["home"], categories=["work"]) == 0
    assert storage.delete(older_than=MONDAY + timedelta(hours=1)) == 1
    assert asyncio.run(storage.adelete(scope_prefix="/people", categories=["place"])) == 1
    storage.reset()
    assert storage.count() == 0
    assert [message.content for message in memory.messages_sync()] == ["This was said elsewhere."]


def test_scopes_are_a_tree(storage: VmemoStorage) -> None:
    asyncio.run(storage.asave([MemoryRecord(content="Ana runs.", scope="/people/ana/sport", categories=["sport"])]))
    assert storage.list_scopes() == ["/people", "/team"]
    assert storage.list_scopes("/people/") == ["/people/ana", "/people/ben"]
    assert storage.list_categories("/people/ana") == {"place": 1, "sport": 1}
    info = storage.get_scope_info("/people/ana")
    assert (info.path, info.record_count, info.child_scopes) == ("/people/ana", 2, ["/people/ana/sport"])
    assert (info.categories, info.oldest_record) == (["place", "sport"], MONDAY)
    assert storage.get_scope_info("/nobody").record_count == 0
    assert storage.count("/people") == 3


def test_different_texts_are_never_near_duplicates_of_a_batch(storage: VmemoStorage) -> None:
    first, second = storage.embed(["Ana runs.", "Ana runs!"])
    assert abs(sum(a * b for a, b in zip(first, second, strict=True))) < 0.3 * len(first)
    assert copy.deepcopy(storage) is storage


def test_records_are_stored_even_if_they_cannot_be_processed() -> None:
    with Memory(":memory:", llm=FakeLLM({"extract": Refusal()}), embedder=HashEmbedder()) as memory:
        storage = VmemoStorage(memory)
        storage.save(RECORDS)
        assert storage.count() == 3
        assert memory.status_sync().problems


def test_memory_works_without_a_model_if_nothing_is_left_to_infer(memory: Memory) -> None:
    crew = crew_memory(memory, llm="openai/gpt-5-mini")
    crew.remember("Ana lives in Porto.", scope="/people/ana", categories=[], importance=0.5)
    [match] = crew.recall("Where does Ana live?", depth="shallow")
    assert match.record.content == "Ana lives in Porto."
    assert crew.scope("/people").recall("Where does Ana live?", depth="shallow")
    assert crew.forget(scope="/people") == 1


def test_the_example_uses_in_one_run_what_was_remembered_in_another(
    run_example: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis: JsonValue = {
        "suggested_scope": "/people/ana",
        "categories": ["diet"],
        "importance": 0.9,
        "extracted_metadata": {"entities": ["Ana"], "dates": [], "topics": []},
    }
    extracted: list[JsonValue] = [{"memories": ["Ana is allergic to peanuts."]}, {"memories": []}]
    script: Script = {"": ["Noted.", "An apple."], "ExtractedMemories": extracted, "MemoryAnalysis": analysis}
    with ScriptedServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run_example("crewai")
        first, second = (request.user for request in server.received if not request.step)
    assert "Memories from past" not in first
    assert "Ana is allergic to peanuts." in second
    lines = capsys.readouterr().out.splitlines()
    assert "Noted." in lines
    assert "An apple." in lines
