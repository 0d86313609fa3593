"""Cells of similar vectors: the neighbours of new facts are searched in a part of a large bank.

A search that reads every row of a bank, however fast, lets the cost of each new fact grow with the bank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isqrt
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from vmemo.stores.sqlite.index.vectors import PART, Mask, RowReader, Rows, Vectors, best

SEARCHED = 8_192
"""Rows that are compared with a query, at least: those of the cells nearest to it."""
SAMPLED = 16
"""Rows for each cell from which the cells are found."""
ROUNDS = 4
"""Rounds of k-means."""
GROWTH = 4
"""Cells are found anew when the bank has so many times more rows."""
ASSIGNED = 1_024
"""Rows that are assigned to cells for each query until all are; that takes about as long as reading all rows."""


class Cells:
    """Centres of cells, and the rows that are nearest to each. Rows are only ever appended."""

    def __init__(self, centres: NDArray[np.float32]) -> None:
        self._centres = centres
        self._rows = [np.zeros(0, np.int32) for _ in centres]
        self._sizes = np.zeros(len(centres), np.int64)
        self.count = 0

    @staticmethod
    def found(vectors: Vectors) -> Cells:
        """Return empty cells, about as many as a cell will have rows, by k-means of an even sample."""
        number = isqrt(vectors.count)
        sample = np.linspace(0, vectors.count - 1, number * SAMPLED).astype(np.int64)
        rows = vectors.components[sample] * vectors.scales[sample, None]
        centres = rows[::SAMPLED].copy()
        for _ in range(ROUNDS):
            nearest = np.concatenate([_nearest(rows[at : at + PART], centres) for at in range(0, len(rows), PART)])
            order = np.argsort(nearest, kind="stable")
            own, starts = np.unique(nearest[order], return_index=True)
            sums = np.add.reduceat(rows[order], starts, axis=0)
            centres[own] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        return Cells(centres)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._centres.nbytes + sum(rows.nbytes for rows in self._rows)

    def assign(self, vectors: Vectors, most: int) -> None:
        """Assign further rows to cells, at most so many."""
        last = min(vectors.count, self.count + most)
        for first in range(self.count, last, PART):
            part = vectors.components[first : min(first + PART, last)].astype(np.float32)
            nearest = _nearest(part, self._centres)
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
        """Return the cells with the new numbers of their rows; -1 leaves a row out."""
        moved = Cells(self._centres)
        for cell in range(len(self._rows)):
            rows = self._rows_of(cell)
            rows = target[rows[rows < len(target)]]
            moved._rows[cell] = rows[rows >= 0].astype(np.int32)
        moved._sizes = np.array([len(rows) for rows in moved._rows], np.int64)
        moved.count = int(moved._sizes.sum())
        return moved

    def near(self, query: NDArray[np.float32]) -> Rows:
        """Return the rows of the cells nearest to a query, in no order."""
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
        """Return the cells of the highest similarities that have enough rows together."""
        order = np.argsort(-similarities)
        return order[: int(np.searchsorted(np.cumsum(self._sizes[order]), SEARCHED)) + 1].tolist()

    def _rows_of(self, cell: int) -> Rows:
        return self._rows[cell][: self._sizes[cell]].astype(np.int64)


def _nearest(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.argmax(rows @ centres.T, axis=1)


@dataclass
class SharedCells:
    """The cells of a bank, which all views of it share, from the time that they are worth finding."""

    _queries: int = 0
    _ready: Cells | None = None
    _next: Cells | None = None
    _found_at: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(cells.nbytes for cells in (self._ready, self._next) if cells is not None)

    def at(self, rows: Rows, count: int) -> SharedCells:
        """Return the cells of some of the first `count` rows, which ascend. Later ones are assigned again."""
        target = np.full(count, -1, np.int64)
        target[rows] = np.arange(len(rows))
        with self._lock:
            ready = None if self._ready is None else self._ready.at(target)
            return SharedCells(self._queries, ready, _found_at=self._found_at)

    def get(self, vectors: Vectors, queries: int) -> Cells | None:
        """Return the cells of all rows for some queries, or None while reading all rows takes less time.

        Finding and assigning takes as long as some searches, and is divided among as many.
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
