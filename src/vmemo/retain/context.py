"""The context of the retain stage."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes
from vmemo.ports import Context
from vmemo.retain.entities import EntityCache
from vmemo.retain.episodes import OpenEpisodes
from vmemo.retain.llm_extraction import CustomExtraction, LLMExtractor
from vmemo.sync import PerEventLoop

MOST = 4096


class DerivedMessages:
    """Concurrent retains of a bank share one derivation; each of the others finds the facts of its messages here."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._facts: OrderedDict[tuple[BankId, str], tuple[FactId, ...]] = OrderedDict()

    def add(self, changes: Changes) -> None:
        """Add the messages of a committed batch, with their new facts and the known facts that they repeat."""
        found: dict[str, dict[FactId, None]] = {id: {} for id in changes.pending}
        stated = [(item.fact.id, item.fact.messages) for item in changes.facts]
        for fact, messages in (*stated, *((each.fact, each.messages) for each in changes.sources)):
            for id in messages:
                found.setdefault(id, {})[fact] = None
        with self._lock:
            self._facts.update({(changes.bank, id): tuple(found[id]) for id in changes.pending})
            while len(self._facts) > MOST:
                self._facts.popitem(last=False)

    def drop(self, bank: BankId, messages: Iterable[str]) -> None:
        """Drop messages that are about to be derived, again if they were forgotten or queued meanwhile."""
        with self._lock:
            for id in messages:
                self._facts.pop((bank, id), None)

    def facts_of(self, bank: BankId, messages: Sequence[str]) -> tuple[FactId, ...] | None:
        """Return the facts of messages; None unless all of these messages were derived lately."""
        with self._lock:
            found = [self._facts.get((bank, id)) for id in messages]
        known = [facts for facts in found if facts is not None]
        if not messages or len(known) < len(messages):
            return None
        return tuple(dict.fromkeys(fact for facts in known for fact in facts))


@dataclass(frozen=True, kw_only=True, eq=False)
class RetainContext(Context):
    """The shared context with the caches of the stage, the LLM extractor and a lock for each bank."""

    entity_cache: EntityCache = field(init=False)
    llm_extractor: LLMExtractor = field(init=False)
    open_episodes: OpenEpisodes = field(init=False)
    derived_messages: DerivedMessages = field(init=False, default_factory=DerivedMessages)
    _locks: PerEventLoop[defaultdict[BankId, asyncio.Lock]] = field(
        init=False, default_factory=lambda: PerEventLoop(lambda: defaultdict[BankId, asyncio.Lock](asyncio.Lock))
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "entity_cache", EntityCache(self.store, self.settings.resolution_weights))
        object.__setattr__(self, "open_episodes", OpenEpisodes(self.store))
        custom = CustomExtraction(self.settings.extraction_instructions, self.settings.categories)
        object.__setattr__(self, "llm_extractor", LLMExtractor(self.settings.style, custom))

    def bank_lock(self, bank: BankId) -> asyncio.Lock:
        """Return the bank's lock of the running event loop: concurrent writers would only repeat the same work."""
        return self._locks.get()[bank]
