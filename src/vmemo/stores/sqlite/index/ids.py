"""The ids of facts in 16 bytes each.

Nearly every id is a UUID in its usual form: its bytes are kept, and the text is formed for the facts that a search
finds. Another id is kept as it is, with a digest in place of the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vmemo.models import FactId

SIZE = 16
"""Bytes of a UUID."""
RECENT = 32_768
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
        return FactIds(0, np.zeros((capacity, SIZE), np.uint8))

    @staticmethod
    def of(ids: Sequence[FactId]) -> FactIds:
        """Return ids in this form."""
        digits = "".join(ids).replace("-", "")
        with suppress(ValueError):
            uuids = FactIds(len(ids), np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(len(ids), SIZE))
            if uuids.all() == list(ids):
                return uuids
        others = {row: id for row, id in enumerate(ids) if _uuid_bytes(id) is None}
        stored = b"".join(map(_key, ids))
        return FactIds(len(ids), np.frombuffer(stored, np.uint8).reshape(-1, SIZE), others)

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
            keys = np.zeros((max(total, len(keys) + len(keys) // 2), SIZE), np.uint8)
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
        if len(self.recent) > RECENT:
            self.recent.clear()
        self.recent.update(zip(found, rows, strict=True))
        return found

    def rows_of(self, ids: Iterable[FactId]) -> dict[FactId, int]:
        """Return the rows of ids; those that are not among these are left out."""
        known = {id: self.recent.get(id, -1) for id in ids}
        if missing := {_key(id): id for id, row in known.items() if row < 0}:
            # The first two bytes leave few rows to compare.
            begun = np.zeros(1 << 16, np.bool_)
            begun[np.frombuffer(b"".join(missing), np.uint16)[:: SIZE // 2]] = True
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
        start = SIZE * count + 4
        end = start + int.from_bytes(stored[start - 4 : start], "little")
        if len(stored) < end:
            raise ValueError("ids are missing")
        keys = np.frombuffer(stored, np.uint8, SIZE * count).reshape(count, SIZE)
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
    return found if len(found) == SIZE and found.hex() == id.replace("-", "") else None


def _key(id: FactId) -> bytes:
    return _uuid_bytes(id) or blake2b(id.encode("utf-8"), digest_size=SIZE).digest()
