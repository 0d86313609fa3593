"""Search by vector: by the index of a large bank, or by one exact scan over the vectors of a bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from vmemo.models import utc_now
from vmemo.models.search import Ranking, Scored, TemporalSearch, Vector, Vectors
from vmemo.stores.sqlite.index.vectors import SAMPLE
from vmemo.stores.values import micros
from vmemo_neo4j.connection import Row, Transaction
from vmemo_neo4j.filters import Filter
from vmemo_neo4j.nodes import SPANS, Cells
from vmemo_neo4j.selects import CURRENT

COSINE: Final[LiteralString] = "2 * vector.similarity.cosine(f.embedding, $vector) - 1"
"""A fact's cosine with a vector; Neo4j's similarity lies between 0 and 1."""
_FACTS: Final[LiteralString] = "MATCH (f:Fact {bank: $bank}) WHERE f.seq > 0"


@dataclass(frozen=True)
class IndexedVectors:
    """The vectors of a bank: how many there are, the last number of a fact, and the name of their index, if any."""

    count: int
    last: int
    index: str | None


@dataclass(frozen=True)
class Nearest:
    """The facts nearest to a vector, the cosine of unrelated ones, and the cosines of the nearest by their numbers."""

    vector: Vector
    ranking: Ranking
    baseline: float
    cosines: Mapping[str, float]


def shortlist(limit: int) -> int:
    """Facts that an index is asked for: some may not pass, and more are found more surely."""
    return max(3 * limit, 200)


async def nearest(
    tx: Transaction, searched: IndexedVectors, passes: Filter, vector: Vector, *, limit: int, floor: float
) -> Nearest:
    """Rank facts by cosine: by the index if enough of its facts pass, otherwise exactly."""
    asked = {**passes.parameters, "vector": vector.tolist(), "floor": floor, "step": _step(searched.count)}
    if searched.index is not None:
        found = _indexed(passes.condition, "$vector")
        row = await tx.one(
            f"CALL () {{ {found} }} CALL () {{ {_BASELINE} }} RETURN hits, least, baseline",
            **asked,
            last=searched.last,
            index=searched.index,
            length=shortlist(limit),
        )
        if row is not None and _is_decided(row["hits"], row["least"], limit=limit, floor=floor):
            return _ranked(vector, row, limit)
    row = await tx.one(_exact(passes.condition), **asked, limit=limit)
    return Nearest(vector, Ranking(), 0.0, {}) if row is None else _ranked(vector, row, limit)


def _ranked(vector: Vector, row: Row, limit: int) -> Nearest:
    baseline = row["baseline"] or 0.0
    cosines = {str(seq): score for _, score, _, seq in row["hits"]}
    return Nearest(vector, Ranking.of(_hits(row["hits"][:limit]), baseline), baseline, cosines)


def _hits(rows: Sequence[Cells]) -> list[Scored]:
    return [Scored(id, score, tokens) for id, score, tokens, *_ in rows]


def _step(count: int) -> int:
    """Return the step of an even sample of facts."""
    return max(1, count // SAMPLE)


_HIT: Final[LiteralString] = "[f.id, score, f.tokens, f.seq]"
_UNRELATED: Final[LiteralString] = "avg(sample) - 2 * stDevP(sample) AS baseline"
"""The cosine of unrelated facts: two deviations under the mean of an even sample."""
_BASELINE: Final[LiteralString] = (
    "UNWIND range($step, $last, $step) AS seq "
    "MATCH (f:Fact {bank: $bank, seq: seq}) USING INDEX SEEK f:Fact(bank, seq) "
    f"WITH {COSINE} AS sample RETURN {_UNRELATED}"
)


def _exact(condition: LiteralString) -> LiteralString:
    """One pass over the bank ranks facts and takes the sample: reading a vector takes longer than all else."""
    return (
        f"{_FACTS} WITH f, f.seq % $step = 0 AS sampled, {condition} AS passes WHERE sampled OR passes "
        f"WITH f, sampled, passes, {COSINE} AS score "
        "WITH f, passes, score, CASE WHEN sampled THEN score END AS sample "
        f"WITH {_UNRELATED}, collect(CASE WHEN passes AND score >= $floor THEN [score, f] END) AS found "
        "CALL (found) { UNWIND found AS hit WITH hit[0] AS score, hit[1] AS f ORDER BY score DESC, f.seq LIMIT $limit "
        f"RETURN collect({_HIT}) AS hits }} RETURN hits, baseline"
    )


def _indexed(condition: LiteralString, vector: LiteralString) -> LiteralString:
    """The facts of an index's shortlist that pass, best first, and the least score of the shortlist."""
    return (
        f"CALL db.index.vector.queryNodes($index, $length, {vector}) YIELD node AS f, score "
        f"WITH f, 2 * score - 1 AS score, {condition} AS passes ORDER BY score DESC, f.seq RETURN "
        f"collect(CASE WHEN passes AND score >= $floor THEN {_HIT} END) AS hits, min(score) AS least"
    )


