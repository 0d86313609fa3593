"""Blocks of facts: what the index of a bank is made of, and its form in the file.

A block has up to `BLOCK` facts in order of their numbers: eight-bit vectors, terms, ids and the columns by which
searches filter. Reading a bank is reading its blocks, each of them in one piece.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import blake2b
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId
from vmemo.stores.sqlite.index.postings import COUNT_BITS, TERM_SHIFT, Keys, counts_of, moved, rows_of, with_rows

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
        """Return all ids."""
        return self._formed(range(self.count), self.keys[: self.count])

    def at(self, places: NDArray[np.int64]) -> FactIds:
        """Return the ids of some rows, in that order."""
        others = self.others
        kept = {new: others[old] for new, old in enumerate(places.tolist()) if old in others} if others else {}
        return FactIds(len(places), self.keys[places], kept)

    def extended(self, new: FactIds) -> FactIds:
        """Return these ids and some more. Readers of the old value are not disturbed."""
        total = self.count + new.count
        keys = self.keys
        if total > len(keys):
            keys = np.zeros((max(total, len(keys) + len(keys) // 2), ID_BYTES), np.uint8)
            keys[: self.count] = self.keys[: self.count]
        keys[self.count : total] = new.keys[: new.count]
        for row in range(self.count, total) if self.others else ():
            # Left by another extension of the same value.
            self.others.pop(row, None)
        self.others.update((self.count + row, id) for row, id in new.others.items())
        return FactIds(total, keys, self.others, self.recent)

    def get(self, rows: list[int]) -> list[FactId]:
        """Return the ids of some rows."""
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
        """Return the ids as the file holds them."""
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
        """The facts' numbers."""
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
        """Return the block as the file holds it."""
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
