"""The context of the retain stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from vmemo.ports import Context
from vmemo.retain.bank_locks import BankLocks
from vmemo.retain.entity_cache import EntityCache
from vmemo.retain.llm_extraction import LLMExtractor


@dataclass(frozen=True, kw_only=True, eq=False)
class RetainContext(Context):
    """The shared context with the entity cache, the bank locks and the LLM extractor."""

    entity_cache: EntityCache = field(init=False)
    bank_locks: BankLocks = field(default_factory=BankLocks)
    llm_extractor: LLMExtractor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entity_cache", EntityCache(self.store, self.settings.resolution))
        object.__setattr__(self, "llm_extractor", LLMExtractor(self.settings.style))
