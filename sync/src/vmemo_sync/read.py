"""Reading the data of a bank: all of it, or what changed since it was last shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo import Memory
from vmemo.lifecycle.reprocess import is_formed
from vmemo.models import Bank, BankId, Entity, EntityId, Fact, FactId, Mention, Message, MessageId, Profile, utc_now
from vmemo.models.changes import MergeRecord
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.ports import BankNotFound, Store, paged
from vmemo_sync.data import (
    BankData,
    EntityDecision,
    NamedEntity,
    Pin,
    ProfileDecision,
    fact_key,
    pin_of,
    stated_by_user,
    text_digest,
)
from vmemo_sync.state import PAGE, SharedState, StateStore


@dataclass(frozen=True)
class Observed:
    """What a bank was found to hold: its data, or the part that is not shared yet, and the state that knows it all."""

    data: BankData
    state: SharedState
    in_order: bool = True
    """True if the messages were stored in the canonical order."""


async def stored_bank(memory: Memory) -> Bank:
    await memory.store.open()
    bank = await memory.store.bank(memory.name)
    if bank is None:
        raise BankNotFound(memory.name)
    return bank


async def observe_all(memory: Memory, state: SharedState) -> Observed:
    """Return all data of a bank; what it shared and no longer holds is forgotten."""
    store, bank = memory.store, memory.name
    messages = await all_messages(store, bank)
    gone = await StateStore(store, bank).all_shared() - messages.keys()
    decisions = await _decisions(store, bank, state)
    return _observed(state, messages, gone, decisions, everything=True)


async def observe_new(memory: Memory, state: SharedState) -> Observed:
    """Return what was not shared yet.

    It reads the messages after the last one that is known to be shared, and all only if others are missing.
    """
    store, bank = memory.store, memory.name
    shared = StateStore(store, bank, state.machine or "")
    found = await all_messages(store, bank, after=state.published)
    known = await shared.shared(found.keys())
    new = {id: message for id, message in found.items() if id not in known}
    gone: set[MessageId] = set()
    if (await store.status(bank)).messages != await shared.count() + len(new):
        found = await all_messages(store, bank)
        every = await shared.all_shared()
        new = {id: message for id, message in found.items() if id not in every}
        gone = every - found.keys()
    revision = await store.revision(bank)
    decisions = None if state.revision == tuple(revision) and not gone else await _decisions(store, bank, state)
    observed = _observed(state, new, gone, decisions, everything=False)
    last = next(reversed(found), state.published)
    read = observed.state.model_copy(update={"revision": tuple(revision), "published": last})
    return Observed(observed.data, read, observed.in_order)


async def observe_decisions(memory: Memory, state: SharedState) -> BankData:
    """Return all decisions that a bank holds."""
    decisions = await _decisions(memory.store, memory.name, state)
    return _observed(state, {}, (), decisions, everything=True).data


async def all_messages(store: Store, bank: BankId, *, after: MessageId | None = None) -> dict[MessageId, Message]:
    """Return messages with everything that is not data taken out of their state."""
    found: dict[MessageId, Message] = {}
    while page := await store.messages(bank, MessageSelect(after=after, limit=PAGE)):
        for message in page:
            state = "raw" if message.state == "raw" else "pending"
            found[message.id] = message.model_copy(update={"state": state, "error": None})
        after = page[-1].id
    return found


@dataclass(frozen=True)
class _Decisions:
    """The decisions that a bank holds now."""

    curated: Mapping[MessageId, Sequence[Fact]]
    pinned: Mapping[str, Fact]
    """The pinned facts by the keys of their pins."""
    pins: Mapping[str, Pin]
    unpinned: Mapping[str, Pin]
    merges: Mapping[str, EntityDecision]
    profile: ProfileDecision | None


async def _decisions(store: Store, bank: BankId, state: SharedState) -> _Decisions:
    stored = await store.bank(bank)
    if stored is None:
        raise BankNotFound(bank)
    former = await store.former_profiles(bank)
    changed_at = former[-1].until if former else stored.created_at
    hashed = text_digest(stored.profile.model_dump_json())
    if state.profile is not None and state.profile[0] == hashed:
        changed_at = state.profile[1]
    pinned = await pinned_now(store, bank)
    now, pins = utc_now(), {key: pin_of(fact) for key, fact in pinned.items() if fact.expired_at is None}
    known = {key: pin for key, pin in state.pins.items() if pin.pinned}
    pins = {key: known.get(key) or pin.model_copy(update={"at": now}) for key, pin in pins.items()}
    return _Decisions(
        curated=await curated_facts(store, bank),
        pinned=pinned,
        pins=pins,
        unpinned=await _unpinned(store, bank, state, pins),
        merges=await entity_decisions(store, bank),
        # A default profile that was never changed is no decision.
        profile=ProfileDecision(profile=stored.profile, at=changed_at)
        if former or stored.profile != Profile()
        else None,
    )


async def curated_facts(store: Store, bank: BankId) -> dict[MessageId, list[Fact]]:
    """Return the facts that curated messages alone state, by message."""
    pages = paged(lambda after: store.messages(bank, MessageSelect(state="curated", after=after, limit=PAGE)))
    curated: dict[MessageId, list[Fact]] = {message.id: [] async for message in pages}
    stated = await store.facts(bank, FactSelect(messages=sorted(curated))) if curated else []
    alone = [fact for fact in stated if not is_formed(fact) and curated.keys() >= set(fact.messages)]
    for fact in await _plain_facts(store, bank, alone):
        for message in fact.messages:
            curated[message].append(fact)
    return curated


async def _plain_facts(store: Store, bank: BankId, facts: Sequence[Fact]) -> list[Fact]:
    ids = sorted({mention.id for fact in facts for mention in fact.entities})
    entities = await store.entities(bank, EntitySelect(ids=ids, counted=False)) if ids else []
    aliases = {entity.id: entity.aliases for entity in entities}
    return [_plain_fact(fact, aliases) for fact in facts]


def _plain_fact(fact: Fact, aliases: Mapping[EntityId, Sequence[str]]) -> Fact:
    """Return a fact without what differs by copy: its bank, what it was derived with, and counts."""
    return fact.model_copy(
        update={
            "bank": BankId("-"),
            "access_count": 0,
            "episodes": (),
            "basis": (),
            "context": "",
            "context_from": None,
            "claims": (),
            "pinned": False,
            "embedding": None,
            "entities": tuple(_plain_mention(each, fact.text, aliases.get(each.id, ())) for each in fact.entities),
        }
    )


def _plain_mention(mention: Mention, text: str, aliases: Sequence[str]) -> Mention:
    """Return a mention with the name in the text; messages since may have given the entity a fuller one."""
    said = mention.name_in_text
    if not said and mention.name.casefold() not in text.casefold():
        said = max((name for name in aliases if name.casefold() in text.casefold()), key=len, default="")
    return mention.model_copy(update={"id": EntityId(mention.name), "name_in_text": said})


async def pinned_now(store: Store, bank: BankId) -> dict[str, Fact]:
    """Return the pinned facts of messages by the keys of their pins; of two with one key the current one."""
    found = await store.facts(bank, FactSelect(pinned=True))
    pinned = [fact for fact in found if fact.messages and not is_formed(fact)]
    pinned.sort(key=lambda fact: fact.expired_at is None)
    return {pin_of(fact).key: fact for fact in await _plain_facts(store, bank, pinned)}


async def _unpinned(store: Store, bank: BankId, state: SharedState, pins: Mapping[str, Pin]) -> dict[str, Pin]:
    """Return the decisions that facts are not pinned; the pin of a fact that is gone is no decision any more."""
    now, found = utc_now(), {key: pin for key, pin in state.pins.items() if not pin.pinned and key not in pins}
    for key, pin in state.pins.items():
        # A fact that is repeated has more messages, and so another key, but is pinned all the same.
        about = await pinned_facts(store, bank, pin) if pin.pinned and key not in pins else []
        if about and not any(fact.pinned for fact in about):
            found[key] = pin.model_copy(update={"pinned": False, "at": now})
    return found


async def pinned_facts(store: Store, bank: BankId, pin: Pin, *, versions: bool = False) -> list[Fact]:
    """Return the current facts that a decision on a pin is about, with `versions` also the user's edits of them."""
    stated = await store.facts(bank, FactSelect(messages=pin.messages)) if pin.messages else []
    wanted = set(pin.messages)
    found = {fact.id: fact for fact in stated if text_digest(fact.text) == pin.text and wanted <= set(fact.messages)}
    edge = set(found) if versions else set[FactId]()
    while edge:
        newer = {fact.id: fact for fact in stated if fact.supersedes in edge and fact.id not in found}
        found |= newer
        edge = set(newer)
    return [fact for fact in found.values() if fact.expired_at is None]


