"""The job queue: jobs are stored with their cause, leased by one worker at a time, and their failures are visible."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from pydantic import JsonValue

from vmemo.errors import NotFound
from vmemo.lifecycle.forget import ungroup
from vmemo.lifecycle.reprocess import staging_bank
from vmemo.models import BankId, JobKind, utc_now
from vmemo.models.changes import Changes, JobFailure, Lease, NewJob
from vmemo.models.results import Backlog, Job, Spending
from vmemo.models.select import FactSelect
from vmemo.ports import Store
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    an_episode,
    day,
    snapshot,
    store_messages,
)
from vmemo_conformance.suite import StoreSuite, on_store, on_two_stores, refused

HOUR = timedelta(hours=1)
LONG = 600.0
"""Seconds of a lease that no test outlives; one of 0 seconds has run out as soon as it is given."""


SPENT = Spending(step="extract", model="m", calls=2, failures=1, input_tokens=30, output_tokens=4, cost=0.25)


class QueueConformance(StoreSuite):
    """`lease`, `renew`, `hold`, `jobs`, and the jobs of `append` and `commit`."""

    @on_store
    async def test_a_pending_message_is_stored_with_its_extraction_job(self, store: Store) -> None:
        begun = utc_now()
        said = await store_messages(store, "tulips")
        [job] = await store.jobs(BANK)
        assert (job.bank, job.kind, job.key, job.requests, job.attempts) == (BANK, "process", "", 1, 0)
        assert (job.error, job.owner, job.until, dict(job.detail)) == (None, None, None, {})
        assert begun <= job.due <= utc_now()
        assert begun <= job.created_at <= utc_now()
        await store.append(BANK, said)
        assert await store.jobs(BANK) == [job]
        await store_messages(store, "roses")
        assert [job.requests for job in await store.jobs(BANK)] == [2]

    @on_store
    async def test_workers_leave_pending_messages_to_their_caller_until_a_given_time(self, store: Store) -> None:
        soon = utc_now() + HOUR
        await store.append(BANK, [a_message("tulips")], process_at=soon)
        assert [job.due for job in await store.jobs(BANK)] == [soon]
        assert await store.lease("worker", 60) == []
        await store.append(BANK, [a_message("roses")])
        assert [job.kind for job in await store.lease("worker", 60)] == ["process"]

    @on_store
    async def test_a_message_without_inference_queues_nothing(self, store: Store) -> None:
        await store.append(BANK, [a_message(state, state=state) for state in ("raw", "derived", "extracted")])
        assert await store.jobs(BANK) == []

    @on_store
    async def test_a_job_is_queued_once_with_its_detail_and_earliest_time(self, store: Store) -> None:
        later, soon = utc_now() + 2 * HOUR, utc_now() + HOUR
        detail: dict[str, JsonValue] = {"n": 1, "names": ["Zoë", {"deep": None}]}
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="ann", detail=detail, due=soon)]))
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="ann", detail={"n": 2}, due=later)]))
        [job] = await store.jobs(BANK)
        assert (job.requests, dict(job.detail), job.due) == (2, detail, soon)
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="ann")] * 2))
        [job] = await store.jobs(BANK)
        assert (job.requests, dict(job.detail)) == (4, detail)
        assert job.due < soon

    @on_store
    async def test_jobs_are_distinguished_by_kind_key_and_bank(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        for bank in (BANK, OTHER):
            await queue_jobs(store, "observe", "ann", "bob", bank=bank)
        await queue_jobs(store, "maintain", "ann")
        assert [(job.kind, job.key) for job in await store.jobs(BANK)] == [
            ("observe", "ann"),
            ("observe", "bob"),
            ("maintain", "ann"),
        ]
        assert [job.key for job in await store.jobs(BANK, ["maintain", "process"])] == ["ann"]
        assert [job.bank for job in await store.jobs(OTHER)] == [OTHER, OTHER]

    @on_store
    async def test_an_unknown_bank_is_not_found(self, store: Store) -> None:
        nowhere = BankId("nowhere")
        with refused(NotFound):
            await store.commit(Changes(bank=nowhere, jobs=[NewJob(kind="maintain")]))
        with refused(NotFound):
            await store.jobs(nowhere)
        with refused(NotFound):
            await store.lease("ann", LONG, bank=nowhere)
        with refused(NotFound):
            await store.commit(Changes(bank=nowhere, spending=[Spending(step="extract", model="m")]))
        with refused(NotFound):
            await ungroup(store, nowhere)

    @on_store
    async def test_the_oldest_due_jobs_are_leased_first(self, store: Store) -> None:
        for key, due in (("late", day(3)), ("early", day(1)), ("middle", day(2)), ("tie", day(2))):
            await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=key, due=due)]))
        before = utc_now()
        first = await store.lease("worker", LONG, limit=3)
        assert [job.key for job in first] == ["early", "middle", "tie"]
        assert {job.owner for job in first} == {"worker"}
        for job in first:
            assert job.until is not None
            assert before < job.until - timedelta(seconds=LONG - 1)
        assert first == [job for job in await store.jobs(BANK) if job.owner]
        assert [job.key for job in await store.lease("worker", LONG, limit=3)] == ["late"]
        assert await store.lease("worker", LONG, limit=3) == []

    @on_store
    async def test_jobs_are_leased_by_bank_and_kind(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        await queue_jobs(store, "observe", "ann", "bob")
        await queue_jobs(store, "maintain", "all")
        await queue_jobs(store, "opinions", "all", bank=OTHER)
        [ann, _] = await store.jobs(BANK, ["observe"])

        def named(jobs: Sequence[Job]) -> list[str]:
            return [f"{job.kind} {job.key}" for job in jobs]

        assert named(await store.lease("worker", 0, limit=9, bank=OTHER)) == ["opinions all"]
        some = await store.lease("worker", 0, limit=9, kinds=["maintain", "opinions"])
        assert named(some) == ["maintain all", "opinions all"]
        assert await store.lease("worker", 0, limit=9, kinds=["maintain"], bank=OTHER) == []
        rest = await store.lease("worker", 0, limit=9, bank=BANK, beside=[ann.id])
        assert named(rest) == ["observe bob", "maintain all"]
        assert len(await store.lease("worker", 0, limit=9)) == 4
        assert named(await store.lease("worker", 0, limit=9, except_banks=[BANK])) == ["opinions all"]
        assert await store.lease("worker", 0, limit=9, except_banks=[BANK, OTHER]) == []

    @on_store
    async def test_a_job_due_later_is_leased_only_on_request(self, store: Store) -> None:
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="maintain", due=utc_now() + HOUR)]))
        assert await store.lease("worker", LONG) == []
        assert [job.kind for job in await store.lease("worker", LONG, due=False)] == ["maintain"]

    @on_store
    async def test_jobs_of_a_staging_bank_are_leased_only_by_its_name(self, store: Store) -> None:
        staging = await staging_bank(store, BANK, "another", embedder=EMBEDDER.name, dimension=EMBEDDER.dimension)
        await store.commit(Changes(bank=staging, jobs=[NewJob(kind="maintain")]))
        await queue_jobs(store, "maintain", "all")
        assert [job.bank for job in await store.lease("worker", 0, limit=9)] == [BANK]
        assert {job.bank for job in await store.lease("worker", 0, limit=9, bank=staging)} == {staging}

    @on_two_stores
    async def test_no_job_is_leased_by_two_workers_at_once(self, one: Store, other: Store) -> None:
        await queue_jobs(one, "observe", *map(str, range(60)))
        takes = [(one, other)[n % 2].lease(f"worker {n}", LONG, limit=4) for n in range(20)]
        taken = [job for jobs in await asyncio.gather(*takes) for job in jobs]
        assert len(taken) == 60
        assert len({job.id for job in taken}) == 60
        assert {job.id: job.owner for job in await other.jobs(BANK)} == {job.id: job.owner for job in taken}

    @on_store
    async def test_an_expired_lease_can_be_taken_over(self, store: Store) -> None:
        [said] = await store_messages(store, "tulips")
        slow = await a_lease(store, "slow", seconds=0)
        [job] = await store.lease("quick", LONG)
        before = await snapshot(store)
        assert await store.renew([slow], LONG) == []
        assert not await store.commit(Changes(bank=BANK, finished=[slow], spending=[SPENT]))
        await store.commit(Changes(bank=BANK, released=[slow]))
        await store.commit(
            Changes(
                bank=BANK,
                failed=[JobFailure(lease=slow, error="too late", retry_at=utc_now() + HOUR, messages=[said.id])],
            )
        )
        assert await store.jobs(BANK) == [job]
        assert await snapshot(store) == before

    @on_store
    async def test_a_lease_can_be_renewed_until_it_is_taken_over(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann")
        await queue_jobs(store, "maintain", "all")
        held, over = await a_lease(store, kind="observe"), await a_lease(store, kind="maintain", seconds=0)
        assert await store.renew([held, over], LONG) == [held, over]
        assert await store.lease("another", LONG) == []
        assert await store.renew([held], 0) == [held]
        assert [job.kind for job in await store.lease("another", LONG, limit=9)] == ["observe"]
        assert await store.renew([held, over], LONG) == [over]
        assert await store.commit(Changes(bank=BANK, finished=[over]))

    @on_store
    async def test_a_finished_job_is_deleted_and_its_cost_counted(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann", "bob")
        lease = await a_lease(store)
        assert await store.commit(Changes(bank=BANK, finished=[lease], spending=[SPENT]))
        assert [job.key for job in await store.jobs(BANK)] == ["bob"]
        assert (await store.status(BANK)).spending == (SPENT,)
        assert not await store.commit(Changes(bank=BANK, finished=[lease], spending=[SPENT]))
        assert await store.renew([lease], LONG) == []
        assert (await store.status(BANK)).spending == (SPENT,)

    @on_store
    async def test_a_job_requested_again_while_running_runs_again(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann")
        await store.commit(
            Changes(bank=BANK, failed=[JobFailure(lease=await a_lease(store), error="timed out", retry_at=day(1))])
        )
        lease = await a_lease(store)
        await queue_jobs(store, "observe", "ann")
        assert await store.commit(Changes(bank=BANK, finished=[lease]))
        [job] = await store.jobs(BANK)
        assert (job.requests, job.attempts, job.error, job.owner, job.until) == (2, 0, None, None, None)
        assert day(1) < job.due <= utc_now()
        assert not await store.commit(Changes(bank=BANK, finished=[lease]))
        assert await store.commit(Changes(bank=BANK, finished=[await a_lease(store)]))
        assert await store.jobs(BANK) == []

    @on_store
    async def test_extraction_is_queued_again_while_messages_are_ungrouped(self, store: Store) -> None:
        one, two, three = await store_messages(store, "one", "two", "three")
        assert await store.commit(Changes(bank=BANK, finished=[await a_lease(store)]))
        for said in (one, two):
            [job] = await store.jobs(BANK)
            assert (job.kind, job.owner) == ("process", None)
            assert await store.commit(replace(await a_batch(store), pending=[said.id], finished=[await a_lease(store)]))
        last = replace(await a_batch(store), pending=[three.id], becomes="grouped", finished=[await a_lease(store)])
        assert await store.commit(replace(last, episodes=[an_episode("three", [three])]))
        assert await store.jobs(BANK) == []

    @on_store
    async def test_a_released_job_is_unchanged(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann")
        await store.commit(
            Changes(bank=BANK, failed=[JobFailure(lease=await a_lease(store), error="timed out", retry_at=day(1))])
        )
        before = await store.jobs(BANK)
        lease = await a_lease(store)
        assert await store.jobs(BANK) != before
        await store.commit(Changes(bank=BANK, released=[lease]))
        assert await store.jobs(BANK) == before
        assert not await store.commit(Changes(bank=BANK, finished=[lease]))

    @on_store
    async def test_a_failed_job_keeps_its_retry_time_when_requested_again(self, store: Store) -> None:
        retry = utc_now() + HOUR
        await queue_jobs(store, "observe", "ann")
        await store.commit(
            Changes(bank=BANK, failed=[JobFailure(lease=await a_lease(store), error="timed out", retry_at=retry)])
        )
        await queue_jobs(store, "observe", "ann")
        [job] = await store.jobs(BANK)
        assert (job.requests, job.attempts, job.error, job.owner, job.until) == (2, 1, "timed out", None, None)
        assert job.due == retry
        assert await store.lease("worker", LONG) == []
        [again] = await store.lease("worker", LONG, due=False)
        await store.commit(
            Changes(bank=BANK, failed=[JobFailure(lease=lease_of(again), error="x" * 5000, retry_at=retry)])
        )
        [job] = await store.jobs(BANK)
        assert (job.attempts, job.error) == (2, "x" * 2000)

    @on_store
    async def test_an_error_with_any_characters_is_recorded(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann")
        await store.commit(
            Changes(
                bank=BANK,
                failed=[JobFailure(lease=await a_lease(store), error="broken \ud800 and \x00 👋", retry_at=day(1))],
            )
        )
        [job] = await store.jobs(BANK)
        assert job.error == "broken ? and ? 👋"

    @on_store
    async def test_the_cost_of_a_failure_counts_even_if_the_job_was_taken_over(self, store: Store) -> None:
        await queue_jobs(store, "observe", "ann")
        slow = await a_lease(store, "slow", seconds=0)
        [job] = await store.lease("quick", LONG)
        await store.commit(
            Changes(bank=BANK, failed=[JobFailure(lease=slow, error="too late", retry_at=day(1))], spending=[SPENT])
        )
        assert await store.jobs(BANK) == [job]
        assert (await store.status(BANK)).spending == (SPENT,)

    @on_store
    async def test_the_status_counts_waiting_running_and_failed_jobs_by_kind(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        assert (await store.status(BANK)).backlog == ()
        await store_messages(store, "tulips")
        await queue_jobs(store, "observe", *"abcde")
        await queue_jobs(store, "observe", "elsewhere", bank=OTHER)
        soon, later = utc_now() + HOUR, utc_now() + 2 * HOUR
        await store.commit(
            Changes(
                bank=BANK, failed=[JobFailure(lease=await a_lease(store, kind="observe"), error="first", retry_at=soon)]
            )
        )
        await store.commit(
            Changes(
                bank=BANK,
                failed=[JobFailure(lease=await a_lease(store, kind="observe"), error="second", retry_at=later)],
            )
        )
        await store.lease("worker", LONG, bank=BANK, kinds=["process"])
        await store.lease("worker", LONG, bank=BANK, kinds=["observe"], limit=2)
        await store.lease("worker", 0, bank=BANK, kinds=["observe"])
        [free] = [job for job in await store.jobs(BANK) if job.key == "e"]
        assert (await store.status(BANK)).backlog == (
            Backlog(kind="process", running=1),
            Backlog(kind="observe", waiting=1, running=2, failed=2, error="second", next_at=free.due),
        )

    @on_store
    async def test_costs_add_up_by_step_and_model(self, store: Store) -> None:
        await store.create_bank(a_bank(OTHER))
        dear = SPENT.model_copy(update={"model": "dear", "cost": 1.5})
        await store.commit(Changes(bank=BANK, spending=[SPENT, dear, SPENT]))
        await store.commit(Changes(bank=BANK, spending=[SPENT.model_copy(update={"step": "answer"}), dear]))
        await store.commit(Changes(bank=OTHER, spending=[SPENT]))
        assert {(item.step, item.model): item for item in (await store.status(BANK)).spending} == {
            ("answer", "m"): SPENT.model_copy(update={"step": "answer"}),
            ("extract", "dear"): _times_two(dear),
            ("extract", "m"): _times_two(SPENT),
        }
        assert (await store.status(OTHER)).spending == (SPENT,)

    @on_two_stores
    async def test_commits_wait_while_another_holds_the_bank(self, one: Store, other: Store) -> None:
        lease = await one.hold(BANK, "me", LONG)
        assert lease is not None
        assert await other.hold(BANK, "you", LONG) is None
        theirs = asyncio.create_task(other.commit(await a_batch(other, [a_fact("roses")])))
        await other.commit(Changes(bank=BANK, spending=[SPENT]))
        await store_messages(other, "messages are stored all the same")
        assert not theirs.done()
        assert await one.commit(replace(await a_batch(one, [a_fact("tulips")]), lease=lease))
        assert not theirs.done()
        assert await one.commit(Changes(bank=BANK, finished=[lease]))
        assert not await theirs, "what was committed meanwhile has outdated it"
        assert await other.commit(await a_batch(other, [a_fact("roses")]))
        assert [fact.text for fact in await one.facts(BANK, FactSelect())] == ["tulips", "roses"]

    @on_store
    async def test_a_hold_on_a_bank_expires_and_is_not_a_job(self, store: Store) -> None:
        lost = await store.hold(BANK, "slow", 0)
        assert lost is not None
        assert await store.commit(await a_batch(store, [a_fact("tulips")]))
        held = await store.hold(BANK, "quick", LONG)
        assert held is not None
        assert not await store.commit(replace(await a_batch(store, [a_fact("roses")]), lease=lost, finished=[held]))
        assert await store.jobs(BANK) == await store.lease("worker", LONG, bank=BANK) == []
        assert (await store.status(BANK)).backlog == ()
        with refused(NotFound):
            await store.hold(BankId("nowhere"), "me", LONG)


def _times_two(spent: Spending) -> Spending:
    counts = ("calls", "failures", "input_tokens", "output_tokens", "cost")
    return spent.model_copy(update={name: 2 * getattr(spent, name) for name in counts})


async def queue_jobs(store: Store, kind: JobKind, *keys: str, bank: BankId = BANK) -> None:
    """Queue jobs with these keys."""
    await store.commit(Changes(bank=bank, jobs=[NewJob(kind=kind, key=key) for key in keys]))


async def a_lease(
    store: Store,
    owner: str = "worker",
    *,
    seconds: float = LONG,
    bank: BankId = BANK,
    kind: JobKind | None = None,
) -> Lease:
    """Lease the oldest due job for this owner."""
    [job] = await store.lease(owner, seconds, bank=bank, kinds=() if kind is None else [kind])
    return lease_of(job)


def lease_of(job: Job) -> Lease:
    """Return the lease of a leased job."""
    assert job.owner is not None
    return Lease(job=job.id, owner=job.owner, requests=job.requests)
