"""Edges of the graph in PostgreSQL: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from vmemo.models import EntityId, FactId, LinkKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge, Scope, Vector
from vmemo.stores.postgres.driver import Parameters, fetch, fetch_built
from vmemo.stores.postgres.filters import ScopeFilter
from vmemo.stores.postgres.vectors import RankedRows, cosine
from vmemo.stores.sql.fact_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.schema import REVISIONS
from vmemo.stores.values import instant, storable

_OTHER_WAY: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
_ALL = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
_MET, _LED = -1, -2
"""Kinds of rows besides links: an entity that a node has, and a fact that an entity leads to."""
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""
COMPARED = 2048
"""Facts of an entity that are compared, of those that the nearest facts do not decide."""
LIKELY = 3
"""Times more of an entity's most similar facts than wanted that are looked up, of which most are in the scope."""
LIGHTEST = 1e-4
"""Weights below this one are not distinguished."""


@dataclass(frozen=True)
class NearestFacts:
    """The facts of a scope that are nearest to a vector, best first, as a search found them."""

    scope: Scope
    vector: Vector
    found: RankedRows

    def leading(self, connection: Connection, bank: int, fan: int) -> dict[int, list[tuple[FactId, int]]]:
        """Return for each entity that at least `fan` of the facts mention the best of them: its best facts of all."""
        ranks = {row[3]: rank for rank, row in enumerate(self.found.rows)}
        best: dict[int, list[tuple[FactId, int]]] = {}
        for entity, facts in fetch(connection, _MENTIONING, bank, list(ranks), fan):
            rows = [self.found.rows[rank] for rank in sorted(ranks[fact] for fact in facts)[:fan]]
            best[entity] = [(FactId(id), tokens) for id, _, tokens, *_ in rows]
        return best


_MENTIONING = """
SELECT entity, array_agg(fact) FROM mentions WHERE bank = $1 AND fact = ANY($2::bigint[])
GROUP BY entity HAVING count(*) >= $3::bigint
"""


