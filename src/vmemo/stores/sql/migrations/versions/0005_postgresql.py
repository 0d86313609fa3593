"""PostgreSQL: all tables as they are by now. SQLite has them from the versions before."""

from __future__ import annotations

from alembic import context, op

from vmemo.stores.postgres import schema

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create every table of a PostgreSQL database; on SQLite only the number changes."""
    bind = op.get_bind()
    if bind.dialect.name == "postgresql":
        schema.create(bind, context.config.attributes["partitions"])
