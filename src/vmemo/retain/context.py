"""The context of the retain stage."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from vmemo.llm.event_loops import PerEventLoop
from vmemo.models import BankId
from vmemo.ports import Context
from vmemo.retain.custom_extraction import CustomExtraction
from vmemo.retain.derived_messages import DerivedMessages
from vmemo.retain.entity_cache import EntityCache
from vmemo.retain.llm_extraction import LLMExtractor
from vmemo.retain.open_episodes import OpenEpisodes


def _bank_locks() -> PerEventLoop[defaultdict[BankId, asyncio.Lock]]:
    return PerEventLoop(lambda: defaultdict[BankId, asyncio.Lock](asyncio.Lock))


@dataclass(frozen=True, kw_only=True, eq=False)
class RetainContext(Context):
    """The shared context with the caches of the stage, the LLM extractor and a lock for each bank."""

    entity_cache: EntityCache = field(init=False)
    llm_extractor: LLMExtractor = field(init=False)
    open_episodes: OpenEpisodes = field(init=False)
    derived_messages: DerivedMessages = field(init=False, default_factory=DerivedMessages)
    _locks: PerEventLoop[defaultdict[BankId, asyncio.Lock]] = field(init=False, default_factory=_bank_locks)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entity_cache", EntityCache(self.store, self.settings.resolution_weights))
        object.__setattr__(self, "open_episodes", OpenEpisodes(self.store))
        custom = CustomExtraction(self.settings.extraction_instructions, self.settings.categories)
        object.__setattr__(self, "llm_extractor", LLMExtractor(self.settings.style, custom))

    def bank_lock(self, bank: BankId) -> asyncio.Lock:
        """Return the bank's lock of the running event loop: concurrent writers would only repeat the same work."""
        return self._locks.get()[bank]
