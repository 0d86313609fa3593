"""Workers on PostgreSQL: woken when work is queued, quick to leave, and patient while the server is away."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from max_wait import MAX_WAIT
from vmemo import Memory, Settings
from vmemo.errors import InvalidInput, StoreBusy, StoreError
from vmemo.jobs.worker import RunResult
from vmemo.models import utc_now
from vmemo.models.changes import Changes, Lease, NewJob
from vmemo.models.results import Job
from vmemo.stores.postgres.store import PostgresStore
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import BANK, a_bank

R = TypeVar("R")
FOREVER = 600.0
"""Seconds that no test takes: who waits so long was not woken."""
LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND query LIKE 'LISTEN%'"


def with_stores(
    url: str, work: Callable[[PostgresStore, PostgresStore], Coroutine[object, object, R]], *, size: int = 10
) -> R:
    """Two stores on one database, as two processes have them."""

    async def run() -> R:
        one, other = PostgresStore(url, size=size), PostgresStore(url)
        try:
            for store in (one, other):
                await store.open()
            await one.create_bank(a_bank())
            return await asyncio.wait_for(work(one, other), MAX_WAIT)
        finally:
            await one.close()
            await other.close()

    return asyncio.run(run())


async def listening(store: PostgresStore) -> int:
    """Return the number of notifications once the store listens."""
    return await store.wait_for_work(FOREVER, 0)


async def queue(store: PostgresStore, *keys: str, later: bool = False) -> None:
    due = utc_now() + timedelta(hours=1) if later else None
    await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=key, due=due) for key in keys]))


def test_a_waiting_worker_is_woken_by_a_job_of_another_process(postgres_url: str) -> None:
    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        waiting = asyncio.create_task(store.wait_for_work(FOREVER, heard))
        await queue(other, "ann")
        assert await waiting == heard + 1

    with_stores(postgres_url, work)


def test_a_job_queued_before_the_wait_is_not_missed(postgres_url: str) -> None:
    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        await queue(other, "ann")
        assert await store.wait_for_work(FOREVER, heard) == heard + 1

    with_stores(postgres_url, work)


def test_a_transaction_notifies_once_and_only_for_new_due_jobs(postgres_url: str) -> None:
    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        await queue(other, "ann", "bob")
        await queue(other, "ann")
        await queue(other, "eve", later=True)
        [job, *_] = await other.lease("worker", 60, limit=9)
        await queue(other, "zoe")
        seen = await store.wait_for_work(FOREVER, heard)
        while seen < heard + 2:
            seen = await store.wait_for_work(FOREVER, seen)
        assert job.owner is not None
        await other.commit(Changes(bank=BANK, released=[Lease(job=job.id, owner=job.owner, requests=job.requests)]))
        assert await store.wait_for_work(FOREVER, seen) == heard + 3, "a job that is given back is for others"

    with_stores(postgres_url, work)


def test_a_rolled_back_transaction_wakes_no_worker(postgres_url: str) -> None:
    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        with pytest.raises(InvalidInput):
            await queue(other, "ann", "a null character\0")
        await queue(other, "bob")
        assert await store.wait_for_work(FOREVER, heard) == heard + 1

    with_stores(postgres_url, work)


def test_the_listener_uses_no_pool_connection_and_closes_with_the_pool(
    postgres: EmbeddedPostgres, postgres_url: str
) -> None:
    name = urlsplit(postgres_url).path[1:]

    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        waits = [asyncio.create_task(store.wait_for_work(FOREVER, heard)) for _ in range(3)]
        assert int(postgres.execute(LISTENING.format(name))) == 1
        await queue(store, "ann")
        assert await asyncio.gather(*waits) == [heard + 1] * 3
        waiting = asyncio.create_task(store.wait_for_work(FOREVER, heard + 1))
        await asyncio.sleep(0)
        await store.close()
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)
        until_listening(postgres, postgres_url, wanted=False)
        await store.open()
        assert await listening(store) == 1, "an opened store listens anew"

    with_stores(postgres_url, work, size=1)


def test_a_disconnected_listener_reconnects(postgres: EmbeddedPostgres, postgres_url: str) -> None:
    name = urlsplit(postgres_url).path[1:]

    async def work(store: PostgresStore, other: PostgresStore) -> None:
        heard = await listening(store)
        waiting = asyncio.create_task(store.wait_for_work(FOREVER, heard))
        postgres.execute(f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{name}'")
        heard = await waiting
        await queue(other, "ann")
        assert await store.wait_for_work(FOREVER, heard) == heard + 1

    with_stores(postgres_url, work)


def memory(url: str, *, poll: float = FOREVER) -> Memory:
    return Memory(url, "alice", embedder=HashEmbedder(), settings=Settings(poll_seconds=poll))


def test_an_idle_worker_processes_messages_of_another_memory_at_once(
    postgres: EmbeddedPostgres, postgres_url: str
) -> None:
    async def run() -> RunResult:
        stop, done = asyncio.Event(), asyncio.Event()
        async with memory(postgres_url, poll=1.0) as worker, memory(postgres_url) as client:
            work = asyncio.create_task(worker.work(stop, on_done=lambda job, error, seconds: done.set()))
            await asyncio.to_thread(until_listening, postgres, postgres_url)
            await client.add_message("Anna grows tulips in Oslo.")
            await asyncio.wait_for(done.wait(), MAX_WAIT)
            assert (await client.status()).facts == 1
            stop.set()
            return await asyncio.wait_for(work, 60)

    outcome = asyncio.run(run())
    assert (outcome.jobs, outcome.failed) == (1, 0)


def until_listening(server: EmbeddedPostgres, url: str, *, wanted: bool = True) -> None:
    """Wait, in one session of the administrator, until somebody listens, or nobody does."""
    found = f"({LISTENING.format(urlsplit(url).path[1:])}) > 0"
    server.execute(
        f"SET statement_timeout = '{MAX_WAIT}s'; DO $$ BEGIN WHILE ({found}) <> {wanted} LOOP "
        "PERFORM pg_sleep(0.02); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$"
    )


def test_a_waiting_worker_stops_at_once(postgres: EmbeddedPostgres, postgres_url: str) -> None:
    async def run() -> RunResult:
        stop = asyncio.Event()
        async with memory(postgres_url) as worker:
            work = asyncio.create_task(worker.work(stop))
            await asyncio.to_thread(until_listening, postgres, postgres_url)
            stop.set()
            return await asyncio.wait_for(work, 30)

    assert asyncio.run(run()).jobs == 0


def test_the_worker_command_exits_on_a_signal_while_waiting(postgres: EmbeddedPostgres, postgres_url: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "vmemo", "worker", "--db", postgres_url, "--maintain-every", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as run:
        try:
            until_listening(postgres, postgres_url)
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate(timeout=MAX_WAIT)
        finally:
            run.kill()
    assert (run.returncode, out, err) == (0, "0 jobs done, 0 failed\n", "")


def test_a_worker_waits_for_an_unavailable_server_and_logs_it_once(
    postgres: EmbeddedPostgres, postgres_url: str
) -> None:
    async def run() -> tuple[RunResult, list[StoreError], list[Job]]:
        stop, done, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        told, ended = list[StoreError](), list[Job]()

        def away(error: StoreError) -> None:
            told.append(error)
            gone.set()

        def finished(job: Job, error: Exception | None, seconds: float) -> None:
            ended.append(job)
            done.set()

        async with memory(postgres_url, poll=0.05) as worker:
            work = asyncio.create_task(worker.work(stop, on_done=finished, on_unavailable=away))
            await asyncio.to_thread(until_listening, postgres, postgres_url)
            postgres.kill()
            await asyncio.wait_for(gone.wait(), MAX_WAIT)
            await asyncio.to_thread(postgres.start)
            await worker.add_message("Anna grows tulips in Oslo.")
            await asyncio.wait_for(done.wait(), MAX_WAIT)
            stop.set()
            return await work, told, ended

    outcome, told, ended = asyncio.run(run())
    assert (outcome.jobs, outcome.failed) == (1, 0)
    assert [job.kind for job in ended] == ["process"]
    [error] = told
    assert isinstance(error, StoreBusy)
