"""Reads of messages, facts, episodes, entities and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString

from vmemo.models import BankId, Entity, EntityId, Episode, Fact, FactId, Link, LinkKind, Message
from vmemo.models.changes import EntityMention
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.values import instant, storable
from vmemo_neo4j import index, selects
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import (
    ENTITY,
    EPISODE,
    FACT,
    MESSAGE,
    Cells,
    entity_of,
    episode_of,
    fact_of,
    message_of,
    micros,
)
from vmemo_neo4j.schema import LINK_TYPES
from vmemo_neo4j.selects import CypherSelect, PageStart

LATEST = 50
"""Facts of an entity that decide which others occur beside it."""
_KINDS: Final[dict[str, LinkKind]] = {type: kind for kind, type in LINK_TYPES.items()}
_ORDER: Final[dict[LinkKind, int]] = {kind: place for place, kind in enumerate(LINK_TYPES)}


async def by_ids(
    tx: Transaction, bank: str, pattern: LiteralString, columns: LiteralString, ids: Sequence[str]
) -> list[Cells]:
    """Return rows in the order of the ids; missing ones are left out. The first column is the id."""
    wanted = [id for id in dict.fromkeys(ids) if storable(id)]
    rows = await tx.table(f"UNWIND $ids AS id MATCH {pattern}", columns, bank=bank, ids=wanted)
    found = {row[0]: row for row in rows}
    return [found[id] for id in ids if id in found]


async def _place(
    tx: Transaction, bank: str, pattern: LiteralString, after: str | None, time: LiteralString = "recorded_at"
) -> PageStart | None:
    """Return the place of the record that a page continues after, or None."""
    if after is None:
        return None
    columns: LiteralString = f"n.seq AS seq, {micros(f'n.{time}')} AS time"
    row = await tx.one(f"MATCH {pattern} RETURN {columns}", bank=bank, id=after)
    # The driver's own datetimes name their zone otherwise, and are not equal to the stored ones.
    return None if row is None else PageStart(row["seq"], None if row["time"] is None else instant(row["time"]))


async def _selected(tx: Transaction, bank: str, query: CypherSelect, columns: LiteralString) -> list[Cells]:
    return [*await tx.table(query.statement, columns, bank=bank, **query.parameters)]


async def messages_of(tx: Transaction, bank: str, wanted: MessageSelect) -> list[Message]:
    """Return the messages of a selection."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "(m:Message {bank: $bank, id: id})", MESSAGE, wanted.ids)
    else:
        after = await _place(tx, bank, "(n:Message {bank: $bank, id: $id})", wanted.after)
        if wanted.last_first and wanted.after is not None and after is None:
            return []
        rows = await _selected(tx, bank, selects.messages(wanted, after), MESSAGE)
    return [message_of(row) for row in rows]


async def facts_of(tx: Transaction, bank: str, name: BankId, wanted: FactSelect) -> list[Fact]:
    """Return the facts of a selection with their mentions and sources."""
    rows = await _fact_rows(tx, bank, wanted)
    ids = [FactId(row[0]) for row in rows]
    vectors = await index.embeddings(tx, bank, ids) if wanted.with_embeddings else {}
    found = [fact_of(row, name, vectors.get(id)) for id, row in zip(ids, rows, strict=True)]
    if wanted.around is None:
        return found
    time = wanted.around
    return sorted(found, key=lambda fact: abs(fact.mentioned_at - time))[: wanted.limit]


async def _fact_rows(tx: Transaction, bank: str, wanted: FactSelect) -> list[Cells]:
    if wanted.ids is not None:
        return await by_ids(tx, bank, "(f:Fact {bank: $bank, id: id})", FACT, wanted.ids)
    after = await _place(tx, bank, "(n:Fact {bank: $bank, id: $id})", wanted.after, "mentioned_at")
    if wanted.newest_first and wanted.after is not None and after is None:
        return []
    query = selects.facts(wanted, after)
    if wanted.around is None:
        return await _selected(tx, bank, query, FACT)
    return [row for part in selects.around(query, wanted.around) for row in await _selected(tx, bank, part, FACT)]


