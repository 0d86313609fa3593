"""Packed postings and smaller token vectors on PostgreSQL."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from vmemo.stores.postgres import packed_migration

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Convert the postings and token vectors of all banks, unless this release created the tables."""
    bind = op.get_bind()
    if bind.dialect.name == "postgresql" and inspect(bind).has_table("postings"):
        packed_migration.convert(bind)
