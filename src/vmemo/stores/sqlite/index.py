"""The index of a bank in memory: what recall needs to rank its facts without touching the database.

It has the vectors and the postings of the facts, the columns by which searches filter and rank, and the entities that
facts mention, all in the order of the facts' numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import Interval, Network
from vmemo.models.search import Ranking, Scope, TemporalSearch
from vmemo.stores.search import K1, B
from vmemo.stores.values import micros, term_hash

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
        """The number of signs by which each row differs from the query."""
        bits, count = self._vectors.bits, self._vectors.count
        total = np.zeros(count, np.uint16)
        for word, sign in zip(bits, _sign_bits(self._query[None, :], len(bits))[0], strict=True):
            total += np.bitwise_count(word[:count] ^ sign)
        return total

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
        sample = self.cosines(np.arange(0, count, max(1, count // SAMPLE))).astype(np.float64)
        mean = sample.sum() / len(sample)
        return float(mean - 2 * np.sqrt(max(0.0, sample.dot(sample) / len(sample) - mean * mean)))

    def _candidates(self, allowed: Mask, wanted: int) -> Rows:
        if np.count_nonzero(allowed) <= wanted:
            return np.flatnonzero(allowed)
        farthest = np.uint16(64 * len(self._vectors.bits) + 1)
        return np.flatnonzero(_smallest(np.where(allowed, self.distances, farthest), wanted))


def _smallest(distances: Distances, wanted: int) -> Mask:
    """Return the mask of so many smallest distances, and of those that equal the largest of them, if they are few."""
    largest = np.partition(distances, wanted - 1)[wanted - 1]
    chosen = distances <= largest
    if (more := np.count_nonzero(chosen) - wanted) > wanted:
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
        rows, counts = keys.astype(np.uint32) >> np.uint32(COUNT_BITS), keys & np.uint64(MOST_REPEATED)
        return Segment(hashes[starts[:-1]], starts, rows, counts.astype(np.uint8))

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
        for term in sorted(set(terms)) if self.count else ():
            found = [segment.of(term_hash(term)) for segment in self.segments]
            holders = sum([len(rows) for rows, _ in found])
            rarity = np.float32((K1 + 1) * np.log(1 + (self.count - holders + 0.5) / (holders + 0.5)))
            for rows, counts in found if holders else ():
                # As numbers of the machine's own size, which numpy would convert them to twice.
                at, often = rows.astype(np.intp), counts.astype(np.float32)
                scores[at] += rarity * often / (often + self._norms[at])
        return scores

    @cached_property
    def _norms(self) -> NDArray[np.float32]:
        return K1 * (1 - B + B * self.lengths / max(float(self.lengths.mean()), 1.0))


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


COLUMNS = tuple("seq tokens mentioned network valid invalid recorded expired expires start end revision".split())
Columns = NDArray[np.int64]
NETWORKS: tuple[Network, ...] = get_args(Network)
LEAST_SCORED = 512
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

    def of_facts(self, rows: Rows) -> list[NDArray[np.int64]]:
        """Return the entities that each of some facts mentions."""
        # Numbers of another type would be compared with a converted copy of all.
        spans = np.searchsorted(self.rows, np.stack([rows, rows + 1]).astype(self.rows.dtype))
        return [self.entities[start:end] for start, end in spans.T.tolist()]

    def counts(self, entities: Sequence[int] | NDArray[np.int64]) -> list[int]:
        """Return for each entity the number of facts that mention it."""
        wanted = np.array(entities, np.int64)
        first, last = np.searchsorted(self._by_entity[0], np.stack([wanted, wanted + 1]))
        return (last - first).tolist()

    def of_entities(self, entities: Sequence[int]) -> list[Rows]:
        """Return for each entity the rows of the facts that mention it, ascending."""
        known, rows = self._by_entity
        wanted = np.array(entities, np.int64)
        return [rows[start:end] for start, end in np.searchsorted(known, np.stack([wanted, wanted + 1])).T.tolist()]

    def beside(self, entities: Sequence[int], latest: int) -> list[set[int]]:
        """Return for each entity the others that share one of its latest facts."""
        several = [rows[-latest:] for rows in self.of_entities(entities)]
        rows = np.concatenate([np.zeros(0, np.int64), *several])
        starts, ends = np.searchsorted(self.rows, np.stack([rows, rows + 1]).astype(self.rows.dtype))
        reached = np.cumsum(np.insert(ends - starts, 0, 0))
        shared = self.entities[np.repeat(starts - reached[:-1], ends - starts) + np.arange(reached[-1])]
        spans = pairwise(reached[np.cumsum([0, *map(len, several)])].tolist())
        return [set(shared[start:end].tolist()) - {id} for id, (start, end) in zip(entities, spans, strict=True)]

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
            rows, cosines = ComparedVectors(self.vectors, query).nearest(allowed, limit, LEAST_SCORED)
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
            mask &= self._within(frozenset(scope.networks))
        if scope.occurred is not None:
            start, end = _bounds(scope.occurred)
            mask &= (self.column("start") < end) & (self.column("end") > start)
        if only is not None:
            mask &= np.isin(self.column("seq"), np.array(only, np.int64))
        return mask

    def _within(self, networks: frozenset[Network]) -> Mask:
        if networks not in self._masks:
            lets = np.array([network in networks for network in NETWORKS])
            self._masks[networks] = lets[self.column("network")]
        return self._masks[networks]

    @cached_property
    def _masks(self) -> dict[frozenset[Network], Mask]:
        return {}

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

    def column(self, name: str) -> NDArray[np.int64]:
        return self.table[COLUMNS.index(name), : self.count]


def _bounds(stretch: Interval) -> tuple[int, int]:
    return micros(stretch.start) if stretch.start else EARLIEST, micros(stretch.end) if stretch.end else LATEST
