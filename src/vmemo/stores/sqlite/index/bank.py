"""The index of a bank in memory: what recall needs to rank its facts without touching the database.

It has the vectors and terms of the facts, the columns by which searches filter and rank, and the entities that facts
mention, all in the order of the facts' numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import Interval, Network
from vmemo.models.search import Ranking, Scope, TemporalSearch
from vmemo.stores.sqlite.index.postings import Hashes, Postings
from vmemo.stores.sqlite.index.vectors import ComparedVectors, Mask, Rows, Vectors, best, with_capacity
from vmemo.stores.values import micros

Column = Literal[
    "seq", "tokens", "mentioned", "network", "valid", "invalid", "recorded", "expired", "expires", "start", "end"
]
COLUMNS: tuple[Column, ...] = get_args(Column)
Columns = NDArray[np.int64]
NETWORKS: tuple[Network, ...] = get_args(Network)
FEW = 512
"""Rows that are scored at least to find a fact's few neighbours."""
EARLIEST = -(2**63)
LATEST = 2**63 - 1


class FactRows(NamedTuple):
    """Facts of a bank in order of their numbers, as the file holds them."""

    columns: Columns
    components: NDArray[np.int8]
    terms: Hashes
    """The hashed words of all facts, one fact after the other."""
    lengths: NDArray[np.int64]
    """The number of words of each fact."""
    mentions: NDArray[np.int64]
    """The number of a fact and that of an entity for each mention, shape (mentions, 2), in the order of the facts."""


@dataclass(frozen=True, eq=False)
class Mentions:
    """The rows of facts, ascending, and the numbers of the entities that they mention."""

    rows: NDArray[np.int32]
    entities: NDArray[np.int64]

    def of_fact(self, row: int) -> NDArray[np.int64]:
        start, end = np.searchsorted(self.rows, [row, row + 1])
        return self.entities[start:end]

    def of_entity(self, entity: int) -> Rows:
        """Return the rows of the facts that mention an entity, ascending."""
        entities, rows = self._by_entity
        start, end = np.searchsorted(entities, [entity, entity + 1])
        return rows[start:end]

    @cached_property
    def _by_entity(self) -> tuple[NDArray[np.int64], Rows]:
        order = np.argsort(self.entities, kind="stable")
        return self.entities[order], self.rows[order].astype(np.int64)


