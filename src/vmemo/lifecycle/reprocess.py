"""Reprocessing: a bank is derived again in a staging bank, which then takes its place in one commit.

The staging bank is hidden and holds copies of all messages. What messages do not state is kept: opinions that
reflection formed, with their confidence history, decisions of the user on single facts, and what is known about the
names of entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import JsonValue

from vmemo.errors import NotFound
from vmemo.models import Bank, Entity, Fact, Link, Mention, Message
from vmemo.models.changes import Changes, Deletions, FactClosure, MergeRecord, NewEmbeddings, Rename
from vmemo.models.records import BankId, ConfidenceChange, EntityId, FactId, MessageId, with_feedback
from vmemo.models.search import Encoding
from vmemo.models.select import EntitySelect, EpisodeSelect, FactSelect, MessageSelect, first_of
from vmemo.ports import HIDDEN, Embedder, HiddenBank, Store, dimension_of, encodings, paged
from vmemo.retain.context import RetainContext
from vmemo.retain.local_extraction import continued_line
from vmemo.text.names.compare import fold_name, folded_names
from vmemo.text.temporal.annotation import OWN_WORDS_ENGINES, embed_facts, embedded_text
from vmemo.text.tokens import terms

PAGE = 1000
"""Records that are read, or messages that are copied, together."""


def derivation_label(context: RetainContext) -> str:
    """Return the note of a staging bank: what extracts facts, and how."""
    parts = (context.engine, context.settings.style, context.llm_extractor.custom.label if context.llm else "")
    return "/".join(filter(None, parts))


async def staging_bank(store: Store, bank: BankId, engine: str, *, embedder: str, dimension: int) -> BankId:
    """Return the staging bank with pending copies of all messages: that begun with the same engine, or a new one."""
    found = await _find(store, bank)
    if found is not None and (found.note, found.bank.embedder, found.bank.dimension) != (engine, embedder, dimension):
        await store.drop_bank(BankId(found.bank.id))
        found = None
    if found is None:
        stored = await store.bank(bank)
        if stored is None:
            raise NotFound(f"There is no bank {bank!r} here.")
        staging = staging_name(bank)
        new = Bank(id=staging, profile=stored.profile, embedder=embedder, dimension=dimension)
        await store.create_bank(new, replaces=bank, note=engine)
    else:
        staging = BankId(found.bank.id)
    await _copy_messages(store, bank, staging)
    return staging


def staging_name(bank: BankId) -> BankId:
    return BankId(f"{HIDDEN}reprocess {sha256(bank.encode()).hexdigest()}")


async def _find(store: Store, bank: BankId) -> HiddenBank | None:
    return next((hidden for hidden in await store.hidden_banks() if hidden.replaces == bank), None)


async def _copy_messages(store: Store, bank: BankId, staging: BankId) -> None:
    """Append the messages that the staging bank lacks, after the entities it must know in advance."""
    if not await store.messages(staging, MessageSelect(limit=1)):
        merges = await store.merges(bank)
        seeds = seed_entities(await _all_entities(store, bank), merges)
        await store.commit(Changes(bank=staging, entities=seeds, merges=seed_merges(merges)))
    after: MessageId | None = None
    while page := await store.messages(bank, MessageSelect(after=after, limit=PAGE)):
        copied = await store.messages(staging, MessageSelect(ids=[message.id for message in page]))
        known = {message.id for message in copied}
        await store.append(staging, [pending_copy(message) for message in page if message.id not in known])
        after = page[-1].id


async def _all_entities(store: Store, bank: BankId) -> list[Entity]:
    pages = paged(lambda after: store.entities(bank, EntitySelect(after=after, limit=PAGE)))
    return [entity async for entity in pages]


async def swap_in(store: Store, bank: BankId, embedder: Embedder) -> bool:
    """Put the staging bank in the bank's place; return False if it lacks messages or has not processed all."""
    staging = await _find(store, bank)
    if staging is None:
        return False
    name = BankId(staging.bank.id)
    await drop_outdated(store, bank, name)
    revision, replaced = await store.revision(name), await store.revision(bank)
    if (await store.status(name)).pending or await store.jobs(name, ["process", "extract"]):
        return False
    decisions = await user_decisions(store, bank, name)
    records = await _load(store, bank, name, decisions)
    facts = [kept_fact(fact, records) for fact in records.kept]
    entities, unused = kept_entities(records, facts)
    unused_merges = [merge.id for merge in await store.merges(name) if merge.entity in unused]
    changes = Changes(
        bank=name,
        revision=revision,
        entities=entities,
        curated=sorted(decisions.curated),
        facts=await embed_facts(facts, embedder),
        links=decisions.links(),
        closures=decisions.closures(),
        pinned=decisions.pins(),
        metadata=decisions.feedback(),
        confidence_history=[kept_change(change, records) for change in records.history],
        deleted=Deletions(entities=unused, merges=unused_merges),
        rename=Rename(to=bank, revision=replaced),
    )
    return await store.commit(changes)


