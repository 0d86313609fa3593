"""In-memory indexes: bounded, and current after every write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vmemo.errors import StoreError
from vmemo.lifecycle.forget import forget
from vmemo.models import BankId, Fact
from vmemo.models.changes import Changes, Deletions, FactClosure, ForgetTarget
from vmemo.models.search import Encoding
from vmemo.stores.sqlite import search
from vmemo.stores.sqlite.index import BankIndex, quantised
from vmemo.stores.sqlite.search import IndexCache
from vmemo.stores.sqlite.store import SqliteFile, SqliteStore
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    a_bank,
    a_batch,
    a_fact,
    day,
    matches,
    near,
    re_embedded,
    store_fact,
    with_vector,
)

NAMES = [BankId(name) for name in ("one", "two", "three")]


def test_the_index_that_was_not_used_for_longest_is_evicted(tmp_path: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        for name in NAMES:
            await store.create_bank(a_bank(name))
            await store_fact(store, "tulips", bank=name)
        await store.close()

    asyncio.run(fill())
    file = SqliteFile(tmp_path / "memory.db", busy_seconds=1)
    one, two, three = NAMES
    first = file.read(lambda c: IndexCache().get(c, one))
    limited = IndexCache(most_bytes=2 * first.nbytes)
    kept = {name: file.read(lambda c, name=name: limited.get(c, name)) for name in (one, two)}
    assert file.read(lambda c: limited.get(c, one)) is kept[one]
    file.read(lambda c: limited.get(c, three))
    assert file.read(lambda c: limited.get(c, one)) is kept[one]
    assert file.read(lambda c: limited.get(c, two)) is not kept[two]
    file.close()


async def found(store: SqliteStore) -> list[object]:
    """Return what words, vectors and neighbours find, with the scores of neighbours."""
    query = EMBEDDER.vector("tulips in the garden")
    neighbours = await store.nearest(BANK, query[None, :], limit=20, floor=-1.0)
    words = [await matches(store, word) for word in ("tulips", "garden", "market", "roses")]
    return [*words, await near(store, query), neighbours[0]]


def test_an_index_follows_removals_as_if_it_were_read_again(tmp_path: Path) -> None:
    texts = [f"{flower} {number} in the garden" for number in range(8) for flower in ("tulips", "roses")]
    facts = [a_fact(text, context="sold at the market") for text in texts]

    async def run() -> None:
        store, other = SqliteStore(tmp_path / "memory.db"), SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        await store.commit(await a_batch(store, facts))
        await other.open()
        assert await found(other) == await found(store)
        await remove_some(store)
        left = await found(store)
        assert await found(other) == left
        again = SqliteStore(tmp_path / "memory.db")
        await again.open()
        assert await found(again) == left
        for each in (store, other, again):
            await each.close()

    async def remove_some(store: SqliteStore) -> None:
        gone = Deletions(facts=[facts[3].id, facts[4].id, facts[15].id])
        assert await store.commit(replace(await a_batch(store, [a_fact("tulips again")]), deleted=gone))
        await found(store)
        bare = [with_vector(facts[0]), with_vector(facts[9])]
        assert await store.commit(replace(await a_batch(store), without_context=bare))
        removed = {facts[at].id for at in (0, 3, 4, 9, 15)}
        assert set(await matches(store, "market")) == {fact.id for fact in facts} - removed

    asyncio.run(run())


def test_new_vectors_of_a_bank_are_read(tmp_path: Path) -> None:
    async def run() -> tuple[list[str], list[str], list[Fact]]:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        await store.create_bank(a_bank())
        facts = [await store_fact(store, text) for text in ("tulips", "roses")]
        query = EMBEDDER.vector("tulips")
        before = await near(store, query)
        swapped = {facts[0].id: EMBEDDER.vector("roses"), facts[1].id: query}
        vectors = {id: Encoding(np.asarray(vector)) for id, vector in swapped.items()}
        assert await store.commit(re_embedded(BANK, EMBEDDER.name, vectors, dimension=EMBEDDER.dimension))
        after = await near(store, query)
        await store.close()
        return list(before), list(after), facts

    before, after, facts = asyncio.run(run())
    assert before == [fact.id for fact in facts]
    assert after == before[::-1]


def in_store(path: Path, run: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = SqliteStore(path)
        await store.open()
        if BANK not in [bank.id for bank in await store.banks()]:
            await store.create_bank(a_bank())
        try:
            await run(store)
        finally:
            await store.close()

    asyncio.run(whole())


def test_an_index_that_grew_equals_one_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PART", 4)
    path = tmp_path / "memory.db"
    views = list[BankIndex]()

    async def run(store: SqliteStore) -> None:
        cache, file = IndexCache(), SqliteFile(path, busy_seconds=1)
        first = [await store_fact(store, f"tulip {number}") for number in range(10)]
        file.read(lambda c: cache.get(c, BANK))
        closed = [FactClosure(fact=fact.id, invalid_at=day(3), expired_at=day(4)) for fact in first[:3]]
        assert await store.commit(Changes(bank=BANK, closures=closed))
        await store_fact(store, "a rose")
        views.extend(file.read(lambda c, cache=cache: cache.get(c, BANK)) for cache in (cache, IndexCache()))
        file.close()

    in_store(path, run)
    grown, read = views
    count = read.count
    assert np.array_equal(grown.table[:, :count], read.table)
    assert np.array_equal(grown.vectors.components[:count], read.vectors.components)
    assert np.array_equal(grown.postings.scores(["tulip", "rose"]), read.postings.scores(["tulip", "rose"]))


def test_forgetting_leaves_no_vector_in_the_file(tmp_path: Path) -> None:
    async def run(store: SqliteStore) -> None:
        kept, gone = await store_fact(store, "tulips by the shed"), await store_fact(store, "a hidden xylophone")
        stored = quantised(EMBEDDER.vector(gone.text)[None]).tobytes()
        assert stored in content(tmp_path)
        assert await matches(store, "xylophone") == [gone.id]
        await forget(store, BANK, ForgetTarget(messages=gone.messages))
        assert stored not in content(tmp_path)
        assert await matches(store, "xylophone shed") == [kept.id]

    in_store(tmp_path / "memory.db", run)


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_a_damaged_vector_is_reported_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def run(store: SqliteStore) -> None:
        await store_fact(store, "tulips")

    in_store(path, run)
    file = SqliteFile(path, busy_seconds=1)
    file.write(lambda c: c.exec_driver_sql("UPDATE fact_index SET vector = x'00'"))
    file.close()

    async def search(store: SqliteStore) -> None:
        with pytest.raises(StoreError, match=r"stored value can't be read.*vmemo doctor"):
            await matches(store, "tulips")

    in_store(path, search)
