"""Edges of the graph in PostgreSQL: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from vmemo.models.search import EdgeQuery, RevisionEdge
from vmemo.stores.postgres.connection import fetch, fetch_built
from vmemo.stores.search import COMPARED
from vmemo.stores.sql.fact_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.filters import Parameters, ScopeFilter
from vmemo.stores.sql.schema import REVISIONS
from vmemo.stores.values import instant


def cosine(values: Parameters, vector: Sequence[float]) -> str:
    """Return the SQL of a fact's cosine with a vector. All vectors have length one: the inner product is enough.

    The server converts the vector once in a subquery; a cast alone would be repeated for each row.
    """
    return f"-(fact_vectors.embedding <#> (SELECT {values.add(vector, 'real[]')}::halfvec))"


_ENTITIES_OF_NODES = """
SELECT node.source, node.entity, weight FROM (
    SELECT fact AS source, entity FROM mentions WHERE bank = $1 AND fact = ANY($2::bigint[])
    UNION ALL SELECT -given, given FROM unnest($3::bigint[]) AS given
) AS node CROSS JOIN LATERAL (
    SELECT 1 / sqrt(greatest(count(*), 1)::float8) AS weight FROM (
        SELECT FROM mentions WHERE mentions.bank = $1 AND mentions.entity = node.entity LIMIT $4::bigint
    ) AS mentioned
) AS counted WHERE weight >= $5::float8
"""


@dataclass(frozen=True)
class PostgresGraph:
    """`GraphReads` of one scope."""

    connection: Connection
    filter: ScopeFilter

    def linked(self, query: EdgeQuery, limit: int) -> Sequence[Sequence[Any]]:
        def statement(values: Parameters) -> str:
            bank = values.add(self.filter.bank, "bigint")
            return f"""
SELECT given.seq, facts.seq, facts.tokens, facts.mentioned_at, found.kind::integer, found.onward, found.weight
FROM unnest({values.add(list(set(query.facts)), "bigint[]")}) AS given(seq) CROSS JOIN LATERAL (
    (SELECT target AS other, kind, weight, true AS onward FROM links
        WHERE links.bank = {bank} AND links.source = given.seq ORDER BY target, kind LIMIT {limit})
    UNION ALL
    (SELECT source, kind, weight, false FROM links
        WHERE links.bank = {bank} AND links.target = given.seq ORDER BY source, kind LIMIT {limit})
) AS found
JOIN facts ON facts.bank = {bank} AND facts.seq = found.other
JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = found.other
WHERE found.other <> given.seq AND found.weight >= {values.add(query.least, "float8")}
    AND {self._reachable(values, query, query.vector.tolist())}
"""

        rows = fetch_built(self.connection, statement)
        return [(*first, LINK_KINDS[int(kind)], onward, weight) for *first, kind, onward, weight in rows]

    def entities_of_nodes(self, query: EdgeQuery) -> Sequence[Sequence[Any]]:
        nodes = list(set(query.facts)), list(query.entities)
        return fetch(self.connection, _ENTITIES_OF_NODES, self.filter.bank, *nodes, query.common, query.least)

    def most_similar(self, query: EdgeQuery, entities: Sequence[int]) -> Sequence[Sequence[Any]]:
        def statement(values: Parameters) -> str:
            bank, given = values.add(self.filter.bank, "bigint"), values.add(entities, "bigint[]")
            vector = query.vector.tolist()
            return f"""
SELECT given.entity, chosen.seq, chosen.tokens, chosen.mentioned_at
FROM unnest({given}) AS given(entity) CROSS JOIN LATERAL (
    SELECT facts.seq, facts.tokens, facts.mentioned_at FROM (
        SELECT fact FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = given.entity
        ORDER BY fact DESC LIMIT {COMPARED}
    ) AS newest
    JOIN facts ON facts.bank = {bank} AND facts.seq = newest.fact
    JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = newest.fact
    WHERE {self._reachable(values, query, vector)}
    ORDER BY {cosine(values, vector)} DESC, facts.seq LIMIT {query.fan}
) AS chosen
"""

        return fetch_built(self.connection, statement)

    def _reachable(self, values: Parameters, query: EdgeQuery, vector: Sequence[float]) -> str:
        """Return the condition of facts that edges may lead to: in the scope and similar enough."""
        condition = self.filter.facts(values)
        if query.floor <= -1.0:
            return condition
        return f"{condition} AND {cosine(values, vector)} >= {values.add(query.floor, 'float8')}"


def revisions(connection: Connection, filter: ScopeFilter, facts: Sequence[int]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends in the scope."""
    rows = fetch_built(connection, lambda values: _revision_statement(values, filter, facts))
    return [
        RevisionEdge(newer, older, REVISION_KINDS[kind], weight, newer_tokens, older_tokens, instant(mentioned_at))
        for newer, newer_tokens, mentioned_at, older, older_tokens, kind, weight in rows
    ]


def _revision_statement(values: Parameters, filter: ScopeFilter, facts: Sequence[int]) -> str:
    bank = values.add(filter.bank, "bigint")
    links = " UNION ".join(
        f"SELECT source, target, kind, weight FROM given JOIN links ON links.bank = {bank} AND links.{end} = given.seq "
        f"WHERE {REVISIONS}"
        for end in ("source", "target")
    )
    return f"""
WITH given AS MATERIALIZED (
    SELECT seq FROM unnest({values.add(facts, "bigint[]")}) AS given(seq)
), found AS MATERIALIZED ({links}), visible AS MATERIALIZED (
    SELECT facts.seq, facts.tokens, facts.mentioned_at
    FROM (SELECT source AS seq FROM found UNION SELECT target FROM found) AS ends
    JOIN facts ON facts.bank = {bank} AND facts.seq = ends.seq WHERE {filter.facts(values)}
)
SELECT newer.seq, newer.tokens, newer.mentioned_at, older.seq, older.tokens, found.kind::integer, found.weight
FROM found JOIN visible AS newer ON newer.seq = found.source JOIN visible AS older ON older.seq = found.target
ORDER BY found.source, found.target
"""
