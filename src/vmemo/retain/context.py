"""The context of the retain stage."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from vmemo.models import BankId
from vmemo.ports import Context
from vmemo.retain.entity_cache import EntityCache
from vmemo.retain.llm_extraction import LLMExtractor


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


@dataclass(frozen=True, kw_only=True, eq=False)
class RetainContext(Context):
    """The shared context with the entity cache, the bank locks and the LLM extractor."""

    entity_cache: EntityCache = field(init=False)
    bank_locks: BankLocks = field(default_factory=BankLocks)
    llm_extractor: LLMExtractor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entity_cache", EntityCache(self.store, self.settings.resolution))
        object.__setattr__(self, "llm_extractor", LLMExtractor(self.settings.style))
