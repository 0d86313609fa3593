"""A bank that is deleted and created again, by another process or in another file, has nothing of the deleted one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import NotFound
from vmemo.models.requests import StatusRequest
from vmemo_conformance.embedders import HashEmbedder


def memory_at(url: str) -> Memory:
    """Return a memory with caches of its own, as another process has."""
    return Memory(url, "x", embedder=HashEmbedder("hash", 64))


async def names(memory: Memory) -> list[str]:
    """Return the names of all entities, aliases included."""
    return [name for entity in await memory.entities() for name in (entity.name, *entity.aliases)]


def test_names_of_a_deleted_bank_do_not_return_in_its_successor(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with memory_at(url) as one, memory_at(url) as other:
            await one.retain("I met Anna Kowalski in Krakow.")
            await other.forget(bank=True)
            # The number of changes is the same as before.
            await other.retain("Bob likes tea.")
            await one.retain("Anna is fine.")
            assert "Anna" in await names(one)
            assert not [name for name in await names(one) if "Kowalski" in name or "Krakow" in name]
            await one.export(tmp_path / "x.jsonl")
            assert "Kowalski" not in (tmp_path / "x.jsonl").read_text(encoding="utf-8")

    asyncio.run(scenario())


def test_names_of_a_deleted_file_do_not_return_in_its_successor(tmp_path: Path) -> None:
    async def scenario() -> None:
        memory = memory_at(f"sqlite:///{tmp_path / 'memory.db'}")
        await memory.retain("I met Anna Kowalski in Krakow.")
        await memory.close()
        (tmp_path / "memory.db").unlink()
        await memory.retain("Bob likes tea.")
        await memory.retain("Anna is fine.")
        assert not [name for name in await names(memory) if "Kowalski" in name]
        await memory.close()

    asyncio.run(scenario())


def test_a_bank_that_another_process_deleted_is_created_again(url: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with memory_at(url) as one, memory_at(url) as other:
            for verb in (
                lambda: one.retain("Anna lives in Rome."),
                lambda: one.recall("Anna"),
                lambda: one.export(tmp_path / "x.jsonl"),
                lambda: asyncio.gather(one.retain("Bob lives in Oslo."), one.retain("Eve lives in Bern.")),
            ):
                await other.retain("Zoe lives in Kyiv.")
                await other.forget(bank=True)
                await verb()
            stored = {message.content for message in await other.messages()}
            assert stored == {"Bob lives in Oslo.", "Eve lives in Bern."}

    asyncio.run(scenario())


def test_a_reflection_answers_after_another_process_deleted_the_bank(url: str) -> None:
    async def scenario() -> None:
        async with memory_at(url) as one, memory_at(url) as other:
            await other.forget(bank=True)
            assert [event async for event in one.reflect_stream("Where does Anna live?")]

    asyncio.run(scenario())


def test_a_missing_record_is_not_found_twice(url: str) -> None:
    async def scenario() -> None:
        async with memory_at(url) as memory:
            with pytest.raises(NotFound, match="no fact"):
                await memory.why("nothing")
            assert (await memory.run(StatusRequest())).messages == 0

    asyncio.run(scenario())
