"""Cosine search in process: sign bits choose candidates, eight-bit components score them.

The sign bits of 100,000 vectors of 384 dimensions are 4.8 MB and one pass over them takes about a millisecond;
only the rows they choose are scored. Up to `EXACT` rows every row is scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isqrt
from threading import Lock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

EXACT = 2048
"""Rows up to which every row is scored, and the least number of candidates above that."""
OVERSAMPLE = 8
"""Candidates taken by sign bits for each row wanted, and 2,048 at least: the true top 100 are among them."""
FEWER = 4
"""The same among rows that are similar to the query, and without a least number."""
SEVERAL = 8
"""Queries from which on one matrix product takes less time than their single searches."""
MULTIPLIED = 16_384
"""Rows up to which it does: with more, sign bits choose candidates."""
QUERIES = 256
"""Queries of one product."""
PART = 2_048
"""Rows that are read at once."""
OWN_THREAD = 4 * 65_536
"""Multiplications up to which OpenBLAS does not wake other threads, which takes longer when cores are busy."""
GROUP = 32
"""Queries of one product in which no other thread takes part."""
LEAST_TILE = 4
"""Rows of such a product, at least."""
COUNTED = 16_384
"""Rows that are sampled to estimate the distance of the candidates."""
MARGIN = 16
"""Rows of the sample beyond twice the estimate, because few of them are within that distance."""
SAMPLE = 512
"""Rows that are sampled to estimate the similarity of unrelated facts."""
T = TypeVar("T", bound=np.generic)
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Distances = NDArray[np.uint16]


def with_capacity(array: NDArray[T], count: int, total: int, *, axis: int = 0) -> NDArray[T]:
    """Return an array with memory for `total` rows, which begins with the first `count` rows of another."""
    capacity = array.shape[axis]
    if total <= capacity:
        return array
    shape = list(array.shape)
    shape[axis] = max(total, capacity + capacity // 2)
    grown, used = np.zeros(shape, array.dtype), (slice(None),) * axis + (slice(count),)
    grown[used] = array[used]
    return grown


@dataclass(frozen=True)
class Vectors:
    """Unit vectors of the first `count` rows. Arrays may be longer than that; rows are only ever appended."""

    count: int
    components: NDArray[np.int8]
    scales: NDArray[np.float32]
    bits: NDArray[np.uint64]

    @staticmethod
    def empty(dimension: int, capacity: int = 0) -> Vectors:
        """No rows yet, with memory for some."""
        words = -(-dimension // 64)
        components = np.zeros((capacity, dimension), np.int8)
        return Vectors(0, components, np.zeros(capacity, np.float32), np.zeros((words, capacity), np.uint64))

    @property
    def nbytes(self) -> int:
        return self.components.nbytes + self.scales.nbytes + self.bits.nbytes

    def extended(self, components: NDArray[np.int8], scales: NDArray[np.float32]) -> Vectors:
        """These vectors and some more. Readers of the old value are not disturbed."""
        if not len(components):
            return self
        count, total = self.count, self.count + len(components)
        grown = Vectors(
            total,
            with_capacity(self.components, count, total),
            with_capacity(self.scales, count, total),
            with_capacity(self.bits, count, total, axis=1),
        )
        grown.components[count:total] = components
        grown.scales[count:total] = scales
        grown.bits[:, count:total] = _sign_bits(components, len(grown.bits)).T
        return grown

    def at(self, rows: Rows) -> Vectors:
        """Return some rows, in that order, with memory for as many as these vectors have."""
        kept = Vectors.empty(self.components.shape[1], len(self.scales))
        kept.components[: len(rows)] = self.components[rows]
        kept.scales[: len(rows)] = self.scales[rows]
        kept.bits[:, : len(rows)] = self.bits[:, rows]
        return replace(kept, count=len(rows))

    def cosines(self, rows: Rows, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosine of the query with each of these rows."""
        # Not a matrix product: for these sizes waking BLAS threads costs more than the work when cores are busy.
        dots = np.einsum("ij,j->i", self.components.take(rows, axis=0), query, dtype=np.float32, casting="unsafe")
        return dots * self.scales[rows]

    def nearest(
        self, query: NDArray[np.float32], allowed: Mask, limit: int, exact: int = EXACT
    ) -> tuple[Rows, NDArray[np.float32]]:
        """The allowed rows of highest cosine, best first; at least `exact` rows are scored."""
        return ComparedVectors(self, query).nearest(allowed, limit, exact)

    def nearest_to_each(
        self, queries: NDArray[np.float32], allowed: Mask, limit: int, exact: int = EXACT
    ) -> Iterator[tuple[Rows, NDArray[np.float32]]]:
        """Yield for each query what `nearest` returns. Several queries of few rows are one matrix product."""
        rows = np.flatnonzero(allowed)
        if len(queries) < SEVERAL or len(rows) > MULTIPLIED:
            yield from (self.nearest(query, allowed, limit, exact) for query in queries)
            return
        for first in range(0, len(queries), QUERIES):
            for cosines in RowReader(self).cosines(rows, queries[first : first + QUERIES]):
                order = best(cosines, limit)
                yield rows[order], cosines[order]

    def nearest_among(
        self, rows: Rows, query: NDArray[np.float32], limit: int, exact: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the rows of highest cosine among some rows, best first; at least `exact` of them are scored."""
        wanted = max(exact, FEWER * limit)
        if len(rows) > wanted:
            rows = rows[_smallest(self.distances(query, rows), wanted)]
        # Of rows with equal cosines the older one comes first.
        rows = np.sort(rows)
        cosines = self.cosines(rows, query)
        order = best(cosines, limit)
        return rows[order], cosines[order]

    def distances(self, query: NDArray[np.float32], rows: Rows | None = None) -> Distances:
        """Signs by which each row, or each of some rows, differs from the query."""
        signs = _sign_bits(query[None, :], len(self.bits))[0]
        total = np.zeros(self.count if rows is None else len(rows), np.uint16)
        for word, sign in zip(self.bits, signs, strict=True):
            total += np.bitwise_count((word[: self.count] if rows is None else word[rows]) ^ sign)
        return total


class RowReader:
    """Compares rows with several queries; to allocate memory for each part would take longer than to convert it."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        size = PART, vectors.components.shape[1]
        self._components, self._floats = np.empty(size, np.int8), np.empty(size, np.float32)

    def cosines(self, rows: Rows, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the cosines of each query, as a row, with these rows."""
        dots = np.empty((len(queries), len(rows)), np.float32)
        size = GROUP if len(queries) < QUERIES // 2 else QUERIES
        for first in range(0, len(rows), PART):
            floats = self._read(rows[first : first + PART])
            for at in range(0, len(queries), size):
                dots[at : at + size, first : first + PART] = _products(queries[at : at + size], floats)
        dots *= self._vectors.scales[rows]
        return dots

    def _read(self, rows: Rows) -> NDArray[np.float32]:
        components, floats = self._components[: len(rows)], self._floats[: len(rows)]
        # Without this mode, numpy copies the result.
        np.take(self._vectors.components, rows, axis=0, out=components, mode="clip")
        floats[:] = components
        return floats


def _products(queries: NDArray[np.float32], rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of queries and rows; those of few queries are computed in this thread."""
    tile = OWN_THREAD // rows.shape[1] // len(queries)
    if tile < LEAST_TILE:
        return queries @ rows.T
    whole = len(rows) // tile * tile
    tiles = rows[:whole].reshape(-1, tile, rows.shape[1]) @ queries.T
    return np.concatenate([tiles.reshape(whole, len(queries)), rows[whole:] @ queries.T]).T


class ComparedVectors:
    """One query and the vectors of a bank. Searches of a recall share it, so that each row is compared once."""

    def __init__(self, vectors: Vectors, query: NDArray[np.float32]) -> None:
        self._vectors = vectors
        self._query = query
        # Memory that is zero is not touched before it is used.
        self._known = np.zeros(vectors.count, np.bool_)
        self._cosines = np.zeros(vectors.count, np.float32)

    def cosines(self, rows: Rows) -> NDArray[np.float32]:
        """Cosine of the query with each of these rows."""
        new = rows[~self._known[rows]]
        if len(new):
            self._cosines[new] = self._vectors.cosines(new, self._query)
            self._known[new] = True
        return self._cosines[rows]

    @cached_property
    def distances(self) -> Distances:
        """Signs by which each row differs from the query."""
        return self._vectors.distances(self._query)

    def nearest(self, allowed: Mask, limit: int, exact: int = EXACT) -> tuple[Rows, NDArray[np.float32]]:
        """The allowed rows of highest cosine, best first; at least `exact` rows are scored."""
        rows, cosines = self.likely(allowed, limit, exact)
        order = best(cosines, limit)
        return rows[order], cosines[order]

    def likely(self, allowed: Mask, limit: int, exact: int = EXACT) -> tuple[Rows, NDArray[np.float32]]:
        """Allowed rows among which those of highest cosine are, in order of row, for a ranking that weighs more."""
        rows = self._candidates(allowed, max(exact, OVERSAMPLE * limit))
        return rows, self.cosines(rows)

    @cached_property
    def baseline(self) -> float:
        """The cosine of unrelated rows: two deviations below the mean of an even sample."""
        count = self._vectors.count
        if not count:
            return 0.0
        sample = self.cosines(np.arange(0, count, max(1, count // SAMPLE)))
        return float(sample.mean() - 2 * sample.std())

    def _candidates(self, allowed: Mask, wanted: int) -> Rows:
        count = int(np.count_nonzero(allowed))
        if count <= wanted:
            return np.flatnonzero(allowed)
        distances = self.distances
        near = np.flatnonzero(allowed & (distances <= self._surely_enough(allowed, wanted / count)))
        rows = near if len(near) >= wanted else np.flatnonzero(allowed)
        return rows[_smallest(distances[rows], wanted)]

    def _surely_enough(self, allowed: Mask, share: float) -> int:
        """Return a distance within which more than a share of the allowed rows are, by an even sample."""
        step = -(-len(allowed) // COUNTED)
        sample = self.distances[::step][allowed[::step]]
        place = min(int(2 * share * len(sample)) + MARGIN, len(sample) - 1)
        return int(np.partition(sample, place)[place]) if len(sample) else 0


def _smallest(distances: Distances, wanted: int) -> Mask:
    """Return the mask of so many smallest distances, and of those that equal the largest of them, if they are few."""
    # Distances are small numbers, so that counting them takes less time than sorting.
    counts = np.cumsum(np.bincount(distances))
    largest = np.searchsorted(counts, wanted)
    chosen = distances <= largest
    if (more := int(counts[largest]) - wanted) > wanted:
        # A bank may hold any number of equal vectors.
        chosen[np.flatnonzero(distances == largest)[-more:]] = False
    return chosen


def quantised(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return vectors as eight-bit components, and the scales that give them length one."""
    peaks = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-12)
    components = np.rint(vectors * (127.0 / peaks)[:, None]).astype(np.int8)
    return components, _scales(components)


def _scales(components: NDArray[np.int8]) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", components, components, dtype=np.float32, casting="unsafe")
    return (1.0 / np.sqrt(np.maximum(squares, 1.0))).astype(np.float32)


def best(scores: NDArray[np.float32], limit: int) -> Rows:
    """Positions of the highest scores, best first; equal scores keep their order."""
    some = limit < len(scores)
    chosen = np.sort(np.argpartition(-scores, limit)[:limit]) if some else np.arange(len(scores))
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def _sign_bits(rows: NDArray[np.float32] | NDArray[np.int8], words: int) -> NDArray[np.uint64]:
    packed = np.zeros((len(rows), words * 8), np.uint8)
    signs = np.packbits(rows > 0, axis=1)
    packed[:, : signs.shape[1]] = signs
    return packed.view(np.uint64)


SEARCHED = 8_192
"""The least number of rows to compare with a query: cells are added, nearest first, until they have as many."""
SAMPLED = 16
"""Sampled rows per cell from which k-means finds the cells."""
ROUNDS = 4
"""Rounds of k-means."""
GROWTH = 4
"""Cells are found again when the bank has grown by this factor."""
ASSIGNED = 1_024
"""New rows that each query assigns to cells, until all are; this takes about as long as a search of all rows."""


class Cells:
    """Groups of similar rows: each cell has a centre, and the rows whose nearest centre it is.

    A search compares a query with the rows of the nearest cells only, so that the cost of a new fact does not grow with
    the bank. Rows are only ever appended.
    """

    def __init__(self, centres: NDArray[np.float32]) -> None:
        self._centres = centres
        self._rows = [np.zeros(0, np.int32) for _ in centres]
        self._sizes = np.zeros(len(centres), np.int64)
        self.count = 0

    @staticmethod
    def found(vectors: Vectors) -> Cells:
        """Return sqrt(rows) empty cells, whose centres k-means finds in an even sample of the rows."""
        number = isqrt(vectors.count)
        sample = np.linspace(0, vectors.count - 1, number * SAMPLED).astype(np.int64)
        rows = vectors.components[sample] * vectors.scales[sample, None]
        centres = rows[::SAMPLED].copy()
        for _ in range(ROUNDS):
            nearest = np.concatenate(
                [_nearest_centres(rows[at : at + PART], centres) for at in range(0, len(rows), PART)]
            )
            order = np.argsort(nearest, kind="stable")
            own, starts = np.unique(nearest[order], return_index=True)
            sums = np.add.reduceat(rows[order], starts, axis=0)
            centres[own] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        return Cells(centres)

    @property
    def nbytes(self) -> int:
        return self._centres.nbytes + sum(rows.nbytes for rows in self._rows)

    def assign(self, vectors: Vectors, most: int) -> None:
        """Assign up to `most` new rows to cells."""
        last = min(vectors.count, self.count + most)
        for first in range(self.count, last, PART):
            part = vectors.components[first : min(first + PART, last)].astype(np.float32)
            nearest = _nearest_centres(part, self._centres)
            order = np.argsort(nearest, kind="stable")
            own, starts = np.unique(nearest[order], return_index=True)
            for cell, places in zip(own.tolist(), np.split(order, starts[1:]), strict=True):
                self._append(cell, places + first)
            self.count = first + len(part)

    def _append(self, cell: int, new: Rows) -> None:
        rows, size = self._rows[cell], int(self._sizes[cell])
        total = size + len(new)
        if total > len(rows):
            rows = np.concatenate([rows[:size], np.zeros(max(len(new), size // 2), np.int32)])
        rows[size:total] = new
        self._rows[cell], self._sizes[cell] = rows, total

    def at(self, target: Rows) -> Cells:
        """Return the cells with renumbered rows; `target` has the new number of each row, -1 for a removed one."""
        moved = Cells(self._centres)
        for cell in range(len(self._rows)):
            rows = self._rows_of(cell)
            rows = target[rows[rows < len(target)]]
            moved._rows[cell] = rows[rows >= 0].astype(np.int32)
        moved._sizes = np.array([len(rows) for rows in moved._rows], np.int64)
        moved.count = int(moved._sizes.sum())
        return moved

    def near(self, query: NDArray[np.float32]) -> Rows:
        """Return the rows of the cells nearest to a query, unordered."""
        return np.concatenate([self._rows_of(cell) for cell in self._nearest_cells(self._centres @ query)])

    def nearest_to_each(
        self, vectors: Vectors, queries: NDArray[np.float32], allowed: Mask, limit: int
    ) -> Iterator[tuple[Rows, NDArray[np.float32]]]:
        """Yield for each query the allowed rows of highest cosine in the cells nearest to it, best first.

        The rows of a cell are compared at once with all queries that are near to it.
        """
        asking: dict[int, list[int]] = defaultdict(list)
        for number, similarities in enumerate(queries @ self._centres.T):
            for cell in self._nearest_cells(similarities):
                asking[cell].append(number)
        found: list[list[tuple[Rows, NDArray[np.float32]]]] = [[] for _ in queries]
        reader = RowReader(vectors)
        for cell, numbers in asking.items():
            rows = self._rows_of(cell)
            # Cells may have facts that are newer than these vectors.
            rows = rows[rows < vectors.count]
            rows = rows[allowed[rows]]
            for number, cosines in zip(numbers, reader.cosines(rows, queries[numbers]), strict=True):
                found[number].append((rows, cosines))
        for parts in found:
            rows, cosines = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            chosen = best(cosines, limit)
            rows, cosines = rows[chosen], cosines[chosen]
            # Of rows with equal cosines the older one comes first.
            order = np.lexsort((rows, -cosines))
            yield rows[order], cosines[order]

    def _nearest_cells(self, similarities: NDArray[np.float32]) -> list[int]:
        """Return the most similar cells that together have at least `SEARCHED` rows."""
        order = np.argsort(-similarities)
        return order[: int(np.searchsorted(np.cumsum(self._sizes[order]), SEARCHED)) + 1].tolist()

    def _rows_of(self, cell: int) -> Rows:
        return self._rows[cell][: self._sizes[cell]].astype(np.int64)


def _nearest_centres(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.argmax(rows @ centres.T, axis=1)


@dataclass
class SharedCells:
    """The cells of a bank, shared by all views of it. They are found once enough queries were made."""

    _queries: int = 0
    _ready: Cells | None = None
    _next: Cells | None = None
    _found_at: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def nbytes(self) -> int:
        return sum(cells.nbytes for cells in (self._ready, self._next) if cells is not None)

    def at(self, rows: Rows, count: int) -> SharedCells:
        """Return the cells of the `rows` that stay of the first `count`; later ones are assigned again."""
        target = np.full(count, -1, np.int64)
        target[rows] = np.arange(len(rows))
        with self._lock:
            ready = None if self._ready is None else self._ready.at(target)
            return SharedCells(self._queries, ready, _found_at=self._found_at)

    def get(self, vectors: Vectors, queries: int) -> Cells | None:
        """Return the cells once all rows are assigned, or None while a search of all rows takes less time.

        Finding cells and assigning rows takes as long as several searches, so that many queries share the work.
        """
        with self._lock:
            self._queries += queries
            if self._ready is not None:
                self._ready.assign(vectors, vectors.count)
            elif self._queries < 2 * isqrt(vectors.count):
                return None
            if self._next is None and (self._ready is None or vectors.count > GROWTH * self._found_at):
                self._next, self._found_at = Cells.found(vectors), vectors.count
            if self._next is not None:
                self._next.assign(vectors, ASSIGNED * queries)
                if self._next.count >= vectors.count:
                    self._ready, self._next = self._next, None
            return self._ready
