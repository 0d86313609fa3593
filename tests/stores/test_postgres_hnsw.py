"""Large banks on PostgreSQL are searched by an HNSW index, which maintenance builds."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest

from databases import rows
from vmemo.models import Bank, FactId
from vmemo.models.changes import NewFact
from vmemo.models.search import Encoding, Scope, SearchRequest, Vector
from vmemo.stores.postgres import store as store_module
from vmemo.stores.postgres.schema import WIDEST, vector_index
from vmemo.stores.postgres.store import PostgresStore
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    OTHER,
    START,
    a_bank,
    a_batch,
    a_fact,
    day,
    re_embedded,
    search,
    with_vector,
)

FACTS = 1500
LARGE = 1000
NEVER = 1_000_000
WIDER = 96
INDEX = vector_index(EMBEDDER.dimension)
SCOPES = (
    EVERYTHING,
    EVERYTHING.replace(include_expired=True),
    EVERYTHING.replace(known_at=day(2)),
    EVERYTHING.replace(tags=("blue",)),
)


def _vector(seed: int, dimension: int = EMBEDDER.dimension) -> Vector:
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float16).astype(np.float32)


def _item(number: int) -> NewFact:
    times = {"recorded_at": day(number % 5 + 1), "expired_at": day(9) if number % 4 == 0 else None}
    tags = ["blue"] if number % 50 == 0 else []
    return with_vector(a_fact(f"number {number}", id=f"f{number}", tags=tags, **times), _vector(number))


@asynccontextmanager
async def _opened(url: str, large: int = LARGE) -> AsyncGenerator[PostgresStore]:
    store = PostgresStore(url, index_from=large)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _write(store: PostgresStore, items: Sequence[NewFact]) -> None:
    for start in range(0, len(items), 500):
        assert await store.commit(await a_batch(store, items[start : start + 500]))


@pytest.fixture(scope="module")
def filled(postgres: EmbeddedPostgres, postgres_template: str) -> Iterator[str]:
    """The name of a database with a large bank and a small one, and no index."""

    async def fill(url: str) -> None:
        async with _opened(url) as store:
            await store.create_bank(a_bank())
            await store.create_bank(a_bank(OTHER))
            await _write(store, [_item(number) for number in range(FACTS)])
            few = [with_vector(a_fact(f"other {n}", bank=OTHER, id=f"o{n}"), _vector(n)) for n in range(40)]
            assert await store.commit(await a_batch(store, few, bank=OTHER))

    asyncio.run(fill(postgres.create("hnsw", postgres_template)))
    yield "hnsw"
    postgres.drop("hnsw")


class Database:
    """A copy of the filled database, and what its server says about its indexes."""

    def __init__(self, server: EmbeddedPostgres, name: str) -> None:
        self.url = server.url(name)
        self._server = server
        self._name = name

    def ask(self, statement: str) -> list[str]:
        """The lines of the server's answer."""
        return self._server.execute(statement, self._name).splitlines()

    def indexes(self) -> list[str]:
        """The names of vector indexes, those that were not built to their end with a mark."""
        return self.ask(
            "SELECT relname || CASE WHEN indisvalid THEN '' ELSE '!' END FROM pg_class JOIN pg_index "
            "ON indexrelid = pg_class.oid JOIN pg_am ON pg_am.oid = relam WHERE amname = 'hnsw' ORDER BY 1"
        )

    def scans(self) -> int:
        """Return the number of vector index scans by sessions that have disconnected."""
        found = self.ask("SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%hnsw%'")
        return int(found[0])

    def run(self, use: Callable[[PostgresStore], Awaitable[object]], large: int = LARGE) -> None:
        """Do something with a store of its own."""

        async def run() -> None:
            async with _opened(self.url, large) as store:
                await use(store)

        asyncio.run(run())

    def maintain(self, large: int = LARGE) -> None:
        """Put the indexes in order."""
        self.run(lambda store: store.optimise(), large)

    def invalidate(self) -> None:
        """Leave the vector indexes as a crash would that came while they were built."""
        self.ask(
            "SET allow_system_table_mods = on; UPDATE pg_index SET indisvalid = false "
            "WHERE indexrelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'fact_vectors_hnsw_%')"
        )


@pytest.fixture
def database(postgres: EmbeddedPostgres, filled: str) -> Iterator[Database]:
    name = f"{filled}_copy"
    postgres.create(name, filled)
    yield Database(postgres, name)
    postgres.drop(name)


async def _nearest(store: PostgresStore, seed: int, scope: Scope = EVERYTHING) -> list[tuple[FactId, float]]:
    query = SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[_vector(seed)], limit=4, floor=-1.0)
    return [(hit.id, hit.score) for hit in (await search(store, query)).semantic[0]]


