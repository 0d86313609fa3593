"""Blocks of facts in the file: exact after every commit, however small, and free of what was forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vmemo.errors import StoreError
from vmemo.lifecycle.forget import forget
from vmemo.models import Fact
from vmemo.models.changes import Changes, FactClosure, ForgetTarget
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.database import SqliteFile
from vmemo.stores.sqlite.index.bank import BLOCK, BankIndex
from vmemo.stores.sqlite.index.vectors import quantised
from vmemo.stores.sqlite.search import IndexCache
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    a_bank,
    a_batch,
    a_fact,
    day,
    matches,
    near,
    store_fact,
    with_vector,
)

MANY = BLOCK + 50


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


async def write(store: SqliteStore, *texts: str) -> list[Fact]:
    facts = [a_fact(text) for text in texts]
    assert await store.commit(await a_batch(store, facts))
    return facts


def blocks(path: Path) -> list[int]:
    """Check that the blocks hold what the rows of the facts say, and return the blocks' sizes."""
    file = SqliteFile(path, busy_seconds=1)
    try:
        found = file.read(lambda c: list(rows.read_blocks(c, 1)))
        expected = file.read(lambda c: rows.changed_columns(c, 1, after=-1, last=2**62))
    finally:
        file.close()
    seqs = [seq for block in found for seq in block.seqs.tolist()]
    assert seqs == sorted(seqs)
    assert np.array_equal(np.concatenate([block.columns for block in found], axis=1), expected)
    return [len(block.ids) for block in found]


def test_small_commits_are_merged_and_large_ones_split(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    kept = list[Fact]()

    async def run(store: SqliteStore) -> None:
        for number in range(40):
            kept.extend(await write(store, f"tulip {number}"))
        kept.extend(await write(store, *(f"rose {number}" for number in range(MANY))))
        kept.extend(await write(store, "lily"))
        assert await matches(store, "lily") == [kept[-1].id]

    in_store(path, run)
    sizes = blocks(path)
    assert sum(sizes) == len(kept) == 40 + MANY + 1
    assert len(sizes) <= 4

    async def again(store: SqliteStore) -> None:
        for fact in (kept[0], kept[39], kept[40], kept[-1]):
            # Some texts have equal vectors here, and which of them comes first depends on the processor.
            assert fact.id in await near(store, EMBEDDER.vector(fact.text), limit=10)

    in_store(path, again)


def test_an_index_that_grew_equals_one_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    views = list[BankIndex]()

    async def run(store: SqliteStore) -> None:
        cache, file = IndexCache(), SqliteFile(path, busy_seconds=1)
        first = await write(store, *(f"tulip {number}" for number in range(MANY)))
        file.read(lambda c: cache.get(c, BANK))
        closed = [FactClosure(fact=fact.id, invalid_at=day(3), expired_at=day(4)) for fact in first[:3]]
        assert await store.commit(Changes(bank=BANK, closures=closed))
        await write(store, "a rose", "a lily")
        views.extend(file.read(lambda c, cache=cache: cache.get(c, BANK)) for cache in (cache, IndexCache()))
        file.close()

    in_store(path, run)
    grown, read = views
    assert grown.ids.all() == read.ids.all()
    assert np.array_equal(grown.table[:, : grown.count], read.table)
    assert np.array_equal(grown.vectors.components[: grown.count], read.vectors.components)
    assert np.array_equal(grown.postings.scores(["tulip", "rose"]), read.postings.scores(["tulip", "rose"]))
    assert sum(blocks(path)) == read.count


def test_forgetting_rewrites_the_block_and_leaves_no_vector_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def run(store: SqliteStore) -> None:
        kept, gone = await store_fact(store, "tulips by the shed"), await store_fact(store, "a hidden xylophone")
        stored = quantised(EMBEDDER.vector(gone.text)[None])[0].tobytes()
        assert stored in content(tmp_path)
        assert await matches(store, "xylophone") == [gone.id]
        await forget(store, BANK, ForgetTarget(messages=gone.messages))
        assert stored not in content(tmp_path)
        assert await matches(store, "xylophone shed") == [kept.id]

    in_store(path, run)
    assert blocks(path) == [1]


def content(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_a_fact_that_loses_its_context_stays_between_its_neighbours(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def run(store: SqliteStore) -> None:
        before = await write(store, *(f"tulip {number}" for number in range(3)))
        reply = a_fact("nobody looks", context="a hidden xylophone")
        assert await store.commit(await a_batch(store, [reply]))
        await write(store, *(f"rose {number}" for number in range(40)))
        assert await matches(store, "xylophone") == [reply.id]
        bare = [with_vector(fact) for fact in (reply, before[0])]
        assert await store.commit(replace(await a_batch(store), without_context=bare))
        assert await matches(store, "xylophone") == []
        assert await matches(store, "nobody") == [reply.id]

    in_store(path, run)
    assert sum(blocks(path)) == 44


def test_a_damaged_block_is_reported_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async def run(store: SqliteStore) -> None:
        await store_fact(store, "tulips")

    in_store(path, run)
    file = SqliteFile(path, busy_seconds=1)
    file.write(lambda c: c.exec_driver_sql("UPDATE fact_blocks SET vectors = x'00'"))
    file.close()

    async def search(store: SqliteStore) -> None:
        with pytest.raises(StoreError, match=r"a block of 1 facts can't be read.*vmemo doctor"):
            await matches(store, "tulips")

    in_store(path, search)