async def _load(store: Store, bank: BankId, staging: BankId, decisions: UserDecisions) -> ReprocessRecords:
    every = paged(lambda after: store.facts(bank, FactSelect(after=after, limit=PAGE)))
    opinions = [fact async for fact in every if is_formed(fact)]
    formed = {opinion.id for opinion in opinions}
    history = [change for change in await store.confidence_changes(bank) if change.opinion in formed] if formed else []
    kept = [*opinions, *decisions.kept]
    grounds = {id for fact in kept for id in fact.basis} | {id for change in history for id in change.evidence}
    behind = await _behind(store, bank, grounds)
    new_facts, episode_facts = await _new_facts(store, staging, behind.values()) if grounds else ({}, {})
    return ReprocessRecords(
        kept=kept,
        counterparts=decisions.counterparts,
        history=history,
        behind=behind,
        entities=await _all_entities(store, bank),
        new_entities=await _all_entities(store, staging),
        new_facts=new_facts,
        episode_facts=episode_facts,
    )


async def _behind(store: Store, bank: BankId, grounds: AbstractSet[FactId]) -> dict[FactId, Fact]:
    """Return the facts with these ids, and all facts that they rest on, directly or not."""
    found: dict[FactId, Fact] = {}
    edge = set(grounds)
    while edge:
        found |= {fact.id: fact for fact in await store.facts(bank, FactSelect(ids=sorted(edge)))}
        edge = {id for fact in found.values() for id in fact.basis} - found.keys() - edge
    return found


async def _new_facts(
    store: Store, staging: BankId, behind: Iterable[Fact]
) -> tuple[dict[MessageId, list[FactId]], dict[MessageId, list[FactId]]]:
    """Return the facts of the staging bank by message, and for a message without facts those of its episode."""
    stated: dict[MessageId, list[FactId]] = {}
    async for fact in paged(lambda after: store.facts(staging, FactSelect(after=after, limit=PAGE))):
        for message in fact.messages:
            stated.setdefault(message, []).append(fact.id)
    episode_facts: dict[MessageId, list[FactId]] = {}
    for message in {message for fact in behind for message in fact.messages} - stated.keys():
        episode = first_of(await store.episodes(staging, EpisodeSelect(messages=[message])))
        others = () if episode is None else episode.messages
        episode_facts[message] = [fact for other in others for fact in stated.get(other, ())]
    return stated, episode_facts


def pending_copy(message: Message) -> Message:
    """Return the message as it is to be processed again; one that is kept verbatim, or was curated, stays so."""
    state = message.state if message.state in ("raw", "curated") else "pending"
    return message.model_copy(update={"state": state, "error": None})


