"""Entity resolution. A wrong merge is worse than a missed one, so uncertain names become new entities."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from vmemo.llm.prompt_files import load_prompt, quote
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, BankRevision, Entity, EntityId, EntityType, Merge, new_id
from vmemo.models.changes import Changes, FactDraft, FoundName
from vmemo.models.records import MAX_NAME
from vmemo.models.select import EntitySelect, FactSelect
from vmemo.models.settings import RESOLUTION_WEIGHTS, ResolutionPart
from vmemo.ports import Store, paged
from vmemo.retain.llm_answers import NameIdentities, describe_fact
from vmemo.text.names import PLAIN_USE, NameUse, name_use, names_apart
from vmemo.text.names.compare import (
    CLIP,
    EXACT,
    KNOWN_SHORT,
    MIN_MISSPELLING_LENGTH,
    RESPACED,
    NameForm,
    name_form,
    name_similarity,
    nicknames,
)

FACTS_PER_CANDIDATE = 3
"""Facts shown about each candidate entity."""
MATCH = 0.6
"""Least score of a match."""
LEAD = 0.08
"""Least lead of a match over the next candidate."""
CLEAR_LEAD = 0.14
"""Least lead of one of several people whom a first name may mean: more than being mentioned last gives."""
NEARNESS_DAYS = 30.0
"""Days in which the nearness of a mention falls to 1/e."""
_MAX_BUCKET = 128
"""Above this number of matches, a short name does not identify an entity."""
_LONGEST_CLIP = 16
"""Letters of a first name whose beginnings may be short forms."""
_DAY = 86_400.0
_MAX_CANDIDATES = 5
"""Candidates of an ambiguous name that the model is shown."""


@dataclass(frozen=True, kw_only=True)
class NameSighting:
    """A name found in one fact, with the time and the other names of that fact."""

    name: str
    at: datetime
    type: EntityType = "OTHER"
    beside: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    """Longer names that the fact sets apart from this one."""
    use: NameUse = PLAIN_USE
    aliases: tuple[str, ...] = ()
    """Other names that the fact states for it."""
    speaks: bool = False
    """It is the speaker of the fact."""


@dataclass(frozen=True, kw_only=True)
class AmbiguousName:
    """A name that may be one of several entities; without advice it becomes a new one."""

    name: str
    candidates: tuple[EntityId, ...]


@dataclass(frozen=True, kw_only=True)
class EntityResolution:
    """New and updated entities, and by draft the entity id of each found name (casefolded).

    `merges` are names that became aliases of an entity; `ambiguous` are names that only the model can decide.
    """

    entities: tuple[Entity, ...]
    ids: Sequence[Mapping[str, EntityId]]
    merges: tuple[Merge, ...] = ()
    ambiguous: tuple[AmbiguousName, ...] = ()


class Unresolved:
    """The result for a name that may be one of several people."""


UNRESOLVED = Unresolved()


@dataclass(frozen=True, kw_only=True)
class _BatchName:
    """All sightings of one name in a batch, combined."""

    name: str
    form: NameForm
    type: EntityType
    first: datetime
    last: datetime
    beside: frozenset[str]
    apart: frozenset[str]
    use: NameUse
    aliases: tuple[str, ...] = ()
    speaks: bool = False

    @property
    def is_short(self) -> bool:
        """A first name or surname of a person alone."""
        return self.type == "PERSON" and len(self.form.words) == 1

    @property
    def is_another(self) -> bool:
        """The fact says that it is not a known person of this first name."""
        return self.type == "PERSON" and (self.use.new or self.use.other)


class EntityIndex:
    """Finds the entities that a name could mean. Build it once and `put` changed entities."""

    def __init__(self, entities: Iterable[Entity] = ()) -> None:
        self._entities: dict[EntityId, Entity] = {}
        self._buckets: dict[str, list[EntityId]] = {}
        for entity in entities:
            self.put(entity)

    def put(self, entity: Entity) -> None:
        """Add or replace an entity."""
        before = self._entities.get(entity.id)
        indexed = () if before is None else (before.name, *before.aliases)
        self._entities[entity.id] = entity
        for name in (entity.name, *entity.aliases):
            for key in () if name in indexed else _index_keys(name_form(name).words):
                bucket = self._buckets.get(key)
                if bucket is None:
                    self._buckets[key] = [entity.id]
                elif bucket[-1] != entity.id:
                    bucket.append(entity.id)

    def __iter__(self) -> Iterator[Entity]:
        return iter(self._entities.values())

    def get(self, entity: EntityId) -> Entity:
        """Return the entity; raise KeyError if it is unknown."""
        return self._entities[entity]

    def find(self, entity: EntityId) -> Entity | None:
        """Return the entity, or None."""
        return self._entities.get(entity)

    def fuller(self, word: str) -> Sequence[EntityId]:
        """Return some entities whose longer name begins or ends with this word."""
        starting, ending = self._buckets.get("^" + word, []), self._buckets.get("$" + word, [])
        return (*starting[:_MAX_BUCKET], *ending[:_MAX_BUCKET])

    def named(self, name: str) -> Sequence[EntityId]:
        """Return entities with exactly this name, ignoring case, accents and punctuation."""
        return self._buckets.get("=" + name_form(name).key, ())

    def candidates(self, name: str) -> set[EntityId]:
        """Return the entities that this name could mean."""
        near = set(self.named(name))
        for key in _lookup_keys(name_form(name).words):
            bucket = self._buckets.get(key, ())
            if len(bucket) <= _MAX_BUCKET:
                near.update(bucket)
        return near


def _index_keys(words: tuple[str, ...]) -> list[str]:
    joined = "".join(words)
    keys = ["=" + joined]
    if len(words[0]) > CLIP + 1:
        keys.append("<" + words[0][:CLIP])
    if len(words) > 1:
        keys += ("^" + words[0], "$" + words[-1], f"${words[-1]} {words[0][0]}")
        if len(words) > 2:
            keys.append("@" + "".join([word[0] for word in words]))
    if len(joined) >= MIN_MISSPELLING_LENGTH:
        keys.append(_outline(joined))
    return keys


@lru_cache(maxsize=16_384)
def _lookup_keys(words: tuple[str, ...]) -> frozenset[str]:
    """Return the keys under which a name is looked up, in the bank and in its batch."""
    return frozenset(_keys_of(words))


def _keys_of(words: tuple[str, ...]) -> Iterator[str]:
    first, last, joined = words[0], words[-1], "".join(words)
    names = (first, *nicknames(first))
    if len(words) == 1:
        yield from ("=" + name for name in names)
        yield from ("^" + name for name in names)
        yield from ("$" + first, "@" + first, "<" + first[:CLIP])
        yield from ("=" + first[:length] for length in range(CLIP, min(len(first), _LONGEST_CLIP)))
    else:
        yield from {f"${last} {name[0]}" for name in names}
        # "Roy T." and "Roy Tipping".
        yield "^" + first if len(last) == 1 else f"${last[0]} {first[0]}"
        yield from ("=" + first, "=" + last, "=" + "".join([word[0] for word in words]))
    if len(words) > 2:
        yield "=" + "".join(words[:2])
    if len(joined) >= MIN_MISSPELLING_LENGTH:
        yield _outline(joined)


def _outline(joined: str) -> str:
    """Return the beginning and end of a long name, which most typing errors leave intact."""
    return f"~{joined[:4]}{joined[-2:]}"


def resolve(
    found: Sequence[Sequence[NameSighting]],
    existing: Sequence[Entity] | EntityIndex,
    cooccurring: Mapping[EntityId, Set[EntityId]],
    weights: Mapping[ResolutionPart, float] = RESOLUTION_WEIGHTS,
    advice: Mapping[str, EntityId | None] = MappingProxyType({}),
    *,
    guess: bool = True,
) -> EntityResolution:
    """Assign an entity to each name of the drafts of a batch: a known one if the match is clear, else a new one.

    `found` holds the names of each draft, which are resolved in the order of their times: a first name may mean one
    person in one message and another one later. `advice` holds the model's decisions on ambiguous names (casefolded):
    an entity id, or None for a new entity. With `guess`, a first name that may be one of several people stays without
    an entity: a wrong one would be worse than none. Without it a model has written the names, which are different ones.
    """
    index = existing if isinstance(existing, EntityIndex) else EntityIndex(existing)
    gathered = [_gather(names) for names in found]
    fuller = _by_word(subject for subjects in gathered for subject in subjects.values())
    resolver = _BatchResolver(
        index=index, batch=EntityIndex(), fuller=fuller, cooccurring=cooccurring, weights=weights, guess=guess
    )
    ids: list[dict[str, EntityId]] = [{} for _ in found]
    merges: list[Merge] = []
    ambiguous: dict[str, AmbiguousName] = {}
    advised: dict[str, EntityId] = {}
    for at in sorted((at for at, names in enumerate(found) if names), key=lambda at: found[at][0].at):
        subjects, chosen = gathered[at], ids[at]
        # Longer names first, so that "John" can match the "John Smith" of its own draft.
        for folded, subject in sorted(subjects.items(), key=lambda item: -len(item[1].form.words)):
            apart = {chosen[name] for name in subject.apart if name in chosen}
            equated = [
                id
                for name, id in chosen.items()
                if guess
                and subjects[name].type == subject.type
                and (name in subject.use.same or folded in subjects[name].use.same)
            ]
            if equated:
                known, candidates = resolver.get(equated[0]), ()
            elif folded in advice:
                known, candidates = resolver.get(advised.get(folded, advice[folded])), ()
            else:
                known, candidates = resolver.resolve(subject, apart, set(chosen.values()))
            if apart and known is None and guess and subject.is_short and not (subject.is_another or subject.speaks):
                # People write "Gwen, I mean Gwen Prosser" as often as "Alice met Alice Cooper".
                known = UNRESOLVED
            if isinstance(known, Unresolved):
                continue
            if candidates:
                ambiguous.setdefault(folded, AmbiguousName(name=subject.name, candidates=candidates))
            shared = folded not in advice and len(subject.form.words) == 1 and resolver.is_shared(subject.form.words[0])
            entity = _new(subject) if known is None else _seen(known, subject) if shared else _updated(known, subject)
            if known is not None and not shared and not _has_name(known, subject.form):
                merges.append(_merge(entity, subject, advised=folded in advice))
            resolver.batch.put(entity)
            chosen[folded] = resolver.written[folded] = entity.id
            if folded in advice:
                advised[folded] = entity.id
    return EntityResolution(
        entities=tuple(resolver.batch), ids=ids, merges=tuple(merges), ambiguous=tuple(ambiguous.values())
    )


def _has_name(entity: Entity, form: NameForm) -> bool:
    return any(name_form(name).words == form.words for name in (entity.name, *entity.aliases))


def _merge(entity: Entity, subject: _BatchName, *, advised: bool) -> Merge:
    reason = "the model identified them" if advised else "the names are similar and nothing contradicts it"
    return Merge(id=new_id(), entity=entity.id, names=(subject.name,), reason=reason, at=subject.last)


def _gather(found: Sequence[NameSighting]) -> dict[str, _BatchName]:
    groups: dict[str, list[NameSighting]] = {}
    for sighting in found:
        if sighting.name.strip():
            groups.setdefault(sighting.name.casefold(), []).append(sighting)
    return {folded: _subject(group) for folded, group in groups.items()}


def _subject(group: Sequence[NameSighting]) -> _BatchName:
    name = " ".join(group[0].name.split())[:MAX_NAME]
    types = Counter[EntityType](sighting.type for sighting in group if sighting.type != "OTHER")
    times = [sighting.at for sighting in group]
    return _BatchName(
        name=name,
        form=name_form(name),
        type=types.most_common(1)[0][0] if types else "OTHER",
        first=min(times),
        last=max(times),
        beside=frozenset[str]().union(*(sighting.beside for sighting in group)),
        apart=frozenset(other.casefold() for sighting in group for other in sighting.apart),
        use=group[0].use,
        aliases=tuple(dict.fromkeys(alias[:MAX_NAME] for sighting in group for alias in sighting.aliases)),
        speaks=any(sighting.speaks for sighting in group),
    )


@dataclass(frozen=True, kw_only=True)
class _ScoredEntity:
    id: EntityId
    score: float
    exact: bool


@dataclass(frozen=True, kw_only=True)
class _BatchResolver:
    """Resolution of one batch: the bank's entities, and those that the batch has added or changed so far."""

    index: EntityIndex
    batch: EntityIndex
    fuller: Mapping[str, Sequence[NameForm]]
    cooccurring: Mapping[EntityId, Set[EntityId]]
    weights: Mapping[ResolutionPart, float]
    guess: bool
    written: dict[str, EntityId] = field(default_factory=dict[str, EntityId])
    """The entities of the names so far, casefolded. Different names that a model writes are different entities."""

    def resolve(
        self, subject: _BatchName, others: Set[EntityId], beside: Set[EntityId]
    ) -> tuple[Entity | Unresolved | None, tuple[EntityId, ...]]:
        """Return the entity of a name, or None for a new one with the candidates if the name is ambiguous.

        `others` are entities that a fact sets apart from this one, `beside` all of the same fact.
        """
        if not self.guess:
            others = others | {id for name, id in self.written.items() if name != subject.name.casefold()}
        stated = {id for alias in (subject.name, *subject.aliases) for id in self._named(alias)} - others
        if subject.aliases and len(stated) == 1:
            return self._get(*stated), ()
        ids = (self.index.candidates(subject.name) | self.batch.candidates(subject.name)) - others
        similar = self._similar(subject, ids)
        if subject.is_short:
            # "Steve Oduya called. Steve says hello."
            named = [entity for entity, _ in similar if entity.id in beside]
            if len(named) == 1:
                return named[0], ()
            if self.guess and similar and (len(similar) > 1 or (subject.use.other and not others)):
                return self._called(subject, similar), ()
        elif subject.type == "PERSON":
            similar = _of_first_name(subject, similar)
        known = not subject.is_short and any(_has_name(entity, subject.form) for entity, _ in similar)
        if subject.is_another and not known:
            chosen, ranked = None, [entity.id for entity, _ in similar]
        elif len(similar) == 1 and self.weights["name"] * similar[0][1] >= max(MATCH, LEAD):
            # Neither companions nor nearness can change the decision.
            chosen = similar[0][0].id
            ranked = [chosen]
        else:
            scored = sorted(self._scored(subject, similar), key=lambda c: (-c.score, c.id))
            ranked, chosen = [each.id for each in scored], _decide(scored)
        if chosen is None or self._is_contested(subject, self._get(chosen)) or self._must_ask(subject, chosen, similar):
            return None, tuple(id for id in ranked if self.index.find(id) is not None)[:_MAX_CANDIDATES]
        return self._get(chosen), ()

    def _called(self, subject: _BatchName, similar: Sequence[tuple[Entity, float]]) -> Entity | Unresolved:
        """Return the one of several people who is called by a short name, or who is mentioned with the same others."""
        if subject.is_another:
            return UNRESOLVED
        called = [entity for entity, _ in similar if _has_name(entity, subject.form)]
        if len(called) == 1:
            return called[0]
        scored = sorted(self._scored(subject, similar), key=lambda each: -each.score)
        return self._get(scored[0].id) if scored[0].score - scored[1].score >= CLEAR_LEAD else UNRESOLVED

    def _must_ask(self, subject: _BatchName, chosen: EntityId, similar: Sequence[tuple[Entity, float]]) -> bool:
        """Return True if only a first name, or one that several people have, says that a person is a known one.

        A language model decides then; without one the best guess counts.
        """
        known = self.index.find(chosen)
        if self.guess or subject.type != "PERSON" or known is None:
            return False
        exact = chosen in set(self._named(subject.name))
        if len(subject.form.words) > 1:
            return not exact and len(name_form(known.name).words) == 1
        return not exact or len(similar) > 1

    def is_shared(self, word: str) -> bool:
        """Return True if several entities have longer names with this word, which is no alias of one of them."""
        return len({*self.index.fuller(word), *self.batch.fuller(word)}) > 1

    def get(self, id: EntityId | None) -> Entity | None:
        """Return the entity that an advice names, or None."""
        return None if id is None else self.batch.find(id) or self.index.find(id)

    def _get(self, id: EntityId) -> Entity:
        return self.batch.find(id) or self.index.get(id)

    def _named(self, name: str) -> Iterator[EntityId]:
        yield from self.index.named(name)
        yield from self.batch.named(name)

    def _similar(self, subject: _BatchName, ids: Iterable[EntityId]) -> list[tuple[Entity, float]]:
        """Return the entities whose names are similar to a name, with the similarity."""
        name, type = subject.name, subject.type
        found = ((each, _similarity(name, type, each.name, each.type, each.aliases)) for each in map(self._get, ids))
        return [
            (entity, similarity)
            for entity, similarity in found
            if similarity > 0.0 and all(name_form(name).words != subject.form.words for name in entity.not_aliases)
        ]

    def _scored(self, subject: _BatchName, similar: Sequence[tuple[Entity, float]]) -> Iterator[_ScoredEntity]:
        weights = self.weights
        companions = [frozenset(self._named(name)) for name in subject.beside] if similar else []
        for entity, similarity in similar:
            cooccurring = self.cooccurring.get(entity.id, frozenset[EntityId]())
            share = sum(not cooccurring.isdisjoint(ids) for ids in companions) / (len(companions) or 1)
            days = abs((subject.last - entity.last_seen).total_seconds()) / _DAY
            score = weights["name"] * similarity + weights["cooccurrence"] * share
            score += weights["nearness"] * math.exp(-days / NEARNESS_DAYS)
            yield _ScoredEntity(id=entity.id, score=score, exact=similarity >= RESPACED)

    def _is_contested(self, subject: _BatchName, entity: Entity) -> bool:
        """Return True if the entity's short name could equally be extended to another person's full name."""
        short = name_form(entity.name)
        if len(subject.form.words) <= len(short.words):
            return False
        word = short.words[0]
        fuller = [name_form(self._get(id).name) for id in self.index.fuller(word)]
        return any(
            len(rival.words) > len(short.words)
            and name_similarity(rival, subject.form, person=True) == 0.0
            and name_similarity(rival, short, person=True) > 0.0
            for rival in (*self.fuller.get(word, ()), *fuller)
        )


