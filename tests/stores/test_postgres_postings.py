"""Packed postings on PostgreSQL: blocks that grow, lose facts and get them back, and databases of earlier releases."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sqlalchemy import Connection, text

from vmemo.models import FactId
from vmemo.models.changes import Deletions, NewFact
from vmemo.models.search import SearchRequest
from vmemo.ports import Store
from vmemo.stores.postgres.pool import PostgresPool
from vmemo.stores.postgres.posting_blocks import BLOCK, POSTING, Collection, best, scores
from vmemo.stores.postgres.store import PostgresStore
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.testing.samples import (
    EVERYTHING,
    a_bank,
    a_batch,
    a_fact,
    matches,
    search,
    some_tokens,
    with_vector,
)

R = TypeVar("R")
COUNT = 2 * BLOCK + 40
QUERIES = ("tulips", "tulips number 7", "seven gardens", "rain and tulips")


def _item(number: int) -> NewFact:
    words = f"Tulips{' and tulips' * (number % 3)} number {number % 11}{' in seven gardens' * (number % 5 == 0)}."
    fact = a_fact(words, id=f"f{number}", context="It was rain." if number % 4 == 0 else "")
    return with_vector(fact, tokens=some_tokens(1 + number % 6) if number % 3 else None)


async def _filled(store: Store) -> Store:
    """A bank that was filled by commits of one fact and of many."""
    await store.open()
    await store.create_bank(a_bank())
    for start, end in ((0, 1), (1, BLOCK - 1), (BLOCK - 1, BLOCK + 2), (BLOCK + 2, COUNT)):
        assert await store.commit(await a_batch(store, [_item(number) for number in range(start, end)]))
    return store


async def _found(store: Store) -> list[list[tuple[FactId, float]]]:
    requests = [SearchRequest(scope=EVERYTHING, keyword=[query], limit=COUNT) for query in QUERIES]
    rankings = [(await search(store, request)).keyword[0].hits for request in requests]
    return [[(hit.id, round(hit.score, 3)) for hit in hits] for hits in rankings]


async def _on(url: str, run: Callable[[Connection], R]) -> R:
    pool = PostgresPool(url, size=1)
    try:
        return await pool.write(run)
    finally:
        await pool.close()


async def _postings(url: str) -> int:
    """The number of postings in the blocks of the database, none of which is empty."""
    counted = text("SELECT coalesce(sum(octet_length(postings)), 0) / 7, count(*) FILTER (WHERE postings = '') ")
    postings, empty = await _on(url, lambda c: c.execute(text(f"{counted} FROM posting_blocks")).one())
    assert empty == 0
    return int(postings)


def test_postings_of_grown_shrunk_and_rewritten_blocks_rank_as_on_sqlite(postgres_url: str) -> None:
    async def run() -> None:
        one, other = SqliteStore(None), PostgresStore(postgres_url)
        for store in (await _filled(one), await _filled(other)):
            bare = [_item(number) for number in (0, 4, 8, COUNT - 4)]
            assert await store.commit(replace(await a_batch(store), without_context=bare))
            gone = [FactId(f"f{number}") for number in (0, 3, BLOCK, BLOCK + 1, COUNT - 1)]
            assert await store.commit(replace(await a_batch(store), deleted=Deletions(facts=gone)))
            assert await store.commit(await a_batch(store, [with_vector(a_fact("Late tulips.", id="late"))]))
        assert await _found(one) == await _found(other)
        left = [FactId(id) for id in ("late", *(f"f{number}" for number in range(COUNT)))]
        assert await other.commit(replace(await a_batch(other), deleted=Deletions(facts=left)))
        assert await _postings(postgres_url) == 0
        for store in (one, other):
            await store.close()

    asyncio.run(run())


def test_a_deleted_fact_loses_postings_of_words_that_its_text_does_not_give_any_more(postgres_url: str) -> None:
    async def run() -> None:
        store = PostgresStore(postgres_url)
        await _filled(store)
        # As if an earlier release had divided the text into other words.
        changed = text("UPDATE facts SET text = 'Roses' WHERE id = 'f5'")
        await _on(postgres_url, lambda connection: connection.execute(changed))
        before = await _postings(postgres_url)
        assert await store.commit(replace(await a_batch(store), deleted=Deletions(facts=[FactId("f5")])))
        assert await _postings(postgres_url) == before - 5
        assert "f5" not in await matches(store, "tulips", limit=COUNT)
        await store.close()

    asyncio.run(run())


@given(st.lists(st.integers(0, 5)), st.integers(1, 12))
def test_the_best_places_are_those_of_a_stable_sort(points: list[int], count: int) -> None:
    totals = np.array(points, np.float64)
    assert best(totals, count).tolist() == np.argsort(-totals, kind="stable")[:count].tolist()


@pytest.mark.parametrize("step", [1, 1000], ids=["dense", "sparse"])
def test_facts_have_the_points_of_all_their_terms(step: int) -> None:
    def block(term: int, first: int, places: list[int]) -> tuple[int, int, bytes]:
        rows = np.array([(place * step, 5, 1) for place in places], POSTING)
        return term, first, rows.tobytes()

    collection = Collection(facts=100, fact_terms=500)
    [once], [other] = (scores([block(term, 40, [0])], collection)[1] for term in (1, 2))
    blocks = [block(1, 40, [0]), block(2, 40, [0, 7])]
    facts, totals = scores(blocks, collection)
    assert facts.tolist() == [40, 40 + 7 * step]
    assert totals[0] > max(once, totals[1])
    assert totals[1] < other