def seed_merges(merges: Iterable[MergeRecord]) -> list[MergeRecord]:
    """Return the merges that were not undone; the facts that mentioned the absorbed entities are derived again."""
    held = [merge for merge in merges if merge.absorbed is not None and merge.undone_at is None]
    return [merge.model_copy(update={"mentions": ()}) for merge in held]


def seed_entities(entities: Sequence[Entity], merges: Sequence[MergeRecord]) -> list[Entity]:
    """Return the entities that a new derivation needs from the start, to assign names as before.

    An entity that others were merged into has all its names. An entity with `not_aliases` has only its name, so that
    it does not get the names of another entity as aliases.
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
    """By a fact of the bank that kept facts replaced, the fact of the staging bank that repeats it."""
    history: Sequence[ConfidenceChange] = ()
    """The confidence changes of kept opinions."""
    behind: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of the bank that opinions and confidence changes rest on, directly or not."""
    entities: Sequence[Entity] = ()
    new_entities: Sequence[Entity] = ()
    """Entities of the staging bank."""
    new_facts: Mapping[MessageId, Sequence[FactId]] = field(default_factory=dict[MessageId, Sequence[FactId]])
    """Facts of the staging bank by the messages that state them."""
    episode_facts: Mapping[MessageId, Sequence[FactId]] = field(default_factory=dict[MessageId, Sequence[FactId]])
    """For a message without facts in the staging bank, the facts of its episode."""

    def successors(self, facts: Iterable[FactId]) -> list[FactId]:
        """Return the facts of the staging bank that take the place of facts of the bank.

        A kept fact takes its own place. Any other is replaced by the facts of the same messages, or else by those of
        the same episode. A fact without messages is replaced by what replaces the facts that it rests on.
        """
        kept = {fact.id for fact in self.kept}
        found: dict[FactId, None] = {}
        seen, edge = set[FactId](), list(facts)
        while edge:
            seen.update(edge)
            found.update(dict.fromkeys(fact for fact in edge if fact in kept))
            replaced = [self.behind[fact] for fact in edge if fact not in kept and fact in self.behind]
            for fact in replaced:
                found.update(dict.fromkeys(self._restated(fact)))
            edge = [id for fact in replaced if not fact.messages for id in fact.basis if id not in seen]
        return list(found)

    def _restated(self, fact: Fact) -> list[FactId]:
        stated = [new for message in fact.messages for new in self.new_facts.get(message, ())]
        return stated or [new for message in fact.messages for new in self.episode_facts.get(message, ())]


def is_formed(fact: Fact) -> bool:
    """Return True for an opinion that reflection formed.

    What is extracted from messages belongs to an episode and rests on no other facts. A formed opinion has no episode,
    unless a message states it later; the messages behind it are evidence that was recalled verbatim.
    """
    return fact.network == "opinion" and (not fact.episodes or bool(fact.basis))


def kept_fact(fact: Fact, records: ReprocessRecords) -> Fact:
    """Return a fact with the basis, the entities and the replaced fact of the staging bank."""
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
            "claims": tuple(
                claim.model_copy(update={"replaced_by": known[claim.replaced_by].id})
                for claim in fact.claims
                if claim.replaced_by in known
            ),
            "supersedes": None if replaced is None else replaced.id,
        }
    )


def kept_change(change: ConfidenceChange, records: ReprocessRecords) -> ConfidenceChange:
    return change.model_copy(update={"evidence": tuple(records.successors(change.evidence))})


