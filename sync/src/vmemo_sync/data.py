"""The data of a bank: its messages and the decisions of the user. Everything else is derived from them.

`union` joins the data of two copies. It is commutative, associative and idempotent, so that copies which saw the same
data, in any order and however often, hold the same.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import TypeVar

from vmemo.models import EntityType, Fact, FactId, Message, MessageId, Profile
from vmemo.models.records import Instant, Record
from vmemo.text.temporal.annotation import EDITED_BY_HAND

K = TypeVar("K")
V = TypeVar("V")
KINDS = ("message", "forgotten", "fact", "curated", "pin", "merge", "profile")
"""The kinds of entries in a file."""


class Pin(Record):
    """A fact that the user pinned or unpinned. The fact is known by its messages and the hash of its text."""

    messages: tuple[MessageId, ...]
    text: str
    pinned: bool
    at: Instant

    @property
    def key(self) -> str:
        return _digest([*sorted(self.messages), self.text])


class NamedEntity(Record):
    """An entity by its name; ids of entities are those of one copy."""

    name: str
    type: EntityType
    first_seen: Instant
    last_seen: Instant


class EntityDecision(Record):
    """A merge of two entities by the user, or, with `undone_at`, the decision that they are two."""

    id: str
    keep: NamedEntity
    absorb: NamedEntity
    reason: str
    at: Instant
    undone_at: Instant | None = None


class ProfileDecision(Record):
    """The profile of the bank since a time."""

    profile: Profile
    at: Instant


@dataclass(frozen=True, kw_only=True)
class BankData:
    """Messages and decisions, of a whole bank or of a part of its history."""

    messages: Mapping[MessageId, Message] = field(default_factory=dict[MessageId, Message])
    forgotten: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """Ids of messages, and of facts that the user wrote, that were forgotten, with the time at which that was seen."""
    curated: Mapping[MessageId, AbstractSet[str]] = field(default_factory=dict[MessageId, AbstractSet[str]])
    """By message whose facts the user edited or deleted, the keys of the derived facts that it still has."""
    derived: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    """The derived facts of curated messages, and others that the user pinned, by key."""
    edited: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """The facts that the user wrote."""
    pins: Mapping[str, Pin] = field(default_factory=dict[str, Pin])
    merges: Mapping[str, EntityDecision] = field(default_factory=dict[str, EntityDecision])
    profile: ProfileDecision | None = None

    def __bool__(self) -> bool:
        return any((self.messages, self.forgotten, self.curated, self.edited, self.pins, self.merges, self.profile))

    @property
    def decides(self) -> bool:
        """True if a decision is in it that the derivation of other messages may depend on."""
        unpinned = any(not pin.pinned for pin in self.pins.values())
        return any((self.forgotten, self.curated, self.edited, self.merges, unpinned))


def canonical_order(message: Message) -> tuple[datetime, datetime, str]:
    """Return the place of a message in the order in which every copy derives."""
    return message.timestamp, message.recorded_at, message.id


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fact_key(fact: Fact) -> str:
    """Return the key of a derived fact, which has another id in every copy."""
    return _digest([*sorted(fact.messages), fact.text])


def pin_of(fact: Fact) -> Pin:
    """Return the decision to pin a fact, as if it was made when the fact was recorded."""
    messages = tuple(sorted(fact.messages))
    return Pin(messages=messages, text=text_digest(fact.text), pinned=True, at=fact.recorded_at)


def stated_by_user(fact: Fact) -> bool:
    return fact.engine == EDITED_BY_HAND


def union(one: BankData, other: BankData) -> BankData:
    """Return the data of both: what one of them forgot is in neither, the later of two edits is current."""
    one, other = _renamed_lines(one, other)
    profiles = [each.profile for each in (one, other) if each.profile is not None]
    return _without_forgotten(
        BankData(
            messages={**other.messages, **one.messages},
            forgotten=_united(one.forgotten, other.forgotten, min),
            # Both copies derived the same facts, so one that is missing in one of them was deleted there.
            curated=_united(one.curated, other.curated, lambda a, b: a & b),
            derived=_united(one.derived, other.derived, _closed),
            edited=_united(one.edited, other.edited, _closed),
            pins=_united(one.pins, other.pins, lambda a, b: max(a, b, key=lambda pin: (pin.at, pin.pinned))),
            merges=_united(one.merges, other.merges, lambda a, b: min(a, b, key=_undone_first)),
            profile=max(profiles, key=lambda each: (each.at, each.profile.model_dump_json()), default=None),
        )
    )


def _undone_first(merge: EntityDecision) -> tuple[bool, str]:
    return merge.undone_at is None, merge.model_dump_json()


def _united(one: Mapping[K, V], other: Mapping[K, V], join: Callable[[V, V], V]) -> dict[K, V]:
    both = {key: join(one[key], other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}


def _closed(one: Fact, other: Fact) -> Fact:
    """Return a fact that two copies hold with the ends that either of them gave it."""
    first = min(one, other, key=lambda fact: (fact.id, fact.model_dump_json()))

    def earlier(a: datetime | None, b: datetime | None) -> datetime | None:
        return min((at for at in (a, b) if at is not None), default=None)

    ends = {name: earlier(getattr(one, name), getattr(other, name)) for name in ("invalid_at", "expired_at")}
    return first.model_copy(update=ends)


def _without_forgotten(data: BankData) -> BankData:
    gone = data.forgotten.keys()
    curated = {id: keys for id, keys in data.curated.items() if id not in gone}
    left = {id: fact for id, fact in data.edited.items() if id not in gone and gone.isdisjoint(fact.messages)}
    derived = {
        key: fact
        for key, fact in data.derived.items()
        if gone.isdisjoint(fact.messages)
        and (
            not curated.keys() >= set(fact.messages)  # A pinned one.
            or all(key in curated[message] for message in fact.messages)
        )
    }
    return replace(
        data,
        messages={id: message for id, message in data.messages.items() if id not in gone},
        curated=curated,
        derived=derived,
        edited=_latest_current(left, derived),
        pins={key: pin for key, pin in data.pins.items() if gone.isdisjoint(pin.messages)},
        merges={id: merge for id, merge in data.merges.items() if id not in gone},
    )


def _latest_current(edited: Mapping[FactId, Fact], derived: Mapping[str, Fact]) -> dict[FactId, Fact]:
    """Return the edited facts; of several current versions of one fact the latest stays current."""
    known: dict[FactId, Fact] = {**{fact.id: fact for fact in derived.values()}, **edited}
    rivals: defaultdict[str, list[Fact]] = defaultdict(list)
    for fact in edited.values():
        if fact.expired_at is None and fact.invalid_at is None:
            rivals[_root(fact, known)].append(fact)
    result = {**edited}
    for versions in rivals.values():
        ordered = sorted(versions, key=lambda fact: (fact.recorded_at, fact.id))
        for older, newer in pairwise(ordered):
            ends = {"invalid_at": newer.valid_at or newer.recorded_at, "expired_at": newer.recorded_at}
            result[older.id] = older.model_copy(update=ends)
    return result


def _root(fact: Fact, known: Mapping[FactId, Fact]) -> str:
    """Return the key of the fact that the first version replaced; the id of the derived one differs by copy."""
    seen = {fact.id}
    while (older := fact.supersedes) is not None and older in known and older not in seen:
        fact = known[older]
        seen.add(fact.id)
    return _digest(sorted(fact.messages)) if stated_by_user(fact) else fact_key(fact)


def _renamed_lines(one: BankData, other: BankData) -> tuple[BankData, BankData]:
    """Give a line of a document that both copies were given apart one id: that of the message recorded first.

    The other id counts as forgotten.
    """
    lines: dict[tuple[str | None, str], Message] = {}
    renamed: dict[MessageId, MessageId] = {}
    for message in sorted((*one.messages.values(), *other.messages.values()), key=lambda m: (m.recorded_at, m.id)):
        if message.key is None or message.id in one.forgotten or message.id in other.forgotten:
            continue
        first = lines.setdefault((message.document, message.key), message)
        if first.id != message.id:
            renamed[message.id] = first.id
    return (_renamed(one, renamed), _renamed(other, renamed)) if renamed else (one, other)


def _renamed(data: BankData, names: Mapping[MessageId, MessageId]) -> BankData:
    def rename(fact: Fact) -> Fact:
        return fact.model_copy(update={"messages": tuple(names.get(id, id) for id in fact.messages)})

    derived = {key: rename(fact) for key, fact in data.derived.items()}
    keys = {key: fact_key(fact) for key, fact in derived.items()}
    pins = [
        pin.model_copy(update={"messages": tuple(names.get(id, id) for id in pin.messages)})
        for pin in data.pins.values()
    ]
    lost = {id: data.messages[id].recorded_at for id in names if id in data.messages}
    return replace(
        data,
        messages={id: message for id, message in data.messages.items() if id not in names},
        forgotten={**lost, **data.forgotten},
        curated={names.get(id, id): {keys.get(key, key) for key in held} for id, held in data.curated.items()},
        derived={keys[key]: fact for key, fact in derived.items()},
        edited={id: rename(fact) for id, fact in data.edited.items()},
        pins={pin.key: pin for pin in pins},
    )


def parts(data: BankData) -> Iterable[tuple[str, object]]:
    """Yield the entries of data as pairs of kind and value, which `joined` reads."""
    for message in sorted(data.messages.values(), key=canonical_order):
        yield "message", message.model_dump(mode="json", exclude={"state", "error"}) | {"raw": message.state == "raw"}
    for id, at in data.forgotten.items():
        yield "forgotten", {"id": id, "at": at.isoformat()}
    for fact in (*data.derived.values(), *data.edited.values()):
        yield "fact", fact.model_dump(mode="json", exclude={"embedding"})
    for id, keys in data.curated.items():
        yield "curated", {"message": id, "facts": " ".join(sorted(keys))}
    for pin in data.pins.values():
        yield "pin", pin.model_dump(mode="json")
    for merge in data.merges.values():
        yield "merge", merge.model_dump(mode="json")
    if data.profile is not None:
        yield "profile", data.profile.model_dump(mode="json")


def joined(entries: Iterable[tuple[str, Mapping[str, object]]]) -> BankData:
    """Return the data of entries; an unknown kind raises KeyError."""
    by_kind: dict[str, list[Mapping[str, object]]] = {kind: [] for kind in KINDS}
    for kind, value in entries:
        by_kind[kind].append(value)
    messages = [_message(each) for each in by_kind["message"]]
    facts = [Fact.of(each) for each in by_kind["fact"]]
    pins = [Pin.of(each) for each in by_kind["pin"]]
    merges = [EntityDecision.of(each) for each in by_kind["merge"]]
    return BankData(
        messages={message.id: message for message in messages},
        forgotten={str(each["id"]): datetime.fromisoformat(str(each["at"])) for each in by_kind["forgotten"]},
        curated={MessageId(str(each["message"])): set(str(each["facts"]).split()) for each in by_kind["curated"]},
        derived={fact_key(fact): fact for fact in facts if not stated_by_user(fact)},
        edited={fact.id: fact for fact in facts if stated_by_user(fact)},
        pins={pin.key: pin for pin in pins},
        merges={merge.id: merge for merge in merges},
        profile=next((ProfileDecision.of(each) for each in by_kind["profile"]), None),
    )


def _message(value: Mapping[str, object]) -> Message:
    state = "raw" if value["raw"] else "pending"
    return Message.of({**{name: each for name, each in value.items() if name != "raw"}, "state": state})
