"""Search by vector on PostgreSQL: an exact scan over the vectors of a bank, or the HNSW index if the bank is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, Interval, utc_now
from vmemo.models.search import Ranking, Scope, Scored, TemporalSearch, Vector, Vectors
from vmemo.stores.postgres.driver import Parameters, fetch, fetch_built
from vmemo.stores.postgres.filters import BEGAN, ENDED, ScopeFilter, inside, wide
from vmemo.stores.postgres.rows import flat
from vmemo.stores.postgres.schema import vector_index
from vmemo.stores.sqlite.index.vectors import SAMPLE
from vmemo.stores.values import micros

PLACES = 64
"""Places of a bank that are looked at for a sample of its facts."""
SHARE = 60
"""The index is asked for at most one fact of the bank in so many; beyond that a scan is as fast."""
OTHERS = 10
"""The index is used for a bank with at least one of so many of its vectors: it reads those of other banks as well."""
_LEAST_SEEN, _MOST_SEEN, _SEEN = 300, 1_000, 3
"""Candidates of an index scan: three times as many as rows are asked for, within these limits."""


@dataclass(frozen=True, kw_only=True)
class SearchedBank:
    """A bank as a search by vector sees it; `large` if it has enough facts to search the index."""

    bank: int
    dimension: int
    count: int
    large: bool


@dataclass(frozen=True)
class RankedRows:
    """Rows by score, best first, each with id, score, tokens and number."""

    rows: Sequence[Sequence[Any]]
    baseline: float = 0.0

    def ranking(self, limit: int, floor: float) -> Ranking:
        """Return the best rows that reach the floor."""
        hits = [Scored(FactId(id), score, tokens) for id, score, tokens, *_ in self.rows[:limit] if score >= floor]
        return Ranking.of(hits, self.baseline)


_USE_INDEX = """
SELECT set_config('hnsw.ef_search', $2, true), set_config('hnsw.iterative_scan', 'relaxed_order', true)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indexrelid = to_regclass($1) AND indisvalid AND reltuples <= $3
"""


def _use_index(connection: Connection, searched: SearchedBank, length: int) -> bool:
    """Return True if the index can return this many rows, and widen its search for this transaction."""
    if not searched.large or length * SHARE > searched.count:
        return False
    seen = max(_LEAST_SEEN, min(_MOST_SEEN, _SEEN * length))
    asked = (vector_index(searched.dimension), str(seen), float(OTHERS * searched.count))
    return bool(fetch(connection, _USE_INDEX, *asked))


def _shortlist(limit: int) -> int:
    """Rows to rank before the scope is applied."""
    return 2 * limit + 16


def cosine(values: Parameters, vector: Vector) -> str:
    """Return the SQL of a fact's cosine with a vector. All vectors have length one: the inner product is enough."""
    return f"-(fact_vectors.embedding <#> {halfvec(values, vector)})"


def halfvec(values: Parameters, vector: Vector, dimension: str = "") -> str:
    """Return the SQL of a vector, which the server converts once: a cast alone would be repeated for each row."""
    return f"(SELECT {_given(values, vector)}::halfvec{dimension})"


def _given(values: Parameters, vector: Vector) -> str:
    # One list per vector, so that it is sent once however often a statement names it.
    known = next((each for each in values.values if isinstance(each, _Sent) and each.vector is vector), None)
    return values.add(known or _Sent(vector), "real[]")


class _Sent(list[float]):
    """The numbers of a vector, as the driver sends them."""

    def __init__(self, vector: Vector) -> None:
        super().__init__(vector.tolist())
        self.vector = vector


def nearest(
    connection: Connection, searched: SearchedBank, filter: ScopeFilter, vector: Vector, *, limit: int, floor: float
) -> RankedRows:
    """Return at least the best `limit` facts of a scope by cosine, facts of equal cosine by number.

    Where nearly every fact passes, twice as many as wanted are ranked before the scope is applied, which saves reading
    the row of every fact. If too few of these pass, the facts of the scope are ranked alone.
    """
    unrelated = _baseline_of(connection, searched, vector)
    if wide(filter.scope):
        length = _shortlist(limit)
        indexed = _use_index(connection, searched, length)
        rows = fetch_built(connection, lambda values: _shortlisted(values, searched, filter, vector, length, indexed))
        passing = [row for row in rows if row[4]]
        complete = len(rows) < length and not indexed
        if complete or len(passing) >= limit or (len(rows) == length and rows[-1][1] < floor):
            return RankedRows(passing, unrelated)
    return RankedRows(_in_scope(connection, filter, vector, limit), unrelated)


