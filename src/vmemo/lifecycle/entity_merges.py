"""Merging two entities and undoing a merge: rules from records to changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vmemo.errors import InvalidInput, NotFound
from vmemo.models import BankId, Entity, EntityId, FactId, new_id, utc_now
from vmemo.models.changes import AbsorbedMention, Changes, Deletions, EntityMention, MergeRecord, NewJob
from vmemo.models.select import EntitySelect
from vmemo.ports import Store
from vmemo.text.names.compare import fold_name


@dataclass(frozen=True, kw_only=True)
class MentionedEntity:
    """An entity with the facts that mention it, in the order they were stored."""

    entity: Entity
    mentions: Sequence[EntityMention] = ()

    @property
    def id(self) -> EntityId:
        return self.entity.id

    @property
    def names(self) -> tuple[str, ...]:
        return self.entity.name, *self.entity.aliases

    @property
    def names_in_text(self) -> dict[FactId, str]:
        """The name that each fact uses for the entity; empty for the entity's own name."""
        return {mention.fact: mention.name_in_text for mention in self.mentions}


async def merge_entities(
    store: Store, bank: BankId, keep: EntityId, absorb: EntityId, reason: str, *, observe: bool = False
) -> MergeRecord:
    """Merge one entity into another and return the merge; with `observe`, queue new observations of the result."""
    if keep == absorb:
        raise InvalidInput(f"The entity {keep!r} can't be merged with itself. Nothing was changed.")
    while True:
        revision = await store.revision(bank)
        kept, absorbed = await _load(store, bank, keep), await _load(store, bank, absorb)
        if kept is None or absorbed is None:
            missing = keep if kept is None else absorb
            raise NotFound(f"There is no entity {missing!r} in this bank. Nothing was changed.")
        jobs = [observation_job(keep)] if observe else []
        merges = await store.merges(bank)
        changes, merge = plan_merge(bank, kept, absorbed, merges, reason=reason, now=utc_now())
        if await store.commit(replace(changes, revision=revision, jobs=jobs)):
            return merge


async def undo_merge(store: Store, bank: BankId, merge: str, *, observe: bool = False) -> EntityId:
    """Undo a merge and return the entity that is separate again; they are not merged again automatically."""
    while True:
        revision = await store.revision(bank)
        merges = await store.merges(bank)
        made = next((each for each in merges if each.id == merge), None)
        if made is None:
            raise NotFound(f"There is no merge {merge!r} in this bank. Nothing was changed.")
        if made.undone_at is not None:
            raise InvalidInput(f"The merge {merge!r} was undone already. Nothing was changed.")
        keeper = await _keeper(store, bank, made, merges)
        if made.absorbed is not None and await store.entities(bank, EntitySelect(ids=[made.absorbed])):
            raise InvalidInput(f"Another entity has the id {made.absorbed!r} by now. Nothing was changed.")
        changes, separated = plan_undo(bank, made, keeper, merges, now=utc_now())
        jobs = [observation_job(id) for id in (separated, keeper.id)] if observe else []
        if await store.commit(replace(changes, revision=revision, jobs=jobs)):
            return separated


def observation_job(entity: EntityId) -> NewJob:
    """Return the job that updates the observations of an entity, even if few facts are new."""
    return NewJob(kind="observe", key=entity, detail={"anew": True})


async def _load(store: Store, bank: BankId, id: EntityId) -> MentionedEntity | None:
    found = await store.entities(bank, EntitySelect(ids=[id]))
    return MentionedEntity(entity=found[0], mentions=await store.mentions(bank, [id])) if found else None


