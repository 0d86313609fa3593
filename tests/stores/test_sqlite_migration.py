"""Upgrades: a database that an earlier release made keeps all it holds and gains what is new."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from vmemo import Memory
from vmemo.errors import SchemaTooNew
from vmemo.lifecycle.entity_merges import merge_entities, undo_merge
from vmemo.lifecycle.forget import forget
from vmemo.models import EntityId, Interval, Profile
from vmemo.models.changes import Changes, ForgetTarget, ProfileChange
from vmemo.models.search import EdgeQuery, Encoding, SearchRequest, TemporalSearch
from vmemo.models.select import EntitySelect
from vmemo.stores.sql import migrate
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.index.postings import hashed
from vmemo.stores.sqlite.store import SqliteStore
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
    find_edges,
    matches,
    named_entities,
    near,
    quotes,
    re_embedded,
    search,
    snapshot,
    some_tokens,
    store_entities,
    store_fact,
    store_messages,
    store_story,
    token_vectors,
    with_vector,
)
from vmemo.text.tokens import terms

NEW = {"entity_names", "token_vectors", "jobs", "spending", "moves", "merges", "profiles", "webhooks"}
ADDED = {"banks": ("shadow_of", "engine"), "entities": ("strangers",), "mentions": ("said",)}
"""Columns that came with 0003."""


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in found}


async def fill(path: Path, unread: Sequence[str] = ()) -> tuple[Story, Snapshot]:
    """Two banks of today's schema, without token vectors; one has unread messages."""
    store = SqliteStore(path)
    await store.open()
    await store.create_bank(a_bank())
    await store.create_bank(a_bank(OTHER))
    await store_story(store, OTHER)
    story = await store_story(store)
    await store_entities(store, an_entity("Robert Hale", id="bob", aliases=["Bob", "山田さん", "🌷"]))
    await store_messages(store, *unread)
    kept = await snapshot(store)
    await store.close()
    return story, kept


def older(path: Path, version: str, *, unread: Sequence[str] = ()) -> tuple[Story, Snapshot]:
    """A file as an earlier schema had it, with the rows of a filled one and some unread messages."""
    source = path.with_name("source.db")
    filled = asyncio.run(fill(source, unread))
    file = SqliteFile(path, busy_seconds=1)
    file.write(lambda connection: migrate.upgrade(connection, version))
    file.close()
    with closing(sqlite3.connect(path)) as connection:
        for table, names in ADDED.items():
            for name in names if version < "0003" else ():
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        connection.execute("ATTACH ? AS source", (str(source),))
        known = columns(path)
        for name in tables(path):
            # The text index holds nothing but unread messages here, and is filled from them.
            if not name.startswith(("sqlite_", "alembic_", "message_words", "fact_index", "token_vectors")):
                kept = ", ".join(f'"{column}"' for column, *_ in known[name])
                connection.execute(f"INSERT INTO main.{name} ({kept}) SELECT {kept} FROM source.{name}")
        waiting = connection.execute("SELECT seq, bank, content FROM main.messages WHERE state = 'pending'").fetchall()
        words = [(seq, str(bank), " ".join(terms(content))) for seq, bank, content in waiting]
        connection.executemany("INSERT INTO message_words(rowid, bank, words) VALUES (?, ?, ?)", words)
        if "fact_index" in tables(path):
            connection.executemany("INSERT INTO fact_index VALUES (?, ?, ?)", former_index(source))
        connection.commit()
    source.unlink()
    return filled