class EdgeSearch:
    """The edges to facts of a scope, for queries that differ in facts, entities and least weight alone.

    The facts that an entity leads to are chosen once.
    """

    def __init__(self, filter: ScopeFilter, query: EdgeQuery, nearest: NearestFacts | None) -> None:
        self._filter = filter
        self._first = query
        known = nearest is not None and nearest.scope is query.scope and nearest.vector is query.vector
        # Among the facts that are nearest of all, those that an entity's search would choose come first as well.
        self._nearest = nearest if known and query.compared >= COMPARED and query.floor <= -1.0 else None
        self._led: dict[int, list[tuple[FactId, int]]] = {}

    def serves(self, query: EdgeQuery) -> bool:
        """Return True if a query differs from the first one in facts, entities and least weight alone."""
        first = self._first
        return (
            query.scope is first.scope
            and query.vector is first.vector
            and (query.kinds, query.fan, query.compared, query.common, query.floor)
            == (first.kinds, first.fan, first.compared, first.common, first.floor)
        )

    def find(self, connection: Connection, query: EdgeQuery) -> list[Edge]:
        """Return the edges of a query."""
        if self._nearest is not None:
            self._led = self._nearest.leading(connection, self._filter.bank, query.fan)
            self._nearest = None
        rows = fetch_built(connection, lambda values: self._statement(values, query))
        led = self._leading(connection, rows, query)
        for kind, _, _, _, _, _, entity, _ in rows:
            if kind == _MET:
                self._led.setdefault(entity, led[entity])
        return list(self._edges(rows, query.kinds or _ALL))

    def _leading(
        self, connection: Connection, rows: Sequence[Sequence[Any]], query: EdgeQuery
    ) -> dict[int, list[tuple[FactId, int]]]:
        """Return the facts that entities lead to; where too few of the likely ones pass, all of them are asked."""
        led: dict[int, list[tuple[FactId, int]]] = defaultdict(list)
        seen = Counter[int]()
        for kind, _, target, tokens, passes, _, entity, _ in rows:
            if kind == _LED:
                seen[entity] += 1
                if passes and len(led[entity]) < query.fan:
                    led[entity].append((FactId(target), tokens))
        unsure = [id for id, count in seen.items() if count == LIKELY * query.fan and len(led[id]) < query.fan]
        if unsure:
            led |= {entity: [] for entity in unsure}
            for entity, fact, tokens in fetch_built(connection, lambda values: self._all_led(values, unsure, query)):
                led[entity].append((FactId(fact), tokens))
        return led

    def _edges(self, rows: Sequence[Sequence[Any]], kinds: frozenset[LinkKind]) -> Iterator[Edge]:
        for number, source, target, tokens, onward, weight, entity, name in rows:
            if number == _MET:
                for fact, count in self._led[entity]:
                    if fact != source:
                        yield Edge(EntityId(source), fact, count, "entity", weight, name)
            elif number != _LED:
                kind = LINK_KINDS[int(number)]
                kind = kind if onward else _OTHER_WAY.get(kind, kind)
                if kind in kinds:
                    yield Edge(FactId(source), FactId(target), tokens, kind, weight)

    def _statement(self, values: Parameters, query: EdgeQuery) -> str:
        bank = values.add(self._filter.bank, "bigint")
        least = values.add(query.least, "float8")
        facts = values.add([id for id in query.facts if storable(id)], "text[]")
        parts = [_linked(bank, least, self._near_enough(values, "found.other", query))]
        given = f"given AS MATERIALIZED (SELECT seq, id FROM facts WHERE bank = {bank} AND id = ANY({facts}))"
        if query.kinds and "entity" not in query.kinds:
            return f"WITH {given} {parts[0]}"
        entities = values.add([id for id in query.entities if storable(id)], "text[]")
        known = values.add(list(self._led), "bigint[]")
        # Facts beyond these make the edges only lighter that are too light already.
        enough = values.add(min(query.common, math.ceil(1 / max(query.least, LIGHTEST) ** 2) + 1), "bigint")
        near = self._near_enough(values, "likely.fact", query)
        parts += [_MET_ROWS, _led(bank, known, near, cosine(values, query.vector), query)]
        return f"WITH {given}, {_met(bank, entities, least, enough)} {' UNION ALL '.join(parts)}"

    def _all_led(self, values: Parameters, entities: Sequence[int], query: EdgeQuery) -> str:
        """The facts that some entities lead to, chosen among all that may be reached."""
        bank, given = values.add(self._filter.bank, "bigint"), values.add(entities, "bigint[]")
        return f"""
SELECT each.entity, reached.id, reached.tokens FROM unnest({given}) AS each(entity) CROSS JOIN LATERAL (
    SELECT facts.id, facts.tokens FROM ({_newest(bank, "each.entity", query)}) AS newest
    JOIN facts ON facts.bank = {bank} AND facts.seq = newest.fact
    JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = newest.fact
    WHERE {self._near_enough(values, "newest.fact", query)}
    ORDER BY {cosine(values, query.vector)} DESC, facts.seq LIMIT {query.fan}
) AS reached
"""

    def _near_enough(self, values: Parameters, fact: str, query: EdgeQuery) -> str:
        """The condition of a fact that may be reached."""
        found = self._filter.facts(values)
        if query.floor <= -1.0:
            return found
        bank, floor = values.add(self._filter.bank, "bigint"), values.add(query.floor, "float8")
        return (
            f"{found} AND (SELECT {cosine(values, query.vector)} FROM fact_vectors "
            f"WHERE fact_vectors.bank = {bank} AND fact_vectors.seq = {fact}) >= {floor}"
        )


def _linked(bank: str, least: str, condition: str) -> str:
    """Stored links in both directions; from its other end a link may be of another kind."""
    return f"""
SELECT found.kind::integer, given.id, facts.id, facts.tokens, found.onward, found.weight, NULL::bigint, NULL
FROM given CROSS JOIN LATERAL (
    (SELECT target AS other, kind, weight, true AS onward FROM links
        WHERE links.bank = {bank} AND links.source = given.seq ORDER BY target, kind LIMIT {LINKS})
    UNION ALL
    (SELECT source, kind, weight, false FROM links
        WHERE links.bank = {bank} AND links.target = given.seq ORDER BY source, kind LIMIT {LINKS})
) AS found JOIN facts ON facts.bank = {bank} AND facts.seq = found.other
WHERE {condition} AND found.other <> given.seq AND found.weight >= {least}
"""


