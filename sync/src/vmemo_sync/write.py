"""Writing data into a bank, and deriving what rests on it in the order that is the same for every copy.

Each step changes nothing if it was done before, so that an interrupted one is repeated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from vmemo import Memory
from vmemo.lifecycle.entity_merges import MentionedEntity, plan_merge, plan_undo
from vmemo.lifecycle.forget import clear_cache, forget
from vmemo.lifecycle.reprocess import (
    counterpart,
    derivation_label,
    pending_copy,
    seed_entities,
    seed_merges,
    staging_name,
)
from vmemo.models import BankId, Entity, EntityId, Fact, FactId, Link, Mention, Message, MessageId, new_id
from vmemo.models.changes import (
    Changes,
    Deletions,
    EntityMention,
    FactClosure,
    ForgetTarget,
    FoundName,
    MergeRecord,
    ProfileChange,
)
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import Store, paged
from vmemo.retain.entities import EntityResolution, resolve, sightings
from vmemo.text.names.compare import fold_name
from vmemo.text.temporal.annotation import embed_facts
from vmemo_sync.data import BankData, EntityDecision, NamedEntity, canonical_order, pin_of, stated_by_user
from vmemo_sync.read import curated_facts, entity_decisions, identity, pinned_facts, pinned_now
from vmemo_sync.state import PAGE


async def write(memory: Memory, data: BankData) -> list[Message]:
    """Write data into a bank, without deriving anything from new messages.

    Return the messages that were left out, because the bank holds the same lines of their documents.
    """
    await _forget(memory, data)
    store, bank = memory.store, memory.name
    ordered = sorted(data.messages.values(), key=canonical_order)
    left: list[Message] = []
    for start in range(0, len(ordered), PAGE):
        page = ordered[start : start + PAGE]
        added = await store.append(bank, page)
        missing = [message.id for message in page if message.id not in added]
        stored = await store.messages(bank, MessageSelect(ids=missing)) if missing else []
        known = {message.id for message in stored}
        left += [message for message in page if message.id not in added and message.id not in known]
    await _write_curated(memory, data)
    await _write_merges(store, bank, data.merges.values())
    await _write_profile(store, bank, data)
    return left


async def _forget(memory: Memory, data: BankData) -> None:
    ids = [MessageId(id) for id in data.forgotten]
    stored = await memory.store.messages(memory.name, MessageSelect(ids=ids)) if ids else []
    if stored:
        clear_cache(memory.providers.embedder)
        await forget(memory.store, memory.name, ForgetTarget(messages=[message.id for message in stored]))
    facts = await memory.store.facts(memory.name, FactSelect(ids=[FactId(id) for id in ids])) if ids else []
    for fact in facts:
        if await memory.store.facts(memory.name, FactSelect(ids=[fact.id])):
            clear_cache(memory.providers.embedder)
            await forget(memory.store, memory.name, ForgetTarget(fact=fact.id))


async def _write_curated(memory: Memory, data: BankData) -> None:
    """Give curated messages the facts that the user left them; what was derived from them otherwise is deleted."""
    if not data.curated:
        return
    store, bank = memory.store, memory.name
    known = await store.messages(bank, MessageSelect(ids=sorted(data.curated)))
    curated = {message.id for message in known}
    held = await curated_facts(store, bank)
    stated = await store.facts(bank, FactSelect(messages=sorted(curated))) if curated else []
    present = [fact for fact in stated if (curated | held.keys()).issuperset(fact.messages)]
    wanted = [fact for fact in (*data.derived.values(), *data.edited.values()) if curated.issuperset(fact.messages)]
    same = {identity(fact): fact for fact in present}
    ids = {fact.id: same[identity(fact)].id for fact in wanted if identity(fact) in same}
    # A fact of these messages that has other ones as well may have its id here.
    taken = {fact.id for fact in stated}
    ids |= {fact.id: FactId(new_id()) for fact in wanted if fact.id not in ids and fact.id in taken}
    added = [fact for fact in wanted if identity(fact) not in same]
    kept = {identity(fact) for fact in wanted}
    removed = [fact for fact in present if identity(fact) not in kept and not curated.isdisjoint(fact.messages)]
    # What the user wrote is deleted by a tombstone only.
    removed = [fact for fact in removed if not stated_by_user(fact) or fact.id in data.forgotten]
    both = [(same[identity(found)], found) for found in wanted if identity(found) in same]
    closures = [each for fact, found in both for each in _closures(fact, found)]
    fresh = {message.id for message in known if message.state != "curated"}
    if not (added or removed or closures or fresh):
        return
    entities, facts = await _with_entities(store, bank, added, ids)
    new = await embed_facts(facts, memory.providers.embedder)
    ends = {item.fact.id for item in new} | {fact.id for fact in present}
    links = [
        Link(source=fact.id, target=fact.supersedes, kind="replaces", weight=1.0)
        for fact in facts
        if fact.supersedes in ends and fact.supersedes is not None
    ]
    changes = Changes(
        bank=bank,
        embedder=memory.providers.embedder.name,
        entities=entities,
        facts=new,
        links=links,
        closures=closures,
        curated=sorted(curated),
        deleted=Deletions(facts=[fact.id for fact in removed]),
    )
    await store.commit(changes)


def _closures(fact: Fact, found: Fact) -> list[FactClosure]:
    """Return the ends that a fact has in the data of both copies, if they are others than those that it has here."""
    ends = found.invalid_at, found.expired_at
    same = (fact.invalid_at, fact.expired_at) == ends
    return [] if same else [FactClosure(fact=fact.id, invalid_at=ends[0], expired_at=ends[1])]


async def _with_entities(
    store: Store, bank: BankId, facts: Sequence[Fact], ids: Mapping[FactId, FactId]
) -> tuple[list[Entity], list[Fact]]:
    """Return facts of another copy as facts of this bank, and the entities that it lacks."""
    names = sorted({mention.name for fact in facts for mention in fact.entities})
    stored = await store.entities(bank, EntitySelect(names=names, counted=False)) if names else []
    by_name = _by_name(stored)
    made: dict[str, Entity] = {}
    moved: list[Fact] = []
    for fact in facts:
        mentions: dict[EntityId, Mention] = {}
        for mention in fact.entities:
            folded = fold_name(mention.name)
            entity = by_name.get(folded) or made.get(folded)
            if entity is None:
                seen = fact.mentioned_at
                named = NamedEntity(name=mention.name, type=mention.type, first_seen=seen, last_seen=seen)
                entity = made[folded] = _new_entity(named)
            said = mention.name_in_text or mention.name
            own = {"id": entity.id, "name": entity.name, "name_in_text": "" if said == entity.name else said}
            if entity.id not in mentions or said == entity.name:
                mentions[entity.id] = mention.model_copy(update=own)
        replaced = None if fact.supersedes is None else ids.get(fact.supersedes, fact.supersedes)
        here = {"bank": bank, "id": ids.get(fact.id, fact.id), "supersedes": replaced}
        moved.append(fact.model_copy(update={**here, "entities": tuple(mentions.values())}))
    return list(made.values()), moved


def _by_name(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities by folded name; an own name comes before an alias."""
    found: dict[str, Entity] = {}
    for entity in entities:
        for alias in entity.aliases:
            found.setdefault(fold_name(alias), entity)
    return {**found, **{fold_name(entity.name): entity for entity in entities}}


