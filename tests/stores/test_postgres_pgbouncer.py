"""PostgreSQL through PgBouncer in transaction mode: few sessions, shared by all, transaction by transaction."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pgbouncer import SESSIONS, pgbouncer, through
from sqlalchemy import Connection, text

from max_wait import MAX_WAIT
from vmemo import Memory, Settings
from vmemo.errors import StoreBusy
from vmemo.jobs.worker import RunResult
from vmemo.ports import Store
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.postgres.store import PostgresStore
from vmemo.stores.sql import migrate
from vmemo_bench.embedded_postgres import EmbeddedPostgres
from vmemo_conformance.embedders import HashEmbedder
from vmemo_conformance.jobs import JobConformance
from vmemo_conformance.messages import MessageConformance
from vmemo_conformance.queue import QueueConformance
from vmemo_conformance.search import SearchConformance
from vmemo_conformance.two_stores import TwoStoreConformance

CLIENTS = 6


@pytest.fixture(scope="module")
def port(postgres: EmbeddedPostgres) -> Iterator[int]:
    """The port of PgBouncer."""
    with pgbouncer(postgres.url()) as port:
        yield port


class TestPgBouncer(MessageConformance, SearchConformance, TwoStoreConformance, QueueConformance, JobConformance):
    """The suite's core: storing, finding, sharing and queueing. Each test has a database of its own."""

    @pytest.fixture(autouse=True)
    def database(self, postgres_url: str, port: int) -> None:
        self._url = through(postgres_url, port)

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(self._url)


def memory(url: str, bank: str, *, busy_timeout: float = 60.0) -> Memory:
    settings = Settings(connections=4, poll_seconds=0.05, busy_timeout=busy_timeout)
    return Memory(url, bank, embedder=HashEmbedder(), settings=settings)


async def told(url: str, bank: str) -> list[str]:
    """Retain and recall with a separate client and concurrent requests."""
    async with memory(url, bank) as client:
        await client.retain(f"Anna planted tulips in {bank}.")
        found = await asyncio.gather(*(client.recall("Who planted tulips?") for _ in range(4)))
        return [recalled.hits[0].fact.text for recalled in found]


def test_clients_that_share_sessions_are_isolated_and_leave_no_state(postgres_url: str, port: int) -> None:
    url, places = through(postgres_url, port), ["Oslo", "Rome", "Bern", "Riga", "Kyiv", "Lima"]

    async def run() -> list[list[str]]:
        return await asyncio.gather(*(told(url, place) for place in places))

    for place, texts in zip(places, asyncio.run(run()), strict=True):
        assert len(set(texts)) == 1
        assert place in texts[0]
    assert asyncio.run(sessions(url)) == {(0, 0)}


async def sessions(url: str) -> set[tuple[int, int]]:
    """Of each session the statements that are prepared by name and the channels it listens to."""
    pool, numbers = PostgresPool(url, size=SESSIONS), set[int]()
    prepared = text("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
    listening = text("SELECT count(*) FROM pg_listening_channels()")

    def look(connection: Connection) -> tuple[int, int]:
        numbers.add(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        while len(numbers) < SESSIONS:
            connection.execute(text("SELECT pg_sleep(0.01)"))
        return connection.execute(prepared).scalar_one(), connection.execute(listening).scalar_one()

    try:
        return set(await asyncio.gather(*(pool.read(look) for _ in range(SESSIONS))))
    finally:
        await pool.close()


def test_clients_that_open_an_empty_database_concurrently_create_its_schema_once(
    empty_postgres_url: str, port: int
) -> None:
    url = through(empty_postgres_url, port)

    async def opened() -> str:
        store = PostgresStore(url)
        try:
            await store.open()
            return await store.schema_version()
        finally:
            await store.close()

    async def run() -> list[str]:
        return await asyncio.gather(*(opened() for _ in range(CLIENTS)))

    assert asyncio.run(run()) == [migrate.HEAD] * CLIENTS


def test_a_worker_without_notifications_polls(postgres_url: str, port: int) -> None:
    url = through(postgres_url, port)

    async def run() -> RunResult:
        stop, done = asyncio.Event(), asyncio.Event()
        async with memory(url, "alice") as worker, memory(url, "alice") as client:
            work = asyncio.create_task(worker.work(stop, on_done=lambda job, error, seconds: done.set()))
            await client.add_message("Anna planted tulips in Oslo.")
            await asyncio.wait_for(done.wait(), MAX_WAIT)
            stop.set()
            return await asyncio.wait_for(work, 60)

    outcome = asyncio.run(run())
    assert (outcome.jobs, outcome.failed) == (1, 0)
    assert asyncio.run(sessions(url)) == {(0, 0)}, "no session is left listening, whoever gets it next"


async def ever_again(client: Memory) -> None:
    """Ask until it fails: a server's processes may outlive it for a moment."""
    while True:
        await client.status()


async def until_back(client: Memory) -> None:
    """PgBouncer finds out a moment later."""
    for _ in range(30):
        try:
            await client.status()
        except StoreBusy:
            continue
        return


def test_a_server_lost_behind_pgbouncer_is_busy_until_it_returns(
    postgres: EmbeddedPostgres, postgres_url: str, port: int
) -> None:
    async def run() -> None:
        # PgBouncer itself lets clients wait for the server: here for ever, by default for two minutes.
        async with memory(through(postgres_url, port), "alice", busy_timeout=5.0) as client:
            await client.retain("Anna planted tulips in Oslo.")
            postgres.kill()
            async with asyncio.timeout(MAX_WAIT):
                with pytest.raises(StoreBusy):
                    await ever_again(client)
                with pytest.raises(StoreBusy):
                    await client.retain("Bob planted roses in Rome.")
            postgres.start()
            await until_back(client)
            await client.retain("Bob planted roses in Rome.")
            assert (await client.status()).facts == 2

    asyncio.run(run())
