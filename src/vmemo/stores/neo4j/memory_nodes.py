"""Nodes and relationships of derived memories. Everything here runs inside the caller's one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, LiteralString, NamedTuple

from vmemo.models import Entity, EntityId, Episode, EpisodeId, Fact, Link
from vmemo.models.changes import EntityMention, NewFact
from vmemo.stores.neo4j.connection import Transaction
from vmemo.stores.neo4j.nodes import entity_values, episode_values, fact_values
from vmemo.stores.neo4j.schema import LINK_TYPES
from vmemo.stores.values import missing_reference
from vmemo.text.names.fold import folded_names


class Reference(NamedTuple):
    """A type of relationship from a fact to a record that it refers to by id."""

    type: LiteralString
    label: LiteralString
    called: str
    """The name of the record in errors."""


SOURCE: Final = Reference("SOURCE", "Message", "message")
CONTEXT: Final = Reference("CONTEXT", "Message", "message")
IN_EPISODE: Final = Reference("IN_EPISODE", "Episode", "episode")
BASED_ON: Final = Reference("BASED_ON", "Fact", "fact")
MENTIONS: Final = Reference("MENTIONS", "Entity", "entity")


async def missing(tx: Transaction, label: LiteralString, bank: str, ids: Iterable[str]) -> str | None:
    """Return the first of the ids that no node of this label has, or None."""
    row = await tx.one(
        f"UNWIND $ids AS id WITH id WHERE NOT EXISTS {{ MATCH (n:{label} {{bank: $bank, id: id}}) }} RETURN id LIMIT 1",
        bank=bank,
        ids=list(ids),
    )
    return None if row is None else str(row["id"])


async def demand(tx: Transaction, label: LiteralString, bank: str, ids: Iterable[str]) -> None:
    """Raise InvalidInput if no node of this label has one of the ids."""
    lacking = await missing(tx, label, bank, ids)
    if lacking is not None:
        raise missing_reference(label.lower(), lacking)


async def save_entities(
    tx: Transaction,
    bank: str,
    new: Sequence[Entity],
    seqs: Iterator[int],
    reserved: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Create or update entities and their names; one with a reserved number returns under it."""
    if not new:
        return
    rows = [
        {
            "id": entity.id,
            "seq": reserved.get(entity.id) or next(seqs),
            "values": entity_values(entity),
            "names": sorted(folded_names(entity.name, entity.aliases)),
        }
        for entity in new
    ]
    await tx.run(
        "UNWIND $rows AS row MERGE (e:Entity {bank: $bank, id: row.id}) "
        f"ON CREATE SET e.seq = row.seq SET e += row.values {_NAMES}",
        bank=bank,
        rows=rows,
    )


_NAMES: Final = """
WITH e, row
CALL (e, row) {
    MATCH (e)-[r:KNOWN_AS]->(n:EntityName) WHERE NOT n.name IN row.names DELETE r
    WITH DISTINCT n WHERE NOT EXISTS { (n)<-[:KNOWN_AS]-() } DELETE n
}
CALL (e, row) { UNWIND row.names AS name MERGE (n:EntityName {bank: $bank, name: name}) MERGE (e)-[:KNOWN_AS]->(n) }
"""
"""Replaces the folded names of entities; a name that no entity has any more is deleted."""


async def delete_entities(tx: Transaction, bank: str, ids: Sequence[EntityId]) -> None:
    """Delete entities with their mentions and names."""
    if ids:
        named: LiteralString = f"UNWIND $rows AS row MATCH (e:Entity {{bank: $bank, id: row.id}}) {_NAMES}"
        await tx.run(named, bank=bank, rows=[{"id": id, "names": list[str]()} for id in ids])
        deleted: LiteralString = "UNWIND $ids AS id MATCH (e:Entity {bank: $bank, id: id}) DETACH DELETE e"
        await tx.run(deleted, bank=bank, ids=list(ids))


async def save_episodes(tx: Transaction, bank: str, new: Sequence[Episode], seqs: Iterator[int]) -> None:
    """Create or replace episodes and the messages they hold."""
    if not new:
        return
    rows = [
        {"id": episode.id, "seq": next(seqs), "values": episode_values(episode), "messages": list(episode.messages)}
        for episode in new
    ]
    await tx.run(
        "UNWIND $rows AS row MERGE (p:Episode {bank: $bank, id: row.id}) "
        "ON CREATE SET p.seq = row.seq SET p += row.values "
        "WITH p MATCH (p)-[r:CONTAINS]->() DELETE r",
        bank=bank,
        rows=rows,
    )
    row = await tx.one(
        "UNWIND $rows AS row MATCH (p:Episode {bank: $bank, id: row.id}) UNWIND row.messages AS id "
        "MATCH (m:Message {bank: $bank, id: id}) CREATE (p)-[:CONTAINS]->(m) RETURN count(m) AS made",
        bank=bank,
        rows=rows,
    )
    members = [id for episode in new for id in episode.messages]
    if row is None or row["made"] != len(members):
        await demand(tx, "Message", bank, members)
    await _connect(tx, bank, [episode.id for episode in new], _PREVIOUS)


class _Pointer(NamedTuple):
    """A property with the id of another node of the same label, and the relationship that shows it."""

    label: LiteralString
    property: LiteralString
    type: LiteralString


_PREVIOUS: Final = _Pointer("Episode", "previous", "FOLLOWS")
_SUPERSEDES: Final = _Pointer("Fact", "supersedes", "SUPERSEDES")