async def write_pins(memory: Memory, data: BankData) -> None:
    """Pin and unpin facts; a pinned one that this copy did not derive, nor one that repeats it, is added."""
    store, bank = memory.store, memory.name
    pinned = [fact for fact in data.derived.values() if not data.curated.keys() >= set(fact.messages)]
    known = {pin_of(fact).key: fact for fact in pinned}
    decided: dict[FactId, tuple[Fact, bool]] = {}
    lost: list[Fact] = []
    closures: list[FactClosure] = []
    for pin in sorted(data.pins.values(), key=lambda each: (each.at, each.key)):
        about = await pinned_facts(store, bank, pin, versions=True)
        found = known.get(pin.key) if pin.pinned else None
        if found is not None and about:
            kept = [fact for fact in about if fact.text == found.text and not fact.episodes]
            closures += [each for fact in kept for each in _closures(fact, found)]
        elif found is not None:
            stated = await store.facts(bank, FactSelect(messages=pin.messages))
            repeated = counterpart(found, [fact for fact in stated if fact.episodes])
            if repeated is None and found.text not in {fact.text for fact in stated}:
                lost.append(found.model_copy(update={"id": FactId(new_id()), "supersedes": None, "pinned": True}))
            elif repeated is not None and repeated.expired_at is None:
                about = [repeated]
        decided |= {fact.id: (fact, pin.pinned) for fact in about}
    changed = {id: pinned for id, (fact, pinned) in decided.items() if fact.pinned != pinned}
    if changed or lost or closures:
        entities, facts = await _with_entities(store, bank, lost, {})
        embedder = memory.providers.embedder
        new = await embed_facts(facts, embedder)
        added = Changes(bank=bank, embedder=embedder.name, entities=entities, facts=new)
        await store.commit(replace(added, pinned=changed, closures=closures))