def _shortlisted(
    values: Parameters, searched: SearchedBank, filter: ScopeFilter, vector: Vector, length: int, indexed: bool
) -> str:
    bank = values.add(searched.bank, "bigint")
    first = _by_index(values, searched, vector, length)
    if not indexed:
        first = (
            f"SELECT seq, {cosine(values, vector)} AS score FROM fact_vectors WHERE bank = {bank} "
            f"ORDER BY score DESC, seq LIMIT {length}"
        )
    # Each row is looked up by its key; all rows of the bank would be read to join so few.
    return f"""
SELECT row.id, first.score, row.tokens, first.seq, row.passes FROM ({first}) AS first CROSS JOIN LATERAL (
    SELECT facts.id, facts.tokens, {filter.facts(values)} AS passes
    FROM facts WHERE facts.bank = {bank} AND facts.seq = first.seq OFFSET 0
) AS row
ORDER BY first.score DESC, first.seq
"""


def _by_index(values: Parameters, searched: SearchedBank, vector: Vector, length: int) -> str:
    """The best rows by the expression of the index."""
    dimension = f"({searched.dimension})"
    return f"""
SELECT seq, -distance AS score FROM (
    SELECT seq, embedding::halfvec{dimension} <#> {halfvec(values, vector, dimension)} AS distance
    FROM fact_vectors WHERE bank = {searched.bank} AND vector_dims(embedding) = {searched.dimension}
    ORDER BY distance LIMIT {length}
) AS near
"""


def _in_scope(connection: Connection, filter: ScopeFilter, vector: Vector, limit: int) -> list[Sequence[Any]]:
    """Return the best facts of a scope by an exact scan."""

    def statement(values: Parameters) -> str:
        bank = values.add(filter.bank, "bigint")
        return f"""
SELECT facts.id, {cosine(values, vector)} AS score, facts.tokens, facts.seq
FROM fact_vectors JOIN facts ON facts.bank = {bank} AND facts.seq = fact_vectors.seq
WHERE fact_vectors.bank = {bank} AND {filter.facts(values)}
ORDER BY score DESC, facts.seq LIMIT {limit}
"""

    return fetch_built(connection, statement)


def _baseline_of(connection: Connection, searched: SearchedBank, vector: Vector) -> float:
    [(found,)] = fetch_built(connection, lambda values: f"SELECT {_baseline(values, searched, vector)}")
    return float(found or 0.0)


def _baseline(values: Parameters, searched: SearchedBank, vector: Vector) -> str:
    """The cosine of unrelated facts: two deviations under the mean of an even sample."""
    bank = values.add(searched.bank, "bigint")
    found = f"SELECT {cosine(values, vector)} AS cosine FROM fact_vectors WHERE bank = {bank}"
    if searched.count >= 2 * SAMPLE:
        # A few facts at each of some places at even distances; each place is one look at the key.
        found = f"""
            SELECT cosine FROM (
                SELECT min(seq) AS first, max(seq) AS last FROM fact_vectors WHERE bank = {bank}
            ) AS ends CROSS JOIN generate_series(0, {PLACES - 1}) AS place CROSS JOIN LATERAL (
                {found} AND seq >= ends.first + (ends.last - ends.first) * place / {PLACES}
                ORDER BY seq LIMIT {SAMPLE // PLACES}
            ) AS following"""
    return f"(SELECT avg(cosine) - 2 * stddev_pop(cosine) FROM ({found}) AS sample)"


def during(
    connection: Connection, searched: SearchedBank, filter: ScopeFilter, query: TemporalSearch, *, limit: int
) -> Ranking:
    """Rank facts inside an interval, by cosine and by how near its middle they lie."""
    rows = fetch_built(connection, lambda values: _during(values, filter, query, limit))
    hits = [Scored(FactId(id), points, tokens) for id, points, tokens in rows]
    return Ranking.of(hits, _baseline_of(connection, searched, query.vector))


