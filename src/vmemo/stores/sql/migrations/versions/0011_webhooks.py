"""Webhooks of banks."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from vmemo.stores.postgres import schema as postgres_schema
from vmemo.stores.sql.schema import webhooks

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table, unless this release created the database."""
    bind = op.get_bind()
    if inspect(bind).has_table(webhooks.name):
        return
    if bind.dialect.name == "postgresql":
        postgres_schema.create_table(bind, webhooks.name)
    else:
        webhooks.create(bind)
