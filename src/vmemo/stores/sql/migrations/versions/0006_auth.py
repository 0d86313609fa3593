"""Add the tables of API keys, the audit log and idempotent responses."""

from __future__ import annotations

from alembic import op

from vmemo.stores.sql.auth_schema import auth_metadata

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the tables; a database without keys is as open as it was."""
    auth_metadata.create_all(op.get_bind(), checkfirst=False)
