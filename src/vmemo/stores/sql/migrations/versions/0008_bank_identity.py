"""Give every bank an identity that never repeats."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text, inspect, select, text, update

from vmemo.models import new_id
from vmemo.stores.sql.schema import banks

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column, unless this release created the table, and fill it."""
    bind = op.get_bind()
    if "identity" not in {column["name"] for column in inspect(bind).get_columns("banks")}:
        op.add_column("banks", Column("identity", Text, nullable=False, server_default=text("''")))
    for seq in bind.execute(select(banks.c.seq)).scalars().all():
        bind.execute(update(banks).where(banks.c.seq == seq).values(identity=new_id()))
