"""All that recall needs to rank one bank's facts without touching the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId, Interval, Network
from vmemo.models.search import Hits, Ranking, Scope, TemporalSearch
from vmemo.stores.sqlite.index.blocks import COLUMNS, Column, Columns, FactBlock, FactIds
from vmemo.stores.sqlite.index.postings import Keys, NewPostings, Postings
from vmemo.stores.sqlite.index.vectors import (
    MULTIPLIED,
    SEVERAL,
    Cells,
    ComparedVectors,
    Mask,
    Rows,
    SharedCells,
    Vectors,
    best,
)
from vmemo.stores.values import micros

NETWORKS: tuple[Network, ...] = get_args(Network)
FEW = 512
"""Rows that are scored at least to find a fact's few neighbours."""
MENTION_BYTES = 40
"""Memory of a fact's mentions."""
EARLIEST = -(2**63)
LATEST = 2**63 - 1


@dataclass(frozen=True)
class BankIndex:
    """An immutable view of a bank at one revision; `extended` and `patched` give the next one.

    Views of a bank share memory, which only grows: an older view does not look beyond its `count`.
    """

    number: int
    revision: int
    purges: int
    vectors: Vectors
    postings: Postings
    ids: FactIds
    table: Columns
    """The columns of the facts, with memory for more."""
    mentions: dict[int, Rows] = field(default_factory=dict[int, Rows])
    """Facts by the number of an entity, of those entities that were needed so far."""
    cells: SharedCells = field(default_factory=SharedCells)

    @staticmethod
    def empty(dimension: int, number: int, purges: int, capacity: int = 0) -> BankIndex:
        """A bank before its first fact is read."""
        table = np.zeros((len(COLUMNS), capacity), np.int64)
        return BankIndex(
            number, -1, purges, Vectors.empty(dimension, capacity), Postings.empty(), FactIds.empty(capacity), table
        )

    @property
    def count(self) -> int:
        """Facts in this view."""
        return self.vectors.count

    @property
    def last(self) -> int:
        """The number of the last fact, -1 without facts."""
        return int(self.table[0, self.count - 1]) if self.count else -1

    @property
    def nbytes(self) -> int:
        """Bytes of memory, with an estimate for mentions."""
        parts = (self.vectors, self.postings, self.ids, self.table, self.cells)
        return sum(part.nbytes for part in parts) + MENTION_BYTES * self.count

    def extended(self, revision: int, blocks: Iterable[FactBlock]) -> BankIndex:
        """Return the view with the facts of further blocks, whose numbers are greater than those of this view."""
        vectors, ids, table, count = self.vectors, self.ids, self.table, self.count
        postings = NewPostings()
        for block in blocks:
            size = len(block.ids)
            table = _with_capacity(table, count, count + size)
            table[:, count : count + size] = block.columns
            vectors = vectors.extended(block.components, block.scales)
            ids = ids.extended(block.ids)
            postings.add(block.keys, size)
            count += size
        return replace(
            self,
            revision=revision,
            vectors=vectors,
            postings=self.postings.extended(postings.rows, postings.parts()),
            ids=ids,
            table=table,
        )

    def mentioned(self, new: Iterable[tuple[int, int]]) -> BankIndex:
        """Return the view with the mentions of its last facts, as pairs of the numbers of fact and entity."""
        found: dict[int, list[int]] = defaultdict(list)
        for fact, entity in new:
            if entity in self.mentions:
                found[entity].append(fact)
        added = {entity: np.append(self.mentions[entity], self.at(facts)) for entity, facts in found.items()}
        return replace(self, mentions=self.mentions | added)

    def patched(self, columns: Columns) -> BankIndex:
        """Return the view with the present columns of some of its facts."""
        table = self.table.copy()
        table[:, np.searchsorted(self.column("seq"), columns[0])] = columns
        return replace(self, table=table)

    def kept(self, purges: int, seqs: NDArray[np.int64]) -> BankIndex:
        """Return the view after removals that left the facts of some numbers, without mentions."""
        rows = np.flatnonzero(np.isin(self.column("seq"), seqs))
        if len(rows) == self.count:
            return replace(self, purges=purges, mentions={})
        return BankIndex(
            self.number,
            self.revision,
            purges,
            self.vectors.at(rows),
            self.postings.at(rows),
            self.ids.at(rows),
            self.table[:, rows],
            cells=self.cells.at(rows, self.count),
        )

    def reworded(self, seqs: NDArray[np.int64], keys: Keys) -> BankIndex:
        """Return the view with other postings of some of its facts, whose places among the numbers are their rows."""
        return replace(self, postings=self.postings.replaced(np.searchsorted(self.column("seq"), seqs), keys))

    def numbers(self, ids: Iterable[FactId]) -> dict[int, FactId]:
        """Facts of this view by number; others are left out."""
        known = self.ids.rows_of(ids)
        seqs = self.column("seq")[np.fromiter(known.values(), np.int64, len(known))]
        return dict(zip(seqs.tolist(), known, strict=True))

    def compared(self, query: NDArray[np.float32]) -> ComparedVectors:
        """The facts' vectors, to be compared with a query by the searches below."""
        return ComparedVectors(self.vectors, query)

    def nearest(self, compared: ComparedVectors, allowed: Mask, limit: int, floor: float) -> Ranking:
        """Facts by cosine, best first."""
        rows, cosines = compared.nearest(allowed, limit)
        kept = cosines >= floor
        return self._ranking(rows[kept], cosines[kept], compared.baseline)

    def neighbours(self, queries: NDArray[np.float32], allowed: Mask, limit: int, floor: float) -> list[Hits]:
        """As `nearest` for each query, without the baseline, for a few neighbours only.

        In a large bank, they are searched among the facts of the cells nearest to the query.
        """
        cells = self.cells.get(self.vectors, len(queries)) if self.count > MULTIPLIED else None
        if cells is None:
            each = self.vectors.nearest_to_each(queries, allowed, limit, exact=FEW)
        elif len(queries) >= SEVERAL:
            each = cells.nearest_to_each(self.vectors, queries, allowed, limit)
        else:
            each = (self._nearest_in(cells, query, allowed, limit) for query in queries)
        found: list[Hits] = []
        for rows, cosines in each:
            kept = cosines >= floor
            found.append(self._ranking(rows[kept], cosines[kept]).hits)
        return found

    def _nearest_in(
        self, cells: Cells, query: NDArray[np.float32], allowed: Mask, limit: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        rows = cells.near(query)
        # Cells may have facts that are newer than this view.
        rows = rows[rows < self.count]
        return self.vectors.nearest_among(rows[allowed[rows]], query, limit, FEW)

    def matching(self, terms: Sequence[str], allowed: Mask, limit: int) -> Ranking:
        """Facts by BM25, best first."""
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
        return Ranking(self.ids.get(rows.tolist()), scores.tolist(), self.column("tokens")[rows].tolist(), baseline)

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
        """One property of every fact."""
        return self.table[COLUMNS.index(name), : self.count]


def _bounds(stretch: Interval) -> tuple[int, int]:
    return micros(stretch.start) if stretch.start else EARLIEST, micros(stretch.end) if stretch.end else LATEST


def _with_capacity(table: Columns, count: int, total: int) -> Columns:
    if total <= table.shape[1]:
        return table
    grown = np.zeros((len(table), max(total, count + count // 2)), np.int64)
    grown[:, :count] = table[:, :count]
    return grown
