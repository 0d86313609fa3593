"""Search by vector on PostgreSQL: by the index of a large bank, or by one exact scan over the vectors of a bank."""

from __future__ import annotations

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, Interval, utc_now
from vmemo.models.search import Ranking, Scope, Scored, TemporalSearch, Vector, Vectors
from vmemo.stores.postgres.driver import Parameters, fetch, fetch_built
from vmemo.stores.postgres.filters import BEGAN, ENDED, ScopeFilter, inside, wide
from vmemo.stores.postgres.hnsw import Searched, usable
from vmemo.stores.postgres.ranked_rows import Candidates, RankedQuery, RankedRows, best, best_rows, shortlist
from vmemo.stores.postgres.rows import flat
from vmemo.stores.sqlite.index.vectors import SAMPLE
from vmemo.stores.values import micros

PLACES = 64
"""Places of a bank that are looked at for a sample of its facts."""
NEWEST = 2_000
"""Facts of a bank that are sampled to estimate the distance of neighbours."""


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


def fact_candidates(filter: ScopeFilter) -> Candidates:
    """Return the facts that a scope accepts."""
    common = wide(filter.scope)
    return Candidates(table="facts", bank=filter.bank, tokens="facts.tokens", condition=filter.facts, common=common)


def nearest(
    connection: Connection, searched: Searched, candidates: Candidates, vector: Vector, *, limit: int, floor: float
) -> RankedRows:
    """Return facts by cosine."""
    length = shortlist(limit)
    by_index = candidates.common and usable(connection, searched, length)
    wanted = RankedQuery(
        scored=lambda values: _scored(values, searched.bank, vector),
        limit=limit,
        floor=floor,
        baseline=lambda values: _baseline(values, searched, vector),
        first=(lambda values: _by_index(values, searched, vector, length)) if by_index else None,
    )
    return best_rows(connection, candidates, wanted)


def _by_index(values: Parameters, searched: Searched, vector: Vector, length: int) -> str:
    """The best rows in the words of the index, which is used for them alone; its bank is no parameter."""
    dimension = f"({searched.dimension})"
    return f"""
        SELECT seq, -distance AS score FROM (
            SELECT seq, embedding::halfvec{dimension} <#> {halfvec(values, vector, dimension)} AS distance
            FROM fact_vectors WHERE bank = {searched.bank} AND vector_dims(embedding) = {searched.dimension}
            ORDER BY distance LIMIT {length}
        ) AS near"""


def _scored(values: Parameters, bank: int, vector: Vector) -> str:
    number = values.add(bank, "bigint")
    return f"SELECT seq, {cosine(values, vector)} AS score FROM fact_vectors WHERE bank = {number}"


def _baseline(values: Parameters, searched: Searched, vector: Vector) -> str:
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
    connection: Connection, searched: Searched, filter: ScopeFilter, query: TemporalSearch, *, limit: int
) -> Ranking:
    """Rank facts inside an interval, by cosine and by how near its middle they lie."""
    rows = fetch_built(connection, lambda values: _during(values, filter, query, limit))
    hits = [Scored(FactId(id), points, tokens) for id, points, tokens in rows]
    found = fetch_built(connection, lambda values: f"SELECT {_baseline(values, searched, query.vector)}")
    return Ranking.of(hits, float(found[0][0] or 0.0))


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


