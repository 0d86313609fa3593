"""What all banks of one opened memory have in common."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from vmemo.access import AccessCounts
from vmemo.models import BankId
from vmemo.retain.derive import Tools
from vmemo.retain.roster import Roster
from vmemo.settings import Parts


@dataclass
class Shared:
    """Parts, tools and what is remembered between calls; `checked` holds the banks that are known to be open."""

    parts: Parts
    tools: Tools
    access: AccessCounts
    checked: set[BankId] = field(default_factory=set[BankId])
    turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[BankId, asyncio.Lock]] = field(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, dict[BankId, asyncio.Lock]]
    )

    @staticmethod
    def of(parts: Parts) -> Shared:
        """The shared state over some parts, before anything is opened."""
        roster = Roster(parts.store)
        tools = Tools(parts.store, parts.embedder, parts.extractor, parts.counter, roster)
        return Shared(parts, tools, AccessCounts(parts.store, parts.settings.access_delay))

    def turn(self, bank: BankId) -> AbstractAsyncContextManager[None]:
        """One processing at a time per bank and loop: a second would only derive the same again."""
        locks = self.turns.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault(bank, asyncio.Lock())
