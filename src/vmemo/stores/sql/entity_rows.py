"""Rows of entities, their names, their mentions in facts, and their merges.

Every name is stored folded, so that the names in a text find their entities. Merges refer to entities and facts by id,
rows of merges by number. An absorbed entity has no row, but keeps its number: earlier merges into it refer to it, and
it returns under that number when its merge is undone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, bindparam, delete, insert, select, update

from vmemo.models import (
    Entity,
    EntityId,
    EntityType,
    Fact,
    FactId,
    Mention,
    Merge,
)
from vmemo.models.base import Instant, Record
from vmemo.models.changes import AbsorbedMention, EntityMention, MergeRecord
from vmemo.stores.sql import statements
from vmemo.stores.sql.schema import (
    entities,
    entity_names,
    facts,
    mentions,
    merges,
)
from vmemo.stores.sql.statements import (
    AnyRow,
    Cells,
    Prepared,
    Seqs,
    Values,
    among,
    insert_all,
    insert_cells,
    insert_rows,
    later,
    listed,
    number_of,
    save_rows,
    seqs_of,
)
from vmemo.stores.values import dump, instant, micros, micros_or_none, names_of
from vmemo.text.names.compare import folded_names, name_runs


def entity_values(bank: int, entity: Entity) -> Values:
    """An entity as a row."""
    return {
        "bank": bank,
        "id": entity.id,
        "name": entity.name,
        "type": entity.type,
        "aliases": dump(entity.aliases),
        "first_seen": micros(entity.first_seen),
        "last_seen": micros(entity.last_seen),
        "not_aliases": dump(entity.not_aliases),
    }


def entity_of(row: AnyRow, mentions: int) -> Entity:
    """An entity from its row and how many facts mention it."""
    return Entity.model_construct(
        id=EntityId(row.id),
        name=row.name,
        type=row.type,
        aliases=names_of(row.aliases),
        not_aliases=names_of(row.not_aliases),
        first_seen=instant(row.first_seen),
        last_seen=instant(row.last_seen),
        mentions=mentions,
    )


def mentions_of(rows: Iterable[Cells]) -> dict[int, list[Mention]]:
    """Mentions by the number of their fact, from rows of it, the entity's id, name and type, and `name_in_text`.

    Facts share them: most facts of a recall mention the same few entities.
    """
    found: dict[int, list[Mention]] = defaultdict(list)
    known: dict[str | tuple[str, str], Mention] = {}
    for fact, id, name, type, said in rows:
        key = id if said is None else (id, said)
        if key not in known:
            known[key] = Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": said or ""})
        found[fact].append(known[key])
    return found


def save_entities(
    connection: Connection, bank: int, new: Sequence[Entity], reserved: Mapping[str, int] = MappingProxyType({})
) -> Seqs:
    """Insert or update entities; one with a reserved number returns under it."""
    if not new:
        return {}
    known = seqs_of(connection, entities, bank, (entity.id for entity in new))
    rows = [
        {**entity_values(bank, entity), **({"seq": reserved[entity.id]} if entity.id in reserved else {})}
        for entity in new
    ]
    seqs = save_rows(connection, entities, rows, known)
    save_names(connection, bank, new, seqs)
    return seqs


def save_mentions(connection: Connection, bank: int, new: Sequence[Fact], seqs: Seqs, known: Seqs) -> None:
    """Insert the mentions of entities in each fact."""
    missing = {mention.id for fact in new for mention in fact.entities} - known.keys()
    numbers = {**known, **seqs_of(connection, entities, bank, missing)}
    pairs = {
        (seqs[fact.id], number_of(numbers, "entity", mention.id)): mention.name_in_text or None
        for fact in new
        for mention in fact.entities
    }
    rows = [(bank, fact, entity, pairs[fact, entity]) for fact, entity in sorted(pairs)]
    insert_cells(connection, mentions, ("bank", "fact", "entity", "name_in_text"), rows)


def remove_mentions(connection: Connection, bank: int, removed: Sequence[EntityMention]) -> None:
    """Delete mentions of entities in stored facts."""
    by_entity: dict[EntityId, list[FactId]] = defaultdict(list)
    for mention in removed:
        by_entity[mention.entity].append(mention.fact)
    numbers = seqs_of(connection, entities, bank, by_entity)
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in removed))
    for entity, ids in by_entity.items():
        rows = [mentioning[id] for id in ids if id in mentioning]
        own = mentions.c.bank == bank, mentions.c.entity == number_of(numbers, "entity", entity)
        connection.execute(delete(mentions).where(*own, among(mentions.c.fact, rows)))


def add_mentions(connection: Connection, bank: int, added: Sequence[EntityMention]) -> None:
    """Insert mentions of entities in stored facts."""
    numbers = seqs_of(connection, entities, bank, (mention.entity for mention in added))
    mentioning = seqs_of(connection, facts, bank, (mention.fact for mention in added))
    rows = [
        {
            "bank": bank,
            "fact": number_of(mentioning, "fact", mention.fact),
            "entity": number_of(numbers, "entity", mention.entity),
            "name_in_text": mention.name_in_text or None,
        }
        for mention in added
    ]
    insert_all(connection, mentions, rows)


def delete_entities(connection: Connection, bank: int, deleted: Sequence[EntityId]) -> None:
    """Delete entities with their mentions and names."""
    numbers = list(seqs_of(connection, entities, bank, deleted).values())
    if not numbers:
        return
    for column in (mentions.c.entity, entity_names.c.entity, entities.c.seq):
        connection.execute(delete(column.table).where(column.table.c.bank == bank, among(column, numbers)))


def save_names(connection: Connection, bank: int, new: Sequence[Entity], seqs: Mapping[str, int]) -> None:
    """Store the names of new or changed entities."""
    last = {seqs[entity.id]: folded_names(entity.name, entity.aliases) for entity in new}
    replace_names(connection, bank, last)


_STORED = Prepared(
    select(entity_names.c.entity, entity_names.c.name).where(
        entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.entity, later("entities"))
    )
)


def replace_names(connection: Connection, bank: int, names: Mapping[int, set[str]]) -> None:
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
    .join(entities, statements.refers_to(entity_names, "entity", entities))
    .where(entity_names.c.bank == bindparam("bank", type_=BigInteger), among(entity_names.c.name, later("names")))
    .order_by(entity_names.c.name, entity_names.c.entity)
)


def named_entities(connection: Connection, bank: int, text: str) -> list[Mention]:
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


StoredMention = tuple[int, str | None, bool]
"""`AbsorbedMention` with the fact's number."""