def former_index(path: Path) -> list[tuple[int, bytes, bytes]]:
    """Numbers, vectors and terms of facts as the schemas before 0012 had them."""
    file = SqliteFile(path, busy_seconds=1)
    blocks = file.read(lambda c: [block for bank in (1, 2) for block in block_rows.read(c, bank)])
    file.close()
    with closing(sqlite3.connect(path)) as connection:
        texts = dict(connection.execute("SELECT seq, text FROM facts").fetchall())
    return [
        (seq, (components * scale).astype("<f2").tobytes(), hashed(terms(texts[seq]) * 2).astype("<u4").tobytes())
        for block in blocks
        for seq, components, scale in zip(block.seqs.tolist(), block.components, block.scales, strict=True)
    ]


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Of every table the names, types and keys of its columns; of every index what it is made of."""
    with closing(sqlite3.connect(path)) as connection:
        found: dict[str, list[tuple[object, ...]]] = {
            table: [
                (name, type, needed, None if default is None else str(default).strip("()"), key)
                for _, name, type, needed, default, key in connection.execute(f"PRAGMA table_info({table})")
            ]
            for table in tables(path)
        }
        indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        found.update({f"index {name}": [(sql,)] for name, sql in indexes})
    return found


def first_release(path: Path) -> tuple[Story, Snapshot]:
    """A file as schema 0001 had it."""
    filled = older(path, "0001")
    assert not tables(path) & NEW
    return filled


def test_upgrading_the_second_schema_keeps_its_data_and_queues_pending_messages(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    story, kept = older(path, "0002", unread=["orchids", "orchids again"])
    assert tables(path) & NEW == {"entity_names", "token_vectors"}

    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        assert await store.schema_version() == migrate.HEAD
        assert without_work(await snapshot(store)) == without_work(kept)
        assert [(job.kind, job.asked) for job in await store.jobs(BANK)] == [("process", 1)]
        assert await store.jobs(OTHER) == []
        assert len(await quotes(store, "orchids")) == 2
        assert await matches(store, "tulips") == [story.facts[2].id]
        merge = await merge_entities(store, BANK, story.entities[0].id, EntityId("bob"), "for a test")
        await undo_merge(store, BANK, merge.id)
        assert [entity.not_aliases for entity in await store.entities(BANK, EntitySelect(ids=[EntityId("bob")]))] == [
            ("Caroline",)
        ]
        await store_fact(store, "lilies")
        assert await store.damage() == []
        await store.close()

    asyncio.run(run())


def test_upgrading_the_third_schema_keeps_its_data_and_starts_the_profile_history(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    _, kept = older(path, "0003", unread=["orchids"])
    assert NEW - tables(path) == {"profiles", "webhooks"}
    assert kept.bank is not None
    first, second = kept.bank.profile, Profile(name="somebody", background="I grow orchids.")

    async def run() -> None:
        store = SqliteStore(path)
        await store.open()
        assert await store.schema_version() == migrate.HEAD
        assert await snapshot(store) == kept
        assert await store.former_profiles(BANK) == []
        assert await store.commit(
            Changes(bank=BANK, profile=ProfileChange(profile=second, reason="You grow orchids.", expected=first))
        )
        [former] = await store.former_profiles(BANK)
        assert (former.profile, former.reason) == (first, "You grow orchids.")
        await store.close()

    asyncio.run(run())


def without_work(found: Snapshot) -> Snapshot:
    """A snapshot without queued jobs: earlier schemas had no queue."""
    return replace(found, status=found.status.model_copy(update={"backlog": ()}))


@pytest.mark.parametrize("version", ["0001", "0002", "0003"])
def test_an_upgraded_database_has_the_tables_columns_and_indexes_of_a_new_one(tmp_path: Path, version: str) -> None:
    old, new = tmp_path / "memory.db", tmp_path / "new.db"
    older(old, version)
    for path in (old, new):
        file = SqliteFile(path, busy_seconds=1)
        file.write(migrate.upgrade)
        file.close()
    made, upgraded = columns(new), columns(old)
    assert {name: sorted(found, key=str) for name, found in upgraded.items()} == {
        name: sorted(found, key=str) for name, found in made.items()
    }


def test_upgrading_the_twelfth_schema_indexes_revision_links(tmp_path: Path) -> None:
    old, new = tmp_path / "memory.db", tmp_path / "new.db"
    for path in (old, new):
        file = SqliteFile(path, busy_seconds=1)
        file.write(migrate.upgrade)
        if path == old:
            file.write(lambda c: c.exec_driver_sql("DROP INDEX links_revised"))
            file.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0012'"))
            file.write(migrate.upgrade)
        file.close()
    assert columns(old) == columns(new)


def test_upgrading_the_first_release_keeps_its_data_and_indexes_entity_names(tmp_path: Path) -> None:
    story, kept = first_release(tmp_path / "memory.db")

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        assert await store.schema_version() == migrate.HEAD
        assert await snapshot(store) == without_work(kept)
        assert {mention.name for mention in await named_entities(store, BANK, "Caroline in OSLO?")} == {
            "Caroline",
            "Oslo",
        }
        for text in ("Where is Robert Hale?", "bob's", "山田さん"):
            assert [mention.id for mention in await named_entities(store, BANK, text)] == ["bob"]
        assert {mention.name for mention in await named_entities(store, OTHER, "Caroline and Bob")} == {"Caroline"}
        assert await store.damage() == []
        await forget(store, BANK, ForgetTarget(entity=story.entities[0].id))
        assert await named_entities(store, BANK, "Caroline") == []
        await store.close()

    asyncio.run(run())


def test_facts_of_the_first_release_are_searched_without_token_vectors_until_reembedded(tmp_path: Path) -> None:
    story, _ = first_release(tmp_path / "memory.db")
    ids = [fact.id for fact in story.facts]
    vector = EMBEDDER.vector("tulips")

    async def run() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        assert await token_vectors(store, BANK, ids) == [None] * len(ids)
        assert await matches(store, "tulips") == [story.facts[2].id]
        assert await near(store, vector, limit=1) == [story.facts[2].id]
        temporal = TemporalSearch(vector=vector, during=Interval())
        request = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, temporal=temporal, limit=1)
        assert [hit.id for hit in (await search(store, request)).temporal.hits] == [story.facts[2].id]
        second = [story.facts[1].id]
        edges = await find_edges(store, EdgeQuery(scope=EVERYTHING, space=EMBEDDER.name, vector=vector, facts=second))
        assert {(edge.target, edge.kind) for edge in edges} >= {(ids[0], "temporal"), (ids[2], "entity")}
        new = a_fact("roses")
        assert await store.commit(await a_batch(store, [with_vector(new, tokens=some_tokens(2))]))
        [none, some] = await token_vectors(store, BANK, [ids[0], new.id])
        assert none is None
        assert some is not None
        given = {id: Encoding(vector, some_tokens(3)) for id in (*ids, new.id)}
        assert await store.commit(re_embedded(BANK, "tokens", given, dimension=EMBEDDER.dimension))
        assert all(tokens is not None for tokens in await token_vectors(store, BANK, ids))
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


def test_an_interrupted_upgrade_leaves_the_first_release_unchanged(tmp_path: Path) -> None:
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


def test_the_first_release_refuses_the_current_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    asyncio.run(fill(path))
    before = path.read_bytes()
    head = migrate.HEAD
    monkeypatch.setattr(migrate, "HEAD", "0001")

    async def run() -> None:
        store = SqliteStore(path)
        try:
            with pytest.raises(SchemaTooNew, match=head):
                await store.open()
        finally:
            await store.close()

    asyncio.run(run())
    assert path.read_bytes() == before
