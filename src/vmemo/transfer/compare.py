"""Two banks side by side: their exports counted, digested and compared line by line."""

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
"""Records between two signs of progress."""


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass
class Tally:
    """The lines of an export so far: how many of each kind, and their digest, which is that of the file."""

    bank: Bank
    counts: Counter[Kind] = field(default_factory=Counter[Kind])
    records: int = 0
    """The number of records besides the head."""
    _sum: _Digest = field(default_factory=sha256)

    def __post_init__(self) -> None:
        self._line(head(self.bank))

    def add(self, record: RestoreRecord) -> str:
        """Count a record; its line is returned."""
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
class Held:
    """A bank in a store."""

    store: Store
    bank: Bank


async def compared(
    one: Held, other: Held, tell: Callable[[int], None] = lambda _: None
) -> tuple[Tally, Difference | None]:
    """Read two banks to the end of the first: its lines, and where the second, whatever its name, begins to differ."""
    tally = Tally(one.bank)
    named = other.bank.model_copy(update={"id": one.bank.id})
    differs = None if named == one.bank else Difference()
    ours, theirs = (records(held.store, BankId(held.bank.id)) for held in (one, other))
    async with aclosing(ours), aclosing(theirs):
        async for record in ours:
            line = tally.add(record)
            if tally.records % STEP == 0:
                tell(tally.records)
            if differs is None:
                beside = await anext(theirs, None)
                if beside is None or line_of(beside) != line:
                    differs = Difference(kind_of(record), tally.counts[kind_of(record)])
        beyond = await anext(theirs, None) if differs is None else None
    if beyond is not None:
        differs = Difference(kind_of(beyond), tally.counts[kind_of(beyond)] + 1)
    return tally, differs


async def empty(held: Held) -> bool:
    """Return True if a bank is empty."""
    async with aclosing(records(held.store, BankId(held.bank.id))) as told:
        return await anext(told, None) is None
