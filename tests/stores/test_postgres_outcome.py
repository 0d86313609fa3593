"""Connections to PostgreSQL that are lost while a transaction is committed: nothing is lost, nothing is done twice."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, text

from cutting import Wire, wire
from max_wait import MAX_WAIT
from vmemo import Memory, OutcomeUnknown, ProcessingDelayed, Settings, StoreBusy
from vmemo.jobs.worker import RunResult
from vmemo.models.changes import Changes, NewJob
from vmemo.models.results import Spending
from vmemo.models.search import Vectors
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import TextKind
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.postgres.store import PostgresStore
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.samples import BANK, a_bank, a_batch, a_fact, a_message

R = TypeVar("R")


def with_store(url: str, work: Callable[[PostgresStore, Wire], Coroutine[object, object, R]]) -> R:
    """A store on the end of a wire; exactly one commit of the work is cut off."""

    async def run() -> R:
        with wire(url) as (held, through):
            store = PostgresStore(through)
            try:
                await store.open()
                await store.create_bank(a_bank())
                held.cut()
                result = await asyncio.wait_for(work(store, held), MAX_WAIT)
                assert held.cuts == 1
                return result
            finally:
                await store.close()

    return asyncio.run(run())


def test_messages_are_stored_once_and_counted_as_stored(postgres_url: str) -> None:
    one, two = a_message("tulips"), a_message("roses")

    async def work(store: PostgresStore, held: Wire) -> None:
        assert await store.append(BANK, [one, two]) == {one.id, two.id}
        assert [message.id for message in await store.messages(BANK, MessageSelect())] == [one.id, two.id]
        [job] = await store.jobs(BANK)
        assert (job.kind, job.requests) == ("process", 1)

    with_store(postgres_url, work)


def test_a_message_stored_before_is_not_counted(postgres_url: str) -> None:
    known, new = a_message("tulips"), a_message("roses")

    async def work(store: PostgresStore, held: Wire) -> None:
        assert await store.append(BANK, [known]) == {known.id}
        held.cuts = 0
        held.cut()
        assert await store.append(BANK, [known, new]) == {new.id}

    with_store(postgres_url, work)


def test_a_batch_is_committed_once_and_reported_as_committed(postgres_url: str) -> None:
    async def work(store: PostgresStore, held: Wire) -> None:
        before = await store.revision(BANK)
        batch = await a_batch(store, [a_fact("tulips"), a_fact("roses")])
        assert await store.commit(batch)
        assert len(await store.facts(BANK, FactSelect())) == 2
        assert await store.revision(BANK) == before.next()
        assert not await store.commit(batch), "a second time it is out of date"

    with_store(postgres_url, work)


def test_jobs_are_leased_once_and_none_stays_without_a_worker(postgres_url: str) -> None:
    async def work(store: PostgresStore, held: Wire) -> None:
        await store.commit(Changes(bank=BANK, jobs=[NewJob(kind="observe", key=key) for key in ("ann", "bob", "eve")]))
        held.cuts = 0
        held.cut()
        taken = await store.lease("worker", 600, limit=2)
        assert [job.key for job in taken] == ["ann", "bob"]
        assert [job.key for job in await store.lease("another", 600, limit=9)] == ["eve"]
        held_by = {job.key: job.owner for job in await store.jobs(BANK)}
        assert held_by == {"ann": "worker", "bob": "worker", "eve": "another"}

    with_store(postgres_url, work)


def test_a_count_of_unknown_outcome_is_an_error_and_not_written_twice(postgres_url: str) -> None:
    async def work(store: PostgresStore, held: Wire) -> None:
        spent = Spending(step="extract", model="m", calls=1)
        with pytest.raises(OutcomeUnknown, match="look before you repeat") as raised:
            await store.commit(Changes(bank=BANK, spending=[spent]))
        assert not isinstance(raised.value, StoreBusy)
        assert [item.calls for item in (await store.status(BANK)).spending] == [1]

    with_store(postgres_url, work)


def test_retain_succeeds_when_the_reply_to_a_commit_is_lost(postgres_url: str) -> None:
    async def run() -> None:
        with wire(postgres_url) as (held, url):
            async with Memory(url, "alice", embedder=HashEmbedder()) as memory:
                held.cut()
                stored = await memory.retain("Anna grows tulips in Oslo.")
                assert held.cuts == 1
                assert (len(stored.stored), len(stored.derived), stored.skipped) == (1, 1, ())
                status = await memory.status()
                assert (status.messages, status.facts, status.pending) == (1, 1, 0)

    asyncio.run(run())


def test_an_outcome_that_stays_unknown_is_reported_as_unknown(
    postgres: EmbeddedPostgres, empty_postgres_url: str
) -> None:
    name = urlsplit(empty_postgres_url).path[1:]

    def cut_off(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        postgres.execute(f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = '{name}'")
        postgres.kill()

    async def run() -> None:
        pool = PostgresPool(empty_postgres_url, busy_seconds=5.0)
        try:
            with pytest.raises(OutcomeUnknown) as raised:
                await pool.write(cut_off, repeatable=True)
            assert not isinstance(raised.value, StoreBusy)
        finally:
            await pool.close()

    asyncio.run(run())


class Deadly(HashEmbedder):
    """An embedder that kills the server while it reads, once."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        super().__init__()
        self._server: EmbeddedPostgres | None = server

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Vectors of a server that is gone."""
        server, self._server = self._server, None
        if server is not None:
            server.kill()
        return await super().embed(texts, kind)


def test_a_server_lost_while_deriving_reports_that_messages_are_stored(
    postgres: EmbeddedPostgres, postgres_url: str
) -> None:
    async def run() -> None:
        async with Memory(postgres_url, "alice", embedder=Deadly(postgres)) as memory:
            with pytest.raises(ProcessingDelayed, match=r"stored and queued: do not retain them again") as raised:
                await memory.retain("Anna grows tulips in Oslo.")
            assert not isinstance(raised.value, StoreBusy)
            postgres.start()
            assert (await memory.status()).pending == 1
            assert len((await memory.process()).derived) == 1

    asyncio.run(run())


def test_a_worker_resumes_jobs_after_losing_the_server(postgres: EmbeddedPostgres, postgres_url: str) -> None:
    async def run() -> RunResult:
        stop, failed, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
        settings = Settings(lease_seconds=600, poll_seconds=0.05)
        async with Memory(postgres_url, "alice", embedder=Deadly(postgres), settings=settings) as memory:
            await memory.add_message("Anna grows tulips in Oslo.")
            working = asyncio.create_task(
                memory.work(stop, on_done=lambda job, error, seconds: (failed if error else done).set())
            )
            await asyncio.wait_for(failed.wait(), MAX_WAIT)
            await asyncio.to_thread(postgres.start)
            await asyncio.wait_for(done.wait(), MAX_WAIT)
            stop.set()
            assert (await memory.status()).facts == 1
            assert await memory.jobs() == []
            return await working

    outcome = asyncio.run(run())
    assert (outcome.jobs, outcome.failed) == (2, 1)
    assert isinstance(outcome.errors[0], StoreBusy)
