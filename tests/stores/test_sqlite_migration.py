"""Upgrades: a database that an earlier release made keeps all it holds and gains what is new."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import SchemaTooNew
from vmemo.models import Interval
from vmemo.ports import Encoding, ForgetTarget
from vmemo.searches import EdgeQuery, TimeQuery
from vmemo.stores.sql import migrate
from vmemo.stores.sql.sqlite import SqliteStore
from vmemo.stores.sql.sqlite_file import SqliteFile
from vmemo.testing.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    Snapshot,
    Story,
    TokenHashEmbedder,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    know,
    matches,
    near,
    snapshot,
    some_tokens,
    tell_story,
    with_vector,
)

NEW = {"entity_names", "token_vectors"}


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in found}


async def fill(path: Path) -> tuple[Story, Snapshot]:
    """Two banks of today's schema, without token vectors."""
    store = SqliteStore(path)
    await store.open()
    await store.create_bank(a_bank())
    await store.create_bank(a_bank(OTHER))
    await tell_story(store, OTHER)
    story = await tell_story(store)
    await know(store, an_entity("Robert Hale", id="bob", aliases=["Bob", "山田さん", "🌷"]))
    kept = await snapshot(store)
    await store.close()
    return story, kept


def first_release(path: Path) -> tuple[Story, Snapshot]:
    """A file as schema 0001 had it, with the rows of a filled one."""
    source = path.with_name("source.db")
    filled = asyncio.run(fill(source))
    file = SqliteFile(path, busy_seconds=1)
    file.write(lambda connection: migrate.upgrade(connection, "0001"))
    file.close()
    assert not tables(path) & NEW
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS source", (str(source),))
        # All messages are read into facts that repeat their words, so the text index is empty in both.
        shared = [name for name in tables(path) if not name.startswith(("sqlite_", "alembic_", "message_words"))]
        for name in shared:
            connection.execute(f"INSERT INTO main.{name} SELECT * FROM source.{name}")
        connection.commit()
    source.unlink()
    return filled


def test_a_database_of_the_first_release_keeps_all_it_holds_and_finds_its_names(tmp_path: Path) -> None:
    story, kept = first_release(tmp_path / "memory.db")

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        assert await store.schema_version() == migrate.HEAD
        assert await snapshot(store) == kept
        assert {mention.name for mention in await store.named(BANK, "Caroline in OSLO?")} == {"Caroline", "Oslo"}
        for text in ("Where is Robert Hale?", "bob's", "山田さん"):
            assert [mention.id for mention in await store.named(BANK, text)] == ["bob"]
        assert {mention.name for mention in await store.named(OTHER, "Caroline and Bob")} == {"Caroline"}
        assert await store.damage() == []
        await store.forget(BANK, ForgetTarget(entity=story.entities[0].id))
        assert await store.named(BANK, "Caroline") == []
        await store.close()

    asyncio.run(run())


def test_facts_of_the_first_release_are_searched_without_token_vectors_and_can_be_given_some(tmp_path: Path) -> None:
    story, _ = first_release(tmp_path / "memory.db")
    ids = [fact.id for fact in story.facts]
    vector = EMBEDDER.vector("tulips")

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        assert await store.token_vectors(BANK, ids) == [None] * len(ids)
        assert await matches(store, "tulips") == [story.facts[2].id]
        assert await near(store, vector, limit=1) == [story.facts[2].id]
        time = TimeQuery(scope=EVERYTHING, space=EMBEDDER.name, vector=vector, during=Interval(), limit=1)
        assert [hit.id for hit in (await store.during(time)).hits] == [story.facts[2].id]
        second = [story.facts[1].id]
        edges = await store.edges(EdgeQuery(scope=EVERYTHING, space=EMBEDDER.name, vector=vector, facts=second))
        assert {(edge.target, edge.kind) for edge in edges} >= {(ids[0], "temporal"), (ids[2], "entity")}
        new = a_fact("roses")
        assert await store.write(await a_batch(store, [with_vector(new, tokens=some_tokens(2))]))
        [none, some] = await store.token_vectors(BANK, [ids[0], new.id])
        assert none is None
        assert some is not None
        given = {id: Encoding(vector, some_tokens(3)) for id in (*ids, new.id)}
        assert await store.replace_embeddings(BANK, "tokens", given, dimension=EMBEDDER.dimension)
        assert all(tokens is not None for tokens in await store.token_vectors(BANK, ids))
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("embedder", [EMBEDDER, TokenHashEmbedder()], ids=["plain", "with tokens"])
def test_a_memory_of_the_first_release_is_recalled(tmp_path: Path, embedder: TokenHashEmbedder) -> None:
    story, _ = first_release(tmp_path / "memory.db")
    with Memory(f"sqlite:///{tmp_path / 'memory.db'}", BANK, embedder=embedder) as memory:
        assert memory.recall_sync("Who planted tulips behind the shed?").hits[0].id == story.facts[2].id
        memory.retain_sync("Caroline sold the tulips of her shed.")
        found = memory.recall_sync("What did Caroline do with the tulips?").hits
        assert {story.facts[2].id} < {hit.id for hit in found}


def test_an_upgrade_that_breaks_off_leaves_the_first_release(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    first_release(path)
    before = tables(path)

    def broken() -> None:
        file = SqliteFile(path, busy_seconds=1)
        try:
            file.write(lambda connection: (migrate.upgrade(connection), 1 / 0))
        finally:
            file.close()

    with pytest.raises(ZeroDivisionError):
        broken()
    assert tables(path) == before
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]


def test_a_program_of_the_first_release_refuses_todays_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(fill(path))
    before = path.read_bytes()
    monkeypatch.setattr(migrate, "HEAD", "0001")

    async def run() -> None:
        store = SqliteStore(path)
        try:
            with pytest.raises(SchemaTooNew, match="0002"):
                await store.open()
        finally:
            await store.close()

    asyncio.run(run())
    assert path.read_bytes() == before
