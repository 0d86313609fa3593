"""The newest facts of an entity from the index alone, on PostgreSQL."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from vmemo.stores.postgres.schema import MENTIONS

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Build the index of mentions by entity again with the facts, unless this release created the table."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    columns = {index["name"]: index["column_names"] for index in inspect(bind).get_indexes("mentions")}
    if "fact" not in columns[MENTIONS]:
        op.drop_index(MENTIONS, "mentions")
        op.create_index(MENTIONS, "mentions", ["bank", "entity", "fact"])
