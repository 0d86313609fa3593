"""Reads by reference and of pages find their rows by index, so that their work does not grow with the bank."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite

from vmemo.models import BankId, EntityId, EpisodeId, FactId, Message, MessageId
from vmemo.models.records import ShortId
from vmemo.models.search import Scope
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.postgres.connection import PostgresPool
from vmemo.stores.postgres.store import PostgresStore
from vmemo.stores.sql import reads
from vmemo.stores.sql.reads import AnySelect, ScopeFilter, instruction_statement
from vmemo.stores.sqlite.search import SqliteParameters
from vmemo.stores.sqlite.store import SqliteStore
from vmemo_conformance.samples import BANK, OTHER, a_bank, a_batch, a_fact, an_episode, day, store_messages

MESSAGES, FACTS, ENTITIES = [MessageId("m")], [FactId("f")], [EntityId("e")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    path = tmp_path_factory.mktemp("plans") / "memory.db"

    async def create(path: Path) -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(create(path))
    return sqlite3.connect(path)


@pytest.mark.parametrize(
    "statement",
    [
        reads.fact_statement(1, FactSelect(messages=MESSAGES)),
        reads.fact_statement(1, FactSelect(context=MESSAGES)),
        reads.fact_statement(1, FactSelect(basis=FACTS)),
        reads.fact_statement(1, FactSelect(supersedes=FACTS)),
        reads.fact_statement(1, FactSelect(entities=ENTITIES, after=FACTS[0], limit=9)),
        reads.fact_statement(1, FactSelect(entities=ENTITIES, networks=("observation",), current=True)),
        reads.fact_statement(1, FactSelect(instructions=True, current=True)),
        reads.fact_statement(1, FactSelect(short_id=ShortId("0f9a3c52"), limit=3)),
        reads.message_statement(1, MessageSelect(short_id=ShortId("01a1e25d", "75e81f"), limit=3)),
        reads.episode_statement(1, EpisodeSelect(messages=MESSAGES)),
        reads.entity_statement(1, EntitySelect(names=["Ann"])),
        reads.link_statement(1, FACTS),
    ],
    ids=[
        "messages",
        "context",
        "basis",
        "supersedes",
        "entities",
        "observations",
        "instructions",
        "short",
        "message",
        "episodes",
        "names",
        "links",
    ],
)
def test_a_selection_by_reference_reads_no_other_rows_of_the_bank(
    database: sqlite3.Connection, statement: AnySelect
) -> None:
    assert_no_other_rows(plan_of(database, statement))


def test_standing_instructions_are_found_by_their_index(database: sqlite3.Connection) -> None:
    values = SqliteParameters()
    filter = ScopeFilter(1, Scope(bank=BANK), [], day(1))
    statement = instruction_statement(filter, values, limit=9)
    assert_no_other_rows([row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", values.values)])


def assert_no_other_rows(plan: list[str]) -> None:
    tables = [step for step in plan if step.startswith(("SEARCH", "SCAN")) and "json_each" not in step]
    assert tables
    wide = ("(bank=?)", "(bank=? AND kind=?)")
    assert [step for step in tables if step.startswith("SCAN") or step.endswith(wide)] == []


@pytest.mark.parametrize(
    "statement",
    [
        reads.message_statement(1, MessageSelect(limit=9)),
        reads.message_statement(1, MessageSelect(after=MESSAGES[0], limit=9)),
        reads.message_statement(1, MessageSelect(after=MESSAGES[0], last_first=True, limit=9)),
        reads.fact_statement(1, FactSelect(limit=9)),
        reads.fact_statement(1, FactSelect(after=FACTS[0], limit=9)),
        reads.fact_statement(1, FactSelect(after=FACTS[0], newest_first=True, limit=9)),
        reads.fact_statement(1, FactSelect(after=FACTS[0], networks=("opinion",), limit=9)),
        reads.episode_statement(1, EpisodeSelect(limit=9)),
        reads.episode_statement(1, EpisodeSelect(after=EpisodeId("e"), limit=9)),
        reads.episode_statement(1, EpisodeSelect(after=EpisodeId("e"), last_first=True, limit=9)),
        reads.entity_statement(1, EntitySelect(counted=False, limit=9)),
        reads.entity_statement(1, EntitySelect(after=ENTITIES[0], counted=False, limit=9)),
    ],
)
def test_a_page_is_read_in_the_order_of_an_index(database: sqlite3.Connection, statement: AnySelect) -> None:
    plan = plan_of(database, statement)
    assert plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def plan_of(database: sqlite3.Connection, statement: AnySelect) -> list[str]:
    """Return the steps of SQLite's plan."""
    compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"render_postcompile": True})
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {compiled}", values)]


def test_postgres_reads_each_table_once_although_its_statistics_miss_the_bank(postgres_url: str) -> None:
    async def read() -> list[int]:
        store, pool = PostgresStore(postgres_url), PostgresPool(postgres_url)
        try:
            await store.open()
            await _store_extracted(store, BANK)
            await pool.write(lambda connection: connection.exec_driver_sql("ANALYZE"))
            said = [message.id for message in await _store_extracted(store, OTHER)]
            return await pool.read(lambda connection: _repetitions(connection, said))
        finally:
            await store.close()
            await pool.close()

    assert asyncio.run(read()) == [1, 1]


async def _store_extracted(store: PostgresStore, bank: BankId) -> list[Message]:
    """Store messages in a new bank, each with a fact and an episode of its own."""
    await store.create_bank(a_bank(bank))
    said = await store_messages(store, *(f"tulips {number}" for number in range(100)), bank=bank)
    batch = await a_batch(store, [a_fact(m.content, bank=bank, messages=[m.id]) for m in said], bank=bank)
    episodes = [an_episode("tulips", [m]) for m in said]
    assert await store.commit(replace(batch, pending=[m.id for m in said], episodes=episodes))
    return said


def _repetitions(connection: Connection, said: Sequence[MessageId]) -> list[int]:
    """Return for each statement how often its most repeated step runs."""
    bank = connection.exec_driver_sql("SELECT max(seq) FROM banks").scalar_one()
    found: list[int] = []
    for statement in (
        reads.fact_statement(bank, FactSelect(messages=said)),
        reads.episode_statement(bank, EpisodeSelect(messages=said)),
    ):
        compiled = statement.compile(dialect=connection.dialect)
        values = tuple(compiled.params[name] for name in compiled.positiontup or ())
        plan = connection.exec_driver_sql(f"EXPLAIN ANALYZE {compiled}", values).scalars()
        found.append(max(int(loops) for step in plan for loops in re.findall(r"loops=(\d+)", step)))
    return found
