"""The best rows of a ranking that a scope lets through, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, Subquery, Table, and_, select, true

from vmemo.models import FactId
from vmemo.models.search import Ranking, Scored


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The rows that a search may return. `common` says that nearly every row fulfils the conditions."""

    table: Table
    bank: int
    tokens: ColumnElement[int]
    conditions: Sequence[ColumnElement[bool]]
    common: bool


@dataclass(frozen=True, kw_only=True)
class RankedQuery:
    """The number of rows to return, their minimum score, and further columns to compute."""

    scored: Subquery
    """Columns `seq` and `score`, a row for everything that may be found."""
    limit: int
    floor: float = -float("inf")
    baseline: ScalarSelect[float] | None = None
    first: Subquery | None = None
    """The best `shortlist(limit)` rows by an index, with the same columns; without it they are ranked by `scored`."""


def shortlist(limit: int) -> int:
    """Rows to rank before the conditions are applied."""
    return 2 * limit + 16


def best(connection: Connection, candidates: Candidates, wanted: RankedQuery) -> Ranking:
    """Rows by score, best first, rows of equal score by number.

    Where nearly every row passes, twice as many as wanted are ranked before the conditions are looked at, which saves
    reading the row of everything that was scored. If too few of these pass, all rows are asked, without an index.
    """
    if candidates.common:
        found = _shortlisted(connection, candidates, wanted)
        if found is not None:
            return found
    rows = connection.execute(_whole(candidates, wanted)).all()
    # The floor is applied here: in the statement the planner would check it before the conditions.
    hits = [Scored(FactId(id), float(score), tokens) for id, score, tokens, *_ in rows if score >= wanted.floor]
    return Ranking.of(hits, _baseline(connection, wanted, rows))


def _shortlisted(connection: Connection, candidates: Candidates, wanted: RankedQuery) -> Ranking | None:
    """Return the best rows, or None if a shortlist does not determine them."""
    length = shortlist(wanted.limit)
    rows = connection.execute(_short(candidates, wanted, length)).all()
    if wanted.first is not None and len(rows) < length:
        return None
    hits = [
        Scored(FactId(id), float(score), tokens)
        for id, score, tokens, passes, *_ in rows
        if passes and score >= wanted.floor
    ]
    if len(hits) < wanted.limit and len(rows) == length and rows[-1][1] >= wanted.floor:
        return None
    return Ranking.of(hits[: wanted.limit], _baseline(connection, wanted, rows))


def _short(candidates: Candidates, wanted: RankedQuery, length: int) -> Select[*tuple[Any, ...]]:
    table, scored = candidates.table, wanted.scored
    ranked = select(scored.c.seq, scored.c.score).order_by(scored.c.score.desc(), scored.c.seq).limit(length)
    first = ranked.subquery("first") if wanted.first is None else wanted.first
    row = (
        select(table.c.id, candidates.tokens.label("tokens"), and_(*candidates.conditions).label("passes"))
        .where(table.c.bank == candidates.bank, table.c.seq == first.c.seq)
        # Each is looked up by its key; all rows of the bank would be read to join so few.
        .offset(0)
        .lateral("row")
    )
    return (
        select(row.c.id, first.c.score, row.c.tokens, row.c.passes, *_beside(wanted))
        .select_from(first.join(row, true()))
        .order_by(first.c.score.desc(), first.c.seq)
    )


def _whole(candidates: Candidates, wanted: RankedQuery) -> Select[*tuple[Any, ...]]:
    table, scored = candidates.table, wanted.scored
    return (
        select(table.c.id, scored.c.score, candidates.tokens, *_beside(wanted))
        .join_from(scored, table, and_(table.c.bank == candidates.bank, table.c.seq == scored.c.seq))
        .where(*candidates.conditions)
        .order_by(scored.c.score.desc(), scored.c.seq)
        .limit(wanted.limit)
    )


def _beside(wanted: RankedQuery) -> list[ColumnElement[float]]:
    return [] if wanted.baseline is None else [wanted.baseline.label("baseline")]


def _baseline(connection: Connection, wanted: RankedQuery, rows: Sequence[Sequence[Any]]) -> float:
    """The baseline stands beside every row; where there is no row it is asked for alone."""
    if wanted.baseline is None:
        return 0.0
    found = rows[0][-1] if rows else connection.execute(select(wanted.baseline)).scalar_one()
    return float(found or 0.0)
