"""The index of a bank in memory: what recall needs to rank its facts without touching the database.

It is made of blocks. A block has up to `BLOCK` facts in order of their numbers: eight-bit vectors, terms, ids and the
columns by which searches filter. The file holds a bank as such blocks, so reading a bank is reading its blocks.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from hashlib import blake2b
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId, Interval, Network
from vmemo.models.search import Ranking, Scope, TemporalSearch
from vmemo.stores.sqlite.index.postings import (
    COUNT_BITS,
    TERM_SHIFT,
    Keys,
    Postings,
    counts_of,
    moved,
    rows_of,
    with_rows,
)
from vmemo.stores.sqlite.index.vectors import (
    ComparedVectors,
    Mask,
    Rows,
    Vectors,
    best,
    with_capacity,
)
from vmemo.stores.values import micros

ID_BYTES = 16
"""Bytes of a UUID."""
RECENT_IDS = 32_768
"""Ids that were asked for whose rows are kept, before all are dropped."""
_HYPHENS = (8, 13, 18, 23)
_DIGITS = np.delete(np.arange(36), _HYPHENS)
_HEX = np.frombuffer(bytes(range(256)).hex().encode("ascii"), np.uint16)
"""The two digits of each byte."""


@dataclass(frozen=True)
class FactIds:
    """The ids of the first `count` rows. Memory is shared with longer values, and rows are only ever appended."""

    count: int
    keys: NDArray[np.uint8]
    """The bytes of each row's UUID, or a digest."""
    others: dict[int, FactId] = field(default_factory=dict[int, FactId])
    """Ids by row that are no UUIDs."""
    recent: dict[FactId, int] = field(default_factory=dict[FactId, int])
    """The rows of ids that were asked for lately."""

    @staticmethod
    def empty(capacity: int = 0) -> FactIds:
        """No rows yet, with memory for some."""
        return FactIds(0, np.zeros((capacity, ID_BYTES), np.uint8))

    @staticmethod
    def of(ids: Sequence[FactId]) -> FactIds:
        """Return ids in this form."""
        digits = "".join(ids).replace("-", "")
        with suppress(ValueError):
            uuids = FactIds(len(ids), np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(len(ids), ID_BYTES))
            if uuids.all() == list(ids):
                return uuids
        others = {row: id for row, id in enumerate(ids) if _uuid_bytes(id) is None}
        stored = b"".join(map(_id_bytes, ids))
        return FactIds(len(ids), np.frombuffer(stored, np.uint8).reshape(-1, ID_BYTES), others)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without those of ids that are kept as texts."""
        return self.keys.nbytes

    def __len__(self) -> int:
        return self.count

    def all(self) -> list[FactId]:
        return self._formed(range(self.count), self.keys[: self.count])

    def at(self, places: NDArray[np.int64]) -> FactIds:
        """Return the ids of some rows, in that order."""
        others = self.others
        kept = {new: others[old] for new, old in enumerate(places.tolist()) if old in others} if others else {}
        return FactIds(len(places), self.keys[places], kept)

    def extended(self, new: FactIds) -> FactIds:
        """Return these ids and some more. Readers of the old value are not disturbed."""
        total = self.count + new.count
        keys = with_capacity(self.keys, self.count, total)
        keys[self.count : total] = new.keys[: new.count]
        for row in range(self.count, total) if self.others else ():
            # Left by another extension of the same value.
            self.others.pop(row, None)
        self.others.update((self.count + row, id) for row, id in new.others.items())
        return FactIds(total, keys, self.others, self.recent)

    def get(self, rows: list[int]) -> list[FactId]:
        found = self._formed(rows, self.keys[rows])
        if len(self.recent) > RECENT_IDS:
            self.recent.clear()
        self.recent.update(zip(found, rows, strict=True))
        return found

    def rows_of(self, ids: Iterable[FactId]) -> dict[FactId, int]:
        """Return the rows of ids; those that are not among these are left out."""
        known = {id: self.recent.get(id, -1) for id in ids}
        if missing := {_id_bytes(id): id for id, row in known.items() if row < 0}:
            # The first two bytes leave few rows to compare.
            begun = np.zeros(1 << 16, np.bool_)
            begun[np.frombuffer(b"".join(missing), np.uint16)[:: ID_BYTES // 2]] = True
            for row in np.flatnonzero(begun[self.keys[: self.count].view(np.uint16)[:, 0]]).tolist():
                if (id := missing.get(self.keys[row].tobytes())) is not None:
                    known[id] = row
        return {id: row for id, row in known.items() if 0 <= row < self.count}

    def _formed(self, rows: Sequence[int], keys: NDArray[np.uint8]) -> list[FactId]:
        digits = np.full((len(keys), 36), ord("-"), np.uint8)
        digits[:, _DIGITS] = _HEX[keys].view(np.uint8)
        text = digits.tobytes().decode("ascii")
        found = [FactId(text[start : start + 36]) for start in range(0, len(text), 36)]
        return [self.others.get(row, id) for row, id in zip(rows, found, strict=True)] if self.others else found

    def stored(self) -> bytes:
        others = json.dumps(self.others, ensure_ascii=False).encode("utf-8") if self.others else b""
        return self.keys[: self.count].tobytes() + len(others).to_bytes(4, "little") + others

    @staticmethod
    def read(stored: bytes, count: int) -> tuple[FactIds, int]:
        """Return the ids at the start of some bytes of the file, and the number of these bytes."""
        start = ID_BYTES * count + 4
        end = start + int.from_bytes(stored[start - 4 : start], "little")
        if len(stored) < end:
            raise ValueError("ids are missing")
        keys = np.frombuffer(stored, np.uint8, ID_BYTES * count).reshape(count, ID_BYTES)
        others = cast("dict[str, str]", json.loads(stored[start:end]) if end > start else {})
        return FactIds(count, keys, {int(row): FactId(id) for row, id in others.items()}), end


def _uuid_bytes(id: FactId) -> bytes | None:
    """Return the bytes of a UUID in its usual form."""
    if len(id) != 36 or any(id[place] != "-" for place in _HYPHENS):
        return None
    try:
        found = bytes.fromhex(id.replace("-", ""))
    except ValueError:
        return None
    # Spaces and capital letters would be lost.
    return found if len(found) == ID_BYTES and found.hex() == id.replace("-", "") else None


def _id_bytes(id: FactId) -> bytes:
    return _uuid_bytes(id) or blake2b(id.encode("utf-8"), digest_size=ID_BYTES).digest()


BLOCK = 256
"""Facts of a block at most, so that a byte numbers them."""
Column = Literal["seq", "network", "tokens", "valid", "invalid", "recorded", "expired", "expires", "start", "end"]
COLUMNS: tuple[Column, ...] = get_args(Column)
Columns = NDArray[np.int64]


class StoredBlock(NamedTuple):
    """A block as the file holds it. The properties are rewritten when facts are closed, the rest is not."""

    numbers: bytes
    """Distances between the facts' numbers; empty if no number is missing."""
    vectors: bytes
    terms: bytes
    properties: bytes


