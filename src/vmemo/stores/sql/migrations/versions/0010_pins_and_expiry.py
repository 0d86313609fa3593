"""Pins, reasons and expiries of facts, and expiries of messages."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, Text, inspect, text

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns and their indexes, unless this release created the tables."""
    if "pinned" in {column["name"] for column in inspect(op.get_bind()).get_columns("facts")}:
        return
    op.add_column("facts", Column("pinned", Integer, nullable=False, server_default=text("0")))
    op.add_column("facts", Column("reason", Text, nullable=False, server_default=text("''")))
    op.add_column("facts", Column("expires_at", BigInteger))
    op.add_column("messages", Column("expires_at", BigInteger))
    marked, limited = text("pinned = 1"), text("expires_at IS NOT NULL")
    columns = ["bank", "pinned", "mentioned_at"]
    op.create_index("facts_pinned", "facts", columns, sqlite_where=marked, postgresql_where=marked)
    columns = ["bank", "expires_at"]
    op.create_index("messages_expiry", "messages", columns, sqlite_where=limited, postgresql_where=limited)
