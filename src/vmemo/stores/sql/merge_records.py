"""Merges as they are exported and imported: with ids in place of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Table, delete, select

from vmemo.models import Entity, EntityId, FactId
from vmemo.models.changes import ExportedMerge, HeldMention
from vmemo.stores.sql import merge_rows, row_conditions
from vmemo.stores.sql.batch_rows import insert_rows, number_of, seqs_of
from vmemo.stores.sql.merge_rows import Joined, StoredMerge
from vmemo.stores.sql.rows import entity_values
from vmemo.stores.sql.schema import entities, facts


def exported(connection: Connection, bank: int) -> list[ExportedMerge]:
    """All merges of entities that are known, in the order they were made."""
    found = merge_rows.stored(connection, bank)
    known: dict[int, str] = {merge.joined.seq: merge.absorbed.id for merge in found if merge.absorbed is not None}
    known |= _ids(connection, bank, entities, (merge.entity for merge in found))
    told = _ids(connection, bank, facts, (fact for merge in found for fact, _, _ in merge.joined.mentions))
    return [_exported(merge, known[merge.entity], told) for merge in found if merge.entity in known]


def _ids(connection: Connection, bank: int, table: Table, seqs: Iterable[int]) -> dict[int, str]:
    known = select(table.c.seq, table.c.id).where(row_conditions.rows(table, bank, set(seqs)))
    return dict(connection.execute(known).all())


def _exported(merge: StoredMerge, entity: str, told: Mapping[int, str]) -> ExportedMerge:
    joined = merge.joined
    mentions = [
        HeldMention(fact=FactId(told[fact]), said=said, both=both)
        for fact, said, both in sorted(joined.mentions, key=lambda mention: mention[0])
        if fact in told
    ]
    before = {"own": joined.own, "type": joined.type, "first_seen": joined.first_seen, "last_seen": joined.last_seen}
    return ExportedMerge.of({**merge.named(entity).model_dump(), **before, "was": merge.absorbed, "mentions": mentions})


@dataclass(frozen=True)
class MergeLoader:
    """Loads merges into a bank whose entities and facts are there."""

    connection: Connection
    bank: int
    absorbed: dict[str, int] = field(default_factory=dict[str, int])
    """Numbers of entities that are part of others."""

    def save(self, new: Sequence[ExportedMerge]) -> None:
        """Insert merges as they were."""
        ids = {id for merge in new for id in (merge.entity, merge.absorbed) if id is not None}
        there = seqs_of(self.connection, entities, self.bank, ids)
        told = seqs_of(self.connection, facts, self.bank, (item.fact for merge in new for item in merge.mentions))
        for merge in new:
            held = [(number_of(told, "fact", item.fact), item.said, item.both) for item in merge.mentions]
            joined = Joined(
                seq=0 if merge.absorbed is None else self._number(there, merge.absorbed, merge),
                own=merge.own,
                mentions=tuple(held),
                type=merge.type,
                first_seen=merge.first_seen,
                last_seen=merge.last_seen,
            )
            self._insert(merge, self._number(there, merge.entity, merge), joined)

    def _insert(self, merge: ExportedMerge, entity: int, joined: Joined) -> None:
        row = StoredMerge(
            id=merge.id,
            entity=entity,
            absorbed=merge.was,
            names=merge.names,
            joined=joined,
            reason=merge.reason,
            at=merge.at,
            undone_at=merge.undone_at,
        )
        merge_rows.save(self.connection, self.bank, row)

    def _number(self, there: Mapping[str, int], id: EntityId, merge: ExportedMerge) -> int:
        """The number of an entity, or one to keep for it while it is part of another; none is given twice."""
        if id not in there and id not in self.absorbed:
            bare = Entity(id=id, name=merge.names[0], first_seen=merge.at, last_seen=merge.at)
            seq = insert_rows(self.connection, entities, [entity_values(self.bank, bare)])[id]
            self.connection.execute(delete(entities).where(row_conditions.row(entities, self.bank, seq)))
            self.absorbed[id] = seq
        return there[id] if id in there else self.absorbed[id]
