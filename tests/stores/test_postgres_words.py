"""Word search on PostgreSQL: texts that come, change and go, and queries that match very many."""

import asyncio
from dataclasses import replace

import pytest

from vmemo.models import FactId
from vmemo.models.changes import Deletions, NewFact
from vmemo.models.search import SearchRequest
from vmemo.ports import Store
from vmemo.stores import search as shared_search
from vmemo.stores.postgres import search as postgres_search
from vmemo.stores.postgres.store import PostgresStore
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import (
    EVERYTHING,
    a_bank,
    a_batch,
    a_fact,
    matches,
    search,
    some_tokens,
    with_vector,
)

COUNT = 300
QUERIES = ("tulips", "tulips number 7", "seven gardens", "rain and tulips")


def _item(number: int) -> NewFact:
    words = f"Tulips{' and tulips' * (number % 3)} number {number % 11}{' in seven gardens' * (number % 5 == 0)}."
    fact = a_fact(words, id=f"f{number}", context="It was rain." if number % 4 == 0 else "")
    return with_vector(fact, tokens=some_tokens(1 + number % 6) if number % 3 else None)


async def _filled(store: Store) -> Store:
    """A bank that was filled by commits of one fact and of many."""
    await store.open()
    await store.create_bank(a_bank())
    for start, end in ((0, 1), (1, 40), (40, COUNT)):
        assert await store.commit(await a_batch(store, [_item(number) for number in range(start, end)]))
    return store


async def _found(store: Store) -> list[list[tuple[FactId, float]]]:
    requests = [SearchRequest(scope=EVERYTHING, keyword=[query], limit=COUNT) for query in QUERIES]
    rankings = [(await search(store, request)).keyword[0] for request in requests]
    return [[(hit.id, round(hit.score, 3)) for hit in hits] for hits in rankings]


def test_added_rewritten_and_deleted_facts_rank_as_on_sqlite(postgres_url: str) -> None:
    async def run() -> None:
        one, other = SqliteStore(None), PostgresStore(postgres_url)
        for store in (await _filled(one), await _filled(other)):
            bare = [_item(number) for number in (0, 4, 8, COUNT - 4)]
            assert await store.commit(replace(await a_batch(store), without_context=bare))
            gone = [FactId(f"f{number}") for number in (0, 3, 128, COUNT - 1)]
            assert await store.commit(replace(await a_batch(store), deleted=Deletions(facts=gone)))
            assert await store.commit(await a_batch(store, [with_vector(a_fact("Late tulips.", id="late"))]))
        assert await _found(one) == await _found(other)
        left = [FactId(id) for id in ("late", *(f"f{number}" for number in range(COUNT)))]
        assert await other.commit(replace(await a_batch(other), deleted=Deletions(facts=left)))
        assert await _found(other) == [[], [], [], []]
        for store in (one, other):
            await store.close()

    asyncio.run(run())


def test_a_query_that_matches_too_many_facts_is_searched_by_its_rarest_words(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (shared_search, postgres_search):
        monkeypatch.setattr(module, "MOST_TEXTS", 70)

    async def run() -> None:
        store = await _filled(PostgresStore(postgres_url))
        # Sixty facts have the gardens, and all have tulips.
        found = await matches(store, "tulips in gardens", limit=COUNT)
        assert set(found) == {f"f{number}" for number in range(0, COUNT, 5)}
        assert len(await matches(store, "tulips", limit=COUNT)) == 70
        await store.close()

    asyncio.run(run())
