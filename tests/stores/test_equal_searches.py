"""PostgreSQL and Neo4j find what SQLite finds: the same bank, the same answers to every search."""

import asyncio
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import get_args

import numpy as np
import pytest

from neo4j_server import namespace
from vmemo.models import Entity, EntityId, Fact, FactId, Interval, Link, LinkKind, Network
from vmemo.models.changes import NewFact
from vmemo.models.search import (
    EdgeQuery,
    Scope,
    SearchRequest,
    TemporalSearch,
    Vector,
)
from vmemo.models.select import FactSelect
from vmemo.ports import BankReader, Store
from vmemo.stores.postgres.store import PostgresStore
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_bench.speed.texts import queries, sentences
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EVERYTHING,
    START,
    EdgesOf,
    Found,
    FoundEdge,
    FoundFact,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_entity,
    at_cosine,
    day,
    find_edges,
    load,
    matches,
    mention_of,
    near,
    numbers_of,
    search,
    some_tokens,
    token_vectors,
    with_vector,
)
from vmemo_neo4j.store import Neo4jStore

FACTS = 400
CLOSE = 1e-3
"""The tolerance of scores."""
NETWORKS: tuple[Network, ...] = get_args(Network)
KINDS: tuple[LinkKind, ...] = ("semantic", "temporal", "causes")
SCOPES = (
    EVERYTHING,
    EVERYTHING.replace(include_expired=True),
    EVERYTHING.replace(at_time=day(30)),
    EVERYTHING.replace(known_at=day(30)),
    EVERYTHING.replace(at_time=day(20), known_at=day(40)),
    EVERYTHING.replace(networks=("opinion",)),
    EVERYTHING.replace(tags=("blue",)),
    EVERYTHING.replace(
        tags=(
            "blue",
            "red",
        )
    ),
    EVERYTHING.replace(tags=("\x00",)),
    EVERYTHING.replace(metadata={"n": 1}),
    EVERYTHING.replace(metadata={"n": True}),
    EVERYTHING.replace(metadata={"n": "1"}),
    EVERYTHING.replace(metadata={"n": None}),
    EVERYTHING.replace(metadata={"n": [1, 2]}),
    EVERYTHING.replace(metadata={"n": "\x00"}),
    EVERYTHING.replace(entities=("STRASSE 3",)),
    EVERYTHING.replace(
        entities=(
            "straße 4",
            "e5",
        )
    ),
    EVERYTHING.replace(entities=("!!!",)),
    EVERYTHING.replace(
        entities=(
            "nobody",
            "\x00",
        )
    ),
    EVERYTHING.replace(occurred=Interval(start=day(10), end=day(30))),
    EVERYTHING.replace(
        occurred=Interval(end=day(10)),
        networks=(
            "world",
            "opinion",
        ),
    ),
)


@contextmanager
def _server_store(request: pytest.FixtureRequest) -> Generator[Store]:
    if request.param == "neo4j":
        with namespace(request.getfixturevalue("neo4j_server_url")) as url:
            yield Neo4jStore(url)
    else:
        postgres: EmbeddedPostgres = request.getfixturevalue("postgres")
        yield PostgresStore(postgres.create("search", request.getfixturevalue("postgres_template")))
        postgres.drop("search")


@pytest.fixture(scope="module", params=["postgres", pytest.param("neo4j", marks=pytest.mark.neo4j)])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """The same random bank in SQLite and on a server."""
    one = SqliteStore(tmp_path_factory.mktemp("search") / "memory.db")
    with _server_store(request) as other:
        asyncio.run(_fill(one, other))
        if request.param == "postgres":
            # Without statistics, the planner reads whole tables for each edge.
            request.getfixturevalue("postgres").execute("ANALYZE", "search")
        yield one, other
        asyncio.run(_close(one, other))


async def _fill(*stores: Store) -> None:
    entities = [an_entity(f"Straße {n}", id=f"e{n}") for n in range(9)] + [an_entity("!!!", id="e9")]
    items = [_item(n, text, entities) for n, text in enumerate(sentences(FACTS))]
    links = _links([item.fact for item in items])
    said = [a_message(text, id=f"m{n}", **_fields(n)) for n, text in enumerate(sentences(2 * FACTS)[FACTS:])]
    for store in stores:
        await store.open()
        await store.create_bank(a_bank())
        await store.append(BANK, said)
        batch = replace(await a_batch(store, items), entities=entities, links=links)
        assert await store.commit(batch)
        # Some messages told a fact that was closed since: their words are history too.
        told = [replace_messages(item, said[n].id) for n, item in enumerate(_told())]
        begun = await a_batch(store, told)
        assert await store.commit(replace(begun, pending=[m.id for m in said[: len(told)]], becomes="extracted"))