@dataclass(frozen=True)
class BankIndex:
    """An immutable view of a bank at one revision; `extended` and `patched` give the next one.

    Views of a bank share memory, which only grows: an older view does not look beyond its `count`.
    """

    number: int
    revision: int
    purges: int
    embedder: str
    vectors: Vectors
    postings: Postings
    mentions: Mentions
    table: Columns
    """The columns of the facts, with memory for more."""

    @staticmethod
    def empty(dimension: int, number: int, purges: int, capacity: int = 0, embedder: str = "") -> BankIndex:
        """A bank before its first fact is read, with memory for some."""
        return BankIndex(
            number,
            -1,
            purges,
            embedder,
            Vectors.empty(dimension, capacity),
            Postings.empty(),
            Mentions(np.zeros(0, np.int32), np.zeros(0, np.int64)),
            np.zeros((len(COLUMNS), capacity), np.int64),
        )

    @property
    def count(self) -> int:
        return self.vectors.count

    @property
    def last(self) -> int:
        """The number of the last fact, -1 without facts."""
        return int(self.table[0, self.count - 1]) if self.count else -1

    @property
    def nbytes(self) -> int:
        """Bytes of memory; the mentions are kept in two orders."""
        mentions = 2 * (self.mentions.rows.nbytes + self.mentions.entities.nbytes)
        return self.vectors.nbytes + self.postings.nbytes + self.table.nbytes + mentions

    def extended(self, revision: int, new: FactRows) -> BankIndex:
        """Return the view with further facts, whose numbers are greater than those of this view."""
        count, total = self.count, self.count + new.columns.shape[1]
        table = with_capacity(self.table, count, total, axis=1)
        table[:, count:total] = new.columns
        rows = (count + np.searchsorted(new.columns[0], new.mentions[:, 0])).astype(np.int32)
        return replace(
            self,
            revision=revision,
            vectors=self.vectors.extended(new.components),
            postings=self.postings.extended(new.terms, new.lengths),
            mentions=Mentions(
                np.concatenate([self.mentions.rows, rows]),
                np.concatenate([self.mentions.entities, new.mentions[:, 1]]),
            ),
            table=table,
        )

    def patched(self, columns: Columns) -> BankIndex:
        """Return the view with the present columns of some of its facts."""
        table = self.table.copy()
        table[:, np.searchsorted(self.column("seq"), columns[0])] = columns
        return replace(self, table=table)

    def nearest(self, compared: ComparedVectors, allowed: Mask, limit: int, floor: float) -> Ranking:
        rows, cosines = compared.nearest(allowed, limit)
        kept = cosines >= floor
        return self._ranking(rows[kept], cosines[kept], compared.baseline)

    def neighbours(
        self, queries: NDArray[np.float32], allowed: Mask, limit: int, floor: float
    ) -> list[tuple[list[int], list[float]]]:
        """Return the numbers and cosines of the few nearest facts of each query, with a cosine of at least `floor`."""
        found: list[tuple[list[int], list[float]]] = []
        for query in queries:
            rows, cosines = self.vectors.nearest(query, allowed, limit, FEW)
            kept = cosines >= floor
            found.append((self.column("seq")[rows[kept]].tolist(), cosines[kept].tolist()))
        return found

    def matching(self, terms: Sequence[str], allowed: Mask, limit: int) -> Ranking:
        scores = self.postings.scores(terms)
        rows = np.flatnonzero((scores > 0) & allowed)
        order = best(scores[rows], limit)
        rows = rows[order]
        return self._ranking(rows, scores[rows])

    def during(self, query: TemporalSearch, compared: ComparedVectors, allowed: Mask, limit: int) -> Ranking:
        """Return facts inside an interval, by cosine and by how near its middle they lie, best first."""
        start, end = _bounds(query.during)
        inside = allowed & (self.column("start") < end) & (self.column("end") > start)
        rows, cosines = compared.likely(inside, limit)
        rows, cosines = rows[cosines >= query.floor], cosines[cosines >= query.floor]
        scores = (cosines * (1 - query.edge_penalty * self._off_centre(rows, start, end))).astype(np.float32)
        order = best(scores, limit)
        return self._ranking(rows[order], scores[order], compared.baseline)

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
        wanted, rows = wanted[rows < self.count], rows[rows < self.count]
        return rows[known[rows] == wanted]

    def _ranking(self, rows: Rows, scores: NDArray[np.float32], baseline: float = 0.0) -> Ranking:
        return Ranking(self.ranked(rows), scores.astype(np.float64), baseline)

    def ranked(self, rows: Rows) -> Columns:
        """Return the number, the tokens and the time of mention of facts, as a ranking has them."""
        return self.table[:3, rows].T

    def allowed(self, scope: Scope, now: int, only: Sequence[int] | None) -> Mask:
        """Return the mask of facts that a scope admits; `only` has the numbers that database filters admit."""
        mask = self._visible(scope, now)
        if not scope.past_expiry:
            self._leave_out_expired(mask, now)
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
        mask = self._true(now)
        self._leave_out_expired(mask, now)
        return mask

    def _true(self, now: int) -> Mask:
        endless, ending = self._believed
        mask = endless.copy()
        mask[ending] = self.column("invalid")[ending] > now
        return mask

    @cached_property
    def _believed(self) -> tuple[Mask, Rows]:
        """The mask of facts that are believed and have no end, and the rows of those that have one: they are few."""
        believed, ends = self.column("expired") == LATEST, self.column("invalid") < LATEST
        return believed & ~ends, np.flatnonzero(believed & ends)

    def _leave_out_expired(self, mask: Mask, now: int) -> None:
        mask[self._expiring] &= self.column("expires")[self._expiring] > now

    @cached_property
    def _expiring(self) -> Rows:
        return np.flatnonzero(self.column("expires") < LATEST)

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
        return self.table[COLUMNS.index(name), : self.count]


def _bounds(stretch: Interval) -> tuple[int, int]:
    return micros(stretch.start) if stretch.start else EARLIEST, micros(stretch.end) if stretch.end else LATEST
