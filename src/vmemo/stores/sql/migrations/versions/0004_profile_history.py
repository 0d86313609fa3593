"""The profiles that banks had before."""

from __future__ import annotations

from alembic import op

from vmemo.stores.sql.schema import profiles

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table; the history of a bank begins with its next profile."""
    bind = op.get_bind()
    if bind.dialect.name == "sqlite":
        profiles.create(bind)
