"""What doors keep: keys, the record of writes, and replies to repeated requests."""

from __future__ import annotations

from alembic import op

from vmemo.stores.sql.auth_schema import gate

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the tables; a database without keys is as open as it was."""
    gate.create_all(op.get_bind(), checkfirst=False)