async def _close(*stores: Store) -> None:
    for store in stores:
        await store.close()


def _vector(seed: int) -> Vector:
    """A vector of signs, which all databases keep exactly."""
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), EMBEDDER.dimension)
    return (signs / np.sqrt(EMBEDDER.dimension)).astype(np.float32)


def _asked(seed: int) -> Vector:
    """A vector to ask for, in the sixteen bits that PostgreSQL takes."""
    vector = np.random.default_rng(seed).standard_normal(EMBEDDER.dimension).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float16).astype(np.float32)


def _fields(seed: int) -> dict[str, object]:
    """Labels of a fact or a message."""
    dice = random.Random(seed)
    return {
        "tags": sorted({tag for tag in ("blue", "red", 'a","b', ",") if dice.random() < 0.3}),
        "metadata": {"n": dice.choice((1, 1.0, True, "1", None, [1, 2], 2))} if dice.random() < 0.8 else {},
    }


def _item(number: int, text: str, entities: Sequence[Entity]) -> NewFact:
    dice = random.Random(f"fact {number}")
    mentioned = START + timedelta(days=dice.randint(0, 60), seconds=number)
    times: dict[str, object] = {"mentioned_at": mentioned, "recorded_at": mentioned}
    if dice.random() < 0.5:
        start = mentioned - timedelta(days=dice.randint(0, 9))
        ends = {"occurred_start": start, "occurred_end": start + timedelta(days=dice.randint(1, 5))}
        times |= {name: end for name, end in ends.items() if dice.random() < 0.7}
    if dice.random() < 0.3:
        times |= {"valid_at": mentioned - timedelta(days=3), "invalid_at": mentioned + timedelta(days=9)}
    if dice.random() < 0.3:
        times["expired_at"] = mentioned + timedelta(days=dice.randint(1, 20))
    told = dice.sample(entities, dice.randint(0, 3))
    fact = a_fact(
        text,
        id=f"f{number}",
        network=dice.choice(NETWORKS),
        tokens=number % 40 + 1,
        entities=[mention_of(entity) for entity in told],
        **times,
        **_fields(number),
    )
    return with_vector(fact, _vector(number), some_tokens(number % 5 + 1) if number % 3 else None)


def _told() -> list[NewFact]:
    closed = [{"expired_at": day(50), "invalid_at": day(45)} if n % 2 else {} for n in range(60)]
    return [with_vector(a_fact(f"told {n}", id=f"t{n}", **times), _vector(FACTS + n)) for n, times in enumerate(closed)]


def replace_messages(item: NewFact, message: str) -> NewFact:
    return replace(item, fact=item.fact.model_copy(update={"messages": (message,)}))


def _links(facts: Sequence[Fact]) -> list[Link]:
    dice = random.Random("links")
    ends = [(dice.choice(facts), dice.choice(facts)) for _ in range(3 * FACTS)]
    return [
        Link(source=source.id, target=target.id, kind=dice.choice(KINDS), weight=dice.randint(1, 8) / 8)
        for source, target in ends
        if source.id != target.id
    ]


def _same(one: Sequence[FoundFact], other: Sequence[FoundFact]) -> None:
    assert np.allclose([hit.score for hit in one], [hit.score for hit in other], atol=CLOSE)
    # Of hits that are as good as the last one, others may have been left out.
    sure = sum(hit.score > one[-1].score + 1e-5 for hit in one)
    assert [(hit.id, hit.tokens) for hit in one[:sure]] == [(hit.id, hit.tokens) for hit in other[:sure]]


def _only(result: Found) -> list[FoundFact]:
    return next(iter((*result.semantic, *result.keyword)), None) or max(
        (result.verbatim, result.temporal), key=lambda ranking: len(ranking)
    )


