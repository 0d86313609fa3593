"""An index of the links by which newer facts replace or outdate older ones."""

from __future__ import annotations

from alembic import op
from sqlalchemy import inspect

from vmemo.stores.sql.schema import links

revision = "0013"
down_revision = "0012"
INDEX = "links_revised"


def upgrade() -> None:
    """Create the index, unless this release created the table."""
    bind = op.get_bind()
    if INDEX not in {index["name"] for index in inspect(bind).get_indexes("links")}:
        next(index for index in links.indexes if index.name == INDEX).create(bind)