def _by_word(subjects: Iterable[_BatchName]) -> Mapping[str, Sequence[NameForm]]:
    """Index names of several words by their first and last word."""
    forms: dict[str, list[NameForm]] = {}
    for subject in subjects:
        if len(subject.form.words) > 1 and subject.type in ("PERSON", "OTHER"):
            for word in {subject.form.words[0], subject.form.words[-1]}:
                forms.setdefault(word, []).append(subject.form)
    return forms


@lru_cache(maxsize=32_768)
def _similarity(name: str, type: EntityType, known: str, known_type: EntityType, aliases: tuple[str, ...]) -> float:
    """Return the similarity of a name to an entity. Cached, because the names of a bank recur."""
    said, form, types = name_form(name), name_form(known), {type, known_type}
    if len(types) > 1 and "OTHER" not in types:
        # A study is an event, a product or a concept, whoever names it.
        return EXACT if form.words == said.words and "PERSON" not in types else 0.0
    longer = type if len(said.words) > len(form.words) else known_type
    same_length = len(said.words) == len(form.words)
    person = longer == "PERSON" or (same_length and type == "PERSON")
    best = name_similarity(said, form, person=person)
    for alias in map(name_form, aliases):
        if alias.words == said.words:
            best = max(best, EXACT if len(alias.words) >= len(form.words) else KNOWN_SHORT)
    return best


