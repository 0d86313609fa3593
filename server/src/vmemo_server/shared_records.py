"""Records in memory that forked processes share."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from mmap import mmap
from struct import Struct

from vmemo_server.auth.records import MAX_RECORDS, VALUE_BYTES

_SLOT = Struct(f"<32sQ{VALUE_BYTES}s")
"""The hash of a name, a number that grows with each write, and the record."""
_EMPTY = bytes(_SLOT.size)
_WAYS = 8
"""Slots in which a record may be; the one that was written longest ago is dropped for another."""


class SharedRecords:
    """Implements `Records` in memory of a process and its forked children; nothing is written to a disk."""

    def __init__(self, capacity: int = 2 * MAX_RECORDS) -> None:
        self._sets = -(-capacity // _WAYS)
        self._memory = mmap(-1, self._sets * _WAYS * _SLOT.size)
        # An empty file, because the system releases the lock of a process that is killed.
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the records

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep other processes from changing records within the context."""
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock in this process."""
        self._lock.close()

    def get(self, name: str) -> bytes | None:
        """Return a record, or None."""
        hashed = _hash(name)
        return next((value for _, found, _, value in self._slots(hashed) if found == hashed), None)

    def put(self, name: str, value: bytes) -> None:
        """Write a record."""
        hashed = _hash(name)
        slots = list(self._slots(hashed))
        at = min(slots, key=lambda slot: (slot[1] != hashed, slot[2]))[0]
        _SLOT.pack_into(self._memory, at, hashed, max(slot[2] for slot in slots) + 1, value)

    def delete(self, name: str) -> None:
        """Delete a record, if there is one."""
        hashed = _hash(name)
        for at, found, *_ in self._slots(hashed):
            if found == hashed:
                self._memory[at : at + _SLOT.size] = _EMPTY

    def _slots(self, hashed: bytes) -> Generator[tuple[int, bytes, int, bytes]]:
        first = int.from_bytes(hashed[:8], "little") % self._sets * _WAYS
        for slot in range(first, first + _WAYS):
            yield slot * _SLOT.size, *_SLOT.unpack_from(self._memory, slot * _SLOT.size)


def _hash(name: str) -> bytes:
    return sha256(name.encode()).digest()
