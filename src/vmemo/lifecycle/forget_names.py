"""The rules for names when something is forgotten: where they are looked for, and which of them stay.

A name stays only if the text of a remaining fact about its entity uses it: it may have stood in the deleted text alone.
Reasons of merges may quote anything, so they are dropped with the first deleted fact about their entities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from vmemo.models import Entity, EntityId, Fact, FactId, Message
from vmemo.models.changes import EntityMention, MergeRecord
from vmemo.text.names.compare import fold_name, folded_names
from vmemo.text.names.lexicon import is_common_word, normalize_word


class EntityNames:
    """The names of an entity, to find the texts that name it and the messages that it said.

    A name is ambiguous if another entity has it too, or if it is an ordinary word such as "Will". Texts are searched
    for unambiguous names only: as whole words, in upper or lower case, and not as a part of a longer name of another
    entity, such as "Ana" in "Ana Lopez".
    """

    def __init__(self, entity: Entity, others: Sequence[Entity]) -> None:
        """Take an entity, and the others with a name that contains one of its names."""
        by_entity = {other.id: folded_names(other.name, other.aliases) for other in others}
        other_names = {name for other in others for name in (other.name, *other.aliases)}
        own = folded_names(entity.name, entity.aliases)
        self.namesakes = frozenset(id for id, names in by_entity.items() if own & names)
        """The entities with one of the names."""
        self._shared = own & {fold_name(name) for name in other_names}
        self._unshared = own - self._shared
        self.unambiguous = [
            name
            for name in (entity.name, *entity.aliases)
            if fold_name(name) not in self._shared and not is_common_word(normalize_word(name))
        ]
        self._searched = {fold_name(name) for name in self.unambiguous}
        longest_first = sorted({*self.unambiguous, *other_names}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_whole_words, longest_first)), re.IGNORECASE)

    def are_in(self, text: str) -> bool:
        """Return True if a text holds an unambiguous name."""
        return bool(self._searched) and any(
            fold_name(match[0]) in self._searched for match in self._pattern.finditer(text)
        )

    def is_speaker(self, message: Message) -> bool:
        return message.speaker is not None and fold_name(message.speaker) in self._unshared

    def may_be_speaker(self, message: Message) -> bool:
        """Return True if the entity or a namesake said a message."""
        return message.speaker is not None and fold_name(message.speaker) in self._shared


def _whole_words(name: str) -> str:
    words = r"\s+".join(map(re.escape, name.split()))
    # Chinese and Japanese put no spaces between words.
    return words if name >= "\u2e80" else rf"(?<!\w){words}(?!\w)"


NamesInUse = Mapping[EntityId, AbstractSet[str]]
"""The names, case-folded, that the remaining facts about an entity use."""


@dataclass(frozen=True, kw_only=True)
class RemainingNames:
    """The entities and merges that are left after facts were deleted."""

    kept: Mapping[EntityId, Entity]
    """Entities that keep some of their facts, with the names that are left."""
    deleted: AbstractSet[EntityId]
    changed: Mapping[EntityId, Entity]
    unused_mentions: Sequence[EntityMention]
    """Mentions of kept entities by a name that no remaining fact uses."""
    merges: Mapping[str, MergeRecord]
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
        known = {
            entity.id: _without_not_aliases(entity, unknown) for entity in entities if unknown & set(entity.not_aliases)
        }
        merges = {
            id: merge.model_copy(update={"was": _without_not_aliases(merge.was, unknown)})
            for id, merge in self.merges.items()
            if merge.was is not None and unknown & set(merge.was.not_aliases)
        }
        return replace(self, changed={**self.changed, **known}, changed_merges={**self.changed_merges, **merges})


@dataclass(frozen=True, kw_only=True)
class NameRecords:
    """The records that decide which names are left."""

    deleted_facts: Mapping[FactId, Fact]
    affected: Sequence[Entity] = ()
    forgotten: EntityId | None = None
    mentions: Sequence[EntityMention] = ()
    """Mentions of affected entities by a name other than their own."""
    merges: Sequence[MergeRecord] = ()
    existing: AbstractSet[EntityId] = frozenset()

    def names_to_check(self) -> dict[EntityId, set[str]]:
        """Return the names to look for in the remaining facts about each entity."""
        deleted = self._orphans()
        kept = [entity for entity in self.affected if entity.id not in deleted]
        wanted = {entity.id: {entity.name, *entity.aliases} for entity in kept}
        for mention in self.mentions:
            if mention.entity in wanted and mention.fact not in self.deleted_facts:
                wanted[mention.entity].add(mention.name_in_text)
        into, existing = _absorbed_into(self.merges), self.existing - deleted
        for merge in self.merges:
            keeper = _keeper(merge.entity, into, existing)
            if keeper is not None and self._affects(merge, keeper):
                for entity in {keeper, *_joined_entities(merge)} & existing:
                    in_text = {mention.name_in_text for mention in merge.mentions if mention.name_in_text}
                    wanted.setdefault(entity, set()).update(in_text, merge.names, merge.own)
        return wanted

    def remaining(self, in_use: NamesInUse) -> RemainingNames:
        """Return what is left, given the names that remaining facts use."""
        deleted = self._orphans()
        renamed = {entity.id: _renamed(entity, in_use) for entity in self.affected if entity.id not in deleted}
        deleted |= {id for id, entity in renamed.items() if entity is None}
        kept = {id: entity for id, entity in renamed.items() if entity is not None}
        merges, dropped = self._remaining_merges(deleted, in_use)
        return RemainingNames(
            kept=kept,
            deleted=deleted,
            changed={entity.id: kept[entity.id] for entity in self.affected if kept.get(entity.id, entity) != entity},
            unused_mentions=[
                mention
                for mention in self.mentions
                if mention.entity in kept and mention.fact not in self.deleted_facts
                if mention.name_in_text and mention.name_in_text.casefold() not in in_use[mention.entity]
            ],
            merges={merge.id: merges.get(merge.id, merge) for merge in self.merges if merge.id not in dropped},
            changed_merges=merges,
            deleted_merges=dropped,
        )

    def _orphans(self) -> set[EntityId]:
        return orphans(self.affected, self.deleted_facts.values()) | (
            {self.forgotten} if self.forgotten is not None else set()
        )

    def _remaining_merges(
        self, deleted: AbstractSet[EntityId], in_use: NamesInUse
    ) -> tuple[dict[str, MergeRecord], list[str]]:
        """Return the merges that change, and the ids of those to delete."""
        changed: dict[str, MergeRecord] = {}
        dropped: list[str] = []
        into, existing = _absorbed_into(self.merges), self.existing - deleted
        # What was merged into an entity that another absorbed later goes with that later merge.
        for merge in reversed(self.merges):
            keeper = _keeper(merge.entity, into, existing)
            if keeper is not None and not self._affects(merge, keeper):
                continue
            own = {*_joined_entities(merge), keeper or merge.entity} & existing
            left = None if keeper is None else self._reduced(merge, {name for id in own for name in in_use.get(id, ())})
            if left is None:
                into = {entity: other for entity, other in into.items() if entity not in _joined_entities(merge)}
                dropped.append(merge.id)
            else:
                changed[merge.id] = left
        return changed, dropped

    def _affects(self, merge: MergeRecord, keeper: EntityId) -> bool:
        return not self._affected.isdisjoint({keeper, merge.entity, *_joined_entities(merge)})

    @cached_property
    def _affected(self) -> AbstractSet[EntityId]:
        return {entity.id for entity in self.affected} | ({self.forgotten} if self.forgotten is not None else set())

    def _reduced(self, merge: MergeRecord, in_use: AbstractSet[str]) -> MergeRecord | None:
        """Return a merge without its reason and names that are not in use, or None if it has no name left."""
        names = _names_in_use(merge.names, in_use)
        if not names:
            return None
        was = None if merge.was is None else merge.was.model_copy(update={"name": names[0], "aliases": names[1:]})
        mentions = tuple(
            mention
            if not mention.name_in_text or mention.name_in_text.casefold() in in_use
            else mention.model_copy(update={"name_in_text": None})
            for mention in merge.mentions
            if mention.fact not in self.deleted_facts
        )
        own = _names_in_use(merge.own, in_use)
        return merge.model_copy(update={"names": names, "was": was, "own": own, "mentions": mentions, "reason": ""})


def orphans(entities: Iterable[Entity], deleted: Iterable[Fact]) -> set[EntityId]:
    """Return the entities that only deleted facts mention."""
    mentioned = Counter(mention.id for fact in deleted for mention in fact.entities)
    return {entity.id for entity in entities if mentioned[entity.id] >= entity.mentions}


def owned_names(names: Iterable[str], entities: Iterable[Entity]) -> set[str]:
    """Return the names that one of these entities goes by."""
    owned = {folded for entity in entities for folded in folded_names(entity.name, entity.aliases)}
    return {name for name in names if fold_name(name) in owned}


def _names_in_use(names: Iterable[str], in_use: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name.casefold() in in_use)


def _renamed(entity: Entity, in_use: NamesInUse) -> Entity | None:
    left = _names_in_use((entity.name, *entity.aliases), in_use[entity.id])
    return entity.model_copy(update={"name": left[0], "aliases": left[1:]}) if left else None


def _without_not_aliases(entity: Entity, unknown: AbstractSet[str]) -> Entity:
    return entity.model_copy(update={"not_aliases": tuple(name for name in entity.not_aliases if name not in unknown)})


def _absorbed_into(merges: Iterable[MergeRecord]) -> dict[EntityId, EntityId]:
    return {merge.absorbed: merge.entity for merge in merges if merge.absorbed is not None and merge.undone_at is None}


def _joined_entities(merge: MergeRecord) -> set[EntityId]:
    """Return the entity that a merge absorbed, or that its undoing created, if any."""
    return {id for id in (merge.absorbed, merge.parted) if id is not None}


def _keeper(entity: EntityId, into: Mapping[EntityId, EntityId], existing: AbstractSet[EntityId]) -> EntityId | None:
    """Return the existing entity that another was merged into, directly or not, or itself; None if none exists."""
    passed: set[EntityId] = set()
    while entity not in existing:
        if entity in passed or entity not in into:
            return None
        passed.add(entity)
        entity = into[entity]
    return entity