async def _write_merges(store: Store, bank: BankId, decisions: Iterable[EntityDecision]) -> None:
    for decision in sorted(decisions, key=lambda each: (each.at, each.id)):
        while not await _write_merge(store, bank, decision):
            pass


async def _write_merge(store: Store, bank: BankId, decision: EntityDecision) -> bool:
    """Make or undo one merge; return False if another writer was faster."""
    revision = await store.revision(bank)
    merges = await store.merges(bank)
    made = next((merge for merge in merges if merge.id == decision.id), None)
    if made is not None and (decision.undone_at is None or made.undone_at is not None):
        return True
    if decision.undone_at is None:
        changes = await _merge_changes(store, bank, decision, merges)
    elif made is not None and (keeper := await _mentioned(store, bank, made.entity)) is not None:
        changes, _ = plan_undo(bank, made, keeper, merges, now=decision.undone_at)
    else:
        changes = await _separation(store, bank, decision)
    return await store.commit(replace(changes, revision=revision))


async def _merge_changes(
    store: Store, bank: BankId, decision: EntityDecision, merges: Sequence[MergeRecord]
) -> Changes:
    kept, absorbed = [await _find(store, bank, each) for each in (decision.keep, decision.absorb)]
    if absorbed.id == kept.id:
        # Derivation joined the names already; the decision is recorded all the same.
        absorbed = MentionedEntity(entity=_new_entity(decision.absorb))
    changes, merge = plan_merge(bank, kept, absorbed, merges, reason=decision.reason, now=decision.at)
    later = any(each.entity == kept.id and each.undone_at is None and each.at > decision.at for each in merges)
    entities = changes.entities if later else [_named(each, decision.keep.name) for each in changes.entities]
    return replace(changes, merges=[merge.model_copy(update={"id": decision.id})], entities=entities)


def _named(entity: Entity, name: str) -> Entity:
    """Return an entity that goes by one of its names from now on."""
    others = [each for each in (entity.name, *entity.aliases) if each.casefold() != name.casefold()]
    return entity.model_copy(update={"name": name, "aliases": tuple(others)})


async def _separation(store: Store, bank: BankId, decision: EntityDecision) -> Changes:
    """Return the changes by which two names are two entities."""
    kept, absorbed = [await _find(store, bank, each) for each in (decision.keep, decision.absorb)]
    names = decision.keep.name, decision.absorb.name
    if absorbed.id == kept.id:
        absorbed = MentionedEntity(entity=_new_entity(decision.absorb))
    return Changes(bank=bank, entities=[_not(kept.entity, names[1]), _not(absorbed.entity, names[0])])