@dataclass(frozen=True)
class FactBlock:
    """Some facts of a bank in order of their numbers, as the index reads them."""

    ids: FactIds
    columns: Columns
    components: NDArray[np.int8]
    scales: NDArray[np.float32]
    keys: Keys
    """Postings, with the facts' places in the block as rows."""

    @property
    def seqs(self) -> NDArray[np.int64]:
        return self.columns[0]

    @staticmethod
    def joined(blocks: Sequence[FactBlock]) -> FactBlock:
        """Return the facts of all blocks as one, in order of their numbers."""
        if len(blocks) == 1:
            return blocks[0]
        starts = np.cumsum([0, *(len(block.ids) for block in blocks)]).tolist()
        whole = FactBlock(
            reduce(FactIds.extended, (block.ids for block in blocks), FactIds.empty(starts[-1])),
            np.concatenate([block.columns for block in blocks], axis=1),
            np.concatenate([block.components for block in blocks]),
            np.concatenate([block.scales for block in blocks]),
            np.concatenate([moved(block.keys, start) for block, start in zip(blocks, starts, strict=False)]),
        )
        return whole.at(np.argsort(whole.seqs, kind="stable"))

    def at(self, places: NDArray[np.int64]) -> FactBlock:
        """Return the facts at some places, in that order."""
        target = np.full(len(self.ids), -1, np.int64)
        target[places] = np.arange(len(places))
        return FactBlock(
            self.ids.at(places),
            self.columns[:, places],
            self.components[places],
            self.scales[places],
            np.sort(with_rows(self.keys, target)),
        )

    def parts(self) -> list[FactBlock]:
        """Return the facts in blocks of the size of the file's."""
        if len(self.ids) <= BLOCK:
            return [self]
        places = np.arange(len(self.ids))
        return [self.at(places[start : start + BLOCK]) for start in range(0, len(self.ids), BLOCK)]

    def patched(self, columns: Columns) -> FactBlock:
        """Return the block with the present columns of some of its facts."""
        new = self.columns.copy()
        new[:, np.searchsorted(new[0], columns[0])] = columns
        return replace(self, columns=new)

    def stored(self) -> StoredBlock:
        steps = np.diff(self.seqs)
        numbers = zlib.compress(steps.astype("<i8").tobytes()) if (steps > 1).any() else b""
        vectors = self.scales.astype("<f4").tobytes() + self.components.tobytes()
        return StoredBlock(numbers, vectors, _pack_terms(self.keys), self.stored_properties)

    @property
    def stored_properties(self) -> bytes:
        """The ids and columns as the file holds them."""
        # The bytes of equal significance follow each other: most are the same in all facts of a block.
        planes = np.ascontiguousarray(self.columns[1:].astype("<i8", order="C").view(np.uint8).reshape(-1, 8).T)
        # Ids can't be compressed.
        return self.ids.stored() + zlib.compress(planes.tobytes(), level=6)

    @staticmethod
    def read(first: int, count: int, stored: StoredBlock) -> FactBlock:
        """Return a block of the file; raise ValueError if it can't be read."""
        try:
            scales, components = unpack_vectors(stored.vectors, count)
            ids, rest = _unpack_properties(stored.properties, count)
            seqs = unpack_numbers(first, count, stored.numbers)
            columns = np.concatenate([seqs[None], rest])
            return FactBlock(ids, columns, components, scales, _unpack_terms(stored.terms))
        except (ValueError, zlib.error) as error:
            raise ValueError(f"a block of {count} facts can't be read: {error}") from error