def plan_merge(
    bank: BankId,
    kept: MentionedEntity,
    absorbed: MentionedEntity,
    merges: Sequence[MergeRecord],
    *,
    reason: str,
    now: datetime,
) -> tuple[Changes, MergeRecord]:
    """Return the changes that merge one entity into another, and the record by which the merge can be undone."""
    others = _active(merges, kept.id)
    own_names = {name.casefold() for name in kept.names}.difference(*(added_names(other) for other in others))
    own_facts = kept.names_in_text.keys() - {fact for other in others for fact in added_mentions(other)}
    before = _without_merges(kept.entity, others)
    merge = MergeRecord(
        id=new_id(),
        entity=kept.id,
        absorbed=absorbed.id,
        names=absorbed.names,
        reason=reason,
        at=now,
        was=absorbed.entity.model_copy(update={"mentions": 0}),
        own=tuple(name for name in absorbed.names if name.casefold() in own_names),
        mentions=tuple(
            AbsorbedMention(fact=fact, name_in_text=name or None, both=fact in own_facts)
            for fact, name in absorbed.names_in_text.items()
        ),
        type=before.type,
        first_seen=before.first_seen,
        last_seen=before.last_seen,
    )
    names = absorbed.names_in_text
    taken = {fact: names[fact] or absorbed.entity.name for fact in names if fact not in kept.names_in_text}
    changes = Changes(
        bank=bank,
        entities=[_union(kept, absorbed)],
        mentions=_mentions_of(kept.entity, taken),
        merges=[merge],
        deleted=Deletions(entities=[absorbed.id], mentions=absorbed.mentions),
    )
    return changes, merge


def _active(merges: Iterable[MergeRecord], entity: EntityId) -> list[MergeRecord]:
    """Return the merges into an entity that were not undone."""
    return [merge for merge in merges if merge.entity == entity and merge.undone_at is None]


def added_names(merge: MergeRecord) -> set[str]:
    """Return the names that the keeping entity has only because of a merge, case-folded."""
    return {name.casefold() for name in merge.names} - {name.casefold() for name in merge.own}


def added_mentions(merge: MergeRecord) -> dict[FactId, str]:
    """Return the facts that mention the keeping entity only because of a merge, with the name that each uses."""
    name = "" if merge.was is None else merge.was.name
    return {mention.fact: mention.name_in_text or name for mention in merge.mentions if not mention.both}


def _without_merges(entity: Entity, others: Iterable[MergeRecord]) -> Entity:
    """Return an entity with the type and times that it has without its merges."""
    own: dict[str, object] = {}
    for absorbed, before in _absorbed(entity, others):
        for name in ("type", "first_seen", "last_seen"):
            if getattr(absorbed, name) == getattr(entity, name):
                own[name] = getattr(before, name)
    return entity.model_copy(update=own)


def _absorbed(keeper: Entity, merges: Iterable[MergeRecord]) -> list[tuple[Entity, Entity]]:
    """Return the entities that merges absorbed, each with the type and times of the keeping entity before."""
    return [
        (m.was, keeper.model_copy(update={"type": m.type, "first_seen": m.first_seen, "last_seen": m.last_seen}))
        for m in merges
        if m.was and m.type and m.first_seen and m.last_seen
    ]


def _union(kept: MentionedEntity, absorbed: MentionedEntity) -> Entity:
    one, other = kept.entity, absorbed.entity
    names = _distinct((*kept.names, *absorbed.names))
    return one.model_copy(
        update={
            "type": other.type if one.type == "OTHER" else one.type,
            "aliases": names[1:],
            "not_aliases": _distinct((*one.not_aliases, *other.not_aliases), without=names),
            "first_seen": min(one.first_seen, other.first_seen),
            "last_seen": max(one.last_seen, other.last_seen),
        }
    )


