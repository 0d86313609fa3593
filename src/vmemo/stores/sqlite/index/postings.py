"""BM25 in process: an inverted index in segments, merged as they grow.

A term is kept as a 32-bit hash. Among 100,000 different terms about one pair is expected to share a hash;
such a pair only lends its facts a few points of each other's score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vmemo.stores.search import K1, B
from vmemo.stores.values import term_hash

SEGMENTS = 8
"""Segments up to which new facts are only appended; then the last ones become one."""
GROWTH = 4
"""A segment is left alone by a merge that is smaller by this factor."""
COUNT_BITS = 6
MOST_REPEATED = (1 << COUNT_BITS) - 1
"""Repetitions of a word that are counted: more of them hardly change a score."""
TERM_SHIFT = np.uint64(32)
Hashes = NDArray[np.uint32]
Keys = NDArray[np.uint64]
"""Postings, each in one number that sorts them: the term's hash, 26 bits for the row, 6 for the repetitions."""


def hashed(words: Sequence[str]) -> Hashes:
    """Return the hashes of a text's words, with repetition."""
    return np.array([term_hash(word) for word in words], np.uint32)


def keys_of(hashes: Hashes, lengths: NDArray[np.int64], first: int = 0) -> Keys:
    """Return the postings of texts, given by their words in one array; their rows are numbered from `first` on."""
    rows = np.repeat(np.arange(first, first + len(lengths), dtype=np.uint64), lengths)
    terms = hashes.astype(np.uint64) << TERM_SHIFT
    keys, counts = np.unique(terms | (rows << np.uint64(COUNT_BITS)), return_counts=True)
    return keys | np.minimum(counts, MOST_REPEATED).astype(np.uint64)


def rows_of(keys: Keys) -> NDArray[np.uint32]:
    return keys.astype(np.uint32) >> np.uint32(COUNT_BITS)


def counts_of(keys: Keys) -> NDArray[np.uint8]:
    return (keys & np.uint64(MOST_REPEATED)).astype(np.uint8)


@dataclass(frozen=True)
class Segment:
    """Postings of some rows, sorted by term and then by row."""

    terms: Hashes
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    counts: NDArray[np.uint8]

    @staticmethod
    def of_sorted(keys: Keys) -> Segment:
        hashes = (keys >> TERM_SHIFT).astype(np.uint32)
        starts = np.append(np.flatnonzero(hashes[1:] != hashes[:-1]) + 1, len(keys))
        starts = np.insert(starts, 0, 0) if len(keys) else starts
        return Segment(hashes[starts[:-1]], starts, rows_of(keys), counts_of(keys))

    @property
    def nbytes(self) -> int:
        return self.terms.nbytes + self.starts.nbytes + self.rows.nbytes + self.counts.nbytes

    def keys(self) -> Keys:
        hashes = np.repeat(self.terms.astype(np.uint64), np.diff(self.starts))
        low = (self.rows.astype(np.uint64) << np.uint64(COUNT_BITS)) | self.counts
        return (hashes << TERM_SHIFT) | low

    def of(self, term: int) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """Rows that hold the term, and how often."""
        at = int(np.searchsorted(self.terms, np.uint32(term)))
        if at == len(self.terms) or int(self.terms[at]) != term:
            return self.rows[:0], self.counts[:0]
        span = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return self.rows[span], self.counts[span]


@dataclass(frozen=True)
class Postings:
    """The inverted index of the first `count` rows; extending it leaves older values usable."""

    count: int
    segments: tuple[Segment, ...]
    lengths: NDArray[np.float32]
    """Words of each row, with repetition."""

    @staticmethod
    def empty() -> Postings:
        return Postings(0, (), np.zeros(0, np.float32))

    @property
    def nbytes(self) -> int:
        return self.lengths.nbytes + sum(segment.nbytes for segment in self.segments)

    def extended(self, hashes: Hashes, lengths: NDArray[np.int64]) -> Postings:
        """Return this index with more rows, given by their words in one array and the number of words of each."""
        if not len(lengths):
            return self
        segments = _merged([*self.segments, Segment.of_sorted(keys_of(hashes, lengths, self.count))])
        known = np.concatenate([self.lengths, lengths.astype(np.float32)])
        return Postings(self.count + len(lengths), segments, known)

    def scores(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of every row for these terms; rows without any of them have 0."""
        scores = np.zeros(self.count, np.float32)
        if not self.count:
            return scores
        for term in sorted(set(terms)):
            self._add(scores, term_hash(term))
        return scores

    @cached_property
    def _mean_length(self) -> float:
        return max(float(self.lengths.mean()), 1.0)

    def _add(self, scores: NDArray[np.float32], term: int) -> None:
        found = [segment.of(term) for segment in self.segments]
        holders = sum(len(rows) for rows, _ in found)
        rarity = np.float32(np.log(1 + (self.count - holders + 0.5) / (holders + 0.5)))
        for rows, counts in found:
            # As numbers of the machine's own size, which numpy would convert them to twice.
            at, often = rows.astype(np.intp), counts.astype(np.float32)
            norms = K1 * (1 - B + B * self.lengths[at] / self._mean_length)
            scores[at] += rarity * often * np.float32(K1 + 1) / (often + norms)


def _merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return few segments in place of many: the last ones become one, until none before it is much larger."""
    if len(segments) <= SEGMENTS:
        return tuple(segments)
    first, size = len(segments) - 1, len(segments[-1].rows)
    while first and len(segments[first - 1].rows) < GROWTH * size:
        first -= 1
        size += len(segments[first].rows)
    if first == len(segments) - 1:
        first -= 1
    merged = np.sort(np.concatenate([segment.keys() for segment in segments[first:]]))
    return (*segments[:first], Segment.of_sorted(merged))
