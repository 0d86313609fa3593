"""Add the holder of an idempotency key, which its writes are checked against."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text, inspect

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column where an earlier release created the table."""
    if "holder" not in {column["name"] for column in inspect(op.get_bind()).get_columns("replies")}:
        op.add_column("replies", Column("holder", Text, nullable=False, server_default=""))
