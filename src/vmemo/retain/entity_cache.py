"""The entities of banks, kept between batches so that a large bank's names are not read again for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from vmemo.models import BankId, Entity, EntityId
from vmemo.models.drafts import FactDraft
from vmemo.models.settings import ResolutionWeights
from vmemo.ports import Library
from vmemo.retain.resolve import EntityIndex, Resolution, Sighting, resolve

PAGE = 1000


@dataclass
class EntityCache:
    """Entity indexes by bank, each good for one revision of it."""

    store: Library
    weights: ResolutionWeights = field(default_factory=ResolutionWeights)
    _known: dict[BankId, tuple[int, EntityIndex]] = field(default_factory=dict[BankId, tuple[int, EntityIndex]])

    async def resolve(
        self,
        bank: BankId,
        revision: int,
        drafts: Sequence[FactDraft],
        *,
        advice: Mapping[str, EntityId | None] = MappingProxyType({}),
    ) -> Resolution:
        """Decide which entity each name of some drafts is; `advice` is a reader's on names that were in doubt."""
        index = await self._index(bank, revision)
        sightings = [_sighting(draft, i) for draft in drafts for i in range(len(draft.entities))]
        names = {sighting.name for sighting in sightings}
        candidates = set[EntityId]().union(*(_doubtful(index, name) for name in names))
        beside = await self.store.cooccurring(bank, sorted(candidates)) if candidates else {}
        return await asyncio.to_thread(resolve, sightings, index, beside, self.weights, advice)

    def landed(self, bank: BankId, revision: int, entities: Sequence[Entity]) -> None:
        """Take over what a batch saved; the batch was the only change after this revision."""
        known, index = self._known.get(bank, (-1, EntityIndex()))
        if known == revision:
            for entity in entities:
                index.put(entity)
            self._known[bank] = (revision + 1, index)

    async def _index(self, bank: BankId, revision: int) -> EntityIndex:
        known, index = self._known.get(bank, (-1, EntityIndex()))
        if known != revision:
            index = EntityIndex(await self._all(bank))
            self._known[bank] = (revision, index)
        return index

    async def _all(self, bank: BankId) -> list[Entity]:
        entities: list[Entity] = []
        while page := await self.store.entities(bank, after=entities[-1].id if entities else None, limit=PAGE):
            entities += page
        return entities


def _doubtful(index: EntityIndex, name: str) -> set[EntityId]:
    """Who the name could mean, where its being one entity's own name does not settle it."""
    candidates = index.candidates(name)
    return candidates if len(candidates) > 1 or not index.named(name) else set()


def _sighting(draft: FactDraft, at: int) -> Sighting:
    found = draft.entities[at]
    others = frozenset(other.name for i, other in enumerate(draft.entities) if i != at)
    return Sighting(name=found.name, type=found.type, at=draft.mentioned_at, beside=others)
