"""Cosine search in process: sign bits choose candidates, eight-bit components score them.

The sign bits of 100,000 vectors of 384 dimensions are 4.8 MB and one pass over them takes about a millisecond;
only the rows they choose are scored. Up to `EXACT` rows every row is scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

EXACT = 2048
"""Rows up to which every row is scored, and the least number of candidates above that."""
OVERSAMPLE = 8
"""Candidates taken by sign bits for each row wanted, and 2,048 at least: the true top 100 are among them."""
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

    def extended(self, components: NDArray[np.int8]) -> Vectors:
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
        grown.scales[count:total] = scales_of(components)
        grown.bits[:, count:total] = _sign_bits(components, len(grown.bits)).T
        return grown

    def cosines(self, rows: Rows, query: NDArray[np.float32]) -> NDArray[np.float32]:
        # Not a matrix product: for these sizes waking BLAS threads costs more than the work when cores are busy.
        dots = np.einsum("ij,j->i", self.components.take(rows, axis=0), query, dtype=np.float32, casting="unsafe")
        return dots * self.scales[rows]

    def nearest(
        self, query: NDArray[np.float32], allowed: Mask, limit: int, exact: int = EXACT
    ) -> tuple[Rows, NDArray[np.float32]]:
        """The allowed rows of highest cosine, best first; at least `exact` rows are scored."""
        return ComparedVectors(self, query).nearest(allowed, limit, exact)

    def distances(self, query: NDArray[np.float32]) -> Distances:
        """Return the number of signs by which each row differs from the query."""
        signs = _sign_bits(query[None, :], len(self.bits))[0]
        total = np.zeros(self.count, np.uint16)
        for word, sign in zip(self.bits, signs, strict=True):
            total += np.bitwise_count(word[: self.count] ^ sign)
        return total


class ComparedVectors:
    """One query and the vectors of a bank. Searches of a recall share it, so that each row is compared once."""

    def __init__(self, vectors: Vectors, query: NDArray[np.float32]) -> None:
        self._vectors = vectors
        self._query = query
        # Memory that is zero is not touched before it is used.
        self._known = np.zeros(vectors.count, np.bool_)
        self._cosines = np.zeros(vectors.count, np.float32)

    def cosines(self, rows: Rows) -> NDArray[np.float32]:
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
        rows = np.flatnonzero(allowed)
        return rows if len(rows) <= wanted else rows[_smallest(self.distances[rows], wanted)]


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


def quantised(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return vectors as eight-bit components; `scales_of` gives them length one again."""
    peaks = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-12)
    return np.rint(vectors * (127.0 / peaks)[:, None]).astype(np.int8)


def scales_of(components: NDArray[np.int8]) -> NDArray[np.float32]:
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
