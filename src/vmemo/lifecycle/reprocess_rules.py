"""The rules of reprocessing: what a new derivation knows in advance, and what is kept of the old one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vmemo.models import ConfidenceChange, Entity, EntityId, Fact, FactId, Mention, Message, MessageId
from vmemo.models.changes import MergeRecord
from vmemo.text.names.fold import fold_name, folded_names


def pending_copy(message: Message) -> Message:
    """Return the message as it is to be processed again; one that is kept verbatim, or was curated, stays so."""
    state = message.state if message.state in ("raw", "curated") else "pending"
    return message.model_copy(update={"state": state, "error": None})


def seed_merges(merges: Iterable[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that hold; the facts that mentioned the absorbed entities are derived again."""
    held = [merge for merge in merges if merge.absorbed is not None and merge.undone_at is None]
    return [merge.model_copy(update={"mentions": ()}) for merge in held]


def seed_entities(entities: Sequence[Entity], merges: Sequence[MergeRecord]) -> list[Entity]:
    """Return what a new derivation must know of names in advance.

    An entity that others were merged into has all its names; one with names that are not its own has only its name, so
    that it does not get those as aliases.
    """
    merged = {merge.entity for merge in seed_merges(merges)}
    known = [entity for entity in entities if entity.id in merged or entity.not_aliases]
    return [entity if entity.id in merged else entity.model_copy(update={"aliases": ()}) for entity in known]


@dataclass(frozen=True, kw_only=True)
class ReprocessRecords:
    """The records of a bank and of its staging bank that decide what is kept."""

    kept: Sequence[Fact] = ()
    """Facts of the bank that stay as they are: formed opinions, and facts that the user decided on; closed ones too."""
    counterparts: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of the staging bank by the facts of the bank that they repeat, of those that kept facts replaced."""
    history: Sequence[ConfidenceChange] = ()
    """The confidence changes of kept opinions."""
    behind: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of the bank that opinions and confidence changes rest on, directly or not."""
    entities: Sequence[Entity] = ()
    new_entities: Sequence[Entity] = ()
    """Entities of the staging bank."""
    new_facts: Mapping[MessageId, Sequence[FactId]] = field(default_factory=dict[MessageId, Sequence[FactId]])
    """Facts of the staging bank by the messages that state them."""
    beside: Mapping[MessageId, Sequence[FactId]] = field(default_factory=dict[MessageId, Sequence[FactId]])
    """Facts of the staging bank by a message of their episode that states none."""

    def successors(self, facts: Iterable[FactId]) -> list[FactId]:
        """Return what stands for facts of the bank in the staging bank.

        A kept fact stands for itself. For another fact stand the facts of the same messages, or else those of the
        same episode; for one without messages, what stands for the facts behind it.
        """
        kept = {fact.id for fact in self.kept}
        found: dict[FactId, None] = {}
        seen, edge = set[FactId](), list(facts)
        while edge:
            seen.update(edge)
            found.update(dict.fromkeys(fact for fact in edge if fact in kept))
            lost = [self.behind[fact] for fact in edge if fact not in kept and fact in self.behind]
            for fact in lost:
                found.update(dict.fromkeys(self._restated(fact)))
            edge = [id for fact in lost if not fact.messages for id in fact.basis if id not in seen]
        return list(found)

    def _restated(self, fact: Fact) -> list[FactId]:
        stated = [new for message in fact.messages for new in self.new_facts.get(message, ())]
        return stated or [new for message in fact.messages for new in self.beside.get(message, ())]


def is_formed(fact: Fact) -> bool:
    """Return True for an opinion that reflection formed.

    What is extracted from messages belongs to an episode and rests on no other facts. A formed opinion has no episode,
    unless a message states it later; the messages behind it are evidence that was recalled verbatim.
    """
    return fact.network == "opinion" and (not fact.episodes or bool(fact.basis))


def kept_fact(fact: Fact, records: ReprocessRecords) -> Fact:
    """Return a fact as the staging bank knows it: its basis, its entities and what it replaced."""
    known = {**records.counterparts, **{each.id: each for each in records.kept}}
    basis = tuple(id for id in records.successors(fact.basis) if id != fact.id)
    replaced = None if fact.supersedes is None else known.get(fact.supersedes)
    return fact.model_copy(
        update={
            "basis": basis,
            "entities": _kept_mentions(fact.entities, records),
            "episodes": (),
            "context": "",
            "context_from": None,
            "supersedes": None if replaced is None else replaced.id,
        }
    )


def kept_change(change: ConfidenceChange, records: ReprocessRecords) -> ConfidenceChange:
    """Return a confidence change with what stands for its evidence."""
    return change.model_copy(update={"evidence": tuple(records.successors(change.evidence))})


def _kept_mentions(mentions: Sequence[Mention], records: ReprocessRecords) -> tuple[Mention, ...]:
    same = _counterparts([entity for entity in records.entities if entity.id in {m.id for m in mentions}], records)
    found: dict[EntityId, Mention] = {}
    for mention in mentions:
        entity = same.get(mention.id)
        found[mention.id if entity is None else entity.id] = (
            mention
            if entity is None
            else Mention(id=entity.id, name=entity.name, type=entity.type, name_in_text=mention.name_in_text)
        )
    return tuple(found.values())


def _counterparts(entities: Sequence[Entity], records: ReprocessRecords) -> dict[EntityId, Entity]:
    """Return the entities of the staging bank with the names, or else the ids, of these."""
    by_id = {entity.id: entity for entity in records.new_entities}
    by_name: dict[str, Entity] = {}
    for entity in records.new_entities:
        own = fold_name(entity.name)
        for name in folded_names(entity.name, entity.aliases):
            if name not in by_name or name == own:
                by_name[name] = entity
    found = {entity.id: by_name.get(fold_name(entity.name)) or by_id.get(entity.id) for entity in entities}
    return {id: entity for id, entity in found.items() if entity is not None}


def kept_entities(records: ReprocessRecords, facts: Sequence[Fact]) -> tuple[list[Entity], list[EntityId]]:
    """Return the entities to save in the staging bank, and those of it to delete.

    Entities that only kept facts mention come along. Names that were found to be another's stay so for the entity of
    the same name. What was given to the staging bank in advance and is mentioned nowhere is deleted.
    """
    mentioned = {mention.id for fact in facts for mention in fact.entities}
    there = {entity.id for entity in records.new_entities}
    saved = {entity.id: entity for entity in records.entities if entity.id in mentioned - there}
    separated = [entity for entity in records.entities if entity.not_aliases]
    same = _counterparts(separated, records)
    for entity in separated:
        own = same.get(entity.id)
        if own is not None:
            current = saved.get(own.id, own)
            saved[own.id] = current.model_copy(update={"not_aliases": _other_names(current, entity.not_aliases)})
    given = {entity.id for entity in records.entities}
    unused = [e.id for e in records.new_entities if e.id in given and not e.mentions and e.id not in mentioned]
    return [entity for entity in saved.values() if entity.id not in unused], unused


def _other_names(entity: Entity, more: Iterable[str]) -> tuple[str, ...]:
    names = {name.casefold() for name in (entity.name, *entity.aliases)}
    return tuple(name for name in dict.fromkeys((*entity.not_aliases, *more)) if name.casefold() not in names)
