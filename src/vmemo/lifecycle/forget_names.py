"""The rules for names when something is forgotten: of entities, of merges, and names that are not aliases.

A name stays only where the text of a remaining fact about its entity uses it: it may have stood in the forgotten text
alone. Reasons of merges may quote anything, so they are dropped with the first fact of an entity that is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from vmemo.models import Entity, EntityId, Fact, FactId
from vmemo.models.changes import AbsorbedMention, EntityMention, MergeRecord
from vmemo.text.names.fold import fold_name, folded_names

NamesInUse = Mapping[EntityId, AbstractSet[str]]
"""The names, case-folded, that the remaining facts about an entity use."""


@dataclass(frozen=True, kw_only=True)
class RemainingNames:
    """The entities and merges that are left where facts were lost."""

    kept: Mapping[EntityId, Entity]
    """Entities that lost some of their facts, with the names that are left of them."""
    deleted: AbstractSet[EntityId]
    changed: Mapping[EntityId, Entity]
    """Entities to save."""
    unsaid: Sequence[EntityMention]
    """Mentions of kept entities under a name that is no longer used."""
    merges: Mapping[str, MergeRecord]
    """All merges that are left."""
    changed_merges: Mapping[str, MergeRecord]
    deleted_merges: Sequence[str]

    def current(self, entities: Iterable[Entity]) -> list[Entity]:
        """Return stored entities as they are left, without deleted ones."""
        return [self.kept.get(entity.id, entity) for entity in entities if entity.id not in self.deleted]

    def not_aliases(self, entities: Iterable[Entity]) -> set[str]:
        """Return the names that are not aliases of entities and of entities that merges absorbed."""
        absorbed = (merge.was for merge in self.merges.values() if merge.was is not None)
        return {name for entity in (*entities, *absorbed) for name in entity.not_aliases}

    def without_not_aliases(self, entities: Iterable[Entity], unknown: AbstractSet[str]) -> RemainingNames:
        """Drop unknown names that are not aliases from entities and merges."""
        known = {entity.id: _acquainted(entity, unknown) for entity in entities if unknown & set(entity.not_aliases)}
        merges = {
            id: merge.model_copy(update={"was": _acquainted(merge.was, unknown)})
            for id, merge in self.merges.items()
            if merge.was is not None and unknown & set(merge.was.not_aliases)
        }
        return replace(self, changed={**self.changed, **known}, changed_merges={**self.changed_merges, **merges})


@dataclass(frozen=True, kw_only=True)
class NameRecords:
    """The records that decide which names are left."""

    lost: Mapping[FactId, Fact]
    touched: Sequence[Entity] = ()
    """The entities that lost facts mention."""
    forgotten: EntityId | None = None
    mentions: Sequence[EntityMention] = ()
    """Mentions of touched entities by another name than their own."""
    merges: Sequence[MergeRecord] = ()
    living: AbstractSet[EntityId] = frozenset()
    """The entities of merges that exist."""

    def wanted_names(self) -> dict[EntityId, set[str]]:
        """Return the names that must be looked for in the remaining facts about each entity."""
        deleted = self._orphans()
        kept = [entity for entity in self.touched if entity.id not in deleted]
        wanted = {entity.id: {entity.name, *entity.aliases} for entity in kept}
        for mention in self.mentions:
            if mention.entity in wanted and mention.fact not in self.lost:
                wanted[mention.entity].add(mention.name_in_text)
        into, living = _absorbing(self.merges), self.living - deleted
        for merge in self.merges:
            keeper = _keeper(merge.entity, into, living)
            if keeper is not None and self._affects(merge, keeper):
                for entity in {keeper, *_joined(merge)} & living:
                    wanted.setdefault(entity, set()).update(_names_in(merge))
        return wanted

    def remaining(self, in_use: NamesInUse) -> RemainingNames:
        """Return what is left, given which of the wanted names are in use."""
        deleted = self._orphans()
        renamed = {entity.id: _renamed(entity, in_use) for entity in self.touched if entity.id not in deleted}
        deleted |= {id for id, entity in renamed.items() if entity is None}
        kept = {id: entity for id, entity in renamed.items() if entity is not None}
        merges, dropped = self._remaining_merges(deleted, in_use)
        return RemainingNames(
            kept=kept,
            deleted=deleted,
            changed={entity.id: kept[entity.id] for entity in self.touched if kept.get(entity.id, entity) != entity},
            unsaid=[
                mention
                for mention in self.mentions
                if mention.entity in kept and mention.fact not in self.lost and not _is_said(mention, in_use)
            ],
            merges={merge.id: merges.get(merge.id, merge) for merge in self.merges if merge.id not in dropped},
            changed_merges=merges,
            deleted_merges=dropped,
        )

    def _orphans(self) -> set[EntityId]:
        return orphans(self.touched, self.lost.values()) | ({self.forgotten} if self.forgotten is not None else set())

    def _remaining_merges(
        self, deleted: AbstractSet[EntityId], in_use: NamesInUse
    ) -> tuple[dict[str, MergeRecord], list[str]]:
        """Return the merges that change, and the ids of those to delete."""
        changed: dict[str, MergeRecord] = {}
        dropped: list[str] = []
        into, living = _absorbing(self.merges), self.living - deleted
        # What was merged into an entity that another absorbed later goes with that later merge.
        for merge in reversed(self.merges):
            keeper = _keeper(merge.entity, into, living)
            if keeper is not None and not self._affects(merge, keeper):
                continue
            own = {*_joined(merge), keeper or merge.entity} & living
            left = None if keeper is None else self._cleaned(merge, {name for id in own for name in in_use.get(id, ())})
            if left is None:
                into = {entity: other for entity, other in into.items() if entity not in _joined(merge)}
                dropped.append(merge.id)
            else:
                changed[merge.id] = left
        return changed, dropped

    def _affects(self, merge: MergeRecord, keeper: EntityId) -> bool:
        return not self._touched.isdisjoint({keeper, merge.entity, *_joined(merge)})

    @cached_property
    def _touched(self) -> AbstractSet[EntityId]:
        return {entity.id for entity in self.touched} | ({self.forgotten} if self.forgotten is not None else set())

    def _cleaned(self, merge: MergeRecord, in_use: AbstractSet[str]) -> MergeRecord | None:
        """Return a merge without its reason and names that are not in use, or None if it has no name left."""
        names = _used(merge.names, in_use)
        if not names:
            return None
        was = None if merge.was is None else merge.was.model_copy(update={"name": names[0], "aliases": names[1:]})
        mentions = tuple(_said_as(mention, in_use) for mention in merge.mentions if mention.fact not in self.lost)
        own = _used(merge.own, in_use)
        return merge.model_copy(update={"names": names, "was": was, "own": own, "mentions": mentions, "reason": ""})


def orphans(entities: Iterable[Entity], lost: Iterable[Fact]) -> set[EntityId]:
    """Return the entities that only lost facts mention."""
    mentioned = Counter(mention.id for fact in lost for mention in fact.entities)
    return {entity.id for entity in entities if mentioned[entity.id] >= entity.mentions}


def owned_names(names: Iterable[str], entities: Iterable[Entity]) -> set[str]:
    """Return the names that one of these entities goes by."""
    owned = {folded for entity in entities for folded in folded_names(entity.name, entity.aliases)}
    return {name for name in names if fold_name(name) in owned}


def _used(names: Iterable[str], in_use: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.casefold() in in_use)


def _renamed(entity: Entity, in_use: NamesInUse) -> Entity | None:
    left = _used((entity.name, *entity.aliases), in_use[entity.id])
    return entity.model_copy(update={"name": left[0], "aliases": left[1:]}) if left else None


def _is_said(mention: EntityMention, in_use: NamesInUse) -> bool:
    return not mention.name_in_text or mention.name_in_text.casefold() in in_use[mention.entity]


def _said_as(mention: AbsorbedMention, in_use: AbstractSet[str]) -> AbsorbedMention:
    name = mention.name_in_text if mention.name_in_text and mention.name_in_text.casefold() in in_use else None
    return mention.model_copy(update={"name_in_text": name})


def _acquainted(entity: Entity, unknown: AbstractSet[str]) -> Entity:
    return entity.model_copy(update={"not_aliases": tuple(name for name in entity.not_aliases if name not in unknown)})


def _absorbing(merges: Iterable[MergeRecord]) -> dict[EntityId, EntityId]:
    """Return by absorbed entity the one that it is part of."""
    return {merge.absorbed: merge.entity for merge in merges if merge.absorbed is not None and merge.undone_at is None}


def _joined(merge: MergeRecord) -> set[EntityId]:
    """Return the absorbed entity, or the one that bare names became when the merge was undone, if any."""
    return {id for id in (merge.absorbed, merge.parted) if id is not None}


def _keeper(entity: EntityId, into: Mapping[EntityId, EntityId], living: AbstractSet[EntityId]) -> EntityId | None:
    """Return the entity that another is part of by now; None if there is none left."""
    passed: set[EntityId] = set()
    while entity not in living:
        if entity in passed or entity not in into:
            return None
        passed.add(entity)
        entity = into[entity]
    return entity


def _names_in(merge: MergeRecord) -> set[str]:
    return {*merge.names, *merge.own, *(mention.name_in_text for mention in merge.mentions if mention.name_in_text)}