def _of_first_name(subject: _BatchName, similar: Sequence[tuple[Entity, float]]) -> Sequence[tuple[Entity, float]]:
    """Return those who share the first name of a full name, if there are any: "Gwen" is Gwen Lisle, not "Mr Lisle"."""
    surname = subject.form.words[-1:]
    return [each for each in similar if name_form(each[0].name).words != surname] or similar


def _decide(scored: Sequence[_ScoredEntity]) -> EntityId | None:
    """Return the clear winner. Two indistinguishable namesakes get a third entity; with three, the first is used."""
    runner_up = scored[1].score if len(scored) > 1 else 0.0
    if scored and scored[0].score >= MATCH and scored[0].score - runner_up >= LEAD:
        return scored[0].id
    exact = [candidate.id for candidate in scored if candidate.exact]
    return exact[0] if len(exact) == 1 or len(exact) > 2 else None


def _new(subject: _BatchName) -> Entity:
    return Entity(
        id=EntityId(new_id()),
        name=_untitled(subject),
        type=subject.type,
        aliases=tuple(alias for alias in subject.aliases if alias.casefold() != subject.name.casefold()),
        first_seen=subject.first,
        last_seen=subject.last,
    )


def _updated(entity: Entity, subject: _BatchName) -> Entity:
    grown = _is_fuller(subject.form, name_form(entity.name))
    name = _untitled(subject) if grown else entity.name
    known = {form.casefold() for form in (name, *entity.aliases)}
    added = [form for form in (entity.name, subject.name, *subject.aliases) if form.casefold() not in known]
    return entity.model_copy(
        update={
            "name": name,
            "aliases": (*(alias for alias in entity.aliases if alias.casefold() != name.casefold()), *added),
            "type": subject.type if entity.type == "OTHER" else entity.type,
            "first_seen": min(entity.first_seen, subject.first),
            "last_seen": max(entity.last_seen, subject.last),
        }
    )