def _distinct(names: Iterable[str], without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names without repetitions in another case, and without some others."""
    excluded = {name.casefold() for name in without}
    known: dict[str, str] = {}
    for name in names:
        known.setdefault(name.casefold(), name)
    return tuple(name for key, name in known.items() if key not in excluded)


def _mentions_of(entity: Entity, names: Mapping[FactId, str]) -> list[EntityMention]:
    return [
        EntityMention(fact=fact, entity=entity.id, name_in_text="" if name == entity.name else name)
        for fact, name in names.items()
    ]


async def _keeper(store: Store, bank: BankId, made: MergeRecord, merges: Iterable[MergeRecord]) -> MentionedEntity:
    """Return the entity that a merge kept; raise InvalidInput if it was merged into another since."""
    if (found := await _load(store, bank, made.entity)) is not None:
        return found
    for later in merges:
        if later.absorbed == made.entity and later.undone_at is None:
            raise InvalidInput(
                f"The entity of the merge {made.id!r} was merged into another entity since. Nothing was changed; "
                f"undo the merge {later.id!r} first."
            )
    raise NotFound(f"The entity of the merge {made.id!r} no longer exists. Nothing was changed.")


def plan_undo(
    bank: BankId, made: MergeRecord, keeper: MentionedEntity, merges: Iterable[MergeRecord], *, now: datetime
) -> tuple[Changes, EntityId]:
    """Return the changes that undo a merge, and the id of the entity that is separate again."""
    others = [other for other in _active(merges, keeper.id) if other.id != made.id]
    lost = added_names(made).difference(*(added_names(other) for other in others))
    names = tuple(name for name in keeper.names if name.casefold() not in lost)
    if not names:
        raise InvalidInput(f"{keeper.entity.name!r} has no other name, so the merge can't be undone. Nothing changed.")
    later = _mentions_since(keeper, made, lost)
    separated = _separated(made, keeper, names, later)
    added = added_mentions(made)
    of_others = {fact: name for other in others for fact, name in added_mentions(other).items() if fact in added}
    of_separated = {mention.fact: mention.name_in_text or "" for mention in made.mentions}
    of_separated |= {mention.fact: mention.name_in_text for mention in later}
    kept = _without_merge(keeper.entity, made, names, others)
    removed = [mention for mention in keeper.mentions if mention.fact in added] + later
    undone = made.model_copy(update={"undone_at": now, "parted": separated.id if made.absorbed is None else None})
    changes = Changes(
        bank=bank,
        entities=[separated, kept],
        mentions=[*_mentions_of(separated, of_separated), *_mentions_of(keeper.entity, of_others)],
        merges=[undone],
        deleted=Deletions(mentions=removed),
    )
    return changes, separated.id


def _mentions_since(keeper: MentionedEntity, made: MergeRecord, lost: set[str]) -> list[EntityMention]:
    """Return the mentions since the merge by a name that the keeping entity loses."""
    kept = {fold_name(name) for name in keeper.names if name.casefold() not in lost}
    absorbed = {fold_name(name) for name in made.names} - kept - {""}
    before = {mention.fact for mention in made.mentions}
    return [
        mention
        for mention in keeper.mentions
        if mention.name_in_text
        and mention.fact not in before
        and (mention.name_in_text.casefold() in lost or fold_name(mention.name_in_text) in absorbed)
    ]


def _separated(
    made: MergeRecord, keeper: MentionedEntity, names: Sequence[str], later: Sequence[EntityMention]
) -> Entity:
    """Return the entity that is separate again; the names of the keeping entity are not aliases of it."""
    entity = made.was or Entity(
        id=EntityId(new_id()), name=made.names[0], aliases=made.names[1:], first_seen=made.at, last_seen=made.at
    )
    exact = made.first_seen is not None
    seen = [mention.mentioned_at for mention in later if mention.mentioned_at is not None]
    seen += [entity.first_seen, entity.last_seen] if exact else []
    seen = seen or [keeper.entity.first_seen, keeper.entity.last_seen]
    return entity.model_copy(
        update={
            "type": entity.type if exact else keeper.entity.type,
            "not_aliases": _distinct((*entity.not_aliases, *names), without=(entity.name, *entity.aliases)),
            "first_seen": min(seen),
            "last_seen": max(seen),
        }
    )


def _without_merge(keeper: Entity, made: MergeRecord, names: Sequence[str], others: Sequence[MergeRecord]) -> Entity:
    """Return the keeping entity without what the merge added; later changes stay."""
    changes: dict[str, object] = {
        "name": names[0],
        "aliases": tuple(names[1:]),
        "not_aliases": _distinct((*keeper.not_aliases, *made.names), without=names),
    }
    for absorbed, own in _absorbed(keeper, [made]):
        left = [entity for entity, _ in _absorbed(keeper, others)]
        first = min([own.first_seen, *(entity.first_seen for entity in left)])
        last = max([own.last_seen, *(entity.last_seen for entity in left)])
        types = [own.type, *(entity.type for entity in left)]
        if keeper.type == absorbed.type:
            changes["type"] = next((type for type in types if type != "OTHER"), "OTHER")
        if keeper.first_seen == min(first, absorbed.first_seen):
            changes["first_seen"] = first
        if keeper.last_seen == max(last, absorbed.last_seen):
            changes["last_seen"] = last
    return keeper.model_copy(update=changes)