def _ask(both: tuple[Store, Store], request: SearchRequest) -> list[FoundFact]:
    """Return the only ranking of a request, which must be the same on both stores."""

    async def asked() -> tuple[Found, Found]:
        return await search(both[0], request), await search(both[1], request)

    one, other = asyncio.run(asked())
    _same(_only(one), _only(other))
    assert np.allclose(one.baselines, other.baselines, atol=CLOSE)
    return _only(other)


@pytest.mark.parametrize("scope", SCOPES)
def test_nearest_facts_are_the_same(both: tuple[Store, Store], scope: Scope) -> None:
    for seed in range(4):
        query = SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[_asked(seed)], limit=30, floor=-1.0)
        _ask(both, query)
        _ask(both, replace(query, floor=0.12, limit=400))


def test_facts_of_equal_cosine_are_ordered_by_insertion(both: tuple[Store, Store]) -> None:
    query = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, semantic=[_vector(3)], limit=200, floor=-1.0)
    hits = _ask(both, query)
    assert len({hit.score for hit in hits}) < len(hits) / 2


@pytest.mark.parametrize("scope", SCOPES)
def test_facts_of_a_date_range_are_the_same(both: tuple[Store, Store], scope: Scope) -> None:
    stretches = (Interval(start=day(10), end=day(31)), Interval(start=day(40)), Interval(end=day(9)), Interval())
    for seed, during in enumerate(stretches):
        temporal = TemporalSearch(vector=_asked(seed), during=during, floor=0.02, edge_penalty=0.4)
        _ask(both, SearchRequest(scope=scope, space=EMBEDDER.name, temporal=temporal, limit=20))


@pytest.mark.parametrize("scope", SCOPES)
def test_facts_matching_words_are_the_same(both: tuple[Store, Store], scope: Scope) -> None:
    for text in queries(6):
        _ask(both, SearchRequest(scope=scope, keyword=[text], limit=40))


@pytest.mark.parametrize("scope", SCOPES)
def test_messages_matching_words_are_the_same(both: tuple[Store, Store], scope: Scope) -> None:
    """SQLite's own full-text search weighs common words a little less, so that the order may differ."""

    async def asked(request: SearchRequest) -> list[Sequence[FactId]]:
        return [[hit.id for hit in (await search(store, request)).verbatim] for store in both]

    for text in queries(6):
        one, other = asyncio.run(asked(SearchRequest(scope=scope, verbatim=text, limit=2 * FACTS)))
        assert set(one) == set(other)
        assert set(one[:1]) <= set(other[:5])


def test_the_searches_find_something(both: tuple[Store, Store]) -> None:
    text = " ".join(queries(4))
    assert len(_ask(both, SearchRequest(scope=EVERYTHING, keyword=[text], limit=40))) == 40
    found = asyncio.run(search(both[1], SearchRequest(scope=EVERYTHING, verbatim=text, limit=40)))
    assert len(found.verbatim) == 40


def test_neighbours_are_the_same(both: tuple[Store, Store]) -> None:
    vectors = np.stack([_asked(seed) for seed in range(20)])

    async def asked(limit: int, floor: float) -> None:
        one, other = [await store.nearest(BANK, vectors, limit=limit, floor=floor) for store in both]
        for found, also in zip(one, other, strict=True):
            _same(*([FoundFact(hit.id, hit.score, 0) for hit in hits] for hits in (found, also)))

    for limit, floor in ((5, -1.0), (5, 0.15), (30, -1.0)):
        asyncio.run(asked(limit, floor))


@pytest.mark.parametrize("scope", SCOPES)
def test_edges_are_the_same(both: tuple[Store, Store], scope: Scope) -> None:
    async def asked(query: EdgesOf) -> None:
        one, other = [_rounded(await find_edges(store, query)) for store in both]
        assert one == other

    for n in range(0, FACTS, 100):
        facts = [FactId(f"f{number}") for number in range(n, n + 15)]
        query = EdgesOf(scope=scope, space=EMBEDDER.name, vector=_asked(n), facts=facts)
        asyncio.run(asked(query))
        asyncio.run(asked(replace(query, entities=[EntityId("e1"), EntityId("e9")], fan=3)))
        asyncio.run(asked(replace(query, kinds=frozenset({"causes", "entity"}))))


