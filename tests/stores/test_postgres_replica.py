"""Reads from a streaming replica of a PostgreSQL database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from max_wait import MAX_WAIT
from vmemo import Memory, Settings
from vmemo.errors import InvalidInput, VmemoError
from vmemo.memory import session
from vmemo_bench.embedded_postgres import REPLICATED, EmbeddedPostgres
from vmemo_conformance.embedders import HashEmbedder

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


async def recalled(memory: Memory) -> list[str]:
    return [hit.fact.text for hit in (await memory.recall("What does Ana play?")).hits]


async def until_recalled(memory: Memory, count: int) -> None:
    deadline = time.monotonic() + MAX_WAIT
    while len(await recalled(memory)) != count:
        assert time.monotonic() < deadline, f"the replica did not get {count} facts"
        await asyncio.sleep(0.02)


def test_recalls_read_from_the_replica_and_writes_go_to_the_primary(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "ACCESS_DELAY", 0.0)
    primary, standby = servers
    settings = Settings(read_url=standby.url("memories"))

    async def run() -> None:
        async with Memory(primary.url("memories"), bank="ana", embedder=HashEmbedder(), settings=settings) as memory:
            await memory.retain("Ana plays the violin.")
            # A bank that the replica does not have yet is read from the primary.
            await until_recalled(memory, 1)
            standby.execute("SELECT pg_wal_replay_pause()")
            await memory.retain("Ana plays tennis.")
            assert len(await recalled(memory)) == 1
            standby.execute("SELECT pg_wal_replay_resume()")
            await until_recalled(memory, 2)
        async with Memory(primary.url("memories"), bank="ana", embedder=HashEmbedder()) as memory:
            assert len(await memory.facts()) == 2
            # Access counts of recalls through the replica are those of the primary.
            assert sum(fact.access_count for fact in await memory.facts()) > 0

    asyncio.run(run())


def test_sqlite_has_no_replica() -> None:
    with pytest.raises(InvalidInput, match="belongs to a PostgreSQL database"):
        Memory(":memory:", settings=Settings(read_url="postgresql://localhost/a"))