async def _same_as_exact(url: str, seeds: Sequence[int]) -> None:
    """Both ways of searching give the same."""
    vectors = np.stack([_vector(seed) for seed in seeds])
    async with _opened(url) as store, _opened(url, NEVER) as exact:
        for scope in SCOPES:
            for seed in seeds:
                assert await _nearest(store, seed, scope) == await _nearest(exact, seed, scope)
        for floor in (-1.0, 0.2, 0.6):
            found = await store.nearest(BANK, vectors, limit=4, floor=floor)
            assert found == await exact.nearest(BANK, vectors, limit=4, floor=floor)


def test_maintenance_builds_the_index_once_a_bank_is_large(database: Database) -> None:
    database.maintain(NEVER)
    assert database.indexes() == []
    database.maintain()
    database.maintain()
    assert database.indexes() == [INDEX]


def test_searches_of_a_large_bank_use_its_index_and_find_the_same(database: Database) -> None:
    database.maintain()
    database.run(lambda store: _nearest(store, 1))
    assert database.scans() == 1
    database.run(lambda store: store.nearest(BANK, np.stack([_vector(1), _vector(2)]), limit=4, floor=0.0))
    assert database.scans() == 3
    asyncio.run(_same_as_exact(database.url, range(12)))


def test_small_banks_and_narrow_scopes_are_scanned(database: Database) -> None:
    database.maintain()
    database.run(lambda store: _nearest(store, 1, Scope(bank=OTHER)))
    database.run(lambda store: _nearest(store, 1, EVERYTHING.replace(tags=("blue",))))
    database.run(lambda store: _nearest(store, 1), NEVER)
    assert database.scans() == 0


def test_an_index_is_built_during_concurrent_writes(database: Database) -> None:
    new = [_item(FACTS + number) for number in range(200)]

    async def write(store: PostgresStore) -> None:
        for start in range(0, len(new), 20):
            assert await store.commit(await a_batch(store, new[start : start + 20]))

    async def both() -> None:
        async with _opened(database.url) as one, _opened(database.url) as other:
            await asyncio.gather(one.optimise(), write(other))
            [(found, _), *_] = await _nearest(other, FACTS + 199)
            assert found == new[-1].fact.id

    asyncio.run(both())
    assert database.indexes() == [INDEX]
    asyncio.run(_same_as_exact(database.url, [FACTS + number for number in (1, 55, 198)]))


def test_concurrent_maintenance_leaves_one_index(database: Database) -> None:
    async def meet() -> None:
        async with _opened(database.url) as one, _opened(database.url) as other, _opened(database.url) as third:
            await asyncio.gather(one.optimise(), other.optimise(), third.optimise())

    asyncio.run(meet())
    # Of builds that begin at once the server may end one, which the next maintenance makes up for.
    database.maintain()
    assert database.indexes() == [INDEX]


def test_an_index_left_unfinished_by_a_crash_is_not_used_and_is_rebuilt(database: Database) -> None:
    database.maintain()
    database.invalidate()
    database.run(lambda store: _nearest(store, 1))
    assert database.scans() == 0
    database.maintain()
    assert database.indexes() == [INDEX]
    database.run(lambda store: _nearest(store, 1))
    assert database.scans() == 1


def test_indexed_vectors_are_replaced_by_vectors_of_another_dimension(database: Database) -> None:
    new = {FactId(f"f{number}"): Encoding(_vector(number, WIDER)) for number in range(FACTS)}

    async def reembed(store: PostgresStore) -> None:
        assert await store.commit(re_embedded(BANK, "wider", new, dimension=WIDER))
        query = SearchRequest(scope=EVERYTHING, space="wider", semantic=[_vector(7, WIDER)], limit=4)
        before = list((await search(store, query)).semantic[0])
        await store.optimise()
        assert list((await search(store, query)).semantic[0]) == before
        assert before[0].id == "f7"

    database.maintain()
    database.run(reembed)
    assert database.indexes() == [INDEX, vector_index(WIDER)]
    assert database.scans() == 1


def test_vectors_with_too_many_dimensions_for_an_index_are_scanned(postgres_url: str) -> None:
    wide = WIDEST + 1

    async def build() -> None:
        async with _opened(postgres_url, 4) as store:
            await store.create_bank(Bank(id=BANK, embedder=EMBEDDER.name, dimension=wide, created_at=START))
            items = [with_vector(a_fact(f"number {n}", id=f"f{n}"), _vector(n, wide)) for n in range(5)]
            assert await store.commit(await a_batch(store, items))
            await store.optimise()
            query = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, semantic=[_vector(3, wide)], limit=1)
            assert [hit.id for hit in (await search(store, query)).semantic[0]] == ["f3"]

    asyncio.run(build())


def test_the_planner_knows_the_tables_after_an_import(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ANALYSED_AFTER", 100)

    async def load() -> None:
        async with _opened(postgres_url) as store:
            await store.create_bank(a_bank())
            await _write(store, [_item(number) for number in range(120)])

    asyncio.run(load())
    [(known,)] = rows(postgres_url, "SELECT reltuples FROM pg_class WHERE relname = 'fact_vectors'")
    assert known == 120
