"""Search by vector on PostgreSQL: by the index of a large bank, or by one exact scan over the vectors of a bank."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    ScalarSelect,
    Select,
    Subquery,
    cast,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.types import TypeEngine

from vmemo.models import FactId, Interval, utc_now
from vmemo.models.search import Ranking, Scope, Scored, TemporalSearch, Vector, Vectors
from vmemo.stores.postgres.filters import began, ended, inside, wide
from vmemo.stores.postgres.hnsw import Searched, usable
from vmemo.stores.postgres.ranked_rows import Candidates, RankedQuery, best, shortlist
from vmemo.stores.postgres.rows import flat
from vmemo.stores.postgres.schema import Halfvec, fact_search
from vmemo.stores.sql.rows import micros
from vmemo.stores.sql.schema import facts
from vmemo.stores.sql.selects import still_believed
from vmemo.stores.sqlite.index.vectors import SAMPLE

_s = fact_search.c
NUMBER: TypeEngine[float] = Double()
"""Scores and weights."""
NEWEST = 2_000
"""Facts of a bank that are sampled to estimate the distance of neighbours."""


def cosine(vector: Vector) -> ColumnElement[float]:
    """A fact's cosine with a vector. All vectors are of length one, so the inner product is enough."""
    return -_s.embedding.op("<#>", return_type=NUMBER)(literal(vector, Halfvec()))


def fact_candidates(bank: int, scope: Scope, conditions: Sequence[ColumnElement[bool]]) -> Candidates:
    """Return the facts that a scope accepts, given its conditions."""
    return Candidates(table=facts, bank=bank, tokens=facts.c.tokens, conditions=conditions, common=wide(scope))


def nearest(
    connection: Connection, searched: Searched, candidates: Candidates, vector: Vector, *, limit: int, floor: float
) -> Ranking:
    """Rank facts by cosine."""
    bank, length = searched.bank, shortlist(limit)
    by_index = candidates.common and usable(connection, searched, length)
    wanted = RankedQuery(
        scored=_scored(bank, vector),
        limit=limit,
        floor=floor,
        baseline=_baseline(bank, searched.count, vector),
        first=_by_index(searched, vector, length) if by_index else None,
    )
    return best(connection, candidates, wanted)


def _by_index(searched: Searched, vector: Vector, length: int) -> Subquery:
    """The best rows in the words of the index, which is used for them alone."""
    kind = Halfvec(searched.dimension)
    distance = cast(_s.embedding, kind).op("<#>", return_type=NUMBER)(literal(vector, kind)).label("distance")
    found = select(_s.seq, distance).where(
        _s.bank == searched.bank, func.vector_dims(_s.embedding) == searched.dimension
    )
    near = found.order_by(distance).limit(length).subquery("near")
    return select(near.c.seq, (-near.c.distance).label("score")).subquery("first")


def _scored(bank: int, vector: Vector) -> Subquery:
    return select(_s.seq, cosine(vector).label("score")).where(_s.bank == bank).subquery("scored")


def _baseline(bank: int, count: int, vector: Vector) -> ScalarSelect[float]:
    """The cosine of unrelated facts: two deviations under the mean of an even sample."""
    found = select(cosine(vector).label("cosine")).where(_s.bank == bank)
    sample = (found if count < 2 * SAMPLE else _spread_out(bank, found)).subquery("sample").c.cosine
    return select(func.avg(sample) - 2 * func.stddev_pop(sample)).scalar_subquery()


def _spread_out(bank: int, found: Select[float]) -> Select[float]:
    """The cosines of facts at even distances between the bank's first and last; each is one look at the key."""
    own = fact_search.alias("own").c
    ends = select(own.seq).where(own.bank == bank).limit(1)
    first = ends.order_by(own.seq).scalar_subquery()
    last = ends.order_by(own.seq.desc()).scalar_subquery()
    places = func.generate_series(0, SAMPLE - 1).table_valued("place", name="places").render_derived()
    following = (
        found.where(_s.seq >= first + (last - first) * places.c.place // SAMPLE)
        .order_by(_s.seq)
        .limit(1)
        .correlate(places)
        .lateral("following")
    )
    return select(following.c.cosine).select_from(places.join(following, true()))


def during(
    connection: Connection, searched: Searched, candidates: Candidates, query: TemporalSearch, *, limit: int
) -> Ranking:
    """Rank facts inside an interval, by cosine and by how near its middle they lie."""
    bank = searched.bank
    close = (
        select(facts.c.id, facts.c.seq, facts.c.tokens, cosine(query.vector).label("cosine"))
        .add_columns((1 - query.edge_penalty * _off_centre(query.during)).label("share"))
        .join_from(facts, fact_search, (_s.bank == bank) & (_s.seq == facts.c.seq))
        .where(*candidates.conditions, *inside(query.during))
        # Keeps the floor from being asked of every fact of the bank.
        .offset(0)
        .subquery("close")
    )
    score = (close.c.cosine * close.c.share).label("score")
    statement = (
        select(close.c.id, score, close.c.tokens)
        .where(close.c.cosine >= query.floor)
        .order_by(score.desc(), close.c.seq)
        .limit(limit)
    )
    hits = [Scored(FactId(id), float(points), tokens) for id, points, tokens in connection.execute(statement).all()]
    baseline = connection.execute(select(_baseline(bank, searched.count, query.vector))).scalar_one()
    return Ranking.of(hits, float(baseline or 0.0))


def _off_centre(stretch: Interval) -> ColumnElement[float]:
    """Return each fact's distance from the interval's middle: 0 there, 1 at the ends; 0 for an open interval."""
    if stretch.start is None or stretch.end is None:
        return literal(0.0, NUMBER)
    start, end = micros(stretch.start), micros(stretch.end)
    middle = cast(began + ended, NUMBER) / 2
    away = func.abs(middle - literal((start + end) / 2, NUMBER)) / literal(max(1.0, (end - start) / 2), NUMBER)
    return func.least(literal(1.0, NUMBER), away)


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
    SELECT embedding FROM fact_search WHERE bank = $1 ORDER BY seq DESC LIMIT {NEWEST}
), asked AS MATERIALIZED (
    SELECT place, vector, greatest($7::double precision, (
        SELECT -(embedding <#> vector) AS score FROM newest ORDER BY score DESC OFFSET $5::integer - 1 LIMIT 1
    )) AS least
    FROM given
), near AS (
    SELECT place, seq, score FROM (
        SELECT place, seq, score, row_number() OVER (PARTITION BY place ORDER BY score DESC, seq) AS rank
        FROM fact_search CROSS JOIN LATERAL (
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
        SELECT seq, embedding::halfvec(DIMENSION) <#> vector::halfvec(DIMENSION) AS distance FROM fact_search
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
        for place, id, score, tokens, current in connection.exec_driver_sql(statement, (*asked, *more)):
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
    current = Candidates(
        table=facts,
        bank=bank,
        tokens=facts.c.tokens,
        conditions=[*still_believed()],
        common=False,
    )
    wanted = RankedQuery(scored=_scored(bank, vector), limit=limit, floor=floor)
    return list(best(connection, current, wanted).hits)
