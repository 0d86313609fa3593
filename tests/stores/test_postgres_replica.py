"""Reads from a streaming replica: up to date, lagging, stopped and back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest

from max_wait import MAX_WAIT
from vmemo import Memory, Settings
from vmemo.errors import InvalidInput, VmemoError
from vmemo.models import Fact
from vmemo.stores.postgres import replica as replica_module
from vmemo.stores.postgres.embedded import REPLICATED, EmbeddedPostgres
from vmemo.testing import HashEmbedder

Servers = tuple[EmbeddedPostgres, EmbeddedPostgres]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    primary = EmbeddedPostgres(settings=REPLICATED)
    try:
        primary.start()
    except VmemoError as error:
        pytest.skip(f"No PostgreSQL here: {error}")
    with primary:
        primary.create("memories")
        with EmbeddedPostgres(settings=REPLICATED, primary=primary) as standby:
            yield primary, standby


@pytest.fixture(autouse=True)
def eager_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the replica with the primary at every read."""
    monkeypatch.setattr(replica_module, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(replica_module, "RETRY_SECONDS", 1.0)


def memory_of(servers: Servers, *, max_lag: float = 60.0) -> Memory:
    primary, standby = servers
    settings = Settings(read_url=standby.url("memories"), read_lag=max_lag, access_delay=0.0)
    return Memory(primary.url("memories"), bank="ana", embedder=HashEmbedder(), settings=settings)


async def recalled(memory: Memory) -> list[str]:
    return [hit.fact.text for hit in (await memory.recall("What does Ana play?")).hits]


async def until_used(memory: Memory) -> None:
    """Read until the replica has everything."""
    replica = memory.replica
    assert replica is not None
    deadline = time.monotonic() + MAX_WAIT
    await memory.facts()
    while replica.problem is not None:
        assert time.monotonic() < deadline, replica.problem
        await asyncio.sleep(0.02)
        await memory.facts()


def access_counts(server: EmbeddedPostgres) -> int:
    return int(server.execute("SELECT coalesce(sum(access_count), 0) FROM facts", "memories"))


def test_reads_use_the_replica_and_the_primary_while_it_lags_or_is_gone(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    primary, standby = servers

    async def scenario() -> None:
        async with memory_of(servers) as writer, memory_of(servers) as reader:
            await writer.retain("Ana plays the cello.")
            await until_used(reader)
            before = access_counts(primary)
            assert len(await recalled(reader)) == 1
            await reader.close()
            assert access_counts(primary) == before + 1

            # The replica stops to replay: another process reads its state, and the one that wrote reads its own write.
            standby.execute("SELECT pg_wal_replay_pause()")
            await writer.retain("Ana plays the viola.")
            await until_used(reader)
            assert len(await recalled(reader)) == 1
            assert len(await recalled(writer)) == 2
            assert len(await reader.facts()) == 1

            async with memory_of(servers, max_lag=0.001) as strict:
                assert len(await recalled(strict)) == 2
                assert strict.replica is not None
                assert "lags by more than 0.001 seconds" in str(strict.replica.problem)
            standby.execute("SELECT pg_wal_replay_resume()")
            await until_caught_up(reader)

            standby.kill()
            caplog.clear()
            assert len(await recalled(reader)) == 2
            assert "Reads go to the primary" in caplog.text
            standby.start()
            await until_used(reader)
            assert "again" in caplog.text
            assert len(await recalled(reader)) == 2

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


async def until_caught_up(memory: Memory) -> list[Fact]:
    deadline = time.monotonic() + MAX_WAIT
    while len(found := list(await memory.facts())) < 2:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    return found


def test_primary_as_a_replica_is_not_used(servers: Servers) -> None:
    primary, _ = servers

    async def scenario() -> None:
        async with memory_of((primary, primary)) as memory:
            await memory.facts()
            assert memory.replica is not None
            assert memory.replica.problem == "it is no replica"

    asyncio.run(scenario())


def test_sqlite_has_no_replica() -> None:
    with pytest.raises(InvalidInput, match="belongs to a PostgreSQL database"):
        Memory(":memory:", settings=Settings(read_url="postgresql://localhost/a"))
