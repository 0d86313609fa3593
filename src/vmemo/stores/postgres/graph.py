"""Edges of the graph in PostgreSQL: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection

from vmemo.models import EntityId, FactId, LinkKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge
from vmemo.stores.postgres.connection import Parameters, fetch, fetch_built
from vmemo.stores.postgres.filters import ScopeFilter
from vmemo.stores.sql.fact_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.schema import REVISIONS
from vmemo.stores.values import instant, storable

SEEN_FROM_TARGET: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
ALL_KINDS = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
LINKS = 16
"""Links of a fact that are read in each direction."""

EntityFacts = dict[int, list[tuple[FactId, int]]]
"""The facts that each entity leads to, with their tokens, by the number of the entity."""


def cosine(values: Parameters, vector: Sequence[float]) -> str:
    """Return the SQL of a fact's cosine with a vector. All vectors have length one: the inner product is enough.

    The server converts the vector once in a subquery; a cast alone would be repeated for each row.
    """
    return f"-(fact_vectors.embedding <#> (SELECT {values.add(vector, 'real[]')}::halfvec))"


_MENTIONED_BY = """
SELECT entity, array_agg(fact) FROM mentions WHERE bank = $1 AND fact = ANY($2::bigint[])
GROUP BY entity HAVING count(*) >= $3::bigint
"""


def entities_of_nearest(
    connection: Connection, bank: int, nearest: Mapping[int, tuple[FactId, int]], fan: int
) -> EntityFacts:
    """Return the most similar facts of the entities that at least `fan` of the nearest facts mention.

    `nearest` are ids and tokens of the facts that are nearest to the query, best first, by number. No other fact of
    such an entity is more similar, so its vectors need not be compared again.
    """
    rank = {seq: place for place, seq in enumerate(nearest)}
    rows = fetch(connection, _MENTIONED_BY, bank, list(nearest), fan)
    return {entity: [nearest[seq] for seq in sorted(facts, key=rank.__getitem__)[:fan]] for entity, facts in rows}


def edges(connection: Connection, filter: ScopeFilter, query: EdgeQuery, known: EntityFacts) -> list[Edge]:
    """Return the edges of a query. `known` are facts of entities that were chosen already; new ones are added."""
    vector = query.vector.tolist()
    found = list(_linked_facts(connection, filter, query, vector)) if query.facts else []
    if not query.kinds or "entity" in query.kinds:
        found += _facts_of_entities(connection, filter, query, vector, known)
    return found


def _linked_facts(
    connection: Connection, filter: ScopeFilter, query: EdgeQuery, vector: Sequence[float]
) -> Iterator[Edge]:
    """Follow stored links in both directions."""

    def statement(values: Parameters) -> str:
        bank = values.add(filter.bank, "bigint")
        return f"""
SELECT given.id, facts.id, facts.tokens, found.kind::integer, found.onward, found.weight
FROM facts AS given CROSS JOIN LATERAL (
    (SELECT target AS other, kind, weight, true AS onward FROM links
        WHERE links.bank = {bank} AND links.source = given.seq ORDER BY target, kind LIMIT {LINKS})
    UNION ALL
    (SELECT source, kind, weight, false FROM links
        WHERE links.bank = {bank} AND links.target = given.seq ORDER BY source, kind LIMIT {LINKS})
) AS found
JOIN facts ON facts.bank = {bank} AND facts.seq = found.other
JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = found.other
WHERE given.bank = {bank} AND given.id = ANY({values.add([id for id in query.facts if storable(id)], "text[]")})
    AND found.other <> given.seq AND found.weight >= {values.add(query.least, "float8")}
    AND {_reachable(values, filter, query, vector)}
"""

    kinds = query.kinds or ALL_KINDS
    for source, target, tokens, number, onward, weight in fetch_built(connection, statement):
        kind = LINK_KINDS[int(number)]
        kind = kind if onward else SEEN_FROM_TARGET.get(kind, kind)
        if kind in kinds:
            yield Edge(FactId(source), FactId(target), tokens, kind, weight)


_ENTITIES_OF_NODES = """
SELECT node.id, node.entity, entities.name, weight FROM (
    SELECT facts.id, mentions.entity FROM facts
    JOIN mentions ON mentions.bank = $1 AND mentions.fact = facts.seq
    WHERE facts.bank = $1 AND facts.id = ANY($2::text[])
    UNION ALL SELECT id, seq FROM entities WHERE bank = $1 AND id = ANY($3::text[])
) AS node JOIN entities ON entities.bank = $1 AND entities.seq = node.entity CROSS JOIN LATERAL (
    SELECT 1 / sqrt(greatest(count(*), 1)::float8) AS weight FROM (
        SELECT FROM mentions WHERE mentions.bank = $1 AND mentions.entity = node.entity LIMIT $4::bigint
    ) AS mentioned
) AS counted WHERE weight >= $5::float8
"""
"""The entities of facts, and given entities: the entity's name and its weight; rarer entities weigh more."""


