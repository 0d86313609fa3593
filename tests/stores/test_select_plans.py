"""The reads of forgetting and of short ids find their rows by index, so that their work does not grow with the bank."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy.dialects import sqlite

from vmemo.models import EntityId, FactId, MessageId
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.short_ids import ShortId
from vmemo.stores.sql import selects
from vmemo.stores.sql.selects import AnySelect
from vmemo.stores.sqlite.store import SqliteStore

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
        selects.fact_statement(1, FactSelect(messages=MESSAGES)),
        selects.fact_statement(1, FactSelect(context=MESSAGES)),
        selects.fact_statement(1, FactSelect(basis=FACTS)),
        selects.fact_statement(1, FactSelect(supersedes=FACTS)),
        selects.fact_statement(1, FactSelect(entities=ENTITIES, after=FACTS[0], limit=9)),
        selects.fact_statement(1, FactSelect(entities=ENTITIES, networks=("observation",), current=True)),
        selects.fact_statement(1, FactSelect(short_id=ShortId("0f9a3c52"), limit=3)),
        selects.message_statement(1, MessageSelect(short_id=ShortId("01a1e25d", "75e81f"), limit=3)),
        selects.episode_statement(1, EpisodeSelect(messages=MESSAGES)),
        selects.entity_statement(1, EntitySelect(names=["Ann"])),
    ],
    ids=[
        "messages",
        "context",
        "basis",
        "supersedes",
        "entities",
        "observations",
        "short",
        "message",
        "episodes",
        "names",
    ],
)
def test_a_selection_by_reference_reads_no_other_rows_of_the_bank(
    database: sqlite3.Connection, statement: AnySelect
) -> None:
    compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"render_postcompile": True})
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {compiled}", values)]
    tables = [step for step in plan if step.startswith(("SEARCH", "SCAN")) and "json_each" not in step]
    assert tables
    wide = ("(bank=?)", "(bank=? AND kind=?)")
    assert [step for step in tables if step.startswith("SCAN") or step.endswith(wide)] == []