async def _connect(tx: Transaction, bank: str, ids: Sequence[str], pointer: _Pointer) -> None:
    """Relate nodes to those they point at, and to those that pointed at them before they were there."""
    label, name, type = pointer
    await tx.run(
        f"UNWIND $ids AS id MATCH (n:{label} {{bank: $bank, id: id}}) "
        f"CALL (n) {{ MATCH (n)-[r:{type}]->() DELETE r }} "
        f"CALL (n) {{ MATCH (other:{label} {{bank: $bank, id: n.{name}}}) MERGE (n)-[:{type}]->(other) }} "
        f"CALL (n) {{ MATCH (other:{label} {{bank: $bank, {name}: n.id}}) MERGE (other)-[:{type}]->(n) }}",
        bank=bank,
        ids=list(ids),
    )


async def connect_versions(tx: Transaction, bank: str, ids: Sequence[str]) -> None:
    """Show by relationships which facts these facts supersede, and which supersede them."""
    if ids:
        await _connect(tx, bank, ids, _SUPERSEDES)


async def dissolve(tx: Transaction, bank: str, ids: Sequence[EpisodeId]) -> None:
    """Delete episodes; an episode that followed one follows its predecessor."""
    for id in ids:
        row = await tx.one(
            "MATCH (p:Episode {bank: $bank, id: $id}) WITH p, p.previous AS previous DETACH DELETE p RETURN previous",
            bank=bank,
            id=id,
        )
        if row is None:
            continue
        following = await tx.rows(
            "MATCH (p:Episode {bank: $bank, previous: $id}) SET p.previous = $previous RETURN p.id AS id",
            bank=bank,
            id=id,
            previous=row["previous"],
        )
        await _connect(tx, bank, [each["id"] for each in following], _PREVIOUS)


async def save_facts(tx: Transaction, bank: str, new: Sequence[NewFact], revision: int, seqs: Iterator[int]) -> None:
    """Create facts with their sources and mentions. Facts may rest on older facts of the bank."""
    if not new:
        return
    facts = [item.fact for item in new]
    rows = [{**fact_values(fact, revision), "seq": next(seqs)} for fact in facts]
    await tx.run("UNWIND $rows AS row CREATE (f:Fact {bank: $bank}) SET f += row", bank=bank, rows=rows)
    await connect_versions(tx, bank, [fact.id for fact in facts])
    await refer(tx, bank, SOURCE, [(fact.id, id) for fact in facts for id in fact.messages])
    await refer(tx, bank, CONTEXT, [(fact.id, fact.context_from) for fact in facts if fact.context_from is not None])
    await refer(tx, bank, IN_EPISODE, [(fact.id, id) for fact in facts for id in fact.episodes])
    await refer(tx, bank, BASED_ON, [(fact.id, id) for fact in facts for id in fact.basis])
    await _mention(tx, bank, facts)


async def refer(tx: Transaction, bank: str, reference: Reference, pairs: Sequence[tuple[str, str]]) -> None:
    """Relate facts to records; a relationship that exists stays. Raise InvalidInput for a record that does not."""
    if not pairs:
        return
    row = await tx.one(
        "UNWIND $pairs AS pair MATCH (f:Fact {bank: $bank, id: pair[0]}) "
        f"MATCH (other:{reference.label} {{bank: $bank, id: pair[1]}}) MERGE (f)-[:{reference.type}]->(other) "
        "RETURN count(other) AS found",
        bank=bank,
        pairs=[list(pair) for pair in pairs],
    )
    if row is None or row["found"] != len(pairs):
        await demand(tx, reference.label, bank, [id for _, id in pairs])


async def _mention(tx: Transaction, bank: str, facts: Sequence[Fact]) -> None:
    names = {(fact.id, mention.id): mention.name_in_text for fact in facts for mention in fact.entities}
    added = [EntityMention(fact=fact, entity=entity, name_in_text=name) for (fact, entity), name in names.items()]
    await add_mentions(tx, bank, added)


async def add_mentions(tx: Transaction, bank: str, added: Sequence[EntityMention]) -> None:
    """Let facts mention entities."""
    if not added:
        return
    row = await tx.one(
        "UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row[0]}) MATCH (e:Entity {bank: $bank, id: row[1]}) "
        "MERGE (f)-[r:MENTIONS]->(e) SET r.name_in_text = row[2] RETURN count(r) AS made",
        bank=bank,
        rows=[[mention.fact, mention.entity, mention.name_in_text or None] for mention in added],
    )
    if row is None or row["made"] != len(added):
        await demand(tx, "Fact", bank, [mention.fact for mention in added])
        await demand(tx, "Entity", bank, [mention.entity for mention in added])


async def remove_mentions(tx: Transaction, bank: str, removed: Sequence[EntityMention]) -> None:
    """Delete mentions of entities in stored facts."""
    if removed:
        await demand(tx, "Entity", bank, [mention.entity for mention in removed])
        await tx.run(
            "UNWIND $rows AS row MATCH (f:Fact {bank: $bank, id: row[0]}) MATCH (e:Entity {bank: $bank, id: row[1]}) "
            "MATCH (f)-[r:MENTIONS]->(e) DELETE r",
            bank=bank,
            rows=[[mention.fact, mention.entity] for mention in removed],
        )


async def save_links(tx: Transaction, bank: str, new: Sequence[Link]) -> None:
    """Create links; one whose other end was deleted is left out."""
    by_kind: dict[LiteralString, dict[tuple[str, str], float]] = {}
    for link in new:
        by_kind.setdefault(LINK_TYPES[link.kind], {})[link.source, link.target] = link.weight
    for type, weights in by_kind.items():
        await tx.run(
            "UNWIND $rows AS row MATCH (a:Fact {bank: $bank, id: row[0]}) MATCH (b:Fact {bank: $bank, id: row[1]}) "
            f"MERGE (a)-[r:{type}]->(b) SET r.weight = row[2]",
            bank=bank,
            rows=[[source, target, weight] for (source, target), weight in weights.items()],
        )
