"""All that recall needs to rank one bank's facts without touching the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId, Interval, Network
from vmemo.models.search import Ranking, Scope, Scored, TemporalSearch
from vmemo.stores.sql.rows import micros
from vmemo.stores.sqlite.index.postings import Postings
from vmemo.stores.sqlite.index.vectors import Mask, Rows, Vectors, best

NETWORKS: tuple[Network, ...] = get_args(Network)
FEW = 512
"""Rows that are scored at least to find a fact's few neighbours."""
EARLIEST = -(2**63)
LATEST = 2**63 - 1
Column = Literal["seq", "network", "tokens", "valid", "invalid", "recorded", "expired", "expires", "start", "end"]
COLUMNS: tuple[Column, ...] = get_args(Column)


class IndexRow(NamedTuple):
    """One fact as the index reads it. Times are microseconds; absent ones are EARLIEST or LATEST.

    `entities` are the numbers of those it mentions, with commas between them; the columns follow after them.
    """

    id: str
    embedding: bytes
    terms: bytes
    entities: str | None
    seq: int
    network: int
    tokens: int
    valid: int
    invalid: int
    recorded: int
    expired: int
    expires: int
    start: int
    end: int


@dataclass(frozen=True)
class BankIndex:
    """An immutable view of a bank at one revision; `refreshed` gives the next one."""

    number: int
    revision: int
    purges: int
    vectors: Vectors
    postings: Postings
    mentions: Postings
    """Facts by the number of an entity."""
    ids: list[FactId] = field(default_factory=list[FactId])
    places: dict[FactId, int] = field(default_factory=dict[FactId, int])
    """Rows by id. All views of a bank share it, so it may know rows that come after this view."""
    columns: NDArray[np.int64] = field(default_factory=lambda: np.zeros((len(COLUMNS), 0), np.int64))

    @staticmethod
    def empty(dimension: int, number: int, purges: int) -> BankIndex:
        """A bank before its first fact is read."""
        return BankIndex(number, -1, purges, Vectors.empty(dimension), Postings.empty(), Postings.empty())

    @property
    def count(self) -> int:
        """Facts in this view."""
        return self.vectors.count

    @property
    def nbytes(self) -> int:
        """Bytes of memory, with an estimate for ids and postings."""
        vectors = self.vectors
        arrays = (self.columns, vectors.components, vectors.scales, vectors.bits)
        return sum(array.nbytes for array in arrays) + 1000 * self.count

    def refreshed(self, revision: int, rows: Sequence[IndexRow]) -> BankIndex:
        """The view after some facts were added or closed; rows come in order of seq."""
        last = int(self.columns[0, self.count - 1]) if self.count else -1
        new = [row for row in rows if row.seq > last]
        columns = self.columns[:, : self.count].copy()
        for row in rows[: len(rows) - len(new)]:
            columns[:, np.searchsorted(columns[0], row.seq)] = row[4:]
        added = np.array([row[4:] for row in new], np.int64).reshape(len(new), len(COLUMNS)).T
        return BankIndex(
            self.number,
            revision,
            self.purges,
            self.vectors.extended(_unpacked(new, self.vectors.components.shape[1])),
            self.postings.extended([np.frombuffer(row.terms, "<u4") for row in new]),
            self.mentions.extended([_numbers(row.entities) for row in new]),
            [*self.ids, *(FactId(row.id) for row in new)],
            self._placed(new),
            np.concatenate([columns, added], axis=1),
        )

    def _placed(self, new: Sequence[IndexRow]) -> dict[FactId, int]:
        for place, row in enumerate(new, start=self.count):
            self.places[FactId(row.id)] = place
        return self.places

    def numbers(self, ids: Iterable[FactId]) -> dict[int, FactId]:
        """Facts of this view by number; others are left out."""
        places = [(self.places.get(id, self.count), id) for id in ids]
        known = [(place, id) for place, id in places if place < self.count]
        seqs = self.column("seq")
        return {int(seqs[place]): id for place, id in known}

    def nearest(self, query: NDArray[np.float32], allowed: Mask, limit: int, floor: float) -> Ranking:
        """Facts by cosine, best first."""
        rows, cosines = self.vectors.nearest(query, allowed, limit)
        kept = cosines >= floor
        return Ranking(self._scored(rows[kept], cosines[kept]), self.vectors.baseline(query))

    def neighbours(self, query: NDArray[np.float32], allowed: Mask, limit: int, floor: float) -> list[Scored]:
        """As `nearest` without the baseline, for a few neighbours only."""
        rows, cosines = self.vectors.nearest(query, allowed, limit, exact=FEW)
        kept = cosines >= floor
        return self._scored(rows[kept], cosines[kept])

    def matching(self, terms: Sequence[str], allowed: Mask, limit: int) -> Ranking:
        """Facts by BM25, best first."""
        scores = self.postings.scores(terms)
        rows = np.flatnonzero((scores > 0) & allowed)
        order = best(scores[rows], limit)
        return Ranking(self._scored(rows[order], scores[rows][order]))

    def during(self, query: TemporalSearch, allowed: Mask, limit: int) -> Ranking:
        """Return facts inside an interval, by cosine and by how near its middle they lie, best first."""
        start, end = _bounds(query.during)
        inside = allowed & (self.column("start") < end) & (self.column("end") > start)
        rows, cosines = self.vectors.likely(query.vector, inside, limit)
        rows, cosines = rows[cosines >= query.floor], cosines[cosines >= query.floor]
        scores = (cosines * (1 - query.edge_penalty * self._off_centre(rows, start, end))).astype(np.float32)
        order = best(scores, limit)
        return Ranking(self._scored(rows[order], scores[order]), self.vectors.baseline(query.vector))

    def _off_centre(self, rows: Rows, start: int, end: int) -> NDArray[np.float64]:
        """Return each fact's distance from the interval's middle: 0 there, 1 at the ends; 0 for an open interval."""
        if start == EARLIEST or end == LATEST:
            return np.zeros(len(rows))
        middles = (self.column("start")[rows] + self.column("end")[rows]) / 2
        return np.minimum(1.0, np.abs(middles - (start + end) / 2) / max(1, (end - start) / 2))

    def at(self, seqs: Sequence[int]) -> Rows:
        """Rows of facts by number; numbers that are not in this view are left out."""
        known, wanted = self.column("seq"), np.array(seqs, np.int64)
        rows = np.searchsorted(known, wanted)
        rows = rows[rows < self.count]
        return rows[np.isin(known[rows], wanted)]

    def _scored(self, rows: Rows, scores: NDArray[np.float32]) -> list[Scored]:
        tokens = self.column("tokens")[rows].tolist()
        chosen = zip(cast("list[int]", rows.tolist()), scores.tolist(), tokens, strict=True)
        return [Scored(self.ids[row], score, count) for row, score, count in chosen]

    def allowed(self, scope: Scope, now: int, only: Sequence[int] | None) -> Mask:
        """Return the mask of facts that a scope admits; `only` has the numbers that database filters admit."""
        mask = self._visible(scope, now)
        if not scope.past_expiry:
            mask &= self.column("expires") > now
        if scope.networks:
            lets = np.array([network in scope.networks for network in NETWORKS])
            mask &= lets[self.column("network")]
        if scope.occurred is not None:
            start, end = _bounds(scope.occurred)
            mask &= (self.column("start") < end) & (self.column("end") > start)
        if only is not None:
            mask &= np.isin(self.column("seq"), np.array(only, np.int64))
        return mask

    def current(self, now: int) -> Mask:
        """Facts that are believed and true now, and have not expired."""
        return self._true(now) & (self.column("expires") > now)

    def _true(self, now: int) -> Mask:
        return (self.column("expired") == LATEST) & (self.column("invalid") > now)

    def _visible(self, scope: Scope, now: int) -> Mask:
        invalid, expired = self.column("invalid"), self.column("expired")
        if scope.at_time is None and scope.known_at is None:
            if scope.include_expired:
                return np.ones(self.count, np.bool_)
            return self._true(now) if scope.former is None else self._true(now) | self._former(scope.former)
        mask = np.ones(self.count, np.bool_)
        if scope.known_at is None:
            # The current belief decides: a fact that expired without an end was never true.
            mask &= (expired == LATEST) | (invalid < LATEST)
        else:
            known = micros(scope.known_at)
            mask &= (self.column("recorded") <= known) & (expired > known)
            # A fact closed later was, at that time, believed to be still true.
            invalid = np.where(expired == LATEST, invalid, LATEST)
        if scope.at_time is not None:
            at = micros(scope.at_time)
            mask &= (self.column("valid") <= at) & (invalid > at)
        return mask

    def _former(self, during: Interval) -> Mask:
        """Facts that are not true any more, and were at some time of an interval."""
        start, end = _bounds(during)
        valid, invalid = self.column("valid"), self.column("invalid")
        # A fact that ended at its start was never true.
        return (invalid < LATEST) & (valid < np.minimum(invalid, end)) & (invalid > start)

    def column(self, name: Column) -> NDArray[np.int64]:
        """One property of every fact."""
        return self.columns[COLUMNS.index(name)]


def _bounds(stretch: Interval) -> tuple[int, int]:
    return micros(stretch.start) if stretch.start else EARLIEST, micros(stretch.end) if stretch.end else LATEST


def _numbers(listed: str | None) -> NDArray[np.uint32]:
    return np.array(listed.split(",") if listed else [], np.uint32)


def _unpacked(rows: Sequence[IndexRow], dimension: int) -> NDArray[np.float32]:
    joined = b"".join(row.embedding for row in rows)
    return np.frombuffer(joined, "<f2").reshape(len(rows), dimension).astype(np.float32)
