"""Maintenance: joined and shortened episodes, and indexes, without a loss."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from vmemo.models import BankRevision, Episode, Fact, Message, utc_now
from vmemo.models.changes import AddedSource, Changes, Deletions, Lease, NewJob
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import Store
from vmemo_conformance.queue import HOUR, LONG, a_lease, lease_of, queue_jobs
from vmemo_conformance.samples import (
    BANK,
    OTHER,
    START,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_episode,
    day,
    load,
    matches,
    snapshot,
    store_fact,
    store_messages,
    store_story,
)
from vmemo_conformance.suite import StoreSuite, on_store


class MaintenanceConformance(StoreSuite):
    """The reads and commits that maintenance needs."""

    @on_store
    async def test_a_joined_episode_has_the_messages_and_facts_of_both(self, store: Store) -> None:
        one, two, three = [await _read(store, word, at) for at, word in enumerate(("tulips", "roses", "lilies"))]
        both = await store_fact(store, "tulips and roses", episodes=[one.id, two.id])
        before = await snapshot(store)
        kept = _united(one, two)
        assert await _join(store, kept, two)
        after = await snapshot(store)
        assert await store.episodes(BANK, EpisodeSelect(ids=[one.id, two.id])) == [kept]
        assert [(fact.text, fact.episodes) for fact in after.facts] == [
            ("tulips 0", (one.id,)),
            ("roses 1", (one.id,)),
            ("lilies 2", (three.id,)),
            ("tulips and roses", (one.id,)),
        ]
        assert after.messages == before.messages
        assert [episode.previous for episode in after.episodes if episode.id == three.id] == [one.id]
        assert await matches(store, "roses") == [fact.id for fact in before.facts if "roses" in fact.text]
        assert (await load(store, BANK, [both.id]))[1] == {one.id: kept.title}

    @on_store
    async def test_joining_is_refused_when_the_bank_changed(self, store: Store) -> None:
        one, two = await _read(store, "tulips", 0), await _read(store, "roses", 1)
        revision = await store.revision(BANK)
        await store_fact(store, "something else")
        before, now = await snapshot(store), await store.revision(BANK)
        assert not await _join(store, _united(one, two), two, revision=revision)
        assert await snapshot(store) == before
        assert await store.revision(BANK) == now

    @on_store
    async def test_joining_makes_batches_begun_before_it_outdated(self, store: Store) -> None:
        one, two = await _read(store, "tulips", 0), await _read(store, "roses", 1)
        begun = replace(await a_batch(store), episodes=[two])
        assert await _join(store, _united(one, two), two)
        assert not await store.commit(begun)

    @on_store
    async def test_a_commit_can_require_that_documents_have_no_pending_messages(self, store: Store) -> None:
        one, two = await _read(store, "tulips", 0), await _read(store, "roses", 1)
        kept = _united(one, two)
        await store_messages(store, "elsewhere", document="letters")
        assert await store.commit(Changes(bank=BANK, without_pending=["talk", None, "nowhere"]))
        await store_messages(store, "no document")
        assert not await store.commit(Changes(bank=BANK, without_pending=["talk", None]))
        await store_messages(store, "waits", document="talk", timestamp=day(5))
        assert not await _join(store, kept, two)
        waiting = [
            message
            for message in await store.messages(BANK, MessageSelect.oldest_pending(10))
            if message.document == "talk"
        ]
        assert await store.commit(replace(await a_batch(store), pending=[message.id for message in waiting]))
        assert await _join(store, kept, two)

    @on_store
    async def test_joining_requires_its_lease(self, store: Store) -> None:
        one, two = await _read(store, "tulips", 0), await _read(store, "roses", 1)
        await queue_jobs(store, "maintain", "")
        lost = await a_lease(store, "slow", seconds=0, kind="maintain")
        held = await a_lease(store, "quick", kind="maintain")
        assert not await _join(store, _united(one, two), two, lease=lost)
        assert await _join(store, _united(one, two), two, lease=held)

    @on_store
    async def test_a_rescheduled_job_is_queued_for_later_in_the_same_commit(self, store: Store) -> None:
        later = utc_now() + HOUR
        await queue_jobs(store, "maintain", "")
        assert await store.commit(
            Changes(
                bank=BANK, finished=[await a_lease(store, kind="maintain")], jobs=[NewJob(kind="maintain", due=later)]
            )
        )
        [job] = await store.jobs(BANK)
        assert (job.kind, job.due, job.owner, job.attempts) == ("maintain", later, None, 0)
        assert await store.lease("quick", LONG) == []
        [waiting] = await store.lease("quick", LONG, bank=BANK, due=False)
        assert await store.commit(Changes(bank=BANK, finished=[lease_of(waiting)]))
        assert await store.jobs(BANK) == []

    @on_store
    async def test_a_job_requested_meanwhile_is_not_rescheduled(self, store: Store) -> None:
        await queue_jobs(store, "maintain", "")
        lease = await a_lease(store, kind="maintain")
        await queue_jobs(store, "maintain", "")
        assert await store.commit(
            Changes(bank=BANK, finished=[lease], jobs=[NewJob(kind="maintain", due=utc_now() + HOUR)])
        )
        [job] = await store.jobs(BANK)
        assert job.due <= utc_now()

    @on_store
    async def test_a_job_taken_over_by_another_worker_is_not_rescheduled(self, store: Store) -> None:
        await queue_jobs(store, "maintain", "")
        lost = await a_lease(store, "slow", seconds=0, kind="maintain")
        await a_lease(store, "quick", kind="maintain")
        queued = await store.jobs(BANK)
        assert not await store.commit(
            Changes(bank=BANK, finished=[lost], jobs=[NewJob(kind="maintain", due=utc_now() + HOUR)])
        )
        assert await store.jobs(BANK) == queued

    @on_store
    async def test_optimising_indexes_changes_no_results(self, store: Store) -> None:
        story = await store_story(store)
        before = await snapshot(store)
        await store.optimise()
        await store.optimise()
        assert await snapshot(store) == before
        assert await matches(store, "tulips") == [story.facts[2].id]

    @on_store
    async def test_maintenance_is_limited_to_its_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        one, two = await _read(store, "tulips", 0, narrative="t" * 300), await _read(store, "roses", 1)
        before, now = await snapshot(store), await store.revision(OTHER)
        assert await store.commit(Changes(bank=OTHER, revision=now, deleted=Deletions(episodes=[one.id, two.id])))
        assert await snapshot(store) == before


def _at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


async def _read(
    store: Store, topic: str, *minutes: int, document: str = "talk", narrative: str = "", **fields: object
) -> Episode:
    """Store a processed episode with a message and a fact at each of these minutes; it follows the last one."""
    said = [a_message(f"{topic} {at}", timestamp=_at(at), document=document) for at in minutes]
    await store.append(BANK, said)
    last = first_of(await store.episodes(BANK, EpisodeSelect(last_first=True, limit=1)))
    told = {"previous": None if last is None else last.id, "narrative": narrative or f"All about {topic}."}
    episode = an_episode(topic, said, **{**told, **fields})
    batch = await a_batch(store, [_fact(message, episode) for message in said])
    assert await store.commit(replace(batch, pending=[message.id for message in said], episodes=[episode]))
    return episode


def _fact(message: Message, episode: Episode) -> Fact:
    return a_fact(message.content, messages=[message.id], episodes=[episode.id], mentioned_at=message.timestamp)


def _united(one: Episode, two: Episode) -> Episode:
    """Return both as one, with the id of the first and a new title."""
    both = {"messages": (*one.messages, *two.messages), "ended_at": two.ended_at}
    return one.model_copy(update={**both, "title": "both", "narrative": "All about both."})


async def _join(
    store: Store, kept: Episode, absorbed: Episode, *, revision: BankRevision | None = None, lease: Lease | None = None
) -> bool:
    """Commit one episode in place of another."""
    facts = await store.facts(BANK, FactSelect(episode=absorbed.id, with_embeddings=True))
    changes = Changes(
        bank=BANK,
        revision=await store.revision(BANK) if revision is None else revision,
        lease=lease,
        without_pending=["talk"],
        episodes=[kept],
        sources=[AddedSource(fact=fact.id, episodes=(kept.id,)) for fact in facts],
        deleted=Deletions(episodes=[absorbed.id]),
    )
    return await store.commit(changes)
