"""Mark facts that are standing instructions of the user."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, inspect, text

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column and its index, unless this release created the table; no earlier fact is marked."""
    if "instruction" not in {column["name"] for column in inspect(op.get_bind()).get_columns("facts")}:
        op.add_column("facts", Column("instruction", Integer, nullable=False, server_default=text("0")))
        marked = text("instruction = 1")
        columns = ["bank", "instruction", "mentioned_at"]
        op.create_index("facts_instruction", "facts", columns, sqlite_where=marked, postgresql_where=marked)
