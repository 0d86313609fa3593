"""Rows of entity names: every name is stored folded, so that the names in a text find their entities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set

from sqlalchemy import BigInteger, Connection, bindparam, delete, select

from vmemo.models import Entity, EntityId, Mention
from vmemo.stores.sql import conditions
from vmemo.stores.sql.bulk import insert_all
from vmemo.stores.sql.conditions import among, later, listed
from vmemo.stores.sql.prepared import Prepared
from vmemo.stores.sql.rows import Cells
from vmemo.stores.sql.schema import entities, entity_names
from vmemo.text.names.fold import folded_names, name_runs


def save(connection: Connection, bank: int, new: Sequence[Entity], seqs: Mapping[str, int]) -> None:
    """Store the names of new or changed entities."""
    last = {seqs[entity.id]: folded_names(entity.name, entity.aliases) for entity in new}
    replace(connection, bank, last)


_STORED = Prepared(
    select(entity_names.c.entity, entity_names.c.name).where(
        entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.entity, later("entities"))
    )
)


def replace(connection: Connection, bank: int, names: Mapping[int, set[str]]) -> None:
    """Replace the folded names of entities, if they changed."""
    stored: dict[int, set[str]] = defaultdict(set)
    for seq, name in _STORED.rows(connection, {"bank": bank, "entities": listed(names)}):
        stored[seq].add(name)
    changed = [seq for seq in names if names[seq] != stored[seq]]
    former = [seq for seq in changed if stored[seq]]
    if former:
        gone = entity_names.c.bank == bank, among(entity_names.c.entity, former)
        connection.execute(delete(entity_names).where(*gone))
    rows = [{"bank": bank, "name": name, "entity": seq} for seq in changed for name in sorted(names[seq])]
    insert_all(connection, entity_names, rows)


_NAMED = Prepared(
    select(entity_names.c.name, entities.c.id, entities.c.name.label("known_as"), entities.c.type)
    .join(entities, conditions.points(entity_names, "entity", entities))
    .where(entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.name, later("names")))
    .order_by(entity_names.c.name, entity_names.c.entity)
)


def named(connection: Connection, bank: int, text: str) -> list[Mention]:
    """Return the entities named in a text; a name inside a longer one does not count."""
    return mentions_in(text, lambda names: _NAMED.rows(connection, {"bank": bank, "names": listed(names)}))


def mentions_in(text: str, find: Callable[[Set[str]], Sequence[Cells]]) -> list[Mention]:
    """Return the entities named in a text; `find` returns rows of folded name, id, name and type by folded names."""
    possible = list(name_runs(text))
    rows = find({run.name for run in possible})
    known = {name for name, *_ in rows}
    found = [run for run in possible if run.name in known]
    whole = {run.name for run in found if not any(run.within(other) for other in found)}
    mentions = {
        id: Mention.trusted({"id": EntityId(id), "name": known_as, "type": type, "name_in_text": ""})
        for name, id, known_as, type in rows
        if name in whole
    }
    return list(mentions.values())