def _untitled(subject: _BatchName) -> str:
    """Return a full name without its title."""
    titled = subject.form.title is not None and len(subject.form.words) > 1
    return subject.name.split(maxsplit=1)[1] if titled else subject.name


def _seen(entity: Entity, subject: _BatchName) -> Entity:
    times = {"first_seen": min(entity.first_seen, subject.first), "last_seen": max(entity.last_seen, subject.last)}
    return entity.model_copy(update=times)


def _is_fuller(form: NameForm, than: NameForm) -> bool:
    """Return True if a form has more full words, or as many and is clearly longer (Robert, not Bob)."""
    words, others = (sum(len(word) > 1 for word in each.words) for each in (form, than))
    return words > others or (words == others and len(form.key) > len(than.key) + 1)


# The entities of a bank, and names that only a language model can decide.
PAGE = 1000
"""Entities that are read together."""


@dataclass
class EntityCache:
    """The entities of each bank at one revision, so that a large bank's entities are not loaded for every batch."""

    store: Store
    weights: Mapping[ResolutionPart, float]
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
        guess: bool = True,
    ) -> EntityResolution:
        """Resolve the names of drafts to entities; `advice` holds the model's decisions on ambiguous names."""
        index = await self._entities(bank, revision)
        seen = [list(sightings(each.text, each.mentioned_at, each.entities)) for each in drafts]
        names = {sighting.name for found in seen for sighting in found}
        uncertain = sorted(set[EntityId]().union(*(_uncertain(index, name) for name in names)))
        cooccurring = await self.store.cooccurring(bank, uncertain) if uncertain else {}
        return await asyncio.to_thread(resolve, seen, index, cooccurring, self.weights, advice, guess=guess)

    async def named(self, bank: BankId, revision: BankRevision, words: Iterable[str]) -> list[EntityId]:
        """Return the entities with one of the words as their name, or as its first or last word, in this order."""
        index = await self._entities(bank, revision)
        ids = (id for word in words for id in (*index.named(word), *index.fuller(name_form(word).key)))
        return list(dict.fromkeys(ids))

    def committed(self, bank: BankId, revision: BankRevision, changes: Changes) -> None:
        """Add what a committed batch has changed, which was the only change after this revision."""
        at, index = self._known.get(bank, (None, None))
        if at == revision and index is not None:
            for entity in changes.entities:
                index.put(entity)
            self._known[bank] = revision.next(), index

    async def _entities(self, bank: BankId, revision: BankRevision) -> EntityIndex:
        at, index = self._known.get(bank, (None, None))
        if at != revision or index is None:
            every = paged(lambda after: self.store.entities(bank, EntitySelect(after=after, counted=False, limit=PAGE)))
            index = EntityIndex([entity async for entity in every])
            self._known[bank] = revision, index
        return index


