"""A cache of entity indexes, so that a large bank's entities are not loaded for every batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from vmemo.models import BankId, BankRevision, EntityId
from vmemo.models.changes import Changes
from vmemo.models.drafts import FactDraft
from vmemo.models.select import EntitySelect
from vmemo.models.settings import ResolutionPart
from vmemo.ports import Reads
from vmemo.ports.store import paged
from vmemo.retain.resolve import EntityIndex, EntityResolution, NameSighting, resolve
from vmemo.text.names import names_apart

PAGE = 1000
LATEST = 50
"""Facts of an entity that decide which others occur beside it."""
MOST_COMPANIONS = 8192
"""Entities of a bank whose companions are cached."""


@dataclass
class _Companions:
    """The entities beside one: those of its latest facts when they were read, and of each fact since."""

    read: set[EntityId]
    since: deque[frozenset[EntityId]] = field(default_factory=lambda: deque[frozenset[EntityId]](maxlen=LATEST))

    def latest(self) -> set[EntityId]:
        """Return the entities of the latest facts."""
        return set[EntityId]().union(*self.since) if len(self.since) == LATEST else self.read.union(*self.since)


@dataclass
class _BankEntities:
    """The entities of a bank at one revision, and the companions of those whose names were ambiguous."""

    revision: BankRevision
    index: EntityIndex
    companions: dict[EntityId, _Companions] = field(default_factory=dict[EntityId, _Companions])

    def add(self, changes: Changes) -> None:
        """Add what a commit has changed."""
        self.revision = self.revision.next()
        for entity in changes.entities:
            self.index.put(entity)
        for item in changes.facts:
            mentioned = frozenset(mention.id for mention in item.fact.entities)
            for id in mentioned & self.companions.keys():
                self.companions[id].since.append(mentioned - {id})


@dataclass
class EntityCache:
    """The entities of each bank, valid for one revision of it."""

    store: Reads
    weights: Mapping[ResolutionPart, float]
    _known: dict[BankId, _BankEntities] = field(default_factory=dict[BankId, _BankEntities])

    async def resolve(
        self,
        bank: BankId,
        revision: BankRevision,
        drafts: Sequence[FactDraft],
        *,
        advice: Mapping[str, EntityId | None] = MappingProxyType({}),
    ) -> EntityResolution:
        """Resolve the names of drafts to entities; `advice` holds the model's decisions on ambiguous names."""
        known = await self._entities(bank, revision)
        sightings = [sighting for draft in drafts for sighting in _sightings(draft)]
        names = {sighting.name for sighting in sightings}
        candidates = set[EntityId]().union(*(_uncertain(known.index, name) for name in names))
        companions = await self._companions(bank, known, candidates)
        return await asyncio.to_thread(resolve, sightings, known.index, companions, self.weights, advice)

    def committed(self, bank: BankId, revision: BankRevision, changes: Changes) -> None:
        """Add what a committed batch has changed, which was the only change after this revision."""
        known = self._known.get(bank)
        if known is not None and known.revision == revision:
            known.add(changes)

    async def _entities(self, bank: BankId, revision: BankRevision) -> _BankEntities:
        known = self._known.get(bank)
        if known is None or known.revision != revision:
            every = paged(lambda after: self.store.entities(bank, EntitySelect(after=after, counted=False, limit=PAGE)))
            known = self._known[bank] = _BankEntities(revision, EntityIndex([entity async for entity in every]))
        return known

    async def _companions(
        self, bank: BankId, known: _BankEntities, entities: Iterable[EntityId]
    ) -> dict[EntityId, set[EntityId]]:
        """Return for each entity the others of its latest facts."""
        wanted = sorted(entities)
        if len(known.companions) > MOST_COMPANIONS:
            known.companions.clear()
        missing = [id for id in wanted if id not in known.companions]
        if missing:
            read = await self.store.cooccurring(bank, missing)
            known.companions |= {id: _Companions(read.get(id, set())) for id in missing}
        return {id: known.companions[id].latest() for id in wanted}


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