async def entity_decisions(store: Store, bank: BankId) -> dict[str, EntityDecision]:
    """Return the merges of entities; those of bare names are made by derivation."""
    made = [merge for merge in await store.merges(bank) if merge.was is not None]
    ids = sorted({merge.entity for merge in made})
    known = {each.id: each for each in await store.entities(bank, EntitySelect(ids=ids, counted=False))} if ids else {}
    absorbed = {merge.was.id: merge.was for merge in made if merge.was is not None}
    decisions = [_entity_decision(merge, known.get(merge.entity) or absorbed.get(merge.entity)) for merge in made]
    return {each.id: each for each in decisions if each is not None}


def _entity_decision(merge: MergeRecord, keep: Entity | None) -> EntityDecision | None:
    if keep is None or merge.was is None:
        return None
    # Derivation may have named the entity after the absorbed one since.
    other = [name for name in (keep.name, *keep.aliases) if name.casefold() != merge.was.name.casefold()]
    return EntityDecision(
        id=merge.id,
        keep=_named(keep.model_copy(update={"name": (other or [keep.name])[0]})),
        absorb=_named(merge.was),
        reason=merge.reason,
        at=merge.at,
        undone_at=merge.undone_at,
    )


def _named(entity: Entity) -> NamedEntity:
    return NamedEntity(name=entity.name, type=entity.type, first_seen=entity.first_seen, last_seen=entity.last_seen)


