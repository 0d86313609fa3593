"""Jobs of a batch, and messages grouped into episodes that are not processed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vmemo.lifecycle.forget import ungroup
from vmemo.models import EpisodeId, Message
from vmemo.models.changes import Changes, JobFailure, NewJob
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect
from vmemo.ports import Store
from vmemo_conformance.queue import LONG, SPENT, a_lease, queue_jobs
from vmemo_conformance.samples import (
    BANK,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_episode,
    day,
    snapshot,
    store_fact,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store


class JobConformance(StoreSuite):
    """`commit` of jobs and of ungrouped messages."""

    @on_store
    async def test_a_batch_completes_its_job_and_adds_new_jobs_and_cost(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        batch = replace(await a_batch(store, [a_fact("tulips", messages=[said.id])]), pending=[said.id])
        new = [NewJob(kind="opinions", key="1", detail={"facts": ["a"]}), NewJob(kind="observe", key="ann")]
        assert await store.commit(replace(batch, jobs=new, spending=[SPENT], finished=[await a_lease(store)]))
        assert [(job.kind, job.key) for job in await store.jobs(BANK)] == [("opinions", "1"), ("observe", "ann")]
        assert (await store.status(BANK)).spending == (SPENT,)
        assert len(await store.facts(BANK, FactSelect())) == 1

    @on_store
    async def test_a_batch_whose_job_was_lost_changes_nothing(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        batch = replace(await a_batch(store, [a_fact("tulips", messages=[said.id])]), pending=[said.id])
        whole = replace(batch, jobs=[NewJob(kind="observe", key="ann")], spending=[SPENT])
        taken = await a_lease(store, "slow", seconds=0)
        await store.lease("quick", LONG)
        before, queued = await snapshot(store), await store.jobs(BANK)
        assert not await store.commit(replace(whole, finished=[taken]))
        assert not await store.commit(replace(whole, finished=[replace(taken, job=taken.job + 1)]))
        assert await snapshot(store) == before
        assert await store.jobs(BANK) == queued

    @on_store
    async def test_a_batch_does_not_complete_a_job_of_another_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await queue_jobs(store, "observe", "ann", bank=OTHER)
        batch = replace(await a_batch(store, [a_fact("tulips")]), finished=[await a_lease(store, bank=OTHER)])
        assert not await store.commit(batch)
        assert len(await store.jobs(OTHER)) == 1
        assert await store.facts(BANK, FactSelect()) == []

    @on_store
    async def test_a_batch_that_is_out_of_date_leaves_its_job_leased(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        stale = replace(await a_batch(store), pending=[said.id], jobs=[NewJob(kind="observe")], spending=[SPENT])
        await store_fact(store, "roses")
        lease = await a_lease(store)
        queued = await store.jobs(BANK)
        assert not await store.commit(replace(stale, finished=[lease]))
        assert await store.jobs(BANK) == queued
        assert (await store.status(BANK)).spending == ()
        assert await store.renew([lease], LONG) == [lease]

    @on_store
    async def test_ungrouped_messages_are_pending_again_without_an_episode(self, store: Store) -> None:
        said = await store_messages(store, "one", "two", "three", "four")
        first = await _group(store, said[:2])
        second = await _group(store, said[2:3], previous=first)
        await _read(store, said[3], previous=second)
        running = await a_lease(store, kind="extract")
        assert await store.messages(BANK, MessageSelect.oldest_pending(9)) == []
        assert await ungroup(store, BANK) == 3
        assert [m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))] == [m.id for m in said[:3]]
        [kept] = await store.episodes(BANK, EpisodeSelect())
        assert (kept.messages, kept.previous) == ((said[3].id,), None)
        assert [job.kind for job in await store.jobs(BANK)] == ["process"]
        assert not await store.commit(replace(await a_batch(store), pending=[said[0].id], finished=[running]))
        assert await ungroup(store, BANK) == 0

    @on_store
    async def test_ungrouping_keeps_the_processed_messages_of_an_episode(self, store: Store) -> None:
        days = [a_message(f"day {n}", timestamp=day(n)) for n in (1, 2, 3, 4)]
        await store.append(BANK, days)
        episode = an_episode("days", days)
        grouped = replace(await a_batch(store), pending=[m.id for m in days], episodes=[episode], becomes="grouped")
        assert await store.commit(grouped)
        assert await store.commit(replace(await a_batch(store), pending=[m.id for m in days[1:3]], becomes="extracted"))
        begun = await a_batch(store)
        assert await ungroup(store, BANK) == 2
        [kept] = await store.episodes(BANK, EpisodeSelect())
        assert kept == episode.model_copy(
            update={"messages": tuple(m.id for m in days[1:3]), "started_at": day(2), "ended_at": day(3)}
        )
        assert not await store.commit(replace(begun, episodes=[episode])), "it holds the episode as it was"

    @on_store
    async def test_without_grouped_messages_ungrouping_changes_nothing(self, store: Store) -> None:
        await store_fact(store, "roses")
        await store_messages(store, "tulips")
        before, queued = await snapshot(store), await store.jobs(BANK)
        assert await ungroup(store, BANK) == 0
        assert await snapshot(store) == before
        assert await store.jobs(BANK) == queued

    @on_store
    async def test_a_failure_is_recorded_on_its_pending_messages(self, store: Store) -> None:
        pending, grouped, read, other = await store_messages(store, "pending", "grouped", "read", "other")
        await _group(store, [grouped])
        assert await store.commit(replace(await a_batch(store), pending=[read.id]))
        about = [pending.id, grouped.id, read.id]
        await store.commit(
            Changes(
                bank=BANK,
                failed=[JobFailure(lease=await a_lease(store), error="timed out", retry_at=day(1), messages=about)],
                spending=[SPENT],
            )
        )
        status = await store.status(BANK)
        assert status.pending == 3
        assert [(t.error, t.messages, t.attempts) for t in status.problems] == [("timed out", 2, 1)]
        assert status.spending == (SPENT,)
        assert [m.id for m in await store.messages(BANK, MessageSelect()) if m.error] == [pending.id, grouped.id]
        assert other.id in {m.id for m in await store.messages(BANK, MessageSelect.oldest_pending(9))}


async def _group(store: Store, said: Sequence[Message], previous: EpisodeId | None = None) -> EpisodeId:
    """Group messages into an episode that is not processed yet."""
    episode = an_episode("grouped", said, previous=previous)
    batch = replace(await a_batch(store), pending=[m.id for m in said], episodes=[episode], becomes="grouped")
    assert await store.commit(replace(batch, jobs=[NewJob(kind="extract", key=episode.id)]))
    return episode.id


async def _read(store: Store, said: Message, previous: EpisodeId | None = None) -> None:
    episode = an_episode("read", [said], previous=previous)
    assert await store.commit(replace(await a_batch(store), pending=[said.id], episodes=[episode]))
