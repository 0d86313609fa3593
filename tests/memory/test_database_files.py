"""Database files that are deleted, replaced, damaged or full while a memory has them open."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from vmemo import Memory
from vmemo.errors import DatabaseReplaced, ProcessingDelayed, StoreError, VmemoError
from vmemo_conformance.embedders import HashEmbedder

Verb = Callable[[Memory], Awaitable[object]]
VERBS: Mapping[str, Verb] = {
    "retain": lambda memory: memory.retain("Zoe moved to Oslo."),
    "add_message": lambda memory: memory.add_message("Zoe moved to Oslo."),
    "recall": lambda memory: memory.recall("Zoe"),
    "concurrent recalls": lambda memory: asyncio.gather(*(memory.recall("Zoe") for _ in range(8))),
    "facts": lambda memory: memory.facts(),
    "status": lambda memory: memory.status(),
    "forget": lambda memory: memory.forget(bank=True),
}


def memory_at(path: Path) -> Memory:
    """Return a memory of the file."""
    return Memory(f"sqlite:///{path}", embedder=HashEmbedder("hash", 64))


async def filled(path: Path, count: int = 3) -> None:
    """Create a file with some facts."""
    async with memory_at(path) as memory:
        await memory.retain([f"Person{number} met Anna in Town{number}." for number in range(count)])


async def refused(memory: Memory, error: type[VmemoError]) -> None:
    """Assert that every verb raises this error."""
    for verb in VERBS.values():
        with pytest.raises(error):
            await verb(memory)


async def closed(memory: Memory) -> None:
    """Close a memory whose access counts may not be written any more."""
    with suppress(StoreError):
        await memory.close()


def test_nothing_is_acknowledged_after_the_file_was_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "memory.db"
        await filled(path)
        memory = memory_at(path)
        await memory.recall("Anna")
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()
        await refused(memory, DatabaseReplaced)
        assert os.listdir(tmp_path) == []
        await closed(memory)
        await memory.retain("Zoe moved to Oslo.")
        assert (await memory.status()).messages == 1
        await memory.close()

    asyncio.run(scenario())


def test_a_file_that_replaced_the_open_one_is_not_touched(tmp_path: Path) -> None:
    async def scenario() -> None:
        path, backup = tmp_path / "memory.db", tmp_path / "backup.db"
        await filled(path)
        await filled(backup, 1)
        memory = memory_at(path)
        await memory.recall("Anna")
        backup.replace(path)
        await refused(memory, DatabaseReplaced)
        await closed(memory)
        assert (await memory.status()).messages == 1
        await memory.close()

    asyncio.run(scenario())
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_messages_stored_before_the_log_was_deleted_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "memory.db"
        await filled(path)
        memory = memory_at(path)
        await memory.retain("Max moved to Rome.")
        (tmp_path / "memory.db-wal").unlink()
        await refused(memory, DatabaseReplaced)
        await closed(memory)
        assert (await memory.status()).messages == 4
        await memory.close()

    asyncio.run(scenario())


def test_a_file_replaced_during_a_transaction_is_noticed_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        path = tmp_path / "memory.db"
        await filled(path)
        memory = memory_at(path)
        await memory.open()

        def commit(_: object, connection: sqlite3.Connection) -> None:
            connection.commit()
            shutil.copy(path, tmp_path / "copy.db")
            (tmp_path / "copy.db").replace(path)

        monkeypatch.setattr(SQLiteDialect_pysqlite, "do_commit", commit)
        with pytest.raises(DatabaseReplaced, match="former file only"):
            await memory.add_message("Zoe moved to Oslo.")
        monkeypatch.undo()
        await closed(memory)

    asyncio.run(scenario())


def test_a_damaged_file_raises_only_errors_of_the_store(tmp_path: Path) -> None:
    path, dice = tmp_path / "memory.db", random.Random(3)
    asyncio.run(filled(path, 10))
    sound = path.read_bytes()

    async def use(memory: Memory) -> None:
        for verb in VERBS.values():
            with suppress(VmemoError):
                await verb(memory)
        await closed(memory)

    for turn in range(12):
        damaged = bytearray(sound)
        for _ in range(dice.choice((3, 50))):
            damaged[dice.randrange(100, len(damaged))] ^= 1 << dice.randrange(8)
        broken = tmp_path / f"{turn}.db"
        broken.write_bytes(damaged if turn % 4 else sound[: len(sound) * turn // 20])
        asyncio.run(use(memory_at(broken)))


def test_damage_is_reported_with_the_file_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(filled(path))
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StoreError, match=r"memory\.db is damaged: .*doctor.*backup"):
        memory_at(path).status_sync()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("UPDATE facts SET mentioned_at = 9223372036854775807", id="time after the year 9999"),
        pytest.param("UPDATE facts SET tags = '['", id="text that is not JSON"),
        pytest.param("UPDATE banks SET dimension = -1", id="bank that is not valid"),
        pytest.param("UPDATE links SET weight = 9", id="record that is not valid"),
    ],
)
def test_a_damaged_value_is_an_error_of_the_store_and_not_of_the_caller(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(filled(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    with pytest.raises(StoreError, match=r"memory\.db is damaged"):
        memory_at(path).export_sync(tmp_path / "bank.jsonl")


def test_a_full_disk_while_deriving_reports_the_stored_messages(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def scenario() -> None:
        memory = memory_at(path)
        await memory.retain("Anna lives in Rome.")
        with closing(sqlite3.connect(path)) as connection:
            # A trigger stands for the disk, which a test can't fill.
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON facts BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
            )
            connection.commit()
        with pytest.raises(ProcessingDelayed, match="stored and queued: do not retain them again") as raised:
            await memory.retain("Bob lives in Oslo.")
        assert len(raised.value.stored) == 1
        status = await memory.status()
        assert (status.messages, status.pending) == (2, 1)
        await memory.close()

    asyncio.run(scenario())
