"""The Cypher queries of the documentation, on a graph that the library wrote."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from neo4j_server import driver
from vmemo.models import Link
from vmemo_conformance.samples import BANK, a_bank, a_batch, an_entity, day, mention_of, store_entities, store_fact
from vmemo_neo4j.connection import parse
from vmemo_neo4j.store import Neo4jStore

GUIDE = Path(__file__).parent.parent.parent / "docs" / "neo4j.md"


async def write(url: str) -> None:
    """Store a job that was replaced by another, and what followed from it."""
    store = Neo4jStore(url)
    await store.open()
    await store.create_bank(a_bank())
    ana, bo = an_entity("Ana"), an_entity("Bo")
    await store_entities(store, ana, bo)
    old = await store_fact(store, "Ana works at Northwind", entities=[mention_of(ana)], invalid_at=day(3))
    new = await store_fact(
        store, "Bo found Ana a job at Contoso", entities=[mention_of(ana), mention_of(bo)], supersedes=old.id
    )
    moved = await store_fact(store, "Ana moved to Lisbon")
    cause = Link(source=new.id, target=moved.id, kind="causes", weight=1.0)
    assert await store.commit(replace(await a_batch(store), links=[cause]))
    await store.close()


def test_the_queries_of_the_guide_find_entities_supersession_and_causes(neo4j_url: str) -> None:
    asyncio.run(write(neo4j_url))
    queries = re.findall(r"```cypher\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    # The guide's reader has one memory in the database.
    own = f"{{name: '{BANK}', namespace: '{parse(neo4j_url).namespace}'}}"
    with driver(neo4j_url) as connected:
        found = [
            [list(record.values()) for record in connected.execute_query(query.replace(f"{{name: '{BANK}'}}", own))[0]]
            for query in queries
        ]
    about, together, replaced, causes = found
    assert [row[0] for row in about] == ["Bo found Ana a job at Contoso"]
    assert together == [["Bo", 1]]
    assert [(row[0], row[2], row[3]) for row in replaced] == [
        ("Ana works at Northwind", "Bo found Ana a job at Contoso", "Bo found Ana a job at Contoso")
    ]
    assert causes == [[["Bo found Ana a job at Contoso", "Ana moved to Lisbon"]]]