@pytest.mark.parametrize("scope", SCOPES)
def test_edges_after_a_search_are_those_without_one(both: tuple[Store, Store], scope: Scope) -> None:
    vector = _asked(7)
    facts = [FactId(f"f{number}") for number in range(30)]
    first = SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[vector], limit=100)
    query = EdgeQuery(scope=scope, space=EMBEDDER.name, vector=vector, fan=3)

    def follow(reader: BankReader) -> list[tuple[object, ...]]:
        """Expand some facts, then others, as a recall does."""
        numbers = numbers_of(reader, facts)
        queries = [replace(query, facts=numbers[n : n + 6]) for n in (0, 6, 3)]
        found = [edges for query in queries for edges in reader.edges(query)]
        return [(*edges._replace(targets=()), target) for edges in found for target in map(tuple, edges.targets)]

    def search_first(reader: BankReader) -> list[tuple[object, ...]]:
        reader.search(first)
        return follow(reader)

    async def asked() -> None:
        one, other = [await both[1].read(BANK, run) for run in (follow, search_first)]
        assert sorted(one) == sorted(other)

    asyncio.run(asked())


def _rounded(edges: Sequence[FoundEdge]) -> list[FoundEdge]:
    return sorted(edge._replace(weight=round(edge.weight, 6)) for edge in edges)


def test_loaded_facts_are_the_same_and_token_vectors_nearly(both: tuple[Store, Store]) -> None:
    async def asked() -> None:
        ids = [FactId(f"{kind}{n}") for n in range(70) for kind in "ft"] + [FactId("missing"), FactId("\x00")]
        one, other = [await load(store, BANK, ids) for store in both]
        assert one == other
        tokens, also = [await token_vectors(store, BANK, ids) for store in both]
        assert [t is None for t in tokens] == [t is None for t in also]
        for few_bits, eight_bits in zip(tokens, also, strict=True):
            if few_bits is not None and eight_bits is not None:
                cosines = (few_bits * eight_bits).sum(axis=1) / np.linalg.norm(eight_bits, axis=1)
                assert (cosines / np.linalg.norm(few_bits, axis=1)).min() > 0.9
        page = FactSelect(limit=50, with_embeddings=True)
        assert await both[0].facts(BANK, page) == await both[1].facts(BANK, page)

    asyncio.run(asked())


def test_current_facts_are_found_among_many_closed_ones(postgres_url: str) -> None:
    closed = [a_fact(f"tulips {n}", id=f"c{n}", expired_at=day(2), invalid_at=day(2)) for n in range(90)]
    current = [a_fact(f"tulips and {n}", id=f"f{n}") for n in range(3)]
    items = [with_vector(fact, at_cosine(0.9)) for fact in closed] + [with_vector(f, at_cosine(0.3)) for f in current]

    async def asked() -> None:
        store = PostgresStore(postgres_url)
        await store.open()
        await store.create_bank(a_bank())
        assert await store.commit(await a_batch(store, items))
        assert await near(store, at_cosine(1.0), limit=2) == ["f0", "f1"]
        assert await near(store, at_cosine(1.0), limit=2, floor=0.5) == []
        assert await matches(store, "tulips", limit=5) == ["f0", "f1", "f2"]
        [found] = await store.nearest(BANK, np.stack([at_cosine(1.0)]), limit=2, floor=0.1)
        assert [hit.id for hit in found] == ["f0", "f1"]
        assert await store.nearest(BANK, np.stack([at_cosine(1.0)]), limit=2, floor=0.5) == [[]]
        await store.close()

    asyncio.run(asked())


def test_the_baseline_of_a_large_bank_is_estimated_from_a_sample(postgres_url: str) -> None:
    count, vectors = 3000, [_vector(n) for n in range(3000)]
    facts = [with_vector(a_fact(f"number {n}"), vectors[n]) for n in range(count)]

    async def asked() -> float:
        store = PostgresStore(postgres_url)
        await store.open()
        await store.create_bank(a_bank())
        for start in range(0, count, 500):
            assert await store.commit(await a_batch(store, facts[start : start + 500]))
        query = SearchRequest(scope=EVERYTHING, space=EMBEDDER.name, semantic=[_asked(1)], limit=10)
        found = await search(store, query)
        none = await search(store, replace(query, scope=EVERYTHING.replace(tags=("none",))))
        await store.close()
        assert none.semantic == [[]]
        assert none.baselines == found.baselines
        return found.baselines[0]

    cosines = np.stack(vectors) @ _asked(1)
    assert abs(asyncio.run(asked()) - (cosines.mean() - 2 * cosines.std())) < 0.02
