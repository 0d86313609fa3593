"""The initial schema: the shared tables, and what only one of the databases has."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from vmemo.stores.postgres import schema as postgres_schema
from vmemo.stores.sql.schema import metadata, sqlite_metadata
from vmemo.stores.sql.statements import OF_PAGES

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table. A later migration changes these tables, and then this one keeps its own copy of them."""
    bind = op.get_bind()
    if bind.dialect.name == "postgresql":
        postgres_schema.create(bind)
        return
    metadata.create_all(bind, checkfirst=False)
    sqlite_metadata.create_all(bind, checkfirst=False)
    # Words come folded and stemmed, so they are split at spaces only; bm25() needs the full detail.
    op.execute("CREATE VIRTUAL TABLE message_words USING fts5(bank, words, content='', tokenize='ascii')")
    for table in ("messages", "facts", "episodes", "entities"):
        # Pages are read in the order of row numbers, which SQLite adds to every index.
        op.create_index(f"{table}_pages", table, ["bank"], sqlite_where=text(OF_PAGES))
