"""Edges of the graph: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, LiteralString, cast

from vmemo.models import FactId, LinkKind, RevisionKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge
from vmemo.stores.values import instant, storable
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.filters import Filter
from vmemo_neo4j.nodes import Cells, micros
from vmemo_neo4j.schema import LINK_TYPES
from vmemo_neo4j.vectors import COSINE

_OTHER_WAY: Final[Mapping[LinkKind, LinkKind]] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
_REVISIONS: Final[frozenset[LinkKind]] = frozenset({"replaces", "outdates"})
_KINDS: Final[Mapping[str, LinkKind]] = {type: kind for kind, type in LINK_TYPES.items()}
_ALL: Final = frozenset(LINK_TYPES) - _REVISIONS
_LINKED: Final[LiteralString] = "|".join([LINK_TYPES[kind] for kind in LINK_TYPES if kind in _ALL - {"entity"}])
_REVISING: Final[LiteralString] = "|".join([LINK_TYPES[kind] for kind in sorted(_REVISIONS)])
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""


def _linked(passes: Filter, query: EdgeQuery) -> LiteralString:
    """Stored links in both directions."""
    near: LiteralString = "true" if query.floor <= -1.0 else f"{COSINE} >= $floor"
    return (
        "UNWIND $facts AS source MATCH (s:Fact {bank: $bank, id: source}) CALL (s) { "
        f"MATCH (s)-[r:{_LINKED}]->(f:Fact) RETURN f, r, true AS onward ORDER BY f.seq, type(r) LIMIT $links UNION ALL "
        f"MATCH (s)<-[r:{_LINKED}]-(f:Fact) RETURN f, r, false AS onward ORDER BY f.seq, type(r) LIMIT $links }} "
        f"WITH source, s, f, r, onward WHERE f <> s AND r.weight >= $least AND {passes.condition} AND {near} "
        "RETURN source, f, type(r) AS type, onward, r.weight AS weight, '' AS name"
    )


def _shared(passes: Filter, query: EdgeQuery) -> LiteralString:
    """The facts of entities that are given, or that given facts mention; the rarer an entity, the more it says.

    Each entity is expanded once, however many facts mention it, and one whose edges are too light not at all. Reading a
    vector takes far longer than a traversal, so those of an entity with enough facts in `$near` are not read.
    """
    cosine: LiteralString = f"coalesce($near[toString(f.seq)], {COSINE})"
    if query.floor <= -1.0:
        # All facts of an entity that has few are taken, whatever their cosines are.
        compared: LiteralString = f"CASE WHEN mentions <= $fan THEN 0 ELSE {cosine} END AS cosine"
    else:
        compared = f"{cosine} AS cosine WHERE cosine >= $floor"
    return (
        "CALL () { UNWIND $facts AS source MATCH (:Fact {bank: $bank, id: source})-[:MENTIONS]->(e:Entity) "
        "RETURN source, e UNION ALL "
        "UNWIND $given AS source MATCH (e:Entity {bank: $bank, id: source}) RETURN source, e } "
        "WITH e, collect(DISTINCT source) AS sources, COUNT { (e)<-[:MENTIONS]-() } AS mentions "
        "WITH e, sources, mentions, 1 / sqrt(CASE WHEN mentions < $common THEN mentions ELSE $common END) AS weight "
        "WHERE weight >= $least CALL (e, mentions) { MATCH (e)<-[:MENTIONS]-(f:Fact) "
        "WITH f, mentions ORDER BY f.seq DESC LIMIT $compared "
        "WITH mentions, collect(f) AS every, collect(CASE WHEN $near[toString(f.seq)] IS NOT NULL THEN f END) AS near "
        "WITH mentions, size(near) >= $fan AS known, CASE WHEN size(near) >= $fan THEN near ELSE every END AS facts "
        f"UNWIND facts AS f WITH f, mentions, known WHERE known OR ({passes.condition}) WITH f, {compared} "
        "RETURN f ORDER BY cosine DESC, f.seq LIMIT $fan } "
        "UNWIND sources AS source WITH source, e, weight, f WHERE source <> f.id "
        f"RETURN source, f, '{LINK_TYPES['entity']}' AS type, true AS onward, weight, e.name AS name"
    )


async def find(tx: Transaction, passes: Filter, query: EdgeQuery, near: Mapping[str, float]) -> list[Edge]:
    """Return the edges to facts that pass.

    `near` are the cosines of the facts that pass and are most similar to the query's vector, by their numbers.
    """
    parts: list[LiteralString] = [_linked(passes, query)] if query.facts else []
    if not query.kinds or "entity" in query.kinds:
        parts.append(_shared(passes, query))
    if not parts:
        return []
    found: LiteralString = " UNION ALL ".join(parts)
    rows = await tx.table(
        f"CALL () {{ {found} }}",
        "source, f.id, f.tokens, type, onward, weight, name",
        **passes.parameters,
        facts=sorted({id for id in query.facts if storable(id)}),
        given=sorted({id for id in query.entities if storable(id)}),
        links=LINKS,
        least=query.least,
        common=query.common,
        compared=query.compared,
        fan=query.fan,
        floor=query.floor,
        vector=query.vector.tolist(),
        near=near,
    )
    return list(_edges(rows, query.kinds or _ALL))


def _edges(rows: Sequence[Cells], kinds: frozenset[LinkKind]) -> Iterator[Edge]:
    for source, target, tokens, type, onward, weight, name in rows:
        kind = _KINDS[type]
        kind = kind if onward else _OTHER_WAY.get(kind, kind)
        if kind in kinds:
            yield Edge(source, target, tokens, kind, weight, name)


async def revisions(tx: Transaction, passes: Filter, facts: Sequence[FactId]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends passing."""
    rows = await tx.table(
        f"UNWIND $facts AS id MATCH (:Fact {{bank: $bank, id: id}})-[r:{_REVISING}]-() "
        "WITH DISTINCT r WITH r, startNode(r) AS n, endNode(r) AS o "
        f"WHERE {passes.of('n')} AND {passes.of('o')} WITH r, n, o ORDER BY n.seq, o.seq",
        f"n.id, o.id, type(r), r.weight, n.tokens, o.tokens, {micros('n.mentioned_at')}",
        **passes.parameters,
        facts=sorted({id for id in facts if storable(id)}),
    )
    return [
        RevisionEdge(
            newer=FactId(newer),
            older=FactId(older),
            kind=cast("RevisionKind", _KINDS[type]),
            probability=weight,
            newer_tokens=newer_tokens,
            older_tokens=older_tokens,
            mentioned_at=instant(mentioned_at),
        )
        for newer, older, type, weight, newer_tokens, older_tokens, mentioned_at in rows
    ]
