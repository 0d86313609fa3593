"""A cache of entity indexes, so that a large bank's entities are not loaded for every batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from vmemo.models import BankId, BankRevision, Entity, EntityId
from vmemo.models.drafts import FactDraft
from vmemo.models.select import EntitySelect
from vmemo.models.setting_groups import ResolutionWeights
from vmemo.ports import Reads
from vmemo.ports.paging import paged
from vmemo.retain.resolve import EntityIndex, EntityResolution, NameSighting, resolve
from vmemo.text.names import names_apart

PAGE = 1000


@dataclass
class EntityCache:
    """The entity index of each bank, valid for one revision of it."""

    store: Reads
    weights: ResolutionWeights = field(default_factory=ResolutionWeights)
    _known: dict[BankId, tuple[BankRevision, EntityIndex]] = field(
        default_factory=dict[BankId, tuple[BankRevision, EntityIndex]]
    )

    async def resolve(
        self,
        bank: BankId,
        revision: BankRevision,
        drafts: Sequence[FactDraft],
        *,
        advice: Mapping[str, EntityId | None] = MappingProxyType({}),
    ) -> EntityResolution:
        """Resolve the names of drafts to entities; `advice` holds the model's decisions on ambiguous names."""
        index = await self._index(bank, revision)
        sightings = [sighting for draft in drafts for sighting in _sightings(draft)]
        names = {sighting.name for sighting in sightings}
        candidates = set[EntityId]().union(*(_uncertain(index, name) for name in names))
        cooccurring = await self.store.cooccurring(bank, sorted(candidates)) if candidates else {}
        return await asyncio.to_thread(resolve, sightings, index, cooccurring, self.weights, advice)

    def committed(self, bank: BankId, revision: BankRevision, entities: Sequence[Entity]) -> None:
        """Add the entities of a committed batch, which was the only change after this revision."""
        known, index = self._known.get(bank, (None, EntityIndex()))
        if known == revision:
            for entity in entities:
                index.put(entity)
            self._known[bank] = (revision.next(), index)

    async def _index(self, bank: BankId, revision: BankRevision) -> EntityIndex:
        known, index = self._known.get(bank, (None, EntityIndex()))
        if known != revision:
            every = paged(lambda after: self.store.entities(bank, EntitySelect(after=after, limit=PAGE)))
            index = EntityIndex([entity async for entity in every])
            self._known[bank] = (revision, index)
        return index


def _uncertain(index: EntityIndex, name: str) -> set[EntityId]:
    """Return the entities that a name could mean, or none if exactly one entity has this name."""
    candidates = index.candidates(name)
    return candidates if len(candidates) > 1 or not index.named(name) else set()


def _sightings(draft: FactDraft) -> Iterator[NameSighting]:
    names = [found.name for found in draft.entities]
    apart = names_apart(draft.text, names)
    for found in draft.entities:
        others = frozenset(name for name in names if name != found.name)
        yield NameSighting(
            name=found.name, type=found.type, at=draft.mentioned_at, beside=others, apart=apart[found.name]
        )
