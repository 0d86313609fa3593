"""Occurrences of facts in Neo4j: the migration gives older facts what new ones are created with."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from neo4j_server import driver
from vmemo.stores.neo4j.schema import MIGRATIONS
from vmemo.stores.neo4j.store import Neo4jStore
from vmemo.testing.samples import BANK, a_bank, day, store_fact

OCCURRENCES = "MATCH (f:Fact {bank: $bank}) RETURN f.text AS text, f.began AS began, f.ended AS ended, f.span AS span"


def test_older_facts_get_the_occurrences_of_new_ones(neo4j_url: str) -> None:
    async def run() -> str:
        store = Neo4jStore(neo4j_url)
        await store.open()
        await store.create_bank(a_bank())
        await store_fact(store, "open", mentioned_at=day(3))
        await store_fact(store, "open start", occurred_end=day(2), mentioned_at=day(3))
        await store_fact(store, "future end", occurred_end=day(5), mentioned_at=day(3))
        await store_fact(store, "open end", occurred_start=day(1), mentioned_at=day(3))
        await store_fact(store, "future start", occurred_start=day(5), mentioned_at=day(3))
        await store_fact(store, "an hour", occurred_start=day(1), occurred_end=day(1) + timedelta(hours=1))
        await store_fact(store, "a year", occurred_start=day(1), occurred_end=day(1) + timedelta(days=365))
        await store_fact(store, "a century", occurred_start=day(1), occurred_end=day(1) + timedelta(days=36_500))
        key = (await store.revision(BANK)).identity
        await store.close()
        return key

    key = asyncio.run(run())
    # A statement with transactions of its own needs a session.
    with driver(neo4j_url) as connected, connected.session() as session:  # pyright: ignore[reportUnknownMemberType]
        created = session.run(OCCURRENCES, bank=key).data()
        assert all(None not in row.values() for row in created)
        session.run("MATCH (f:Fact {bank: $bank}) REMOVE f.began, f.ended, f.span", bank=key).consume()
        for statement in MIGRATIONS[1]:
            session.run(statement).consume()
        assert session.run(OCCURRENCES, bank=key).data() == created
