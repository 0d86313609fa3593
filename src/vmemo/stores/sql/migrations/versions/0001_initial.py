"""The first schema."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table

from vmemo.stores.sql.schema import metadata

revision = "0001"
down_revision = None

LATER = frozenset({"entity_names", "token_vectors", "jobs", "spending", "moves", "merges", "profiles", "webhooks"})
"""Tables that later versions add."""
fact_index = Table(
    "fact_index",
    MetaData(),
    Column("seq", Integer, primary_key=True),
    Column("embedding", LargeBinary, nullable=False),
    Column("terms", LargeBinary, nullable=False),
)


def upgrade() -> None:
    """Create every table; the vectors and the full-text index live in the same file. PostgreSQL begins with 0005."""
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    metadata.create_all(bind, tables=[table for table in metadata.sorted_tables if table.name not in LATER])
    fact_index.create(bind)
    op.execute(
        # Words come folded and stemmed, so they are split at spaces only; bm25() needs the full detail.
        "CREATE VIRTUAL TABLE message_words USING fts5(bank, words, content='', tokenize='ascii')"
    )
