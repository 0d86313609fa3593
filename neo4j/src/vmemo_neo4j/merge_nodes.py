"""Nodes of merges.

An absorbed entity has no node, but its merge keeps its place in the order of entities: it returns there when the merge
is undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from vmemo.models import Merge
from vmemo.models.changes import MergeRecord
from vmemo.stores.values import missing_reference
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.memory_nodes import demand
from vmemo_neo4j.nodes import Properties


async def records(tx: Transaction, bank: str) -> list[MergeRecord]:
    """Return all merges in the order they were made."""
    found = await tx.rows(
        "MATCH (m:Merge {bank: $bank}) RETURN m.record AS record ORDER BY m.seq",
        bank=bank,
    )
    stored = [MergeRecord.model_validate_json(row["record"]) for row in found]
    ids = {id for merge in stored for id in (merge.entity, merge.parted) if id is not None}
    entities = await _seqs(tx, "Entity", bank, ids)
    known = entities.keys() | {merge.absorbed for merge in stored}
    facts = await _seqs(tx, "Fact", bank, {mention.fact for merge in stored for mention in merge.mentions})
    return [_present(merge, known, facts) for merge in stored if merge.entity in known]


def _present(merge: MergeRecord, known: Set[str | None], facts: Mapping[str, int]) -> MergeRecord:
    """Return a merge without the facts and the entity that were deleted since."""
    mentions = sorted((each for each in merge.mentions if each.fact in facts), key=lambda each: facts[each.fact])
    parted = merge.parted if merge.absorbed is None and merge.parted in known else None
    return merge.model_copy(update={"mentions": tuple(mentions), "parted": parted})


async def _seqs(tx: Transaction, label: str, bank: str, ids: Set[str]) -> dict[str, int]:
    if not ids:
        return {}
    statement = _ENTITIES if label == "Entity" else _FACTS
    return {row["id"]: row["seq"] for row in await tx.rows(statement, bank=bank, ids=list(ids))}


_ENTITIES = "UNWIND $ids AS id MATCH (e:Entity {bank: $bank, id: id}) RETURN e.id AS id, e.seq AS seq"
_FACTS = "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id}) RETURN f.id AS id, f.seq AS seq"


async def reserved(tx: Transaction, bank: str) -> dict[str, int]:
    """Return the places of absorbed entities by id."""
    found = await tx.rows(
        "MATCH (m:Merge {bank: $bank}) WHERE m.absorbed_seq IS NOT NULL RETURN m.absorbed AS id, m.absorbed_seq AS seq",
        bank=bank,
    )
    return {row["id"]: row["seq"] for row in found}


async def save_records(tx: Transaction, bank: str, new: Sequence[Merge], seqs: Iterator[int]) -> None:
    """Create merges, or replace those of the same ids. Their facts are stored already, and so are their entities.

    An absorbed entity that was never stored, as in an import, gets a place.
    """
    if not new:
        return
    changed = [merge if isinstance(merge, MergeRecord) else MergeRecord.of(merge.model_dump()) for merge in new]
    ids = {id for merge in changed for id in (merge.entity, merge.absorbed, merge.parted) if id is not None}
    places = await reserved(tx, bank) | await _seqs(tx, "Entity", bank, ids)
    await demand(tx, "Fact", bank, [mention.fact for merge in changed for mention in merge.mentions])
    for id in (merge.absorbed for merge in changed if merge.absorbed is not None):
        places.setdefault(id, next(seqs))
    for id in ids:
        if id not in places:
            raise missing_reference("entity", id)
    rows = [
        {"id": merge.id, "seq": next(seqs), "values": _merge_values(merge, places.get(merge.absorbed or ""))}
        for merge in changed
    ]
    await tx.run(
        "UNWIND $rows AS row MERGE (m:Merge {bank: $bank, id: row.id}) "
        "ON CREATE SET m.seq = row.seq SET m += row.values",
        bank=bank,
        rows=rows,
    )


def _merge_values(merge: MergeRecord, absorbed_seq: int | None) -> Properties:
    return {
        "entity": merge.entity,
        "absorbed": merge.absorbed,
        "absorbed_seq": absorbed_seq,
        "names": list(merge.names),
        "reason": merge.reason,
        "at": merge.at,
        "undone_at": merge.undone_at,
        "record": merge.model_dump_json(),
    }
