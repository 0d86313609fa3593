"""Short-lived records of a server, such as rates of API keys and sign-in sessions."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

VALUE_BYTES = 40
"""Bytes of a record."""
MAX_RECORDS = 10_000
"""Records that are kept; the one that was written longest ago is dropped for another."""


class Records(Protocol):
    """Byte strings of at most `VALUE_BYTES` by name. A record that is old may be gone."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from changing records within the context."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return a record, or None."""
        ...

    def put(self, name: str, value: bytes) -> None:
        """Write a record."""
        ...

    def delete(self, name: str) -> None:
        """Delete a record, if there is one."""
        ...


@dataclass(eq=False)
class LocalRecords:
    """Records of one process."""

    _records: OrderedDict[str, bytes] = field(default_factory=OrderedDict[str, bytes], repr=False)

    def locked(self) -> AbstractContextManager[None]:
        """Do nothing: a process changes records from one event loop."""
        return nullcontext()

    def get(self, name: str) -> bytes | None:
        """Return a record, or None."""
        return self._records.get(name)

    def put(self, name: str, value: bytes) -> None:
        """Write a record."""
        if name not in self._records and len(self._records) >= MAX_RECORDS:
            self._records.popitem(last=False)
        self._records[name] = value
        self._records.move_to_end(name)

    def delete(self, name: str) -> None:
        """Delete a record, if there is one."""
        self._records.pop(name, None)
