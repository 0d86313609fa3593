"""Reads of messages, facts, episodes, entities and links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vmemo.models import BankId, Entity, EntityId, Episode, Fact, FactId, Link, LinkKind, Message, utc_now
from vmemo.models.changes import EntityMention
from vmemo.models.records import FEEDBACK, TIME_ORDERED, ShortId
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect
from vmemo.stores.values import instant, storable
from vmemo.text.names.compare import fold_name
from vmemo_neo4j import index
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.filters import CypherParameters
from vmemo_neo4j.nodes import (
    ENTITY_COLUMNS,
    EPISODE_COLUMNS,
    FACT_COLUMNS,
    MESSAGE_COLUMNS,
    Cells,
    entity_of,
    episode_of,
    fact_of,
    message_of,
    micros,
)
from vmemo_neo4j.schema import LINK_TYPES

CURRENT: Final = (
    "f.expired_at IS NULL AND (f.invalid_at IS NULL OR f.invalid_at > $now) "
    "AND (f.expires_at IS NULL OR f.expires_at > $now)"
)
"""The condition of facts that are believed and true now."""
LATEST = 50
"""Facts of an entity that decide which others occur beside it."""
_KINDS: Final[dict[str, LinkKind]] = {type: kind for kind, type in LINK_TYPES.items()}
_ORDER: Final[dict[str, int]] = {type: place for place, type in enumerate(LINK_TYPES.values())}


class CypherSelect:
    """A statement under construction over the nodes of one label."""

    def __init__(self, bank: str, label: str, node: str) -> None:
        self.label = label
        self.node = node
        self.match = f"MATCH ({node}:{label} {{bank: $bank}})"
        self.where: list[str] = []
        self.order = f"{node}.seq"
        self.page = ""
        self.values = CypherParameters(bank=bank)

    def require(self, condition: str, **parameters: object) -> None:
        """Add a condition and its parameters."""
        self.where.append(condition)
        self.values.update(parameters)

    def require_short_id(self, short: ShortId | None) -> None:
        """Select the nodes of a short id; the first condition can use the index of ids."""
        if short is not None:
            id, negated = f"{self.node}.id", "" if short.end else "NOT "
            self.require(
                f"{id} STARTS WITH $short_start AND size({id}) = 36 AND {id} ENDS WITH $short_end "
                f"AND {negated}substring({id}, 14, 1) IN $time_ordered",
                short_start=short.start,
                short_end=short.end,
                time_ordered=list(TIME_ORDERED),
            )

    def require_parts(self, name: str, parts: Sequence[str]) -> None:
        """Select the nodes whose property contains each of these texts, in upper or lower case."""
        if parts:
            text = f"toLower({self.node}.{name})"
            self.require(f"all(part IN $parts WHERE {text} CONTAINS toLower(part))", parts=list(parts))

    def continue_after(self, id: str | None, *, newest_by: str | None = None, last_first: bool = False) -> None:
        """Order by number, or newest first by a time, and begin after a node; without that node nothing is found."""
        seq = f"{self.node}.seq"
        later = f"{seq} {'<' if last_first else '>'} start.seq"
        self.order = f"{seq} DESC" if last_first else seq
        if newest_by is not None:
            at = f"{self.node}.{newest_by}"
            self.order = f"{at} DESC, {seq} DESC"
            later = f"{at} <= start.{newest_by} AND ({at} < start.{newest_by} OR {seq} < start.seq)"
        if id is not None:
            self.match += f" MATCH (start:{self.label} {{bank: $bank, id: $after}})"
            self.require(later, after=id)

    def limit(self, limit: int | None, skip: int = 0) -> None:
        """Return no more nodes than this, after the first ones."""
        self.page = "" if limit is None else "SKIP $skip LIMIT $limit"
        self.values.update(skip=skip, limit=limit)

    async def rows(self, tx: Transaction, columns: str) -> list[Cells]:
        """Run the statement. Nodes are ordered and limited before their relationships are read."""
        where = f"WHERE {' AND '.join(self.where)} " if self.where else ""
        statement = f"{self.match} {where}WITH {self.node} ORDER BY {self.order} {self.page}"
        return [*await tx.table(statement, columns, **self.values)]


async def by_ids(tx: Transaction, bank: str, pattern: str, columns: str, ids: Sequence[str]) -> list[Cells]:
    """Return rows in the order of the ids; missing ones are left out. The first column is the id."""
    wanted = [id for id in dict.fromkeys(ids) if storable(id)]
    rows = await tx.table(
        f"UNWIND $ids AS id MATCH ({pattern} {{bank: $bank, id: id}})", columns, bank=bank, ids=wanted
    )
    found = {row[0]: row for row in rows}
    return [found[id] for id in ids if id in found]


async def messages_of(tx: Transaction, bank: str, wanted: MessageSelect) -> list[Message]:
    """Return the messages of a selection."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "m:Message", MESSAGE_COLUMNS, wanted.ids)
    else:
        rows = await _message_query(bank, wanted).rows(tx, MESSAGE_COLUMNS)
    return [message_of(row) for row in rows]


