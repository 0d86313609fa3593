"""Edges of the graph: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, cast

from vmemo.models import LinkKind, RevisionKind
from vmemo.models.search import EdgeQuery, Edges, RevisionEdge
from vmemo.stores.search import COMPARED, LINKS, REVISION_LINKS, EntityFacts, by_entity, link_edge
from vmemo.stores.values import instant
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.filters import CypherFilter, CypherParameters
from vmemo_neo4j.nodes import Cells, micros
from vmemo_neo4j.schema import LINK_TYPES

COSINE: Final = "2 * vector.similarity.cosine(f.embedding, $vector) - 1"
"""A fact's cosine with a vector; Neo4j's similarity lies between 0 and 1."""
KINDS: Final[Mapping[str, LinkKind]] = {type: kind for kind, type in LINK_TYPES.items()}
_LINKS: Final = "|".join(type for kind, type in LINK_TYPES.items() if kind not in {"entity", *REVISION_LINKS})
_REVISIONS: Final = "|".join(LINK_TYPES[kind] for kind in sorted(REVISION_LINKS))


@dataclass(frozen=True)
class Neo4jGraph:
    """`GraphReads` of one scope; `wait` runs a statement on the loop of the connections."""

    tx: Transaction
    filter: CypherFilter
    wait: Callable[[Coroutine[object, object, list[list[Any]]]], list[list[Any]]]

    def linked(self, query: EdgeQuery) -> list[Edges]:
        values = self._parameters(query, seqs=sorted(set(query.facts)), limit=LINKS, least=query.least)
        rows = self._table(
            "UNWIND $seqs AS source MATCH (s:Fact {bank: $bank, seq: source}) CALL (s) { "
            f"MATCH (s)-[r:{_LINKS}]->(f:Fact) RETURN f, r, true AS onward ORDER BY f.seq, type(r) LIMIT $limit "
            f"UNION ALL MATCH (s)<-[r:{_LINKS}]-(f:Fact) RETURN f, r, false AS onward "
            "ORDER BY f.seq, type(r) LIMIT $limit } "
            "WITH source, s, f, r, onward WHERE f <> s AND r.weight >= $least "
            f"AND {self._reachable(query, values)}",
            f"source, f.seq, f.tokens, {micros('f.mentioned_at')}, type(r), onward, r.weight",
            values,
        )
        return [link_edge(source, other, KINDS[type], weight, onward) for source, *other, type, onward, weight in rows]

    def expand(self, query: EdgeQuery, chosen: Set[int]) -> tuple[Sequence[Edges], Sequence[Cells], EntityFacts]:
        links, nodes = self.linked(query) if query.facts else (), self._entities_of_nodes(query)
        new = sorted({entity for _, entity, _ in nodes} - chosen)
        return links, nodes, by_entity(self._most_similar(query, new)) if new else {}

    def _entities_of_nodes(self, query: EdgeQuery) -> Sequence[Cells]:
        return self._table(
            "CALL () { UNWIND $facts AS source MATCH (:Fact {bank: $bank, seq: source})-[:MENTIONS]->(e:Entity) "
            "RETURN source, e UNION ALL "
            "UNWIND $entities AS number MATCH (e:Entity {bank: $bank, seq: number}) RETURN -number AS source, e } "
            "WITH source, e, COUNT { (e)<-[:MENTIONS]-() } AS mentions "
            "WITH source, e, 1 / sqrt(CASE WHEN mentions < $common THEN mentions ELSE $common END) AS weight "
            "WHERE weight >= $least",
            "source, e.seq, weight",
            self.filter.parameters(
                facts=sorted(set(query.facts)),
                entities=sorted(set(query.entities)),
                common=query.common,
                least=query.least,
            ),
        )

    def _most_similar(self, query: EdgeQuery, entities: Sequence[int]) -> Sequence[Cells]:
        values = self._parameters(query, entities=list(entities), compared=COMPARED, fan=query.fan)
        return self._table(
            "UNWIND $entities AS number MATCH (e:Entity {bank: $bank, seq: number}) CALL (e) { "
            "MATCH (e)<-[:MENTIONS]-(f:Fact) WITH f ORDER BY f.seq DESC LIMIT $compared "
            f"WITH f WHERE {self._reachable(query, values)} WITH f, {COSINE} AS cosine "
            "RETURN f, cosine ORDER BY cosine DESC, f.seq LIMIT $fan } "
            "WITH number, f, cosine ORDER BY number, cosine DESC, f.seq",
            f"number, f.seq, f.tokens, {micros('f.mentioned_at')}",
            values,
        )

    def _parameters(self, query: EdgeQuery, **others: object) -> CypherParameters:
        return self.filter.parameters(vector=query.vector.tolist(), floor=query.floor, **others)

    def _reachable(self, query: EdgeQuery, values: CypherParameters) -> str:
        condition = self.filter.facts(values)
        return condition if query.floor <= -1.0 else f"{condition} AND {COSINE} >= $floor"

    def _table(self, statement: str, columns: str, values: CypherParameters) -> list[list[Any]]:
        return self.wait(self.tx.table(statement, columns, **values))


async def revisions(tx: Transaction, filter: CypherFilter, facts: Sequence[int]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends in the scope."""
    values = filter.parameters(seqs=list(facts))
    rows = await tx.table(
        f"UNWIND $seqs AS seq MATCH (:Fact {{bank: $bank, seq: seq}})-[r:{_REVISIONS}]-() "
        "WITH DISTINCT r WITH r, startNode(r) AS n, endNode(r) AS o "
        f"WHERE {filter.facts(values, 'n')} AND {filter.facts(values, 'o')} WITH r, n, o ORDER BY n.seq, o.seq",
        f"n.seq, o.seq, type(r), r.weight, n.tokens, o.tokens, {micros('n.mentioned_at')}",
        **values,
    )
    return [
        RevisionEdge(newer, older, cast("RevisionKind", KINDS[type]), weight, new_tokens, old_tokens, instant(at))
        for newer, older, type, weight, new_tokens, old_tokens, at in rows
    ]