def _uncertain(index: EntityIndex, name: str) -> set[EntityId]:
    """Return the entities that a name could mean, or none if exactly one entity has this name."""
    candidates = index.candidates(name)
    return candidates if len(candidates) > 1 or not index.named(name) else set()


def sightings(text: str, at: datetime, found_names: Sequence[FoundName]) -> Iterator[NameSighting]:
    names = [found.name for found in found_names]
    apart = names_apart(text, names)
    for found in found_names:
        others = frozenset(name for name in names if name != found.name)
        yield NameSighting(
            name=found.name,
            type=found.type,
            at=at,
            beside=others,
            apart=apart[found.name],
            use=name_use(text, found.name, names),
            aliases=found.aliases,
            speaks=text.startswith(f"{found.name}: "),
        )


async def identify_names(
    bank: BankId, ambiguous: Sequence[AmbiguousName], drafts: Sequence[FactDraft], store: Store, llm: StructuredLLM
) -> tuple[dict[str, EntityId | None], dict[EntityId, EntityId]]:
    """Return the entity of each ambiguous name (casefolded), or None for a new one.

    With them, return the entities that the model says are another one of them, with that one.
    """
    ids = list(dict.fromkeys(id for name in ambiguous for id in name.candidates))
    entities = {entity.id: entity for entity in await store.entities(bank, EntitySelect(ids=ids))}
    numbers = {id: f"E{n}" for n, id in enumerate(ids, start=1) if id in entities}
    questions = {f"Q{n}": name for n, name in enumerate(ambiguous, start=1)}
    lines: list[str] = []
    for id, number in numbers.items():
        lines.append(f"{number} | {_describe_entity(entities[id])}")
        lines += [
            f"    {describe_fact(fact)}"
            for fact in await store.facts(bank, FactSelect.about(id, limit=FACTS_PER_CANDIDATE))
        ]
    for question, name in questions.items():
        candidates = " or ".join(numbers[id] for id in name.candidates if id in numbers)
        lines.append(
            f"{question} | Is {name.name!r} here one of {candidates}, or new? | {_text_with(name.name, drafts)}"
        )
    request = load_prompt("retain", "identify").request(NameIdentities, max_tokens=2048, questions=quote(lines))
    answer = await llm.ask(request, NameIdentities, lambda found: _unanswered(found, questions))
    chosen = {each.name: each.same_as for each in answer.answers}
    by_number = {number: id for id, number in numbers.items()}
    advice: dict[str, EntityId | None] = {}
    same: dict[EntityId, EntityId] = {}
    for question, name in questions.items():
        found = [by_number[each] for each in chosen.get(question, ()) if by_number.get(each) in name.candidates]
        first, *others = [same.get(id, id) for id in found] or [None]
        advice[name.name.casefold()] = first
        same |= {id: first for id in others if id and first and _may_be_one(entities[id], entities[first])}
    return advice, same


def _unanswered(answer: NameIdentities, questions: Mapping[str, AmbiguousName]) -> str | None:
    missing = questions.keys() - {each.name for each in answer.answers}
    return f"these questions are not answered: {', '.join(sorted(missing))}" if missing else None


def _may_be_one(one: Entity, other: Entity) -> bool:
    """Return False for an entity and itself, and for two that were merged before and are separate again."""
    apart = {*one.not_aliases, *other.not_aliases}
    return one.id != other.id and apart.isdisjoint((one.name, *one.aliases, other.name, *other.aliases))


def _describe_entity(entity: Entity) -> str:
    others = f" (also {', '.join(entity.aliases)})" if entity.aliases else ""
    return f"{entity.name}{others}, {entity.type}, last mentioned {entity.last_seen:%d %B %Y}"


def _text_with(name: str, drafts: Sequence[FactDraft]) -> str:
    folded = name.casefold()
    return next((d.text for d in drafts if any(found.name.casefold() == folded for found in d.entities)), "")