def _message_query(bank: str, wanted: MessageSelect) -> CypherSelect:
    query = CypherSelect(bank, "Message", "m")
    query.continue_after(wanted.after, last_first=wanted.last_first)
    if wanted.document is not None:
        query.require("m.document = $document", document=wanted.document)
    query.require_parts("content", wanted.containing)
    if wanted.state is not None:
        query.require("m.state = $state AND m.timestamp IS NOT NULL", state=wanted.state)
    query.require_short_id(wanted.short_id)
    if wanted.by_time:
        query.order = "m.timestamp, m.seq"
    if wanted.preceding is not None:
        own = wanted.preceding
        query.match = f"OPTIONAL MATCH (own:Message {{bank: $bank, id: $own}}) WITH own.seq AS own {query.match}"
        query.require("m.document IS NULL" if own.document is None else "m.document = $of", of=own.document)
        earlier = "m.timestamp <= $time AND (m.timestamp < $time OR m.seq < own)"
        query.require(earlier, own=own.id, time=own.timestamp)
        query.order = "m.timestamp DESC, m.seq DESC"
    if wanted.expiring_until is not None:
        query.require("m.expires_at <= $expiring", expiring=wanted.expiring_until)
        query.order = "m.expires_at, m.seq"
    query.limit(wanted.limit)
    return query


async def facts_of(tx: Transaction, bank: str, name: BankId, wanted: FactSelect) -> list[Fact]:
    """Return the facts of a selection with their mentions and sources."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "f:Fact", FACT_COLUMNS, wanted.ids)
    elif wanted.around is not None:
        rows = [*await _around(tx, bank, wanted, earlier=True), *await _around(tx, bank, wanted, earlier=False)]
    else:
        rows = await _fact_query(bank, wanted).rows(tx, FACT_COLUMNS)
    ids = [FactId(row[0]) for row in rows]
    vectors = await index.embeddings(tx, bank, ids) if wanted.with_embeddings else {}
    found = [fact_of(row, name, vectors.get(id)) for id, row in zip(ids, rows, strict=True)]
    if wanted.around is None:
        return found
    time = wanted.around
    return sorted(found, key=lambda fact: abs(fact.mentioned_at - time))[: wanted.limit]


async def _around(tx: Transaction, bank: str, wanted: FactSelect, *, earlier: bool) -> list[Cells]:
    """Return facts mentioned up to a time, or after it, nearest first."""
    query = _fact_query(bank, wanted)
    query.require("f.mentioned_at <= $around" if earlier else "f.mentioned_at > $around", around=wanted.around)
    query.order = "f.mentioned_at DESC, f.seq DESC" if earlier else "f.mentioned_at, f.seq"
    return await query.rows(tx, FACT_COLUMNS)


def _fact_query(bank: str, wanted: FactSelect) -> CypherSelect:
    query = CypherSelect(bank, "Fact", "f")
    _refer(query, wanted)
    query.require_parts("text", wanted.containing)
    if wanted.networks:
        query.require("f.network IN $networks", networks=list(wanted.networks))
    if wanted.supersedes is not None:
        query.require("f.supersedes IN $superseded", superseded=list(wanted.supersedes))
    query.require_short_id(wanted.short_id)
    if wanted.instructions:
        query.require("f.instruction = true")
    if wanted.pinned:
        query.require("f.pinned = true")
    if wanted.feedback:
        query.require("f.metadata CONTAINS $feedback", feedback=f'"{FEEDBACK}":')
    if wanted.current:
        query.require(CURRENT, now=utc_now())
    if wanted.closed:
        query.require("(f.expired_at IS NOT NULL OR f.invalid_at <= $now)", now=utc_now())
    if wanted.mentioned_before is not None:
        query.require("f.mentioned_at < $mentioned_before", mentioned_before=wanted.mentioned_before)
    query.continue_after(wanted.after, newest_by="mentioned_at" if wanted.newest_first else None)
    query.limit(wanted.limit)
    return query


def _refer(query: CypherSelect, wanted: FactSelect) -> None:
    """Find facts by the records that they refer to, one clause for each filter."""
    filters = (
        (None if wanted.episode is None else [wanted.episode], "IN_EPISODE", "Episode"),
        (wanted.messages, "SOURCE", "Message"),
        (wanted.context, "CONTEXT", "Message"),
        (wanted.basis, "BASED_ON", "Fact"),
        (wanted.entities, "MENTIONS", "Entity"),
    )
    clauses = [
        f"MATCH (f:Fact)-[:{type}]->(x:{label} {{bank: $bank}}) WHERE x.id IN {query.values.add(list(ids))} "
        "WITH DISTINCT f"
        for ids, type, label in filters
        if ids is not None
    ]
    if clauses:
        query.match = " ".join(clauses)
        query.require("f.bank = $bank")


async def episodes_of(tx: Transaction, bank: str, wanted: EpisodeSelect) -> list[Episode]:
    """Return the episodes of a selection."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "p:Episode", EPISODE_COLUMNS, wanted.ids)
    else:
        rows = await _episode_query(bank, wanted).rows(tx, EPISODE_COLUMNS)
    return [episode_of(row) for row in rows]