class Joined(Record):
    """The JSON column of a merge: what its undoing needs, with numbers in place of ids."""

    seq: int = 0
    """The number of the absorbed entity, or of the one that bare names became by the undoing."""
    own: tuple[str, ...] = ()
    mentions: tuple[StoredMention, ...] = ()
    type: EntityType | None = None
    first_seen: Instant | None = None
    last_seen: Instant | None = None


@dataclass(frozen=True, kw_only=True)
class StoredMerge:
    """The row of a merge; `entity` is the number of the keeping entity."""

    seq: int = 0
    id: str
    entity: int
    absorbed: Entity | None
    names: tuple[str, ...]
    joined: Joined
    reason: str
    at: datetime
    undone_at: datetime | None = None


def merge_records(connection: Connection, bank: int) -> list[MergeRecord]:
    """Return all merges in the order they were made."""
    found = _stored_merges(connection, bank)
    known = _absorbed_ids(found) | _ids(
        connection, bank, entities, {n for merge in found for n in (merge.entity, merge.joined.seq)}
    )
    mentioning = _ids(connection, bank, facts, {fact for merge in found for fact, _, _ in merge.joined.mentions})
    return [_merge_record(merge, known, mentioning) for merge in found if merge.entity in known]


def _absorbed_ids(found: Iterable[StoredMerge]) -> dict[int, str]:
    return {merge.joined.seq: merge.absorbed.id for merge in found if merge.absorbed is not None}


def _ids(connection: Connection, bank: int, table: Table, seqs: set[int]) -> dict[int, str]:
    known = select(table.c.seq, table.c.id).where(statements.by_numbers(table, bank, seqs))
    return dict(connection.execute(known).all())


def _merge_record(merge: StoredMerge, known: Mapping[int, str], mentioning: Mapping[int, str]) -> MergeRecord:
    joined = merge.joined
    return MergeRecord(
        id=merge.id,
        entity=EntityId(known[merge.entity]),
        absorbed=None if merge.absorbed is None else merge.absorbed.id,
        names=merge.names,
        reason=merge.reason,
        at=merge.at,
        undone_at=merge.undone_at,
        was=merge.absorbed,
        own=joined.own,
        mentions=tuple(
            AbsorbedMention(fact=FactId(mentioning[fact]), name_in_text=said, both=both)
            for fact, said, both in sorted(joined.mentions, key=lambda mention: mention[0])
            if fact in mentioning
        ),
        type=joined.type,
        first_seen=joined.first_seen,
        last_seen=joined.last_seen,
        parted=EntityId(known[joined.seq]) if merge.absorbed is None and joined.seq in known else None,
    )


