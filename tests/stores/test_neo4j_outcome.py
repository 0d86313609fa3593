"""Connections to Neo4j that are lost while a transaction is committed: nothing is lost, nothing is done twice."""

import asyncio

from cutting import BOLT_COMMIT, wire

from vmemo.models.changes import Changes, NewJob
from vmemo.models.results import Spending
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.stores.neo4j.store import Neo4jStore
from vmemo.testing.samples import BANK, a_bank, a_batch, a_fact, a_message


def test_writes_whose_outcome_is_unknown_are_applied_once(neo4j_url: str) -> None:
    async def run() -> None:
        with wire(neo4j_url, BOLT_COMMIT) as (held, through):
            store = Neo4jStore(through)
            try:
                await store.open()
                await store.create_bank(a_bank())
                for check in (_append, _commit, _spend, _lease):
                    held.cut()
                    before = held.cuts
                    await asyncio.wait_for(check(store), 60)
                    assert held.cuts == before + 1, check
            finally:
                await store.close()

    asyncio.run(run())


async def _append(store: Neo4jStore) -> None:
    one, two = a_message("tulips"), a_message("roses")
    assert await store.append(BANK, [one, two]) == {one.id, two.id}
    assert [message.id for message in await store.messages(BANK, MessageSelect())] == [one.id, two.id]
    [job] = await store.jobs(BANK)
    assert (job.kind, job.asked) == ("process", 1)


async def _commit(store: Neo4jStore) -> None:
    before = await store.revision(BANK)
    batch = await a_batch(store, [a_fact("tulips"), a_fact("roses")])
    assert await store.commit(batch)
    assert len(await store.facts(BANK, FactSelect())) == 2
    assert await store.revision(BANK) == before.next()
    assert not await store.commit(batch), "a second time it is out of date"


async def _spend(store: Neo4jStore) -> None:
    spent = Spending(step="facts", model="m", calls=1, failures=0, input_tokens=5, output_tokens=3, cost=0.25)
    assert await store.commit(Changes(bank=BANK, spending=[spent]))
    assert (await store.status(BANK)).spending == (spent,)


async def _lease(store: Neo4jStore) -> None:
    [job] = await store.lease("worker", 600, kinds=["process"])
    assert await store.lease("another", 600) == []
    assert await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="ann")]))
    assert [each.key for each in await store.lease("another", 600)] == ["ann"]
    assert job.owner == "worker"