def _episode_query(bank: str, wanted: EpisodeSelect) -> CypherSelect:
    query = CypherSelect(bank, "Episode", "p")
    if wanted.messages is not None:
        query.match = "MATCH (p:Episode)-[:CONTAINS]->(m:Message {bank: $bank}) WHERE m.id IN $messages WITH DISTINCT p"
        query.require("p.bank = $bank", messages=list(wanted.messages))
    query.continue_after(wanted.after, newest_by="ended_at" if wanted.last_first else None)
    query.limit(wanted.limit)
    return query


async def entities_of(tx: Transaction, bank: str, wanted: EntitySelect) -> list[Entity]:
    """Return the entities of a selection with the number of facts that mention each."""
    if wanted.ids is not None:
        rows = await by_ids(tx, bank, "e:Entity", ENTITY_COLUMNS, wanted.ids)
    else:
        rows = await _entity_query(bank, wanted).rows(tx, ENTITY_COLUMNS)
    return [entity_of(row) for row in rows]


def _entity_query(bank: str, wanted: EntitySelect) -> CypherSelect:
    query = CypherSelect(bank, "Entity", "e")
    if wanted.names is not None or wanted.containing is not None:
        one_of = "" if wanted.names is None else "AND n.name IN $names "
        query.match = (
            "MATCH (e:Entity)-[:KNOWN_AS]->(n:EntityName {bank: $bank}) "
            f"WHERE n.name CONTAINS $part {one_of}WITH DISTINCT e"
        )
        query.values.update(names=sorted(map(fold_name, wanted.names or ())), part=fold_name(wanted.containing or ""))
    if wanted.with_not_aliases:
        query.require("size(e.not_aliases) > 0")
    query.continue_after(wanted.after)
    if wanted.most_mentioned:
        query.order = "COUNT { (e)<-[:MENTIONS]-() } DESC, e.seq"
    query.limit(wanted.limit, wanted.offset if wanted.most_mentioned else 0)
    return query


async def links_of(tx: Transaction, bank: str, ids: Sequence[FactId] | None) -> list[Link]:
    """Return the stored links that leave these facts, or all."""
    start = "MATCH (a:Fact {bank: $bank})" if ids is None else "UNWIND $ids AS id MATCH (a:Fact {bank: $bank, id: id})"
    rows = await tx.table(
        f"{start} MATCH (a)-[r:{'|'.join(_ORDER)}]->(b:Fact {{bank: $bank}})",
        "a.seq, b.seq, type(r), a.id, b.id, r.weight",
        bank=bank,
        ids=[id for id in dict.fromkeys(ids or ()) if storable(id)],
    )
    rows.sort(key=lambda row: (row[0], row[1], _ORDER[row[2]]))
    return [
        Link.model_construct(source=FactId(source), target=FactId(target), kind=_KINDS[type], weight=weight)
        for _, _, type, source, target, weight in rows
    ]


async def cooccurring(tx: Transaction, bank: str, ids: Sequence[EntityId]) -> dict[EntityId, set[EntityId]]:
    """Return for each entity the others that share one of its latest facts."""
    found: dict[EntityId, set[EntityId]] = {id: set() for id in ids}
    rows = await tx.table(
        "UNWIND $ids AS id MATCH (e:Entity {bank: $bank, id: id}) CALL (e) { "
        "MATCH (e)<-[:MENTIONS]-(f:Fact) WITH e, f ORDER BY f.seq DESC LIMIT $latest "
        "MATCH (f)-[:MENTIONS]->(other:Entity) WHERE other <> e RETURN collect(DISTINCT other.id) AS others }",
        "id, others",
        bank=bank,
        ids=[id for id in found if storable(id)],
        latest=LATEST,
    )
    return found | {EntityId(id): {EntityId(other) for other in others} for id, others in rows}


async def entity_mentions(
    tx: Transaction, bank: str, wanted: Sequence[EntityId], *, named: bool
) -> list[EntityMention]:
    """Return the mentions of entities, in the order of their facts; with `named`, those by another name only."""
    by_name = "WHERE r.name_in_text IS NOT NULL " if named else ""
    rows = await tx.table(
        f"UNWIND $ids AS id MATCH (e:Entity {{bank: $bank, id: id}})<-[r:MENTIONS]-(f:Fact) {by_name}"
        "WITH f, e, r ORDER BY f.seq, e.seq",
        f"f.id, e.id, r.name_in_text, {micros('f.mentioned_at')}",
        bank=bank,
        ids=[id for id in dict.fromkeys(wanted) if storable(id)],
    )
    return [
        EntityMention(
            fact=FactId(fact), entity=EntityId(entity), name_in_text=name or "", mentioned_at=instant(mentioned_at)
        )
        for fact, entity, name, mentioned_at in rows
    ]
