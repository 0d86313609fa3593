"""One asyncio lock per bank and event loop."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from vmemo.models import BankId


@dataclass
class BankLocks:
    """A lock for each bank on each event loop; concurrent writers of one bank would only repeat the same work."""

    _locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[BankId, asyncio.Lock]] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, dict[BankId, asyncio.Lock]]
    )

    def __call__(self, bank: BankId) -> AbstractAsyncContextManager[None]:
        """Return the bank's lock."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault(bank, asyncio.Lock())
