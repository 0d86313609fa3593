"""Cosine search in process: sign bits choose candidates, eight-bit components score them.

The sign bits of 100,000 vectors of 384 dimensions are 4.8 MB and one pass over them takes about a millisecond;
only the rows they choose are scored. Up to `EXACT` rows every row is scored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXACT = 2048
"""Rows up to which every row is scored, and the least number of candidates above that."""
OVERSAMPLE = 8
"""Candidates taken by sign bits for each row wanted, and 2,048 at least: the true top 100 are among them."""

SAMPLE = 512
"""Rows that are sampled to estimate the similarity of unrelated facts."""

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


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
        """Bytes of memory."""
        return self.components.nbytes + self.scales.nbytes + self.bits.nbytes

    def extended(self, components: NDArray[np.int8], scales: NDArray[np.float32]) -> Vectors:
        """These vectors and some more. Readers of the old value are not disturbed."""
        if not len(components):
            return self
        total = self.count + len(components)
        grown = self if total <= len(self.scales) else self._with_capacity(total)
        grown.components[self.count : total] = components
        grown.scales[self.count : total] = scales
        grown.bits[:, self.count : total] = _sign_bits(components, len(grown.bits)).T
        return Vectors(total, grown.components, grown.scales, grown.bits)

    def _with_capacity(self, total: int) -> Vectors:
        capacity = max(total, len(self.scales) + len(self.scales) // 2)
        components = np.zeros((capacity, self.components.shape[1]), np.int8)
        scales = np.zeros(capacity, np.float32)
        bits = np.zeros((len(self.bits), capacity), np.uint64)
        components[: self.count] = self.components[: self.count]
        scales[: self.count] = self.scales[: self.count]
        bits[:, : self.count] = self.bits[:, : self.count]
        return Vectors(self.count, components, scales, bits)

    def cosines(self, rows: Rows | slice, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosine of the query with each of these rows."""
        # Not a matrix product: for these sizes waking BLAS threads costs more than the work when cores are busy.
        dots = np.einsum("ij,j->i", self.components[rows], query, dtype=np.float32, casting="unsafe")
        return dots * self.scales[rows]

    def nearest(
        self, query: NDArray[np.float32], allowed: Mask, limit: int, exact: int = EXACT
    ) -> tuple[Rows, NDArray[np.float32]]:
        """The allowed rows of highest cosine, best first; at least `exact` rows are scored."""
        rows, cosines = self.likely(query, allowed, limit, exact)
        order = best(cosines, limit)
        return rows[order], cosines[order]

    def likely(
        self, query: NDArray[np.float32], allowed: Mask, limit: int, exact: int = EXACT
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Allowed rows among which those of highest cosine are, in order of row, for a ranking that weighs more."""
        rows = self._candidates(query, allowed, max(exact, OVERSAMPLE * limit))
        return rows, self.cosines(rows, query)

    def baseline(self, query: NDArray[np.float32]) -> float:
        """Return the cosine of unrelated rows: two deviations below the mean of an even sample."""
        if not self.count:
            return 0.0
        step = max(1, self.count // SAMPLE)
        sample = self.cosines(slice(0, self.count, step), query)
        return float(sample.mean() - 2 * sample.std())

    def _candidates(self, query: NDArray[np.float32], allowed: Mask, wanted: int) -> Rows:
        rows = np.flatnonzero(allowed)
        if len(rows) <= wanted:
            return rows
        distances = self._distances(query)
        if len(rows) < self.count:
            distances = distances[rows]
        return np.sort(rows[np.argpartition(distances, wanted)[:wanted]])

    def _distances(self, query: NDArray[np.float32]) -> NDArray[np.uint16]:
        signs = _sign_bits(query[None, :], len(self.bits))[0]
        total = np.zeros(self.count, np.uint16)
        for word, sign in zip(self.bits, signs, strict=True):
            total += np.bitwise_count(word[: self.count] ^ sign)
        return total


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
