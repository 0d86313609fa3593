"""Decides which entity a found name is. A wrong merge is worse than a missed one: what is unclear stays apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime

from vmemo.models import MAX_NAME, Entity, EntityId, EntityType, new_id
from vmemo.retain.likeness import EXACT, KNOWN_SHORT, RESPACED, NameForm, likeness, name_form, nicknames

_CROWDED = 64
"""A short name that fits more entities than this says nothing about which one is meant."""
_DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What a candidate's score is made of, and how high and how far ahead it must be to be taken."""

    name: float = 0.75
    cooccurrence: float = 0.15
    nearness: float = 0.10
    days: float = 30.0
    threshold: float = 0.6
    margin: float = 0.08


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """A name found in one fact, when, and which other names stood beside it."""

    name: str
    at: datetime
    type: EntityType = "OTHER"
    beside: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """Entities to save, new and updated, and the entity of each found name (casefolded)."""

    entities: tuple[Entity, ...]
    ids: Mapping[str, EntityId]


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """All sightings of one name in a batch."""

    name: str
    form: NameForm
    type: EntityType
    first: datetime
    last: datetime
    beside: frozenset[str]


class EntityIndex:
    """Finds the few entities a name could belong to. Build it once and `put` what changes."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self._entities: dict[EntityId, Entity] = {}
        self._buckets: dict[str, list[EntityId]] = {}
        for entity in entities:
            self.put(entity)

    def put(self, entity: Entity) -> None:
        """Add an entity, or replace what was known of it."""
        self._entities[entity.id] = entity
        for name in (entity.name, *entity.aliases):
            for key in _filed_under(name_form(name).words):
                bucket = self._buckets.setdefault(key, [])
                if not bucket or bucket[-1] != entity.id:
                    bucket.append(entity.id)

    def __iter__(self) -> Iterator[Entity]:
        return iter(self._entities.values())

    def get(self, entity: EntityId) -> Entity:
        """The entity as it is known now."""
        return self._entities[entity]

    def find(self, entity: EntityId) -> Entity | None:
        """The entity, if it is here."""
        return self._entities.get(entity)

    def fuller(self, form: NameForm) -> Sequence[EntityId]:
        """Some of the entities whose longer name starts with this word."""
        return self._buckets.get("^" + form.words[0], ())[:_CROWDED]

    def named(self, name: str) -> Sequence[EntityId]:
        """Entities that go by exactly this name, apart from case, accents and punctuation."""
        return self._buckets.get("=" + name_form(name).key, ())

    def candidates(self, name: str) -> set[EntityId]:
        """Entities this name could mean; ask the store for their co-occurrences before resolving."""
        form = name_form(name)
        near = set(self._buckets.get("=" + form.key, ()))
        for key in _sought_under(form.words):
            bucket = self._buckets.get(key, ())
            if len(bucket) <= _CROWDED:
                near.update(bucket)
        return near


def _filed_under(words: tuple[str, ...]) -> Iterator[str]:
    joined = "".join(words)
    yield "=" + joined
    if len(words) > 1:
        yield "^" + words[0]
        yield "$" + words[-1]
        yield f"${words[-1]} {words[0][0]}"
        if len(words) > 2:
            yield "@" + "".join(word[0] for word in words)
    if len(joined) > 6:
        yield "~" + joined[:4]


def _sought_under(words: tuple[str, ...]) -> Iterator[str]:
    first, last = words[0], words[-1]
    firsts = {first, *nicknames(first)}
    joined = "".join(words)
    yield from ("=" + name for name in firsts)
    if len(words) == 1:
        yield from ("^" + name for name in firsts)
        yield from ("$" + first, "@" + first)
    else:
        yield "=" + last
        yield from {f"${last} {name[0]}" for name in firsts}
        yield "^" + first
        yield "=" + "".join(word[0] for word in words)
    if len(joined) > 6:
        yield "~" + joined[:4]


def resolve(
    found: Sequence[Sighting],
    existing: Sequence[Entity] | EntityIndex,
    cooccurring: Mapping[EntityId, Set[EntityId]],
    weights: Weights = Weights(),  # noqa: B008  frozen, so sharing one is safe
) -> Resolution:
    """Give each name of a batch one entity: a known one where the case is clear, a new one where it is not."""
    index = existing if isinstance(existing, EntityIndex) else EntityIndex(existing)
    subjects = _gather(found)
    desk = _Desk(
        index=index, batch=EntityIndex(), subjects=subjects, cooccurring=cooccurring, weights=weights
    )
    ids: dict[str, EntityId] = {}
    # Fuller names go first, so that "John" can find the "John Smith" of its own batch.
    for folded, subject in sorted(subjects.items(), key=lambda item: -len(item[1].form.words)):
        entity = desk.settle(subject)
        desk.batch.put(entity)
        ids[folded] = entity.id
    return Resolution(entities=tuple(desk.batch), ids=ids)


def _gather(found: Sequence[Sighting]) -> dict[str, _Subject]:
    groups: dict[str, list[Sighting]] = {}
    for sighting in found:
        if sighting.name.strip():
            groups.setdefault(sighting.name.casefold(), []).append(sighting)
    return {folded: _subject(group) for folded, group in groups.items()}


def _subject(group: Sequence[Sighting]) -> _Subject:
    name = " ".join(group[0].name.split())[:MAX_NAME]
    types = Counter(sighting.type for sighting in group if sighting.type != "OTHER")
    moments = [sighting.at for sighting in group]
    return _Subject(
        name=name,
        form=name_form(name),
        type=types.most_common(1)[0][0] if types else "OTHER",
        first=min(moments),
        last=max(moments),
        beside=frozenset[str]().union(*(sighting.beside for sighting in group)),
    )


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    id: EntityId
    score: float
    exact: bool


@dataclass(frozen=True, kw_only=True)
class _Desk:
    """One batch being resolved: the bank as it was, and what the batch has added or changed so far."""

    index: EntityIndex
    batch: EntityIndex
    subjects: Mapping[str, _Subject]
    cooccurring: Mapping[EntityId, Set[EntityId]]
    weights: Weights

    def settle(self, subject: _Subject) -> Entity:
        """The entity this name is, brought up to date, or a new one."""
        ids = self.index.candidates(subject.name) | self.batch.candidates(subject.name)
        companions = [frozenset(self._named(name)) for name in subject.beside]
        scored = [c for c in (self._score(subject, self._get(id), companions) for id in ids) if c is not None]
        chosen = _decide(sorted(scored, key=lambda c: (-c.score, c.id)), self.weights)
        if chosen is None or self._is_contested(subject, self._get(chosen)):
            return _new(subject)
        return _updated(self._get(chosen), subject)

    def _get(self, id: EntityId) -> Entity:
        return self.batch.find(id) or self.index.get(id)

    def _named(self, name: str) -> Iterator[EntityId]:
        yield from self.index.named(name)
        yield from self.batch.named(name)

    def _score(
        self, subject: _Subject, entity: Entity, companions: Sequence[frozenset[EntityId]]
    ) -> _Candidate | None:
        alike = _likeness(subject, entity)
        if alike == 0.0:
            return None
        met = self.cooccurring.get(entity.id, frozenset[EntityId]())
        share = sum(not met.isdisjoint(ids) for ids in companions) / len(companions) if companions else 0.0
        days = abs((subject.last - entity.last_seen).total_seconds()) / _DAY
        weights = self.weights
        score = weights.name * alike + weights.cooccurrence * share
        score += weights.nearness * math.exp(-days / weights.days)
        return _Candidate(id=entity.id, score=score, exact=alike >= RESPACED)

    def _is_contested(self, subject: _Subject, entity: Entity) -> bool:
        """Whether a short name that would grow into this one could as well grow into someone else's."""
        short = name_form(entity.name)
        if len(subject.form.words) <= len(short.words):
            return False
        rivals = [other.form for other in self.subjects.values() if other.type in ("PERSON", "OTHER")]
        rivals += [
            name_form(self._get(id).name) for id in (*self.index.fuller(short), *self.batch.fuller(short))
        ]
        return any(
            len(rival.words) > len(short.words)
            and likeness(rival, short, person=True) > 0.0
            and likeness(rival, subject.form, person=True) == 0.0
            for rival in rivals
        )


