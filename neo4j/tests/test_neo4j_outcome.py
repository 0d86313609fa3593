"""Connections and servers that fail while a transaction is committed: nothing is lost, nothing is done twice."""

import asyncio

import pytest

from cutting import BOLT_COMMIT, bolt_failure, wire
from max_wait import MAX_WAIT
from vmemo.errors import OutcomeUnknown
from vmemo.models.changes import Changes, NewJob
from vmemo.models.results import Spending
from vmemo.models.select import FactSelect, MessageSelect
from vmemo_conformance.samples import BANK, a_bank, a_batch, a_fact, a_message
from vmemo_neo4j.store import Neo4jStore


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
                    await asyncio.wait_for(check(store), MAX_WAIT)
                    assert held.cuts == before + 1, check
            finally:
                await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "code", ["Neo.TransientError.General.DatabaseUnavailable", "Neo.ClientError.Database.DatabaseNotFound"]
)
def test_a_server_that_fails_in_a_commit_and_goes_away_leaves_the_outcome_unknown(neo4j_url: str, code: str) -> None:
    asyncio.run(_go_away(neo4j_url, code))


async def _go_away(url: str, code: str) -> None:
    store, one, two = Neo4jStore(url), a_message("tulips"), a_message("roses")
    await store.open()
    await store.create_bank(a_bank())
    await store.append(BANK, [one])
    with wire(url, BOLT_COMMIT) as (held, through):
        cut_off = Neo4jStore(through, busy_seconds=5)
        await cut_off.open(as_is=True)
        held.cut(bolt_failure(code))
        with pytest.raises(OutcomeUnknown):
            await cut_off.append(BANK, [two])
        await cut_off.close()
    assert [message.id for message in await store.messages(BANK, MessageSelect())] == [one.id, two.id]
    await store.close()


async def _append(store: Neo4jStore) -> None:
    one, two = a_message("tulips"), a_message("roses")
    assert await store.append(BANK, [one, two]) == {one.id, two.id}
    assert [message.id for message in await store.messages(BANK, MessageSelect())] == [one.id, two.id]
    [job] = await store.jobs(BANK)
    assert (job.kind, job.requests) == ("process", 1)


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