_GIVEN = """
given AS MATERIALIZED (
    SELECT place, ($2::real[])[(place - 1) * $3::integer + 1 : place * $3::integer]::halfvec AS vector
    FROM generate_series(1, $4::integer) AS place
)"""
# Each fact is looked up by its key: the server's estimates of sizes may lead to a worse plan.
_KNOWN = """
SELECT place, known.id, score, known.tokens, known.current
FROM near CROSS JOIN LATERAL (
    SELECT id, tokens, expired_at IS NULL AND (invalid_at IS NULL OR invalid_at > $6)
        AND (expires_at IS NULL OR expires_at > $6) AS current
    FROM facts WHERE facts.bank = $1 AND facts.seq = near.seq OFFSET 0
) AS known
ORDER BY place, score DESC, near.seq
"""
# The bank is read once for all vectors. The best of its newest facts give the lowest score that can be among the
# best of all, so that few pairs are sorted.
_SCANNED = f"""
WITH {_GIVEN}, newest AS MATERIALIZED (
    SELECT embedding FROM fact_vectors WHERE bank = $1 ORDER BY seq DESC LIMIT {NEWEST}
), asked AS MATERIALIZED (
    SELECT place, vector, greatest($7::double precision, (
        SELECT -(embedding <#> vector) AS score FROM newest ORDER BY score DESC OFFSET $5::integer - 1 LIMIT 1
    )) AS least
    FROM given
), near AS (
    SELECT place, seq, score FROM (
        SELECT place, seq, score, row_number() OVER (PARTITION BY place ORDER BY score DESC, seq) AS rank
        FROM fact_vectors CROSS JOIN LATERAL (
            SELECT place, -(embedding <#> vector) AS score, least FROM asked OFFSET 0
        ) AS pair
        WHERE bank = $1 AND score >= least
    ) AS ranked
    WHERE rank <= $5
)
{_KNOWN}"""
_INDEXED = f"""
WITH {_GIVEN}, near AS (
    SELECT place, seq, -distance AS score
    FROM given CROSS JOIN LATERAL (
        SELECT seq, embedding::halfvec(DIMENSION) <#> vector::halfvec(DIMENSION) AS distance FROM fact_vectors
        WHERE bank = $1 AND vector_dims(embedding) = DIMENSION
        ORDER BY distance LIMIT $5::integer
    ) AS found
)
{_KNOWN}"""

_Near = list[list[tuple[Scored, bool]]]


def neighbours(
    connection: Connection, searched: Searched, vectors: Vectors, *, limit: int, floor: float
) -> list[list[Scored]]:
    """For each vector the nearest current facts."""
    if not len(vectors):
        return []
    length = shortlist(limit)
    return [
        _chosen(near, limit, floor)
        if len(near) < length or near[-1][0].score < floor or sum(current for _, current in near) >= limit
        else _among_current(connection, searched.bank, vector, limit, floor)
        for near, vector in zip(_near(connection, searched, vectors, length, floor), vectors, strict=True)
    ]


def _near(connection: Connection, searched: Searched, vectors: Vectors, length: int, floor: float) -> _Near:
    """For each vector the nearest facts, and whether they are current; those below the floor may be left out."""

    def found(statement: str, *more: float) -> _Near:
        near: _Near = [[] for _ in vectors]
        for place, id, score, tokens, current in fetch(connection, statement, *asked, *more):
            near[int(place) - 1].append((Scored(FactId(id), float(score), tokens), current))
        return near

    asked = (searched.bank, *flat(vectors), len(vectors), length, micros(utc_now()))
    if usable(connection, searched, length):
        near = found(_INDEXED.replace("DIMENSION", str(searched.dimension)))
        if all(len(each) == length for each in near):
            return near
    return found(_SCANNED, floor)


def _chosen(near: list[tuple[Scored, bool]], limit: int, floor: float) -> list[Scored]:
    return [hit for hit, current in near if current and hit.score >= floor][:limit]


def _among_current(connection: Connection, bank: int, vector: Vector, limit: int, floor: float) -> list[Scored]:
    """So many facts near the vector were closed that the current ones are ranked alone."""
    filter = ScopeFilter.of(connection, bank, Scope(bank=BankId("")))
    current = Candidates(table="facts", bank=bank, tokens="facts.tokens", condition=filter.facts, common=False)
    wanted = RankedQuery(scored=lambda values: _scored(values, bank, vector), limit=limit, floor=floor)
    return list(best(connection, current, wanted).hits)