def _facts_of_entities(
    connection: Connection, filter: ScopeFilter, query: EdgeQuery, vector: Sequence[float], known: EntityFacts
) -> list[Edge]:
    """Follow the entities that facts mention, and given entities, to their facts."""
    nodes = [[id for id in ids if storable(id)] for ids in (query.facts, query.entities)]
    rows = fetch(connection, _ENTITIES_OF_NODES, filter.bank, *nodes, query.common, query.least)
    new = sorted({entity for _, entity, _, _ in rows} - known.keys())
    if new:
        known |= {entity: [] for entity in new}
        chosen = fetch_built(connection, lambda values: _most_similar(values, filter, query, vector, new))
        for entity, fact, tokens in chosen:
            known[entity].append((FactId(fact), tokens))
    return [
        Edge(EntityId(source), fact, tokens, "entity", weight, name)
        for source, entity, name, weight in rows
        for fact, tokens in known[entity]
        if fact != source
    ]


def _most_similar(
    values: Parameters, filter: ScopeFilter, query: EdgeQuery, vector: Sequence[float], entities: Sequence[int]
) -> str:
    """Return the statement for the facts of each entity that are most similar to the query, of its newest facts."""
    bank, given = values.add(filter.bank, "bigint"), values.add(entities, "bigint[]")
    return f"""
SELECT given.entity, chosen.id, chosen.tokens FROM unnest({given}) AS given(entity) CROSS JOIN LATERAL (
    SELECT facts.id, facts.tokens FROM (
        SELECT fact FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = given.entity
        ORDER BY fact DESC LIMIT {query.compared}
    ) AS newest
    JOIN facts ON facts.bank = {bank} AND facts.seq = newest.fact
    JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = newest.fact
    WHERE {_reachable(values, filter, query, vector)}
    ORDER BY {cosine(values, vector)} DESC, facts.seq LIMIT {query.fan}
) AS chosen
"""


def _reachable(values: Parameters, filter: ScopeFilter, query: EdgeQuery, vector: Sequence[float]) -> str:
    """Return the condition of facts that edges may lead to: in the scope and similar enough."""
    if query.floor <= -1.0:
        return filter.facts(values)
    return f"{filter.facts(values)} AND {cosine(values, vector)} >= {values.add(query.floor, 'float8')}"


def revisions(connection: Connection, filter: ScopeFilter, ids: Sequence[FactId]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends in the scope."""
    given = [id for id in ids if storable(id)]
    rows = fetch_built(connection, lambda values: _revision_statement(values, filter, given))
    return [
        RevisionEdge(
            newer=FactId(newer_id),
            older=FactId(older_id),
            kind=REVISION_KINDS[kind],
            probability=weight,
            newer_tokens=newer_tokens,
            older_tokens=older_tokens,
            mentioned_at=instant(mentioned_at),
        )
        for newer_id, newer_tokens, mentioned_at, older_id, older_tokens, kind, weight in rows
    ]


def _revision_statement(values: Parameters, filter: ScopeFilter, ids: Sequence[str]) -> str:
    bank = values.add(filter.bank, "bigint")
    links = " UNION ".join(
        f"SELECT source, target, kind, weight FROM given JOIN links ON links.bank = {bank} AND links.{end} = given.seq "
        f"WHERE {REVISIONS}"
        for end in ("source", "target")
    )
    return f"""
WITH given AS MATERIALIZED (
    SELECT seq FROM facts WHERE bank = {bank} AND id = ANY({values.add(ids, "text[]")})
), found AS MATERIALIZED ({links}), visible AS MATERIALIZED (
    SELECT facts.seq, facts.id, facts.tokens, facts.mentioned_at
    FROM (SELECT source AS seq FROM found UNION SELECT target FROM found) AS ends
    JOIN facts ON facts.bank = {bank} AND facts.seq = ends.seq WHERE {filter.facts(values)}
)
SELECT newer.id, newer.tokens, newer.mentioned_at, older.id, older.tokens, found.kind::integer, found.weight
FROM found JOIN visible AS newer ON newer.seq = found.source JOIN visible AS older ON older.seq = found.target
ORDER BY found.source, found.target
"""
