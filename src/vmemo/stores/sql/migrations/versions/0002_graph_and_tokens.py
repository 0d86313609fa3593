"""Names by which a query finds entities, and the token vectors by which recall reranks."""

from __future__ import annotations

from alembic import op
from sqlalchemy import insert, select

from vmemo.stores.sql.schema import entities, entity_names, token_vectors
from vmemo.stores.values import names_of
from vmemo.text.names.fold import folded_names

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create both tables; facts written before have no token vectors until `vmemo reembed`."""
    bind = op.get_bind()
    if bind.dialect.name != "sqlite":
        return
    entity_names.create(bind)
    token_vectors.create(bind)
    known = bind.execute(select(entities.c.bank, entities.c.seq, entities.c.name, entities.c.aliases)).all()
    rows = [
        {"bank": bank, "name": folded, "entity": seq}
        for bank, seq, name, aliases in known
        for folded in folded_names(name, names_of(aliases))
    ]
    if rows:
        bind.execute(insert(entity_names), rows)