def identity(fact: Fact) -> str:
    """Return what a fact of a curated message has in common with its copies."""
    return fact.id if stated_by_user(fact) else fact_key(fact)


def curated_hash(facts: Iterable[Fact]) -> str:
    """Return the hash of what a curated message states."""
    return text_digest("\n".join(sorted(f"{identity(fact)} {fact.invalid_at} {fact.expired_at}" for fact in facts)))


def _profile_hash(decision: ProfileDecision) -> tuple[str, datetime]:
    return text_digest(decision.profile.model_dump_json()), decision.at


def with_data(state: SharedState, data: BankData) -> SharedState:
    """Return the state of a bank whose decisions are those of the data."""
    stated: dict[MessageId, list[Fact]] = {id: [] for id in data.curated}
    for fact in (*data.derived.values(), *data.edited.values()):
        for message in data.curated.keys() & set(fact.messages):
            stated[message].append(fact)
    return state.model_copy(
        update={
            "forgotten": {**state.forgotten, **data.forgotten},
            "edited": tuple(sorted(data.edited)),
            "curated": {id: curated_hash(held) for id, held in stated.items()},
            "pins": {**state.pins, **data.pins},
            "merges": {**state.merges, **{id: each.undone_at is not None for id, each in data.merges.items()}},
            "profile": state.profile if data.profile is None else _profile_hash(data.profile),
        }
    )


def _observed(
    state: SharedState,
    messages: Mapping[MessageId, Message],
    gone: Iterable[MessageId],
    decisions: _Decisions | None,
    *,
    everything: bool,
) -> Observed:
    """Return the data that is new to the state, or with `everything` all data, and the state that knows it."""
    now = utc_now()
    forgotten: dict[str, datetime] = {**state.forgotten, **dict.fromkeys(gone, now)}
    order = [(message.timestamp, message.recorded_at, message.id) for message in messages.values()]
    in_order = order == sorted(order)
    if decisions is None:
        fresh = {id: at for id, at in forgotten.items() if id not in state.forgotten}
        data = BankData(messages=messages, forgotten=forgotten if everything else fresh)
        return Observed(data, state.model_copy(update={"forgotten": forgotten}), in_order)
    hashes = {id: curated_hash(facts) for id, facts in decisions.curated.items()}
    facts = {fact.id: fact for held in decisions.curated.values() for fact in held}
    by_user = {id for id, fact in facts.items() if stated_by_user(fact)}
    forgotten |= {id: now for id in set(state.edited) - by_user if id not in forgotten}
    pins = {**state.pins, **decisions.unpinned, **decisions.pins}
    changed = {id for id, hashed in hashes.items() if everything or state.curated.get(id) != hashed}
    shown = {id: fact for id, fact in facts.items() if changed.intersection(fact.messages)}
    # A fact of several messages is complete only with all of them.
    changed |= {message for fact in shown.values() for message in fact.messages}
    new_pins = {key: pin for key, pin in pins.items() if everything or state.pins.get(key) != pin}
    pinned = [fact for key, fact in decisions.pinned.items() if key in new_pins and fact.id not in facts]
    shown |= {fact.id: fact for fact in pinned}
    merges = {id: merge for id, merge in decisions.merges.items() if everything or _is_new(merge, state)}
    profile = None if decisions.profile is None else _profile_hash(decisions.profile)
    data = BankData(
        messages=messages,
        forgotten=forgotten if everything else {id: at for id, at in forgotten.items() if id not in state.forgotten},
        curated={id: {fact_key(f) for f in decisions.curated[id] if not stated_by_user(f)} for id in changed},
        derived={fact_key(fact): fact for fact in shown.values() if not stated_by_user(fact)},
        edited={id: fact for id, fact in shown.items() if stated_by_user(fact)},
        pins=new_pins,
        merges=merges,
        profile=decisions.profile if everything or state.profile != profile else None,
    )
    after = state.model_copy(
        update={
            "forgotten": forgotten,
            "edited": tuple(sorted(FactId(id) for id in by_user)),
            "curated": hashes,
            "pins": pins,
            "merges": {**state.merges, **{id: merge.undone_at is not None for id, merge in decisions.merges.items()}},
            "profile": profile,
        }
    )
    return Observed(data, after, in_order)


def _is_new(merge: EntityDecision, state: SharedState) -> bool:
    return state.merges.get(merge.id) not in (True, merge.undone_at is not None)
