"""Who calls tools, and what that visitor may do to which bank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vmemo import Memory
from vmemo.errors import NotFound, VmemoError
from vmemo.models.auth import Permission

RANK: dict[Permission, int] = {"read": 0, "write": 1, "admin": 2}
"""Each right holds the ones before it."""


class Denied(VmemoError):
    """The visitor may not do this. Nothing was changed; somebody with the right has to allow it or do it."""


class Visitor(Protocol):
    """Whoever calls tools. Every tool and resource reaches a bank through `enter` alone."""

    @property
    def right(self) -> Permission:
        """The most that the visitor may do to any bank."""
        ...

    @property
    def home(self) -> str | None:
        """The bank that is meant where none is named."""
        ...

    @property
    def batch(self) -> int:
        """Messages that one call may bring."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens that one call may ask for."""
        ...

    @property
    def works(self) -> bool:
        """Whether queued work is done beside the tools, so that nobody has to wait for it."""
        ...

    async def enter(self, bank: str, right: Permission, *, creates: bool = False) -> Memory:
        """The bank, if the visitor may do this to it; one that is not there is refused, unless the tool makes it."""
        ...

    async def banks(self) -> list[str]:
        """Names of the banks that the visitor may read, in order."""
        ...

    async def note(self, verb: str, bank: str, error: Exception | None) -> None:
        """Keep a record of a write that was let in, and of how it ended."""
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """The owner of this machine's own process: every right, unless told otherwise.

    `only` is the one bank that there is for it. Like the command line, it leaves no record of writes.
    """

    memory: Memory
    only: str | None = None
    right: Permission = "admin"
    works: bool = False
    batch: int = 1_000
    max_tokens: int = 100_000

    @property
    def home(self) -> str:
        """The bank that is meant where none is named."""
        return self.only or "default"

    async def enter(self, bank: str, right: Permission, *, creates: bool = False) -> Memory:
        """The bank. The one that this process was started for is there from the first question on."""
        if self.only is not None and bank != self.only:
            raise Denied(f"This server was started for the bank {self.only!r} alone.")
        if RANK[right] > RANK[self.right]:
            raise Denied(f"This server was started to {self.right} only.")
        memory = self.memory.bank(bank)
        made = creates or (bank == self.home and self.right != "read")
        if not made and not await memory.exists():
            raise NotFound(f"There is no bank {bank!r:.80} here; list_banks tells which there are.")
        return memory

    async def banks(self) -> list[str]:
        """Names of the banks that there are for it."""
        return [name for name in await self.memory.banks() if self.only in (None, name)]

    async def note(self, verb: str, bank: str, error: Exception | None) -> None:
        """Leave no record."""
