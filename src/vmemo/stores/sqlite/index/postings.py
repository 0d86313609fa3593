"""BM25 in process: an inverted index in segments, merged as they grow.

A term is kept as a 32-bit hash. Among 100,000 different terms about one pair is expected to share a hash;
such a pair only lends its facts a few points of each other's score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vmemo.text.tokens import terms

K1 = 1.2
B = 0.75
MOST_TERMS = 64
"""Different words of a query that are searched; a longer query's longest words are taken."""
SEGMENTS = 8
"""Segments up to which new facts are only appended; then all become one."""

Hashes = NDArray[np.uint32]


def query_terms(text: str) -> list[str]:
    """The words of a query that are searched."""
    distinct = list(dict.fromkeys(terms(text)))
    return sorted(distinct, key=len, reverse=True)[:MOST_TERMS] if len(distinct) > MOST_TERMS else distinct


@lru_cache(maxsize=65_536)
def term_hash(term: str) -> int:
    """A term's 32-bit name, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=4).digest(), "little")


def encode(words: Sequence[str]) -> bytes:
    """A text's terms as they are stored: little-endian hashes, with repetition."""
    return np.array([term_hash(word) for word in words], dtype="<u4").tobytes()


@dataclass(frozen=True)
class Segment:
    """Postings of some rows, sorted by term and then by row."""

    terms: Hashes
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]

    @staticmethod
    def build(first_row: int, texts: Sequence[Hashes]) -> Segment:
        """The postings of consecutive rows."""
        lengths = np.array([len(text) for text in texts], np.int64)
        rows = np.repeat(np.arange(first_row, first_row + len(texts), dtype=np.uint64), lengths)
        hashes = np.concatenate([*texts, np.zeros(0, np.uint32)]).astype(np.uint64)
        keys, counts = np.unique((hashes << np.uint64(32)) | rows, return_counts=True)
        return Segment._of_sorted(keys, np.minimum(counts, 65_535).astype(np.uint16))

    @staticmethod
    def _of_sorted(keys: NDArray[np.uint64], counts: NDArray[np.uint16]) -> Segment:
        hashes = (keys >> np.uint64(32)).astype(np.uint32)
        terms, starts = np.unique(hashes, return_index=True)
        rows = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
        return Segment(terms, np.append(starts, len(keys)).astype(np.int64), rows, counts)

    @staticmethod
    def merged(segments: Sequence[Segment]) -> Segment:
        """One segment in place of several."""
        keys = np.concatenate([segment._keys() for segment in segments])
        counts = np.concatenate([segment.counts for segment in segments])
        order = np.argsort(keys, kind="stable")
        return Segment._of_sorted(keys[order], counts[order])

    def _keys(self) -> NDArray[np.uint64]:
        hashes = np.repeat(self.terms.astype(np.uint64), np.diff(self.starts))
        return (hashes << np.uint64(32)) | self.rows.astype(np.uint64)

    def of(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
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

    @staticmethod
    def empty() -> Postings:
        """No rows yet."""
        return Postings(0, (), np.zeros(0, np.float32))

    def extended(self, texts: Sequence[Hashes]) -> Postings:
        """This index and some more rows."""
        if not texts:
            return self
        segments = (*self.segments, Segment.build(self.count, texts))
        if len(segments) > SEGMENTS:
            segments = (Segment.merged(segments),)
        added = np.array([len(text) for text in texts], np.float32)
        return Postings(self.count + len(texts), segments, np.concatenate([self.lengths, added]))

    def rows(self, term: int) -> NDArray[np.int64]:
        """Rows that hold a term, given by its number."""
        found = [segment.of(term)[0].astype(np.int64) for segment in self.segments]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def scores(self, terms: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of every row for these terms; rows without any of them have 0."""
        scores = np.zeros(self.count, np.float32)
        if not self.count:
            return scores
        norms = K1 * (1 - B + B * self.lengths / max(float(self.lengths.mean()), 1.0))
        for term in sorted(set(terms)):
            self._add(scores, norms, term_hash(term))
        return scores

    def _add(self, scores: NDArray[np.float32], norms: NDArray[np.float32], term: int) -> None:
        found = [segment.of(term) for segment in self.segments]
        holders = sum(len(rows) for rows, _ in found)
        rarity = np.float32(np.log(1 + (self.count - holders + 0.5) / (holders + 0.5)))
        for rows, counts in found:
            often = counts.astype(np.float32)
            scores[rows] += rarity * often * np.float32(K1 + 1) / (often + norms[rows])