def _kept_mentions(mentions: Sequence[Mention], records: ReprocessRecords) -> tuple[Mention, ...]:
    same = _counterparts([entity for entity in records.entities if entity.id in {m.id for m in mentions}], records)
    found: dict[EntityId, Mention] = {}
    for mention in mentions:
        if (entity := same.get(mention.id)) is not None:
            kept = {"id": entity.id, "name": entity.name, "type": entity.type}
            mention = mention.model_copy(update=kept)
        found[mention.id] = mention
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

    Entities that only kept facts mention are saved. An entity keeps the `not_aliases` of the entity with the same name.
    Entities that the staging bank got from the start and that no fact mentions are deleted.
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
            names = {name.casefold() for name in (current.name, *current.aliases)}
            others = dict.fromkeys((*current.not_aliases, *entity.not_aliases))
            kept = tuple(name for name in others if name.casefold() not in names)
            saved[own.id] = current.model_copy(update={"not_aliases": kept})
    given = {entity.id for entity in records.entities}
    unused = [e.id for e in records.new_entities if e.id in given and not e.mentions and e.id not in mentioned]
    return [entity for entity in saved.values() if entity.id not in unused], unused


# Decisions of the user on single facts.
LEAST_SHARED = 0.5
"""Share of a fact's terms that another fact must have to count as a repetition of it."""


@dataclass(frozen=True, kw_only=True)
class UserDecisions:
    """Facts that the user edited, deleted or pinned, and the facts of the staging bank that repeat them.

    A message with a fact that the user edited or deleted is curated: it is not processed again, and its facts are kept
    as they are. A pin passes to the new fact that repeats the pinned one.
    """

    curated: AbstractSet[MessageId] = frozenset()
    edited: Sequence[Fact] = ()
    """Facts that curated messages alone state, closed ones included."""
    pinned: Sequence[Fact] = ()
    """Pinned facts that no curated message alone states."""
    replaced: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """Facts of other messages that edited ones replaced."""
    replacing: Sequence[Link] = ()
    """Links from edited facts to those that they replaced or may have outdated."""
    judged: Sequence[Fact] = ()
    """Facts with feedback that no curated message alone states."""
    counterparts: Mapping[FactId, Fact] = field(default_factory=dict[FactId, Fact])
    """By a replaced, pinned or judged fact, the fact of the staging bank that repeats it."""

    @property
    def kept(self) -> list[Fact]:
        """The facts that stay as they are; a pinned one only if no new fact repeats it."""
        return [*self.edited, *(fact for fact in self.pinned if fact.id not in self.counterparts)]

    def closures(self) -> list[FactClosure]:
        """Return the ends of new facts that repeat replaced ones, unless the new derivation closed them itself."""
        return [
            FactClosure(fact=new.id, invalid_at=old.invalid_at, expired_at=old.expired_at)
            for id, old in self.replaced.items()
            if (new := self.counterparts.get(id)) is not None and new.expired_at is None
            if old.expired_at is not None or old.invalid_at is not None
        ]

    def links(self) -> list[Link]:
        """Return the links between edited facts and what they replaced."""
        known = {fact.id: fact.id for fact in self.edited}
        ends = {**known, **{id: fact.id for id, fact in self.counterparts.items()}}
        return [link.model_copy(update={"target": ends[link.target]}) for link in self.replacing if link.target in ends]

    def pins(self) -> dict[FactId, bool]:
        return {self.counterparts[fact.id].id: True for fact in self.pinned if fact.id in self.counterparts}

    def feedback(self) -> dict[FactId, Mapping[str, JsonValue]]:
        """Return the metadata of new facts that repeat judged ones, with the feedback."""
        found = ((self.counterparts[fact.id], fact.feedback) for fact in self.judged if fact.id in self.counterparts)
        return {new.id: with_feedback(new.metadata, feedback) for new, feedback in found}