def _likeness(subject: _Subject, entity: Entity) -> float:
    if subject.type != entity.type and "OTHER" not in (subject.type, entity.type):
        return 0.0
    form = name_form(entity.name)
    longer = subject.type if len(subject.form.words) > len(form.words) else entity.type
    same_length = len(subject.form.words) == len(form.words)
    person = longer == "PERSON" or (same_length and subject.type == "PERSON")
    best = likeness(subject.form, form, person=person)
    for alias in map(name_form, entity.aliases):
        if alias.words == subject.form.words:
            best = max(best, EXACT if len(alias.words) >= len(form.words) else KNOWN_SHORT)
    return best


def _decide(scored: Sequence[_Candidate], weights: Weights) -> EntityId | None:
    """The clear winner. Two namesakes that cannot be told apart get a third beside them, and never a fourth."""
    runner_up = scored[1].score if len(scored) > 1 else 0.0
    if scored and scored[0].score >= weights.threshold and scored[0].score - runner_up >= weights.margin:
        return scored[0].id
    exact = [candidate.id for candidate in scored if candidate.exact]
    return exact[0] if len(exact) == 1 or len(exact) > 2 else None


def _new(subject: _Subject) -> Entity:
    return Entity(
        id=EntityId(new_id()),
        name=subject.name,
        type=subject.type,
        first_seen=subject.first,
        last_seen=subject.last,
    )


def _updated(entity: Entity, subject: _Subject) -> Entity:
    grown = _completeness(subject.form) > _completeness(name_form(entity.name))
    name = subject.name if grown else entity.name
    known = {form.casefold() for form in (name, *entity.aliases)}
    added = [form for form in (entity.name, subject.name) if form.casefold() not in known]
    return entity.model_copy(
        update={
            "name": name,
            "aliases": (*(alias for alias in entity.aliases if alias.casefold() != name.casefold()), *added),
            "type": subject.type if entity.type == "OTHER" else entity.type,
            "first_seen": min(entity.first_seen, subject.first),
            "last_seen": max(entity.last_seen, subject.last),
        }
    )


def _completeness(form: NameForm) -> int:
    """How many words are written out; an initial says less than a name."""
    return sum(len(word) > 1 for word in form.words)
