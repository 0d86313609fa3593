"""Behaviour of the SQLite store: one file, safe upgrades, named errors."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from sqlalchemy import Connection

from vmemo.errors import InvalidInput, SchemaTooNew, StoreBusy, StoreError
from vmemo.models.search import Scope
from vmemo.models.select import FactSelect
from vmemo.stores.sql import migrate
from vmemo.stores.sqlite.store import SqliteFile, SqliteStore
from vmemo_conformance.samples import (
    BANK,
    a_bank,
    a_batch,
    a_fact,
    matches,
    quotes,
    snapshot,
    store_fact,
    store_messages,
    store_story,
)


@asynccontextmanager
async def opened(path: Path | None, *, busy_seconds: float = 0.1) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path, busy_seconds=busy_seconds)
    try:
        await store.open()
        await store.create_bank(a_bank())
        yield store
    finally:
        await store.close()


@contextmanager
def raw(path: Path) -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def tables(path: Path) -> dict[str, str]:
    with raw(path) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall())


def make(path: Path) -> None:
    async def run() -> None:
        async with opened(path) as store:
            await store_story(store)

    asyncio.run(run())


async def refuse_to_open(path: Path, error: type[Exception]) -> None:
    store = SqliteStore(path, busy_seconds=0.1)
    try:
        with pytest.raises(error):
            await store.open()
    finally:
        await store.close()


def test_rows_vectors_and_text_live_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    make(path)
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]
    assert "fts5" in tables(path)["message_words"]
    with raw(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT count(*), sum(length(vector)) FROM fact_index").fetchone() == (5, 5 * 64)


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    make(tmp_path / "a" / "b" / "memory.db")
    assert (tmp_path / "a" / "b" / "memory.db").exists()


@pytest.mark.parametrize("name", ["what?.db", "50%25.db", "a#b&c=d.db", "зима ä.db", "file:memory.db", "no suffix"])
def test_any_file_name_is_accepted_literally(tmp_path: Path, name: str) -> None:
    make(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_the_schema_version_is_stored(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "memory.db") as store:
            assert await store.schema_version() == migrate.HEAD

    asyncio.run(run())
    with raw(tmp_path / "memory.db") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(migrate.HEAD,)]


def test_migrations_are_numbered_in_order() -> None:
    folder = Path(migrate.__file__).parent / "migrations" / "versions"
    numbers = sorted(file.name.split("_")[0] for file in folder.glob("*.py"))
    assert numbers == [f"{n:04}" for n in range(1, len(numbers) + 1)]
    assert numbers[-1] == migrate.HEAD


def test_a_newer_schema_is_refused_and_the_file_is_untouched(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    make(path)
    with raw(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = path.read_bytes()
    asyncio.run(refuse_to_open(path, SchemaTooNew))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    make(path)
    assert {"banks", "messages", "facts", "alembic_version"} <= tables(path).keys()


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    make(path)
    before = path.read_bytes()

    async def run() -> None:
        async with opened(path) as store:
            await store.open()
            assert await store.damage() == []
        await store.close()

    asyncio.run(run())
    assert path.read_bytes() == before


def test_a_failed_upgrade_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    def broken(connection: Connection) -> None:
        migrate.upgrade(connection)
        connection.exec_driver_sql("CREATE TABLE banks (twice INTEGER)")

    file = SqliteFile(path, busy_seconds=0.1)
    with pytest.raises(StoreError):
        file.write(broken)
    file.close()
    assert tables(path) == {}
    make(path)
    assert "banks" in tables(path)


def test_an_upgrade_to_an_unknown_version_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    file = SqliteFile(path, busy_seconds=0.1)
    with pytest.raises(Exception, match="9999"):
        file.write(lambda connection: migrate.upgrade(connection, "9999"))
    file.close()
    assert tables(path) == {}


def test_a_file_being_upgraded_by_another_process_is_busy_until_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with raw(path) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("BEGIN IMMEDIATE")
        asyncio.run(refuse_to_open(path, StoreBusy))
        other.execute("ROLLBACK")
    assert tables(path) == {}
    make(path)


def test_two_stores_open_one_new_file_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        stores = [SqliteStore(tmp_path / "memory.db", busy_seconds=10) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        for store in stores:
            await store.close()

    asyncio.run(run())
    assert "banks" in tables(tmp_path / "memory.db")


@pytest.mark.parametrize("content", [b"this is no database " * 500, b"SQLite format 3\x00" + b"\x7f" * 5000])
def test_a_file_that_is_not_a_database_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    asyncio.run(refuse_to_open(path, StoreError))
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    asyncio.run(refuse_to_open(tmp_path / "file" / "memory.db", StoreError))
    asyncio.run(refuse_to_open(tmp_path, StoreError))


def test_a_write_to_a_locked_file_is_busy_and_writes_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "memory.db") as store:
            [said] = await store_messages(store, "tulips")
            batch = replace(await a_batch(store, [a_fact("tulips")]), pending=[said.id])
            before = await snapshot(store)
            with raw(tmp_path / "memory.db") as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusy):
                    await store.commit(batch)
                with pytest.raises(StoreBusy):
                    await store_messages(store, "roses")
                other.execute("ROLLBACK")
            assert await snapshot(store) == before
            assert await store.commit(batch)

    asyncio.run(run())


def test_reads_continue_while_another_process_writes(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "memory.db") as store:
            fact = await store_fact(store, "tulips")
            with raw(tmp_path / "memory.db") as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("UPDATE facts SET text = 'unfinished'")
                assert await store.facts(BANK, FactSelect()) == [fact]
                assert await matches(store, "tulips") == [fact.id]
                other.execute("ROLLBACK")

    asyncio.run(run())


def test_a_store_works_in_one_event_loop_after_another() -> None:
    store = SqliteStore(None)
    asyncio.run(store.open())
    asyncio.run(_make_bank(store))
    fact = asyncio.run(store_fact(store, "tulips"))
    assert asyncio.run(matches(store, "tulips")) == [fact.id]
    asyncio.run(store.close())


async def _make_bank(store: SqliteStore) -> None:
    await store.create_bank(a_bank())


def test_many_concurrent_calls_are_all_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with opened(tmp_path / "memory.db", busy_seconds=30) as store:
            fact = await store_fact(store, "tulips")
            calls = [matches(store, "tulips") for _ in range(30)]
            results = await asyncio.gather(*calls, *(store_messages(store, f"roses {n}") for n in range(30)))
            assert results[:30] == [[fact.id]] * 30
            assert len(await quotes(store, "roses")) == 30

    asyncio.run(run())


BIG: JsonValue = 10**30


def test_a_filter_by_a_number_beyond_the_limits_of_sqlite_is_invalid_input() -> None:
    async def run() -> None:
        async with opened(None) as store:
            fact = await store_fact(store, "tulips")
            with pytest.raises(InvalidInput):
                await matches(store, "tulips", Scope(bank=BANK).replace(metadata={"n": BIG}))
            assert await matches(store, "tulips") == [fact.id]

    asyncio.run(run())


@pytest.mark.parametrize("field", [{"metadata": {"n": "\ud800"}}, {"tags": ("\ud800",)}, {"entities": ("\ud800",)}])
def test_a_filter_by_text_that_can_not_be_stored_matches_nothing(field: dict[str, object]) -> None:
    async def run() -> None:
        async with opened(None) as store:
            await store_fact(store, "tulips")
            assert await matches(store, "tulips", Scope(bank=BANK).replace(**field)) == []

    asyncio.run(run())


def test_a_large_number_in_metadata_is_read_back_unchanged() -> None:
    async def run() -> None:
        async with opened(None) as store:
            fact = await store_fact(store, "tulips", metadata={"n": BIG})
            assert await store.facts(BANK, FactSelect()) == [fact]
            assert json.dumps(fact.metadata["n"]) == str(BIG)

    asyncio.run(run())