def _met(bank: str, entities: str, least: str, enough: str) -> str:
    """The entities of the nodes, each with its name and how much sharing it says: the rarer, the more.

    Of one that says less than `least`, hardly more than that is found out.
    """
    return f"""
met AS MATERIALIZED (
    SELECT given.id, mentions.entity FROM given
    JOIN mentions ON mentions.bank = {bank} AND mentions.fact = given.seq
    UNION ALL SELECT id, seq FROM entities WHERE bank = {bank} AND id = ANY({entities})
), heavy AS MATERIALIZED (
    SELECT entity, named.name, weight FROM (SELECT DISTINCT entity FROM met) AS each CROSS JOIN LATERAL (
        SELECT 1 / sqrt(greatest(count(*), 1)::float8) AS weight FROM (
            SELECT FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = each.entity LIMIT {enough}
        ) AS mentioned
    ) AS counted CROSS JOIN LATERAL (
        SELECT name FROM entities WHERE entities.bank = {bank} AND entities.seq = each.entity OFFSET 0
    ) AS named
    WHERE weight >= {least}
)
"""


_MET_ROWS = f"""
SELECT {_MET}, met.id, NULL, NULL, NULL, heavy.weight, entity, heavy.name FROM met JOIN heavy USING (entity)
"""


def _led(bank: str, known: str, condition: str, cosine: str, query: EdgeQuery) -> str:
    """The facts that an entity may lead to, the most similar ones first, of entities that are not known.

    The rows of a few are looked up to see if they may be reached, which takes longer than comparing their vectors.
    """
    return f"""
SELECT {_LED}, NULL, reached.id, reached.tokens, reached.passes, NULL, heavy.entity, NULL
FROM heavy CROSS JOIN LATERAL (
    SELECT facts.id, facts.tokens, {condition} AS passes FROM (
        SELECT newest.fact, {cosine} AS score FROM ({_newest(bank, "heavy.entity", query)}) AS newest
        JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = newest.fact
        ORDER BY score DESC, newest.fact LIMIT {LIKELY * query.fan}
    ) AS likely JOIN facts ON facts.bank = {bank} AND facts.seq = likely.fact
    ORDER BY likely.score DESC, likely.fact
) AS reached WHERE heavy.entity <> ALL({known})
"""


def _newest(bank: str, entity: str, query: EdgeQuery) -> str:
    return (
        f"SELECT fact FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = {entity} "
        f"ORDER BY fact DESC LIMIT {query.compared}"
    )


def revisions(connection: Connection, filter: ScopeFilter, ids: Sequence[FactId]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends passing."""
    given = [id for id in ids if storable(id)]
    rows = fetch_built(connection, lambda values: _revisions(values, filter, given))
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


def _revisions(values: Parameters, filter: ScopeFilter, ids: Sequence[str]) -> str:
    bank = values.add(filter.bank, "bigint")
    ways = " UNION ".join(
        f"SELECT source, target, kind, weight FROM given JOIN links ON links.bank = {bank} AND links.{end} = given.seq "
        f"WHERE {REVISIONS}"
        for end in ("source", "target")
    )
    return f"""
WITH given AS MATERIALIZED (
    SELECT seq FROM facts WHERE bank = {bank} AND id = ANY({values.add(ids, "text[]")})
), found AS MATERIALIZED ({ways}), seen AS MATERIALIZED (
    SELECT facts.seq, facts.id, facts.tokens, facts.mentioned_at
    FROM (SELECT source AS seq FROM found UNION SELECT target FROM found) AS ends
    JOIN facts ON facts.bank = {bank} AND facts.seq = ends.seq WHERE {filter.facts(values)}
)
SELECT newer.id, newer.tokens, newer.mentioned_at, older.id, older.tokens, found.kind::integer, found.weight
FROM found JOIN seen AS newer ON newer.seq = found.source JOIN seen AS older ON older.seq = found.target
ORDER BY found.source, found.target
"""
