"""Indexes that give the rows of a bank in their order, page by page, on SQLite.

On PostgreSQL the keys of the tables do.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from vmemo.stores.sql.conditions import OF_PAGES

revision = "0016"
down_revision = "0015"
TABLES = ("messages", "facts", "episodes", "entities")


def upgrade() -> None:
    """Create the indexes. SQLite adds the number of the row to every index."""
    if op.get_bind().dialect.name == "sqlite":
        for table in TABLES:
            op.create_index(f"{table}_pages", table, ["bank"], sqlite_where=text(OF_PAGES), if_not_exists=True)