def _not(entity: Entity, other: str) -> Entity:
    aliases = tuple(name for name in entity.aliases if name.casefold() != other.casefold())
    return entity.model_copy(
        update={"aliases": aliases, "not_aliases": tuple(dict.fromkeys((*entity.not_aliases, other)))}
    )


async def _find(store: Store, bank: BankId, named: NamedEntity) -> MentionedEntity:
    """Return the entity that goes by a name, or a new one that no fact mentions."""
    stored = await store.entities(bank, EntitySelect(names=[named.name], counted=False))
    entity = _by_name(stored).get(fold_name(named.name))
    found = None if entity is None else await _mentioned(store, bank, entity.id)
    return found or MentionedEntity(entity=_new_entity(named))


def _new_entity(named: NamedEntity) -> Entity:
    return Entity(
        id=EntityId(new_id()),
        name=named.name,
        type=named.type,
        first_seen=named.first_seen,
        last_seen=named.last_seen,
    )


async def _mentioned(store: Store, bank: BankId, id: EntityId) -> MentionedEntity | None:
    found = await store.entities(bank, EntitySelect(ids=[id]))
    return MentionedEntity(entity=found[0], mentions=await store.mentions(bank, [id])) if found else None


async def _write_profile(store: Store, bank: BankId, data: BankData) -> None:
    if data.profile is not None:
        change = ProfileChange(profile=data.profile.profile, reason="changed in another copy of the bank")
        await store.commit(Changes(bank=bank, profile=change))


async def derive(memory: Memory, data: BankData, *, again: bool) -> int:
    """Derive facts of pending messages, or with `again` of all messages in the canonical order; return their number.

    A language model does not repeat its answers, and is paid for each, so that it reads only what is new.
    """
    if again and memory.providers.llm is None:
        # What is pinned is kept also if it is not derived again.
        await write_pins(memory, data)
        await _stage(memory, data)
        held = await _kept_facts(memory.store, memory.name)
        known = {identity(fact): fact for fact in (*held, *data.derived.values(), *data.edited.values())}
        derived = (await memory.reprocess()).derived
        await write_pins(memory, data)
        while not await _resolve_kept(memory, known):
            pass
        return len(derived)
    derived = (await memory.process()).derived
    await write_pins(memory, data)
    return len(derived)


async def _stage(memory: Memory, data: BankData) -> None:
    """Begin the staging bank of a reprocess with all messages in the canonical order.

    Names that the user joined or separated are known in it, and none that only some copies derived.
    """
    store, bank, staging = memory.store, memory.name, staging_name(memory.name)
    await store.drop_bank(staging)
    stored = await store.bank(bank)
    assert stored is not None
    hidden = stored.model_copy(update={"id": staging})
    await store.create_bank(hidden, replaces=bank, note=derivation_label(memory.providers))
    merges = await store.merges(bank)
    entities = [entity async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after)))]
    decisions = {**await entity_decisions(store, bank), **data.merges}
    seeds = _canonical_seeds(seed_entities(entities, merges), merges, decisions)
    await store.commit(Changes(bank=staging, entities=seeds, merges=seed_merges(merges)))
    pages = paged(lambda after: store.messages(bank, MessageSelect(after=after, limit=PAGE)))
    messages = sorted([pending_copy(message) async for message in pages], key=canonical_order)
    for start in range(0, len(messages), PAGE):
        await store.append(staging, messages[start : start + PAGE])