def unpack_numbers(first: int, count: int, numbers: bytes) -> NDArray[np.int64]:
    """Return the numbers of a block's facts."""
    if not numbers:
        return np.arange(first, first + count)
    return np.cumsum(np.concatenate([[first], np.frombuffer(zlib.decompress(numbers), "<i8")]))


def unpack_vectors(stored: bytes, count: int) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return the scales and the components of a block's vectors."""
    return np.frombuffer(stored, "<f4", count), np.frombuffer(stored, np.int8, offset=4 * count).reshape(count, -1)


def _unpack_properties(stored: bytes, count: int) -> tuple[FactIds, Columns]:
    ids, size = FactIds.read(stored, count)
    return ids, _unpack_columns(zlib.decompress(stored[size:]), count)


def _unpack_columns(plain: bytes, count: int) -> Columns:
    planes = np.frombuffer(plain, np.uint8).reshape(8, -1)
    return np.ascontiguousarray(planes.T).view("<i8").reshape(len(COLUMNS) - 1, count)


def _pack_terms(keys: Keys) -> bytes:
    terms, holders = np.unique((keys >> TERM_SHIFT).astype("<u4"), return_counts=True)
    rows, counts = rows_of(keys).astype(np.uint8), counts_of(keys)
    holders = (holders - 1).astype(np.uint8)
    packed = (len(terms).to_bytes(4, "little"), terms.tobytes(), holders.tobytes(), rows.tobytes(), counts.tobytes())
    return zlib.compress(b"".join(packed), level=1)


