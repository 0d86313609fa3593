"""Vectors in Neo4j: the index of a large bank and vectors that are not read again give the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import numpy as np

from neo4j_server import driver
from vmemo.models.search import Scope, Scored, SearchRequest
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    EdgesOf,
    FoundFact,
    a_bank,
    a_batch,
    a_fact,
    an_entity,
    at_cosine,
    day,
    find_edges,
    mention_of,
    near,
    search,
    store_entities,
    store_fact,
    with_vector,
)
from vmemo_neo4j.store import Neo4jStore

COSINES = tuple(n / 50 for n in range(45))


def indexes(url: str, bank: str) -> list[str]:
    """Return the states of the vector indexes of a bank."""
    listed = "SHOW VECTOR INDEXES YIELD name, state WHERE name CONTAINS $bank RETURN state"
    with driver(url) as connected:
        found = connected.execute_query(listed, bank=bank.replace("-", ""))
        return [record["state"] for record in found.records]


def test_a_large_bank_is_searched_by_an_index_with_the_same_results(neo4j_url: str) -> None:
    async def run() -> None:
        exact, indexed = Neo4jStore(neo4j_url), Neo4jStore(neo4j_url, index_from=20)
        await exact.open()
        await indexed.open()
        await exact.create_bank(a_bank())
        for cosine in COSINES:
            await store_fact(exact, f"cosine {cosine}", vector=at_cosine(cosine))
        vectors = np.stack([at_cosine(0.7), at_cosine(0.1)])
        before = await near(exact, at_cosine(1.0)), await exact.nearest(BANK, vectors, limit=5, floor=0.0)
        key = (await exact.revision(BANK)).identity
        await indexed.optimise()
        assert indexes(neo4j_url, key) == ["ONLINE"]
        after = await near(indexed, at_cosine(1.0)), await indexed.nearest(BANK, vectors, limit=5, floor=0.0)
        assert after[0] == before[0]
        assert [_ids(hits) for hits in after[1]] == [_ids(hits) for hits in before[1]]
        new = await store_fact(indexed, "new", vector=at_cosine(0.99))
        await store_fact(indexed, "closed", vector=at_cosine(1.0), expired_at=day(2))
        [[best, *_]] = await indexed.nearest(BANK, np.stack([at_cosine(1.0)]), limit=5, floor=0.0)
        assert best.id == new.id
        await indexed.drop_bank(BANK)
        await indexed.optimise()
        assert indexes(neo4j_url, key) == []
        await exact.close()
        await indexed.close()

    asyncio.run(run())


def test_edges_are_the_same_after_a_search_that_has_read_the_vectors(neo4j_url: str) -> None:
    async def run() -> None:
        store = Neo4jStore(neo4j_url)
        await store.open()
        await store.create_bank(a_bank())
        scope, vector = Scope(bank=BANK), at_cosine(1.0)
        often, seldom = an_entity("Often"), an_entity("Seldom")
        await store_entities(store, often, seldom)
        facts = [
            a_fact(f"{number}", entities=[mention_of(often), *([mention_of(seldom)] if number < 6 else [])])
            for number in range(12)
        ]
        closed = a_fact("closed", entities=[mention_of(often)], expired_at=day(2))
        new = [with_vector(fact, at_cosine(number / 20)) for number, fact in enumerate(facts)]
        assert await store.commit(await a_batch(store, [*new, with_vector(closed, vector)]))
        query = EdgesOf(scope=scope, space=EMBEDDER.name, vector=vector, entities=[often.id, seldom.id], fan=4)
        request = SearchRequest(scope=scope, space=EMBEDDER.name, semantic=[vector], limit=5, floor=0.0)
        result, edges = await search(store, request), await find_edges(store, query)
        # Five facts of one entity are among the hits, and none of the other: its vectors must be read.
        assert _ids(result.semantic[0]) == [fact.id for fact in facts[:6:-1]]
        found = {(edge.source, edge.target) for edge in edges}
        assert found == {(often.id, fact.id) for fact in facts[8:]} | {(seldom.id, fact.id) for fact in facts[2:6]}
        await store.close()

    asyncio.run(run())


def _ids(hits: Iterable[FoundFact | Scored]) -> list[str]:
    return [hit.id for hit in hits]