def _canonical_seeds(
    entities: Sequence[Entity], merges: Iterable[MergeRecord], decisions: Mapping[str, EntityDecision]
) -> list[Entity]:
    """Return entities with the names that the user joined; other names are derived again."""
    into: dict[EntityId, list[str]] = {}
    names: dict[EntityId, str] = {}
    for merge in sorted(seed_merges(merges), key=lambda each: (each.at, each.id)):
        if merge.was is not None and (decision := decisions.get(merge.id)) is not None:
            joined = into.pop(merge.was.id, [])
            into.setdefault(merge.entity, []).extend([decision.absorb.name, *joined])
            names[merge.entity] = decision.keep.name
    seeds: list[Entity] = []
    for entity in entities:
        own = names.get(entity.id, entity.name)
        others = {name.casefold(): name for name in into.get(entity.id, ()) if name.casefold() != own.casefold()}
        aliases = tuple(others[name] for name in sorted(others))
        known = {"name": own, "aliases": aliases, "not_aliases": tuple(sorted(entity.not_aliases))}
        seeds.append(entity.model_copy(update=known))
    return sorted(seeds, key=lambda entity: (entity.name, entity.aliases))


async def _resolve_kept(memory: Memory, before: Mapping[str, Fact]) -> bool:
    """Give the facts that derivation kept the entities that their names mean after the derivation of all other facts.

    Those that they had `before`, with the names in their texts, depend on what this copy knew. Return False if another
    writer was faster.
    """
    store, bank = memory.store, memory.name
    revision = await store.revision(bank)
    kept = {fact.id: fact for fact in await _kept_facts(store, bank)}
    if not kept:
        return True
    removed: list[EntityMention] = []
    beside: defaultdict[EntityId, set[EntityId]] = defaultdict(set)
    async for fact in paged(lambda after: store.facts(bank, FactSelect(after=after, limit=PAGE))):
        ids = {mention.id for mention in fact.entities}
        if fact.episodes:
            kept.pop(fact.id, None)
        if fact.id in kept:
            removed += [EntityMention(fact=fact.id, entity=id) for id in ids]
        else:
            beside |= {id: beside[id] | ids - {id} for id in ids}
    merges = await store.merges(bank)
    entities = [entity async for entity in paged(lambda after: store.entities(bank, EntitySelect(after=after)))]
    known = beside.keys() | {entity.id for entity in seed_entities(entities, merges)}
    facts = [before.get(identity(fact), fact).model_copy(update={"id": id}) for id, fact in kept.items()]
    facts.sort(key=lambda fact: (fact.mentioned_at, fact.text, sorted(fact.messages)))
    seen = [list(sightings(fact.text, fact.mentioned_at, _names(fact))) for fact in facts]
    index = [entity for entity in entities if entity.id in known]
    found = resolve(seen, index, beside, memory.providers.settings.resolution_weights)
    unused = {mention.entity for mention in removed} - known
    lost = [merge.id for merge in merges if merge.entity in unused]
    changes = Changes(
        bank=bank,
        revision=revision,
        entities=found.entities,
        merges=found.merges,
        mentions=_resolved_mentions(facts, found),
        deleted=Deletions(mentions=removed, entities=sorted(unused), merges=lost),
    )
    return await store.commit(changes)


async def _kept_facts(store: Store, bank: BankId) -> list[Fact]:
    """Return the facts that derivation keeps as they are: those of curated messages, and pinned ones."""
    curated = await curated_facts(store, bank)
    return [*(fact for facts in curated.values() for fact in facts), *(await pinned_now(store, bank)).values()]


def _names(fact: Fact) -> list[FoundName]:
    return [FoundName(name=each.name_in_text or each.name, type=each.type) for each in fact.entities]


def _resolved_mentions(facts: Sequence[Fact], found: EntityResolution) -> list[EntityMention]:
    """Return the mentions of facts; of several names of an entity the one in the text counts, and rather its own."""
    own = {entity.id: entity.name.casefold() for entity in found.entities}
    mentions: dict[tuple[FactId, EntityId], EntityMention] = {}
    for fact, ids in zip(facts, found.ids, strict=True):
        text, named = fact.text.casefold(), [(each.name, ids.get(each.name.casefold())) for each in _names(fact)]
        best = sorted((name.casefold() not in text, name.casefold() != own[id], name, id) for name, id in named if id)
        for _, other, name, id in best:
            said = EntityMention(fact=fact.id, entity=id, name_in_text=name if other else "")
            mentions.setdefault((fact.id, id), said)
    return list(mentions.values())