def _is_decided(hits: Sequence[Cells], least: float | None, *, limit: int, floor: float) -> bool:
    """Return True if the best facts that pass are among those of an index's shortlist, which goes down to `least`."""
    return len(hits) >= limit or (least is not None and least < floor)


async def _baseline(tx: Transaction, bank: str, vector: Vector, searched: IndexedVectors) -> float:
    """Return the cosine of unrelated facts."""
    asked = {"vector": vector.tolist(), "step": _step(searched.count), "last": searched.last}
    row = await tx.one(_BASELINE, bank=bank, **asked)
    return 0.0 if row is None or row["baseline"] is None else float(row["baseline"])


_DURING: Final[LiteralString] = (
    "UNWIND $spans AS span MATCH (f:Fact {bank: $bank, span: span}) USING INDEX SEEK f:Fact(bank, span, began) "
    "WHERE f.began > $first - span AND f.began < $last AND f.ended > $first RETURN f"
)
"""The facts that reach into an interval: those of each span begin at most that long before it."""


async def during(
    tx: Transaction,
    searched: IndexedVectors,
    passes: Filter,
    query: TemporalSearch,
    *,
    limit: int,
    baseline: float | None,
) -> Ranking:
    """Rank facts inside an interval, by cosine and by how near its middle they lie."""
    start, end = query.during.start, query.during.end
    closed = start is not None and end is not None
    first, last = -(2**61) if start is None else micros(start), 2**61 if end is None else micros(end)
    away: LiteralString = "abs((f.began + f.ended) / 2.0 - $middle) / $half" if closed else "0.0"
    rows = await tx.table(
        # The filter comes apart, because the planner would repeat the seek for each alternative of it.
        f"CALL () {{ {_DURING} }} WITH f WHERE {passes.condition} "
        f"WITH f, {COSINE} AS cosine WHERE cosine >= $floor WITH f, cosine, {away} AS away "
        "WITH f, cosine * (1 - $penalty * CASE WHEN away < 1 THEN away ELSE 1 END) AS score "
        "ORDER BY score DESC, f.seq LIMIT $limit",
        "f.id, score, f.tokens",
        **passes.parameters,
        spans=SPANS,
        first=first,
        last=last,
        vector=query.vector.tolist(),
        floor=query.floor,
        middle=(first + last) / 2,
        half=max(1.0, (last - first) / 2),
        penalty=query.edge_penalty,
        limit=limit,
    )
    if baseline is None:
        baseline = await _baseline(tx, str(passes.parameters["bank"]), query.vector, searched)
    return Ranking.of(_hits(rows), baseline)


async def neighbours(tx: Transaction, bank: str, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
    """Return for each vector the nearest current facts."""
    row = await tx.one("MATCH (b:Bank {key: $bank}) RETURN b.vector_index AS index", bank=bank)
    index = None if row is None else row["index"]
    if not len(vectors):
        return []
    found = {} if index is None else await _by_index(tx, bank, index, vectors, limit=limit, floor=floor)
    unsure = [place for place in range(len(vectors)) if place not in found]
    exact = await _scanned(tx, bank, vectors[unsure], limit=limit, floor=floor) if unsure else []
    found |= dict(zip(unsure, exact, strict=True))
    return [found[place] for place in range(len(vectors))]


async def _by_index(
    tx: Transaction, bank: str, index: str, vectors: Vectors, *, limit: int, floor: float
) -> dict[int, list[Scored]]:
    """Return the nearest current facts by the place of their vector; places that are not decided are left out."""
    searched = _indexed(CURRENT, "$vectors[place]")
    rows = await tx.table(
        f"UNWIND range(0, size($vectors) - 1) AS place CALL (place) {{ {searched} }}",
        "place, hits, least",
        bank=bank,
        now=utc_now(),
        index=index,
        length=shortlist(limit),
        vectors=vectors.tolist(),
        floor=floor,
    )
    return {
        place: _hits(hits[:limit]) for place, hits, least in rows if _is_decided(hits, least, limit=limit, floor=floor)
    }


async def _scanned(tx: Transaction, bank: str, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
    """Return for each vector the nearest current facts; each fact is read once for all of them."""
    rows = await tx.table(
        f"{_FACTS} AND {CURRENT} WITH f, f.embedding AS embedding UNWIND range(0, size($vectors) - 1) AS place "
        "WITH place, f, 2 * vector.similarity.cosine(embedding, $vectors[place]) - 1 AS score WHERE score >= $floor "
        "WITH place, f, score ORDER BY score DESC, f.seq "
        "WITH place, collect([f.id, score, f.tokens])[..$limit] AS hits",
        "place, hits",
        bank=bank,
        now=utc_now(),
        vectors=vectors.tolist(),
        floor=floor,
        limit=limit,
    )
    found = {place: _hits(hits) for place, hits in rows}
    return [found.get(place, []) for place in range(len(vectors))]
