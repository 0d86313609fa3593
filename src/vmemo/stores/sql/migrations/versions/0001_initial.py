"""The first schema."""

from __future__ import annotations

from alembic import op

from vmemo.stores.sql.schema import fact_index, metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table; on SQLite the vectors and the full-text index live in the same file."""
    bind = op.get_bind()
    metadata.create_all(bind)
    if bind.dialect.name == "sqlite":
        fact_index.create(bind)
        op.execute(
            "CREATE VIRTUAL TABLE message_words USING fts5(words, content='', tokenize='unicode61', detail='none')"
        )
