"""Rows of merges. Records refer to entities and facts by id, rows by number.

An absorbed entity has no row, but keeps its number: earlier merges into it refer to it, and it returns under that
number when its merge is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Table, delete, insert, select, update

from vmemo.models import Entity, EntityId, EntityType, FactId, Merge
from vmemo.models.base import Instant, Record
from vmemo.models.changes import AbsorbedMention, MergeRecord
from vmemo.stores.sql import conditions
from vmemo.stores.sql.batch_rows import number_of
from vmemo.stores.sql.bulk import insert_rows, seqs_of
from vmemo.stores.sql.rows import AnyRow, Values, entity_values
from vmemo.stores.sql.schema import entities, facts, merges
from vmemo.stores.values import dump, instant, micros, micros_or_none, names_of

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


def records(connection: Connection, bank: int) -> list[MergeRecord]:
    """Return all merges in the order they were made."""
    found = stored(connection, bank)
    known = _absorbed_ids(found) | _ids(
        connection, bank, entities, {n for merge in found for n in (merge.entity, merge.joined.seq)}
    )
    mentioning = _ids(connection, bank, facts, {fact for merge in found for fact, _, _ in merge.joined.mentions})
    return [_record(merge, known, mentioning) for merge in found if merge.entity in known]


def _absorbed_ids(found: Iterable[StoredMerge]) -> dict[int, str]:
    return {merge.joined.seq: merge.absorbed.id for merge in found if merge.absorbed is not None}


def _ids(connection: Connection, bank: int, table: Table, seqs: set[int]) -> dict[int, str]:
    known = select(table.c.seq, table.c.id).where(conditions.rows(table, bank, seqs))
    return dict(connection.execute(known).all())


def _record(merge: StoredMerge, known: Mapping[int, str], mentioning: Mapping[int, str]) -> MergeRecord:
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


def save_records(connection: Connection, bank: int, new: Sequence[Merge]) -> None:
    """Insert merges, or replace those of the same ids. Their facts are stored already, and so are their entities.

    An absorbed entity that was never stored, as in an import, gets a number.
    """
    if not new:
        return
    changed = [merge if isinstance(merge, MergeRecord) else MergeRecord.of(merge.model_dump()) for merge in new]
    there = {merge.id: merge.seq for merge in stored(connection, bank)}
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
        save(connection, bank, row)


class _Numbers:
    """Numbers of the entities and facts that merges refer to."""

    def __init__(self, connection: Connection, bank: int, new: Sequence[MergeRecord]) -> None:
        self._connection, self._bank = connection, bank
        self._absorbed = {merge.absorbed for merge in new}
        ids = {id for merge in new for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
        self._entities = reserved(connection, bank) | seqs_of(connection, entities, bank, ids)
        self._facts = seqs_of(connection, facts, bank, (item.fact for merge in new for item in merge.mentions))

    def fact(self, id: FactId) -> int:
        return number_of(self._facts, "fact", id)

    def entity(self, id: EntityId, merge: MergeRecord) -> int:
        """Return the number of an entity, or reserve one for it."""
        if id not in self._entities and id in self._absorbed:
            bare = Entity(id=id, name=merge.names[0], first_seen=merge.at, last_seen=merge.at)
            seq = insert_rows(self._connection, entities, [entity_values(self._bank, bare)])[id]
            self._connection.execute(delete(entities).where(conditions.row(entities, self._bank, seq)))
            self._entities[id] = seq
        return number_of(self._entities, "entity", id)


def reserved(connection: Connection, bank: int) -> dict[str, int]:
    """Return the numbers of absorbed entities by id."""
    found = stored(connection, bank, merges.c.absorbed.is_not(None))
    return {id: seq for seq, id in _absorbed_ids(found).items()}


def stored(connection: Connection, bank: int, *where: ColumnElement[bool]) -> list[StoredMerge]:
    """Return the rows of merges in the order they were made."""
    statement = select(merges).where(merges.c.bank == bank, *where).order_by(merges.c.seq)
    return [_merge_of(row) for row in connection.execute(statement)]


def save(connection: Connection, bank: int, merge: StoredMerge) -> None:
    """Insert the row of a merge, or replace the one of its number."""
    values = _merge_values(bank, merge)
    if merge.seq:
        connection.execute(update(merges).where(conditions.row(merges, bank, merge.seq)).values(values))
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
