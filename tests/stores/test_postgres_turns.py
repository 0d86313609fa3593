"""Writers of PostgreSQL take turns where they must, and nobody is refused for having waited."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from vmemo.errors import InvalidInput, NotFound, StoreBusy
from vmemo.lifecycle.forget import forget
from vmemo.lifecycle.reprocess import staging_bank, swap_in
from vmemo.models import BankId
from vmemo.models.changes import Changes, ForgetTarget, JobFailure, Lease, NewJob
from vmemo.models.results import Job, Spending
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.stores.postgres.store import PostgresStore
from vmemo.transfer.incoming import load_bank
from vmemo_conformance.samples import (
    BANK,
    EMBEDDER,
    OTHER,
    a_bank,
    a_batch,
    a_fact,
    a_message,
    day,
    store_fact,
    store_messages,
)

MANY = 8


def meeting(url: str, test: Callable[[PostgresStore], Awaitable[None]]) -> None:
    """Run a test on a store with two banks."""

    async def run() -> None:
        store = PostgresStore(url)
        await store.open()
        try:
            await store.create_bank(a_bank())
            await store.create_bank(a_bank(OTHER))
            await test(store)
        finally:
            await store.close()

    asyncio.run(run())


def leases(jobs: Sequence[Job], owner: str) -> list[Lease]:
    return [Lease(job=job.id, owner=owner, requests=job.requests) for job in jobs]


def test_concurrent_creators_of_a_bank_all_get_the_stored_one(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        given = [a_bank("new").model_copy(update={"created_at": day(number + 1)}) for number in range(MANY)]
        returned = await asyncio.gather(*map(store.create_bank, given))
        stored = await store.bank(BankId("new"))
        assert returned == [stored] * MANY

    meeting(postgres_url, test)


def test_one_of_many_concurrent_batches_commits(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        batches = [await a_batch(store, [a_fact(f"tulips {number}")]) for number in range(MANY)]
        assert sum(await asyncio.gather(*map(store.commit, batches))) == 1
        assert len(await store.facts(BANK, FactSelect())) == 1

    meeting(postgres_url, test)


def test_concurrent_requests_for_the_same_job_queue_it_once(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        await asyncio.gather(
            *(store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key="alice")])) for _ in range(MANY))
        )
        [job] = await store.jobs(BANK)
        assert job.requests == MANY

    meeting(postgres_url, test)


def test_concurrent_costs_are_all_counted(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        call = Spending(step="extract", model="small", calls=1, input_tokens=10, output_tokens=1, cost=0.5)
        await asyncio.gather(*(store.commit(Changes(bank=BANK, spending=[call])) for _ in range(MANY)))
        [spent] = (await store.status(BANK)).spending
        assert (spent.calls, spent.input_tokens, spent.cost) == (MANY, 10 * MANY, 0.5 * MANY)

    meeting(postgres_url, test)


def test_a_message_appended_concurrently_is_stored_once(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        said = [a_message("tulips", document="diary", key="1") for _ in range(MANY)]
        stored = await asyncio.gather(*(store.append(BANK, [message]) for message in said))
        assert sorted(map(len, stored)) == [0] * (MANY - 1) + [1]

    meeting(postgres_url, test)


def test_a_job_is_leased_by_one_worker_only(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=str(number)) for number in range(20)]))
        await store.commit(Changes(bank=OTHER, jobs=[NewJob(kind="observe", key=str(number)) for number in range(20)]))
        taken: list[int] = []

        async def work(owner: str) -> None:
            while jobs := await store.lease(owner, 60, limit=3):
                taken.extend(job.id for job in jobs)
                await asyncio.gather(
                    *(
                        store.commit(Changes(bank=job.bank, finished=[lease]))
                        for job, lease in zip(jobs, leases(jobs, owner), strict=True)
                    )
                )

        await asyncio.gather(*(work(f"worker {number}") for number in range(MANY)))
        # Who comes while others hold all that is left goes home; nothing is left behind.
        await work("last")
        assert len(taken) == len(set(taken)) == 40

    meeting(postgres_url, test)


def test_forgetting_in_several_banks_runs_concurrently(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        names = [BankId(f"bank {number}") for number in range(MANY)]
        for name in names:
            await store.create_bank(a_bank(name))
            await store_messages(store, "tulips", bank=name)
        await asyncio.gather(*(forget(store, name, ForgetTarget(bank=True)) for name in names))
        assert {bank.id for bank in await store.banks()} == {BANK, OTHER}

    meeting(postgres_url, test)


def test_messages_appended_while_a_bank_is_replaced_are_kept(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        for round in range(5):
            shadow = await staging_bank(
                store, BANK, f"new {round}", embedder=EMBEDDER.name, dimension=EMBEDDER.dimension
            )
            said = await store.messages(shadow, MessageSelect.oldest_pending(1000))
            claimed = replace(await a_batch(store, bank=shadow), pending=[message.id for message in said])
            assert await store.commit(claimed)
            adopted, *_ = await asyncio.gather(
                swap_in(store, BANK, EMBEDDER),
                *(store_messages(store, f"tulips {round} {number}") for number in range(MANY)),
            )
            there = await store.messages(BANK, MessageSelect(limit=1000))
            assert len(there) == MANY * (round + 1), adopted
        assert [bank.id for bank in await store.banks()] == [BANK, OTHER]

    meeting(postgres_url, test)


def test_one_of_two_concurrent_imports_under_a_new_name_is_refused(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        async def load(content: str) -> str | None:
            try:
                await load_bank(store, a_bank("new"), iter([a_message(content)]))
            except (InvalidInput, StoreBusy, NotFound):
                return None
            return content

        loaded = [content for content in await asyncio.gather(load("tulips"), load("roses")) if content]
        assert [message.content for message in await store.messages(BankId("new"), MessageSelect())] == loaded
        assert len(loaded) == 1

    meeting(postgres_url, test)


def test_jobs_complete_while_leases_are_renewed_and_memories_forgotten(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=str(number)) for number in range(12)]))
        held = leases(await store.lease("worker", 60, limit=12), "worker")
        told = [await store_fact(store, f"tulips {number}") for number in range(4)]

        async def again(run: Callable[[], Awaitable[object]], times: int) -> None:
            for _ in range(times):
                await run()

        async def ask() -> None:
            await store.commit(
                Changes(bank=BANK, jobs=[NewJob(kind="observe", key=str(number)) for number in reversed(range(12))])
            )

        forgetting = [ForgetTarget(messages=fact.messages) for fact in told]
        await asyncio.gather(
            again(lambda: store.renew(held, 60), 10),
            again(lambda: store.renew(held[::-1], 60), 10),
            again(ask, 10),
            *(forget(store, BANK, target) for target in forgetting),
            *(
                store.commit(Changes(bank=BANK, failed=[JobFailure(lease=lease, error="no", retry_at=day(2))]))
                for lease in held[:3]
            ),
        )
        assert await store.renew(held, 60) == held[3:]

    meeting(postgres_url, test)


def test_a_worker_that_lost_its_lease_commits_nothing(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        for round in range(10):
            await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=str(round))]))
            [lease] = leases(await store.lease("slow", 0, limit=1), "slow")
            batch = replace(await a_batch(store, [a_fact(f"tulips {round}")]), finished=[lease])
            landed, taken = await asyncio.gather(store.commit(batch), store.lease("quick", 60, limit=1))
            assert landed != bool(taken)
            await asyncio.gather(
                *(store.commit(Changes(bank=BANK, finished=[lease])) for lease in leases(taken, "quick"))
            )
            assert await store.jobs(BANK) == []

    meeting(postgres_url, test)


def test_one_of_two_concurrent_deletions_of_a_bank_succeeds(postgres_url: str) -> None:
    async def test(store: PostgresStore) -> None:
        async def forgets() -> bool:
            try:
                await forget(store, BANK, ForgetTarget(bank=True))
            except NotFound:
                return False
            return True

        await store_messages(store, "tulips")
        assert sorted(await asyncio.gather(forgets(), forgets())) == [False, True]
        assert await store.bank(BANK) is None

    meeting(postgres_url, test)