def _during(values: Parameters, filter: ScopeFilter, query: TemporalSearch, limit: int) -> str:
    bank, floor = values.add(filter.bank, "bigint"), values.add(query.floor, "float8")
    conditions = " AND ".join([filter.facts(values), *inside(values, query.during)])
    share = f"1 - {values.add(query.edge_penalty, 'float8')} * {_off_centre(values, query.during)}"
    # The offset keeps the floor from being asked of every fact of the bank.
    return f"""
SELECT id, cosine * share AS score, tokens FROM (
    SELECT facts.id, facts.seq, facts.tokens, {cosine(values, query.vector)} AS cosine, {share} AS share
    FROM facts JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = facts.seq
    WHERE facts.bank = {bank} AND {conditions} OFFSET 0
) AS close
WHERE cosine >= {floor} ORDER BY score DESC, seq LIMIT {limit}
"""


def _off_centre(values: Parameters, interval: Interval) -> str:
    """Return each fact's distance from the interval's middle: 0 there, 1 at the ends; 0 for an open interval."""
    if interval.start is None or interval.end is None:
        return "0::float8"
    start, end = micros(interval.start), micros(interval.end)
    middle = values.add((start + end) / 2, "float8")
    half = values.add(max(1.0, (end - start) / 2), "float8")
    return f"least(1::float8, abs(({BEGAN} + {ENDED})::float8 / 2 - {middle}) / {half})"


# Each fact is looked up by its key: the server's estimates of sizes may lead to a worse plan.
_NEIGHBOURS = """
WITH given AS MATERIALIZED (
    SELECT place, ($2::real[])[(place - 1) * $3::integer + 1 : place * $3::integer]::halfvec AS vector
    FROM generate_series(1, $4::integer) AS place
)
SELECT place, known.id, -distance, known.tokens, known.current
FROM given CROSS JOIN LATERAL (
    SELECT seq, {distance} AS distance FROM fact_vectors WHERE bank = $1 AND {condition}
    ORDER BY distance LIMIT $5::integer
) AS near CROSS JOIN LATERAL (
    SELECT id, tokens, expired_at IS NULL AND (invalid_at IS NULL OR invalid_at > $6)
        AND (expires_at IS NULL OR expires_at > $6) AS current
    FROM facts WHERE facts.bank = $1 AND facts.seq = near.seq OFFSET 0
) AS known
ORDER BY place, distance, near.seq
"""
_SCANNED = _NEIGHBOURS.format(distance="embedding <#> vector", condition="true")
_INDEXED = _NEIGHBOURS.format(
    distance="embedding::halfvec(DIMENSION) <#> vector::halfvec(DIMENSION)",
    condition="vector_dims(embedding) = DIMENSION",
)

_Near = list[list[tuple[Scored, bool]]]


def neighbours(
    connection: Connection, searched: SearchedBank, vectors: Vectors, *, limit: int, floor: float
) -> list[list[Scored]]:
    """For each vector the nearest current facts."""
    if not len(vectors):
        return []
    length = _shortlist(limit)
    return [
        [hit for hit, current in near if current and hit.score >= floor][:limit]
        if len(near) < length or near[-1][0].score < floor or sum(current for _, current in near) >= limit
        else _among_current(connection, searched.bank, vector, limit, floor)
        for near, vector in zip(_near(connection, searched, vectors, length), vectors, strict=True)
    ]


def _near(connection: Connection, searched: SearchedBank, vectors: Vectors, length: int) -> _Near:
    """For each vector the nearest facts, and whether they are current."""

    def found(statement: str) -> _Near:
        near: _Near = [[] for _ in vectors]
        for place, id, score, tokens, current in fetch(connection, statement, *asked):
            near[int(place) - 1].append((Scored(FactId(id), float(score), tokens), current))
        return near

    asked = (searched.bank, *flat(vectors), len(vectors), length, micros(utc_now()))
    if _use_index(connection, searched, length):
        near = found(_INDEXED.replace("DIMENSION", str(searched.dimension)))
        if all(len(each) == length for each in near):
            return near
    return found(_SCANNED)


def _among_current(connection: Connection, bank: int, vector: Vector, limit: int, floor: float) -> list[Scored]:
    """So many facts near the vector were closed that the current ones are ranked alone."""
    filter = ScopeFilter.of(connection, bank, Scope(bank=BankId("")))
    return list(RankedRows(_in_scope(connection, filter, vector, limit)).ranking(limit, floor).hits)