def _unpack_terms(stored: bytes) -> Keys:
    plain = zlib.decompress(stored)
    count = int.from_bytes(plain[:4], "little")
    terms = np.frombuffer(plain, "<u4", count, offset=4).astype(np.uint64) << TERM_SHIFT
    holders = np.frombuffer(plain, np.uint8, count, offset=4 + 4 * count).astype(np.int64) + 1
    rows, counts = np.frombuffer(plain, np.uint8, offset=4 + 5 * count).reshape(2, -1).astype(np.uint64)
    return np.repeat(terms, holders) | (rows << np.uint64(COUNT_BITS)) | counts


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

    @staticmethod
    def empty(dimension: int, number: int, purges: int, capacity: int = 0) -> BankIndex:
        """A bank before its first fact is read."""
        table = np.zeros((len(COLUMNS), capacity), np.int64)
        return BankIndex(
            number, -1, purges, Vectors.empty(dimension, capacity), Postings.empty(), FactIds.empty(capacity), table
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
        """Bytes of memory, with an estimate for mentions."""
        parts = (self.vectors, self.postings, self.ids, self.table)
        return sum(part.nbytes for part in parts) + MENTION_BYTES * self.count

    def extended(self, revision: int, blocks: Iterable[FactBlock]) -> BankIndex:
        """Return the view with the facts of further blocks, whose numbers are greater than those of this view."""
        vectors, ids, table, count = self.vectors, self.ids, self.table, self.count
        postings: list[Keys] = []
        for block in blocks:
            size = len(block.ids)
            table = with_capacity(table, count, count + size, axis=1)
            table[:, count : count + size] = block.columns
            vectors = vectors.extended(block.components, block.scales)
            ids = ids.extended(block.ids)
            postings.append(moved(block.keys, count - self.count))
            count += size
        return replace(
            self,
            revision=revision,
            vectors=vectors,
            postings=self.postings.extended(np.concatenate([*postings, np.zeros(0, np.uint64)]), count - self.count),
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
        )

    def reworded(self, seqs: NDArray[np.int64], keys: Keys) -> BankIndex:
        """Return the view with other postings of some of its facts, whose places among the numbers are their rows."""
        return replace(self, postings=self.postings.replaced(np.searchsorted(self.column("seq"), seqs), keys))

    def numbers(self, ids: Iterable[FactId]) -> dict[int, FactId]:
        """Facts of this view by number; others are left out."""
        known = self.ids.rows_of(ids)
        seqs = self.column("seq")[np.fromiter(known.values(), np.int64, len(known))]
        return dict(zip(seqs.tolist(), known, strict=True))

    def places(self, seqs: Iterable[int]) -> dict[int, int]:
        """Return the rows of facts by number, ascending; numbers that are not in this view are left out."""
        rows = self.at(sorted(set(seqs)))
        return dict(zip(self.column("seq")[rows].tolist(), rows.tolist(), strict=True))

    def nearest(self, compared: ComparedVectors, allowed: Mask, limit: int, floor: float) -> Ranking:
        rows, cosines = compared.nearest(allowed, limit)
        kept = cosines >= floor
        return self._ranking(rows[kept], cosines[kept], compared.baseline)

    def neighbours(self, queries: NDArray[np.float32], allowed: Mask, limit: int, floor: float) -> list[Ranking]:
        """Return the few nearest facts of each query, with a cosine of at least `floor`."""
        found: list[Ranking] = []
        for query in queries:
            rows, cosines = self.vectors.nearest(query, allowed, limit, FEW)
            kept = cosines >= floor
            found.append(self._ranking(rows[kept], cosines[kept]))
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
        return self.table[COLUMNS.index(name), : self.count]


def _bounds(stretch: Interval) -> tuple[int, int]:
    return micros(stretch.start) if stretch.start else EARLIEST, micros(stretch.end) if stretch.end else LATEST
