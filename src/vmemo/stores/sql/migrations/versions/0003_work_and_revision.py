"""Jobs and spending, confidence changes, merges that can be undone, and hidden banks."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Connection, Table, insert, inspect, select

from vmemo.models import utc_now
from vmemo.stores.sql.schema import banks, entities, jobs, mentions, merges, messages, moves, spending
from vmemo.stores.values import micros

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables, add the columns that a database of 0001 lacks, and queue pending messages."""
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    for table in (jobs, spending, moves, merges):
        table.create(bind)
    for column in (banks.c.shadow_of, banks.c.engine, entities.c.strangers, mentions.c.said):
        _add(bind, column)
    now = micros(utc_now())
    waiting = bind.execute(select(messages.c.bank).where(messages.c.state == "pending").distinct()).scalars().all()
    rows = [
        {"bank": bank, "kind": "process", "key": "", "detail": "{}", "asked": 1, "due": now, "created_at": now}
        for bank in waiting
    ]
    if rows:
        bind.execute(insert(jobs), rows)


def _add(bind: Connection, column: Column[object]) -> None:
    table = column.table
    assert isinstance(table, Table)
    if column.name not in {known["name"] for known in inspect(bind).get_columns(table.name)}:
        op.add_column(
            table.name, Column(column.name, column.type, nullable=column.nullable, server_default=column.server_default)
        )