async def episodes_of(tx: Transaction, bank: str, wanted: EpisodeSelect) -> list[Episode]:
    """Return the episodes of a selection."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "(p:Episode {bank: $bank, id: id})", EPISODE, wanted.ids)
    else:
        after = await _place(tx, bank, "(n:Episode {bank: $bank, id: $id})", wanted.after, "ended_at")
        if wanted.last_first and wanted.after is not None and after is None:
            return []
        rows = await _selected(tx, bank, selects.episodes(wanted, after), EPISODE)
    return [episode_of(row) for row in rows]


async def entities_of(tx: Transaction, bank: str, wanted: EntitySelect) -> list[Entity]:
    """Return the entities of a selection with the number of facts that mention each."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "(e:Entity {bank: $bank, id: id})", ENTITY, wanted.ids)
    else:
        after = await _place(tx, bank, "(n:Entity {bank: $bank, id: $id})", wanted.after)
        rows = await _selected(tx, bank, selects.entities(wanted, after), ENTITY)
    return [entity_of(row) for row in rows]


async def links_of(tx: Transaction, bank: str, ids: Sequence[FactId] | None) -> list[Link]:
    """Return the stored links that leave these facts, or all."""
    start: LiteralString = "MATCH (a:Fact {bank: $bank})"
    if ids is not None:
        start = "UNWIND $ids AS id MATCH (a:Fact {bank: $bank, id: id})"
    types: LiteralString = "|".join(LINK_TYPES.values())
    rows = await tx.rows(
        f"{start} MATCH (a)-[r:{types}]->(b:Fact {{bank: $bank}}) "
        "RETURN a.seq AS first, b.seq AS second, a.id AS source, b.id AS target, type(r) AS type, r.weight AS weight",
        bank=bank,
        ids=None if ids is None else [id for id in dict.fromkeys(ids) if storable(id)],
    )
    rows.sort(key=lambda row: (row["first"], row["second"], _ORDER[_KINDS[row["type"]]]))
    return [
        Link.model_construct(
            source=FactId(row["source"]),
            target=FactId(row["target"]),
            kind=_KINDS[row["type"]],
            weight=row["weight"],
        )
        for row in rows
    ]


async def cooccurring(tx: Transaction, bank: str, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """Return for each entity the others that share one of its latest facts."""
    found: dict[EntityId, set[EntityId]] = {id: set() for id in ids}
    rows = await tx.rows(
        "UNWIND $ids AS id MATCH (e:Entity {bank: $bank, id: id}) CALL (e) { "
        "MATCH (e)<-[:MENTIONS]-(f:Fact) WITH e, f ORDER BY f.seq DESC LIMIT $latest "
        "MATCH (f)-[:MENTIONS]->(other:Entity) WHERE other <> e RETURN collect(DISTINCT other.id) AS others } "
        "RETURN id, others",
        bank=bank,
        ids=[id for id in found if storable(id)],
        latest=LATEST,
    )
    for row in rows:
        found[EntityId(row["id"])] = {EntityId(id) for id in row["others"]}
    return found


async def entity_mentions(
    tx: Transaction, bank: str, wanted: Sequence[EntityId], *, named: bool
) -> list[EntityMention]:
    """Return the mentions of entities, in the order of their facts; with `named`, those by another name only."""
    by_name: LiteralString = "WHERE r.name_in_text IS NOT NULL " if named else ""
    rows = await tx.rows(
        f"UNWIND $ids AS id MATCH (e:Entity {{bank: $bank, id: id}})<-[r:MENTIONS]-(f:Fact) {by_name}"
        f"RETURN f.id AS fact, e.id AS entity, r.name_in_text AS name, {micros('f.mentioned_at')} AS time "
        "ORDER BY f.seq, e.seq",
        bank=bank,
        ids=[id for id in dict.fromkeys(wanted) if storable(id)],
    )
    return [
        EntityMention(
            fact=FactId(row["fact"]),
            entity=EntityId(row["entity"]),
            name_in_text=row["name"] or "",
            mentioned_at=instant(row["time"]),
        )
        for row in rows
    ]
