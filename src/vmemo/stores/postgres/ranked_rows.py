"""The best rows of a ranking that a scope lets through, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection

from vmemo.models.search import Ranking
from vmemo.stores.postgres.driver import Parameters, Sql, fetch_built


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The rows that a search may return. `common` says that nearly every row fulfils the condition."""

    table: Literal["facts", "messages"]
    bank: int
    tokens: str
    condition: Sql
    common: bool


@dataclass(frozen=True, kw_only=True)
class RankedQuery:
    """The number of rows to return, their minimum score, and further columns to compute, as SQL."""

    scored: Sql
    """A query of `seq` and `score`, with a row for everything that may be found."""
    limit: int
    floor: float = -float("inf")
    baseline: Sql | None = None
    first: Sql | None = None
    """The best `shortlist(limit)` rows by an index, with the same columns; without it they are ranked by `scored`."""


@dataclass(frozen=True)
class RankedRows:
    """Rows by score, best first, each with id, score, tokens and number."""

    rows: Sequence[Sequence[Any]]
    baseline: float

    def ranking(self, limit: int, floor: float) -> Ranking:
        """Return the best rows that reach the floor."""
        ids, scores, tokens = list[Any](), list[float](), list[int]()
        for id, score, count, *_ in self.rows[:limit]:
            if score >= floor:
                ids.append(id)
                scores.append(score)
                tokens.append(count)
        return Ranking(ids, scores, tokens, self.baseline)


def shortlist(limit: int) -> int:
    """Rows to rank before the condition is applied."""
    return 2 * limit + 16


def best(connection: Connection, candidates: Candidates, wanted: RankedQuery) -> Ranking:
    """Return rows by score, best first, rows of equal score by number."""
    return best_rows(connection, candidates, wanted).ranking(wanted.limit, wanted.floor)


def best_rows(connection: Connection, candidates: Candidates, wanted: RankedQuery) -> RankedRows:
    """Return the rows that `best` ranks, and maybe some further ones.

    Where nearly every row passes, twice as many as wanted are ranked before the condition is looked at, which saves
    reading the row of everything that was scored. If too few of these pass, all rows are asked, without an index.
    """
    if candidates.common:
        found = _shortlisted(connection, candidates, wanted)
        if found is not None:
            return found
    # The floor is applied later: in the statement the planner would check it before the condition.
    rows = fetch_built(connection, lambda values: _whole(values, candidates, wanted))
    return RankedRows(rows, _baseline(connection, wanted, rows))


def _shortlisted(connection: Connection, candidates: Candidates, wanted: RankedQuery) -> RankedRows | None:
    """Return the best rows, or None if a shortlist does not determine them."""
    length = shortlist(wanted.limit)
    rows = fetch_built(connection, lambda values: _short(values, candidates, wanted, length))
    if wanted.first is not None and len(rows) < length:
        return None
    passing = [row for row in rows if row[5]]
    enough = len(passing) >= wanted.limit or len(rows) < length or rows[-1][1] < wanted.floor
    return RankedRows(passing, _baseline(connection, wanted, rows)) if enough else None


def _short(values: Parameters, candidates: Candidates, wanted: RankedQuery, length: int) -> str:
    table, bank = candidates.table, values.add(candidates.bank, "bigint")
    # Each row is looked up by its key; all rows of the bank would be read to join so few.
    return f"""
SELECT row.id, first.score, row.tokens, first.seq, {_beside(values, wanted)}, row.passes
FROM ({_first(values, wanted, length)}) AS first CROSS JOIN LATERAL (
    SELECT {table}.id, {candidates.tokens} AS tokens, {candidates.condition(values)} AS passes
    FROM {table} WHERE {table}.bank = {bank} AND {table}.seq = first.seq OFFSET 0
) AS row
ORDER BY first.score DESC, first.seq
"""


def _first(values: Parameters, wanted: RankedQuery, length: int) -> str:
    if wanted.first is not None:
        return wanted.first(values)
    return f"SELECT seq, score FROM ({wanted.scored(values)}) AS scored ORDER BY score DESC, seq LIMIT {length}"


def _whole(values: Parameters, candidates: Candidates, wanted: RankedQuery) -> str:
    table, bank = candidates.table, values.add(candidates.bank, "bigint")
    return f"""
SELECT {table}.id, scored.score, {candidates.tokens}, scored.seq, {_beside(values, wanted)}
FROM ({wanted.scored(values)}) AS scored JOIN {table} ON {table}.bank = {bank} AND {table}.seq = scored.seq
WHERE {candidates.condition(values)}
ORDER BY scored.score DESC, scored.seq LIMIT {wanted.limit}
"""


def _beside(values: Parameters, wanted: RankedQuery) -> str:
    return "NULL" if wanted.baseline is None else wanted.baseline(values)


def _baseline(connection: Connection, wanted: RankedQuery, rows: Sequence[Sequence[Any]]) -> float:
    """The baseline stands beside every row; where there is no row it is asked for alone."""
    if wanted.baseline is None:
        return 0.0
    found = rows[0][4] if rows else fetch_built(connection, lambda values: f"SELECT {_beside(values, wanted)}")[0][0]
    return float(found or 0.0)
