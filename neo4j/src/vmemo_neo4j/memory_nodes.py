"""Nodes and relationships of derived memories. Everything here runs inside the caller's one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, LiteralString, NamedTuple

from vmemo.models import Entity, EntityId, Episode, EpisodeId, Fact, Link
from vmemo.models.changes import EntityMention, NewFact
from vmemo.stores.values import missing_reference
from vmemo.text.names.compare import folded_names
from vmemo_neo4j import index
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import entity_values, episode_values, fact_values
from vmemo_neo4j.schema import LINK_TYPES


class Reference(NamedTuple):
    """A type of relationship from a fact to a record that it refers to by id."""

    type: LiteralString
    label: LiteralString


SOURCE: Final = Reference("SOURCE", "Message")
CONTEXT: Final = Reference("CONTEXT", "Message")
IN_EPISODE: Final = Reference("IN_EPISODE", "Episode")
BASED_ON: Final = Reference("BASED_ON", "Fact")
MENTIONS: Final = Reference("MENTIONS", "Entity")
REFERENCES: Final = (SOURCE, CONTEXT, IN_EPISODE, BASED_ON, MENTIONS)
PART: Final = 500
"""Facts that one statement creates."""


def _referred(reference: Reference) -> LiteralString:
    """Return the part of a statement that relates facts to records of one type, and counts them."""
    named = "SET r.name_in_text = nullIf(row[2], '')" if reference is MENTIONS else ""
    return (
        f"CALL () {{ UNWIND $rows.{reference.type} AS row MATCH (f:Fact {{bank: $bank, id: row[0]}}) "
        f"MATCH (other:{reference.label} {{bank: $bank, id: row[1]}}) MERGE (f)-[r:{reference.type}]->(other) {named} "
        f"RETURN count(r) AS {reference.type} }} "
    )


_REFERRED: Final[LiteralString] = (
    "".join(map(_referred, REFERENCES)) + "RETURN " + ", ".join(reference.type for reference in REFERENCES)
)
"""Relates facts to records of all types: one statement, because each is a round trip."""


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
    row = await tx.one(
        "UNWIND $rows AS row MERGE (n:Episode {bank: $bank, id: row.id}) "
        "ON CREATE SET n.seq = row.seq SET n += row.values WITH n, row "
        "CALL (n) { MATCH (n)-[r:CONTAINS]->() DELETE r } "
        "CALL (n, row) { UNWIND row.messages AS id MATCH (m:Message {bank: $bank, id: id}) "
        "CREATE (n)-[:CONTAINS]->(m) RETURN count(m) AS held } "
        f"{_connected(_PREVIOUS)} RETURN sum(held) AS made",
        bank=bank,
        rows=rows,
    )
    members = [id for episode in new for id in episode.messages]
    if row is None or row["made"] != len(members):
        await demand(tx, "Message", bank, members)


class _Pointer(NamedTuple):
    """A property with the id of another node of the same label, and the relationship that shows it."""

    label: LiteralString
    property: LiteralString
    type: LiteralString


_PREVIOUS: Final = _Pointer("Episode", "previous", "FOLLOWS")
_SUPERSEDES: Final = _Pointer("Fact", "supersedes", "SUPERSEDES")


def _pointing(pointer: _Pointer, id: LiteralString) -> LiteralString:
    """Return the part of a statement that finds the nodes `other` that point at an id.

    The index is named, because a plan that was made while there were few nodes would go on to scan all of them.
    """
    label, name, _ = pointer
    return f"MATCH (other:{label} {{bank: $bank, {name}: {id}}}) USING INDEX SEEK other:{label}(bank, {name})"


def _connected(pointer: _Pointer) -> LiteralString:
    """Return the part of a statement that relates nodes `n` to those they point at, and to those that point at them."""
    label, name, type = pointer
    return (
        f"CALL (n) {{ MATCH (n)-[r:{type}]->() DELETE r }} "
        f"CALL (n) {{ MATCH (other:{label} {{bank: $bank, id: n.{name}}}) MERGE (n)-[:{type}]->(other) }} "
        f"CALL (n) {{ {_pointing(pointer, 'n.id')} MERGE (other)-[:{type}]->(n) }}"
    )


async def _connect(tx: Transaction, bank: str, ids: Sequence[str], pointer: _Pointer) -> None:
    found: LiteralString = f"UNWIND $ids AS id MATCH (n:{pointer.label} {{bank: $bank, id: id}}) "
    await tx.run(found + _connected(pointer), bank=bank, ids=list(ids))


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


def _created() -> LiteralString:
    """Return the statement that creates facts with their vectors, words and relationships, and counts the latter."""
    parts: list[LiteralString] = []
    for type, label in _OWN:
        named: LiteralString = " {name_in_text: nullIf(to[1], '')}" if type == MENTIONS.type else ""
        parts.append(
            f"CALL (n, row) {{ UNWIND row.{type} AS to MATCH (other:{label} {{bank: $bank, id: to[0]}}) "
            f"CREATE (n)-[:{type}{named}]->(other) RETURN count(other) AS {type} }}"
        )
    return (
        "MATCH (b:Bank {key: $bank}) WITH [label IN [b.vector_label] WHERE label IS NOT NULL] AS labels "
        "UNWIND $rows AS row CREATE (n:Fact) SET n = row.values, n:$(labels) "
        "WITH n, row CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector) "
        f"{' '.join(parts)} RETURN {', '.join([f'sum({reference.type}) AS {reference.type}' for reference in _OWN])}"
    )


_OWN: Final = (SOURCE, CONTEXT, IN_EPISODE, MENTIONS)
"""References of new facts to records that are stored before them."""
_CREATED: Final[LiteralString] = _created()
_VERSIONS: Final[LiteralString] = (
    f"UNWIND $ids AS id {_pointing(_SUPERSEDES, 'id')} MATCH (n:Fact {{bank: $bank, id: id}}) "
    "MERGE (other)-[:SUPERSEDES]->(n)"
)


async def save_facts(tx: Transaction, bank: str, new: Sequence[NewFact], revision: int, seqs: Iterator[int]) -> None:
    """Create facts with their vectors, words, sources and mentions. Facts may rest on older facts of the bank."""
    for start in range(0, len(new), PART):
        await _create_facts(tx, bank, new[start : start + PART], revision, seqs)
    facts = [item.fact for item in new]
    await refer(tx, bank, {BASED_ON: [(fact.id, id) for fact in facts for id in dict.fromkeys(fact.basis)]})
    superseded = [fact.supersedes for fact in facts if fact.supersedes is not None]
    if facts:
        await tx.run(_VERSIONS, bank=bank, ids=list(dict.fromkeys([*superseded, *(fact.id for fact in facts)])))
        await index.count_facts(tx, bank, new)


async def _create_facts(tx: Transaction, bank: str, new: Sequence[NewFact], revision: int, seqs: Iterator[int]) -> None:
    referred = [_referred_by(item.fact) for item in new]
    rows = [
        {
            **{reference.type: found for reference, found in own.items()},
            "values": {**fact_values(item.fact, revision), "bank": bank, "seq": next(seqs), **index.values(bank, item)},
            "vector": index.vector_of(item.encoding),
        }
        for item, own in zip(new, referred, strict=True)
    ]
    made = await tx.one(_CREATED, bank=bank, rows=rows)
    for reference in _OWN:
        wanted = [to[0] for own in referred for to in own[reference]]
        if made is None or made[reference.type] != len(wanted):
            await demand(tx, reference.label, bank, wanted)


def _referred_by(fact: Fact) -> dict[Reference, list[list[str]]]:
    """Return the ids that a new fact refers to, each with the name in the text if it is an entity."""
    context = [] if fact.context_from is None else [fact.context_from]
    ids = {SOURCE: fact.messages, CONTEXT: context, IN_EPISODE: fact.episodes}
    names = {mention.id: mention.name_in_text for mention in fact.entities}
    return {
        **{reference: [[id] for id in dict.fromkeys(found)] for reference, found in ids.items()},
        MENTIONS: [[id, name] for id, name in names.items()],
    }


async def refer(tx: Transaction, bank: str, rows: Mapping[Reference, Sequence[tuple[str, ...]]]) -> None:
    """Relate facts to records; a relationship that exists stays. Raise InvalidInput for a record that does not."""
    wanted = {reference: [list(row) for row in found] for reference, found in rows.items() if found}
    if not wanted:
        return
    made = await tx.one(_REFERRED, bank=bank, rows={reference.type: found for reference, found in wanted.items()})
    for reference, found in wanted.items():
        if made is None or made[reference.type] != len(found):
            await demand(tx, "Fact", bank, [row[0] for row in found])
            await demand(tx, reference.label, bank, [row[1] for row in found])


async def add_mentions(tx: Transaction, bank: str, added: Sequence[EntityMention]) -> None:
    """Let facts mention entities."""
    await refer(tx, bank, {MENTIONS: [(mention.fact, mention.entity, mention.name_in_text) for mention in added]})


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


def _linked(type: LiteralString) -> LiteralString:
    return (
        f"CALL () {{ UNWIND $rows.{type} AS row MATCH (a:Fact {{bank: $bank, id: row[0]}}) "
        f"MATCH (b:Fact {{bank: $bank, id: row[1]}}) MERGE (a)-[r:{type}]->(b) SET r.weight = row[2] }}"
    )


_LINKED: Final[LiteralString] = " ".join(map(_linked, LINK_TYPES.values()))
"""Creates links of all types."""


async def save_links(tx: Transaction, bank: str, new: Sequence[Link]) -> None:
    """Create links; one whose other end was deleted is left out."""
    by_type: dict[str, dict[tuple[str, str], float]] = {}
    for link in new:
        by_type.setdefault(LINK_TYPES[link.kind], {})[link.source, link.target] = link.weight
    if by_type:
        rows = {type: [[*ends, weight] for ends, weight in links.items()] for type, links in by_type.items()}
        await tx.run(_LINKED, bank=bank, rows=rows)