def save_merges(connection: Connection, bank: int, new: Sequence[Merge]) -> None:
    """Insert merges, or replace those of the same ids. Their facts are stored already, and so are their entities.

    An absorbed entity that was never stored, as in an import, gets a number.
    """
    if not new:
        return
    changed = [merge if isinstance(merge, MergeRecord) else MergeRecord.of(merge.model_dump()) for merge in new]
    there = {merge.id: merge.seq for merge in _stored_merges(connection, bank)}
    numbers = _Numbers(connection, bank, changed)
    for merge in changed:
        absorbed = merge.parted if merge.absorbed is None else merge.absorbed
        joined = Joined(
            seq=0 if absorbed is None else numbers.entity(absorbed, merge),
            own=merge.own,
            mentions=tuple((numbers.fact(item.fact), item.name_in_text, item.both) for item in merge.mentions),
            type=merge.type,
            first_seen=merge.first_seen,
            last_seen=merge.last_seen,
        )
        row = StoredMerge(
            seq=there.get(merge.id, 0),
            id=merge.id,
            entity=numbers.entity(merge.entity, merge),
            absorbed=merge.was,
            names=merge.names,
            joined=joined,
            reason=merge.reason,
            at=merge.at,
            undone_at=merge.undone_at,
        )
        _save_merge(connection, bank, row)


class _Numbers:
    """Numbers of the entities and facts that merges refer to."""

    def __init__(self, connection: Connection, bank: int, new: Sequence[MergeRecord]) -> None:
        self._connection, self._bank = connection, bank
        self._absorbed = {merge.absorbed for merge in new}
        ids = {id for merge in new for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
        self._entities = reserved_numbers(connection, bank) | seqs_of(connection, entities, bank, ids)
        self._facts = seqs_of(connection, facts, bank, (item.fact for merge in new for item in merge.mentions))

    def fact(self, id: FactId) -> int:
        return number_of(self._facts, "fact", id)

    def entity(self, id: EntityId, merge: MergeRecord) -> int:
        """Return the number of an entity, or reserve one for it."""
        if id not in self._entities and id in self._absorbed:
            bare = Entity(id=id, name=merge.names[0], first_seen=merge.at, last_seen=merge.at)
            seq = insert_rows(self._connection, entities, [entity_values(self._bank, bare)])[id]
            self._connection.execute(delete(entities).where(statements.by_number(entities, self._bank, seq)))
            self._entities[id] = seq
        return number_of(self._entities, "entity", id)


def reserved_numbers(connection: Connection, bank: int) -> dict[str, int]:
    """Return the numbers of absorbed entities by id."""
    found = _stored_merges(connection, bank, merges.c.absorbed.is_not(None))
    return {id: seq for seq, id in _absorbed_ids(found).items()}


def _stored_merges(connection: Connection, bank: int, *where: ColumnElement[bool]) -> list[StoredMerge]:
    """Return the rows of merges in the order they were made."""
    statement = select(merges).where(merges.c.bank == bank, *where).order_by(merges.c.seq)
    return [_merge_of(row) for row in connection.execute(statement)]


def _save_merge(connection: Connection, bank: int, merge: StoredMerge) -> None:
    """Insert the row of a merge, or replace the one of its number."""
    values = _merge_values(bank, merge)
    if merge.seq:
        connection.execute(update(merges).where(statements.by_number(merges, bank, merge.seq)).values(values))
    else:
        connection.execute(insert(merges).values(values))


def _merge_of(row: AnyRow) -> StoredMerge:
    return StoredMerge(
        seq=row.seq,
        id=row.id,
        entity=row.entity,
        absorbed=None if row.absorbed is None else Entity.model_validate_json(row.absorbed),
        names=names_of(row.names),
        joined=Joined.model_validate_json(row.facts),
        reason=row.reason,
        at=instant(row.at),
        undone_at=None if row.undone_at is None else instant(row.undone_at),
    )


def _merge_values(bank: int, merge: StoredMerge) -> Values:
    return {
        "bank": bank,
        "id": merge.id,
        "entity": merge.entity,
        "absorbed": None if merge.absorbed is None else merge.absorbed.model_dump_json(),
        "names": dump(merge.names),
        "facts": merge.joined.model_dump_json(),
        "reason": merge.reason,
        "at": micros(merge.at),
        "undone_at": micros_or_none(merge.undone_at),
    }


def delete_merges(connection: Connection, bank: int, ids: Sequence[str]) -> None:
    """Delete merges."""
    if ids:
        connection.execute(delete(merges).where(merges.c.bank == bank, among(merges.c.id, ids)))
