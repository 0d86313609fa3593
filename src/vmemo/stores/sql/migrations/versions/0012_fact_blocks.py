"""Blocks of vectors and terms on SQLite, which open a bank in one piece, and smaller token vectors."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from vmemo.stores.sql.schema import sqlite_metadata
from vmemo.stores.sqlite.block_migration import convert

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Move the vectors and terms of each bank into blocks; the file shrinks with the next scrub."""
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    sqlite_metadata.create_all(bind)
    convert(bind)
    bind.execute(text("DROP TABLE fact_index"))
