"""Blocks of facts: what the index of a bank is made of, and its form in the file.

A block has up to `BLOCK` facts in order of their numbers: eight-bit vectors, terms, ids and the columns by which
searches filter. Reading a bank is reading its blocks, each of them in one piece.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from vmemo.stores.sqlite.index.ids import FactIds
from vmemo.stores.sqlite.index.postings import COUNT_BITS, TERM_SHIFT, Keys, counts_of, moved, rows_of, with_rows

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
