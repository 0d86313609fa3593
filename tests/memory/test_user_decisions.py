"""Edits, deletions and pins are decisions of the user: nothing brings a replaced or deleted text back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from builders import NOON, WordEmbedder

from vmemo import Fact, Memory, Message, NotFound

ROME, CAT, DOG = "I live in Rome.", "My cat is called Tux.", "My dog is called Rex."
MILAN = "Ana lives in Milan."


def said(content: str, minute: int = 0, **fields: object) -> Message:
    time = NOON + timedelta(minutes=minute)
    return Message.of({"content": content, "speaker": "Ana", "timestamp": time, "document": "chat", **fields})


def talk() -> list[Message]:
    return [said(ROME), said(CAT, 1), said(DOG, 2)]


def memory_at(path: Path | str = ":memory:") -> Memory:
    return Memory(path, embedder=WordEmbedder())


def fact_of(memory: Memory, text: str) -> Fact:
    [found] = [fact for fact in memory.facts_sync() if text in fact.text and fact.expired_at is None]
    return found


def current(memory: Memory) -> set[str]:
    return {fact.text for fact in memory.facts_sync() if fact.expired_at is None}


def everything(memory: Memory, query: str) -> str:
    return "\n".join(hit.text for hit in memory.recall_sync(query, include_expired=True).hits)


def test_a_deleted_fact_goes_with_its_message_and_no_byte_is_left(tmp_path: Path) -> None:
    with memory_at(tmp_path / "memory.db") as memory:
        memory.retain_sync(talk())
        gone = memory.delete_sync(fact_of(memory, "Rome").short_id)
        assert (gone.messages, gone.requeued) == (1, 2)
        assert current(memory) == {f"Ana: {CAT}", f"Ana: {DOG}"}
        assert "Rome" not in everything(memory, "Where does Ana live? Rome")
        with pytest.raises(NotFound):
            memory.delete_sync("missing")
    assert all(b"Rome" not in file.read_bytes() for file in tmp_path.iterdir())


def test_deleting_an_edited_fact_deletes_the_versions_that_the_user_replaced(tmp_path: Path) -> None:
    with memory_at(tmp_path / "memory.db") as memory:
        memory.retain_sync(talk())
        edited = memory.update_sync(fact_of(memory, "Rome").id, MILAN, "secret reason")
        memory.delete_sync(edited.id)
        assert current(memory) == {f"Ana: {CAT}", f"Ana: {DOG}"}
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert all(text not in left for text in (b"Rome", b"Milan", b"secret reason"))


def test_a_message_with_other_facts_stays_as_their_source_and_is_not_processed_again() -> None:
    with memory_at() as memory:
        memory.retain_sync([said(f"{ROME} Always give dates as MM/DD/YYYY."), said(CAT, 1)])
        gone = memory.delete_sync(fact_of(memory, "Rome").id)
        assert (gone.messages, gone.facts) == (0, 1)
        assert memory.messages_sync()[0].state == "curated"
        assert all("Rome" not in f"{episode.title} {episode.narrative}" for episode in memory.episodes_sync())
        for _ in range(2):
            assert current(memory) == {"Ana: Always give dates as MM/DD/YYYY.", f"Ana: {CAT}"}
            assert "Rome" not in everything(memory, "Where does Ana live? Rome")
            memory.reprocess_sync()


def test_what_the_user_decided_survives_reprocessing_transfer_and_reembedding(tmp_path: Path) -> None:
    with memory_at() as memory:
        memory.retain_sync(talk())
        edited = memory.update_sync(fact_of(memory, "Rome").id, MILAN, "She moved.")
        memory.pin_sync(fact_of(memory, "Tux").id)
        memory.delete_sync(fact_of(memory, "Rex").id)
        expected = {MILAN, f"Ana: {CAT}"}
        for _ in range(2):
            memory.reprocess_sync()
            assert current(memory) == expected
            assert [fact.text for fact in memory.facts_sync(pinned=True)] == [f"Ana: {CAT}"]
            versions = [(fact.text, fact.reason) for fact in memory.history_sync(edited.id)]
            assert versions == [(f"Ana: {ROME}", ""), (MILAN, "She moved.")]
        memory.export_sync(tmp_path / "bank.jsonl")
        copy = memory.bank("copy")
        copy.import_bank_sync(tmp_path / "bank.jsonl")
        copy.reembed_sync()
        copy.reprocess_sync()
        assert current(copy) == expected
        assert len(copy.facts_sync(pinned=True)) == 1
        hits = {hit.text: hit.status for hit in copy.recall_sync("Where does Ana live? Rome Milan").hits}
        assert hits[MILAN] == "current"
        assert f"Ana: {ROME}" not in hits


def test_a_fact_that_an_edited_one_replaced_stays_closed_after_reprocessing() -> None:
    with memory_at() as memory:
        memory.retain_sync([said(CAT), said("I live in Oslo.", 90)])
        memory.update_sync(fact_of(memory, "Oslo").id, "Ana lives in Bergen.")
        memory.reprocess_sync()
        assert current(memory) == {f"Ana: {CAT}", "Ana lives in Bergen."}
        last = fact_of(memory, "Bergen")
        texts = [fact.text for fact in memory.history_sync(last.id)]
        assert texts == ["Ana: I live in Oslo.", "Ana lives in Bergen."]


def test_forgetting_a_neighbour_reverts_neither_edits_nor_pins(tmp_path: Path) -> None:
    with memory_at(tmp_path / "memory.db") as memory:
        memory.retain_sync([said("The vault code is opal.", 0), said(ROME, 1), said(CAT, 2), said(DOG, 3)])
        edited = memory.update_sync(fact_of(memory, "Rome").id, MILAN)
        pinned = memory.pin_sync(fact_of(memory, "Tux").id)
        memory.forget_sync(messages=[message.id for message in memory.messages_sync() if "vault" in message.content])
        assert current(memory) == {MILAN, f"Ana: {CAT}", f"Ana: {DOG}"}
        assert memory.get_sync(pinned.id).pinned
        assert [fact.id for fact in memory.history_sync(edited.id)][-1] == edited.id
        memory.forget_sync(messages=[message.id for message in memory.messages_sync() if "Rome" in message.content])
        assert current(memory) == {f"Ana: {CAT}", f"Ana: {DOG}"}
        assert memory.get_sync(pinned.id).pinned
        assert not memory.get_sync(pinned.id).context
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert all(text not in left for text in (b"opal", b"Rome", b"Milan"))