async def user_decisions(store: Store, bank: BankId, staging: BankId) -> UserDecisions:
    """Read the decisions of a bank, and match them with its staging bank."""
    curated = await _curated(store, bank)
    stated = await store.facts(bank, FactSelect(messages=sorted(curated))) if curated else []
    edited = [fact for fact in stated if curated.issuperset(fact.messages) and not is_formed(fact)]
    ids = {fact.id for fact in edited}
    marked = [await store.facts(bank, FactSelect(pinned=True)), await store.facts(bank, FactSelect(feedback=True))]
    pinned, judged = [[fact for fact in each if fact.id not in ids and not is_formed(fact)] for each in marked]
    links = [link for link in await store.links(bank, sorted(ids)) if link.kind in ("replaces", "outdates")]
    older = {fact.supersedes for fact in edited} | {link.target for link in links if link.kind == "replaces"}
    replaced = await store.facts(bank, FactSelect(ids=sorted(id for id in older if id is not None and id not in ids)))
    messages = sorted({message for fact in (*replaced, *pinned, *judged) for message in fact.messages})
    new = await store.facts(staging, FactSelect(messages=messages)) if messages else []
    found = {fact.id: counterpart(fact, new) for fact in (*replaced, *pinned, *judged)}
    return UserDecisions(
        curated=curated,
        edited=edited,
        pinned=pinned,
        judged=judged,
        replaced={fact.id: fact for fact in replaced},
        replacing=links,
        counterparts={id: fact for id, fact in found.items() if fact is not None},
    )


async def _curated(store: Store, bank: BankId) -> set[MessageId]:
    pages = paged(lambda after: store.messages(bank, MessageSelect(state="curated", after=after, limit=PAGE)))
    return {message.id async for message in pages}


async def drop_outdated(store: Store, bank: BankId, staging: BankId) -> None:
    """Delete what was derived in the staging bank from messages before the user edited or deleted their facts."""
    curated = sorted(await _curated(store, bank))
    outdated = await store.facts(staging, FactSelect(messages=curated)) if curated else []
    if outdated:
        deleted = Deletions(facts=[fact.id for fact in outdated])
        await store.commit(Changes(bank=staging, curated=curated, deleted=deleted))


def counterpart(fact: Fact, new: Sequence[Fact]) -> Fact | None:
    """Return the new fact of the same messages that repeats a fact: in the same words, or in most of them."""
    same = [each for each in new if not set(each.messages).isdisjoint(fact.messages) and not is_formed(each)]
    words = set(terms(fact.text))
    shares = [(each.text == fact.text, len(words & set(terms(each.text))) / max(len(words), 1)) for each in same]
    best = max(zip(shares, range(len(same)), strict=True), default=None)
    return same[best[1]] if best is not None and (best[0][0] or best[0][1] >= LEAST_SHARED) else None


async def reembed_bank(bank: BankId, store: Store, embedder: Embedder) -> int:
    """Replace a bank's vectors and return their number; facts that are written meanwhile are embedded as well."""
    if await store.bank(bank) is None:
        raise NotFound(f"There is no bank {bank!r} here.")
    vectors: dict[FactId, Encoding] = {}
    after: FactId | None = None
    while True:
        while facts := await store.facts(bank, FactSelect(after=after, limit=PAGE)):
            lines = await _continued_lines(bank, facts, store)
            texts = [embedded_text(f.text, f.mentioned_at, f.engine, after=lines.get(f.id, "")) for f in facts]
            fresh = await encodings(embedder, texts, "document")
            vectors.update((fact.id, encoding) for fact, encoding in zip(facts, fresh, strict=True))
            after = facts[-1].id
        new = NewEmbeddings(embedder=embedder.name, dimension=await dimension_of(embedder), vectors=vectors)
        if await store.commit(Changes(bank=bank, embeddings=new)):
            return len(vectors)


async def _continued_lines(bank: BankId, facts: Sequence[Fact], store: Store) -> dict[FactId, str]:
    """Return the line that each fact in a message's own words continues."""
    pairs = {
        fact.id: (fact.messages[0], fact.context_from)
        for fact in facts
        if fact.context_from is not None and fact.messages and fact.engine in OWN_WORDS_ENGINES
    }
    ids = {id for pair in pairs.values() for id in pair}
    said = {message.id: message for message in await store.messages(bank, MessageSelect(ids=sorted(ids)))}
    return {
        id: continued_line(said[message], said[before])
        for id, (message, before) in pairs.items()
        if message in said and before in said
    }
