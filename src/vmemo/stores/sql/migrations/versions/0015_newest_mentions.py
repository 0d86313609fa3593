"""The newest facts of an entity from the key of mentions, and space in the pages of facts, on PostgreSQL."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from vmemo.stores.postgres.schema import MENTIONS_BY_FACT, MENTIONS_KEY, leave_space

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Change the order of the key, unless this release created the tables."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    key = inspect(bind).get_pk_constraint("mentions")
    if tuple(key["constrained_columns"]) != MENTIONS_KEY:
        op.drop_index("mentions_entity", "mentions")
        op.drop_constraint(key["name"] or "", "mentions")
        op.create_primary_key(key["name"], "mentions", list(MENTIONS_KEY))
        op.create_index(MENTIONS_BY_FACT, "mentions", ["bank", "fact"])
        leave_space(bind)
