"""Comparison of two banks by the lines of their exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from vmemo.models import Bank, BankId
from vmemo.models.changes import RestoreRecord
from vmemo.ports import Store
from vmemo.transfer.export_format import Kind, head, kind_of, line_of, records

STEP = 500
"""Records between two reports of progress."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass
class Tally:
    """The number of lines of an export by kind, and the digest of the file up to here."""

    bank: Bank
    counts: Counter[Kind] = field(default_factory=Counter[Kind])
    records: int = 0
    """The number of records counterparts the head."""
    _sum: _Digest = field(default_factory=sha256)

    def __post_init__(self) -> None:
        self._line(head(self.bank))

    def add(self, record: RestoreRecord) -> str:
        """Count a record and return its line."""
        line = line_of(record)
        self._line(line)
        self.counts[kind_of(record)] += 1
        self.records += 1
        return line

    def _line(self, line: str) -> None:
        self._sum.update(f"{line}\n".encode())

    @property
    def digest(self) -> str:
        """The digest of all lines."""
        return self._sum.hexdigest()


@dataclass(frozen=True)
class Difference:
    """The first difference of two exports: a numbered record of a kind, or the head."""

    kind: Kind | None = None
    number: int = 0

    def __str__(self) -> str:
        return "its profile, age or embedder" if self.kind is None else f"{self.kind} {self.number:,}"


@dataclass(frozen=True)
class StoredBank:
    """A bank and its store."""

    store: Store
    bank: Bank


async def compare_banks(
    one: StoredBank, other: StoredBank, on_progress: Callable[[int], None] = lambda _: None
) -> tuple[Tally, Difference | None]:
    """Return the tally of the first bank, and the first difference of the second, whose name may be another."""
    tally = Tally(one.bank)
    named = other.bank.model_copy(update={"id": one.bank.id})
    differs = None if named == one.bank else Difference()
    ours, theirs = (records(stored.store, BankId(stored.bank.id)) for stored in (one, other))
    async with aclosing(ours), aclosing(theirs):
        async for record in ours:
            line = tally.add(record)
            if tally.records % STEP == 0:
                on_progress(tally.records)
            if differs is None:
                counterpart = await anext(theirs, None)
                if counterpart is None or line_of(counterpart) != line:
                    differs = Difference(kind_of(record), tally.counts[kind_of(record)])
        extra = await anext(theirs, None) if differs is None else None
    if extra is not None:
        differs = Difference(kind_of(extra), tally.counts[kind_of(extra)] + 1)
    return tally, differs


async def is_empty(stored: StoredBank) -> bool:
    """Return True if a bank is empty."""
    async with aclosing(records(stored.store, BankId(stored.bank.id))) as exported:
        return await anext(exported, None) is None
