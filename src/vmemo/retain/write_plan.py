"""The write plan of drafts: facts with embeddings, resolved entities, revisions of known facts, and links."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice

import numpy as np

from vmemo.llm.structured import StructuredLLM
from vmemo.models import Episode, Fact, Link, Mention, Message
from vmemo.models.changes import AddedSource, Changes, ExtractionResult, FactClosure, FactDraft, NewFact
from vmemo.models.records import BankId, BankRevision, EntityId, FactId, LinkKind, MessageId, is_supported, utc_now
from vmemo.models.search import Encoding, Vector
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.ports import Store, encodings
from vmemo.retain import revise
from vmemo.retain.context import RetainContext
from vmemo.retain.entities import EntityResolution, identify_names
from vmemo.retain.reader import read_drafts
from vmemo.retain.revise_by_model import revise_by_model
from vmemo.text.temporal.annotation import EDITED_BY_HAND, embed_facts, embedded_text, with_date
from vmemo.text.tokens import terms

MESSAGE_CHARACTERS = 1600


@dataclass(frozen=True, kw_only=True)
class EncodedDrafts:
    """Drafts with their embeddings and resolved entities."""

    result: ExtractionResult
    encodings: Sequence[Encoding]
    resolution: EntityResolution
    left_out: Mapping[MessageId, Vector] = field(default_factory=dict[MessageId, Vector])
    """The embeddings of messages that give no facts."""
    embedded: int = 0
    same_entities: Mapping[EntityId, EntityId] = field(default_factory=dict[EntityId, EntityId])
    """Known entities that are another one, with that one."""

    @property
    def by_message(self) -> dict[MessageId, Vector]:
        """The normalized sum of each message's fact embeddings."""
        found: dict[MessageId, list[Vector]] = {}
        for draft, encoding in zip(self.result.drafts, self.encodings, strict=True):
            for message in draft.messages:
                found.setdefault(message, []).append(encoding.vector)
        return {message: _normalized_sum(vectors) for message, vectors in found.items()}


def _normalized_sum(vectors: Sequence[Vector]) -> Vector:
    total = np.sum(vectors, axis=0)
    return total / max(float(np.linalg.norm(total)), 1e-9)


async def encode_drafts(
    bank: BankId,
    revision: BankRevision,
    result: ExtractionResult,
    context: RetainContext,
    llm: StructuredLLM | None = None,
) -> EncodedDrafts:
    """Embed and read drafts, and resolve their names; with an LLM, let it decide ambiguous names."""
    engine = result.engine or context.extractor.name

    async def embed(drafts: Sequence[FactDraft]) -> Sequence[Encoding]:
        texts = await asyncio.to_thread(lambda: [_embedded_text(draft, engine) for draft in drafts])
        return await encodings(context.embedder, texts, "document")

    read = await read_drafts(result.drafts, await embed(result.drafts), embed, context.embedder.name)
    resolution = await context.entity_cache.resolve(bank, revision, read.drafts, guess=llm is None)
    same: Mapping[EntityId, EntityId] = {}
    if llm is not None and resolution.ambiguous:
        advice, same = await identify_names(bank, resolution.ambiguous, read.drafts, context.store, llm)
        resolution = await context.entity_cache.resolve(bank, revision, read.drafts, advice=advice, guess=False)
    drafts = await _calibrated(replace(result, drafts=read.drafts), read.encodings, context)
    return EncodedDrafts(
        result=replace(result, drafts=drafts),
        encodings=read.encodings,
        resolution=resolution,
        same_entities=same,
        left_out={message: _normalized_sum(vectors) for message, vectors in read.left_out.items()},
        embedded=len(result.drafts) + read.embedded,
    )


def _embedded_text(draft: FactDraft, engine: str) -> str:
    if draft.likely_dates is None:
        return embedded_text(draft.text, draft.mentioned_at, engine)
    return with_date(draft.likely_dates, draft.mentioned_at)


async def plan_writes(
    bank: BankId,
    revision: BankRevision,
    encoded: EncodedDrafts,
    episodes: Sequence[Episode],
    context: RetainContext,
    llm: StructuredLLM | None = None,
) -> Changes:
    """Revise known facts by the new ones, link the new ones, and return the changes to commit."""
    new = await asyncio.to_thread(_new_facts, bank, encoded, episodes, context)
    near = revise.Neighbours.of(bank, context)
    revised = await _revise(bank, new, near, encoded.result, context, llm)
    causal = causal_links(encoded.result.drafts, [item.fact.id for item in new], revised.duplicate_of)
    changes = await _changes(bank, revision, encoded, revised, near, context)
    return replace(
        changes,
        episodes=episodes,
        links=[*changes.links, *causal],
        sources=[*revised.sourced, *_restated(encoded.result, episodes, revised)],
    )


async def plan_edit(
    bank: BankId, revision: BankRevision, draft: FactDraft, edit: Callable[[Fact], Fact], context: RetainContext
) -> Changes:
    """Return the changes that write one fact by hand, which `edit` completes, in place of the fact that it supersedes.

    Other facts that it makes outdated are marked by the revision model; no language model is asked.
    """
    result = ExtractionResult(drafts=(draft,), engine=EDITED_BY_HAND)
    encoded = await encode_drafts(bank, revision, result, context)
    [drafted] = _new_facts(bank, encoded, (), context)
    fact = edit(drafted.fact)
    new = [replace(drafted, fact=fact)]
    replaced = await context.store.facts(bank, FactSelect(ids=[fact.supersedes])) if fact.supersedes else []
    near = revise.Neighbours.of(bank, context)
    decided = revise.Revision(facts=new)
    for old in replaced:
        revise.replace_by_hand(fact, old, decided)
    return await _changes(bank, revision, encoded, await revise_by_model(decided, near, context), near, context)


async def plan_stated(bank: BankId, revision: BankRevision, encoded: EncodedDrafts, context: RetainContext) -> Changes:
    """Return the changes that add facts as another memory states them: they are linked, and revise nothing."""
    new = await asyncio.to_thread(_new_facts, bank, encoded, (), context)
    near = revise.Neighbours.for_links(bank, context)
    return await _changes(bank, revision, encoded, revise.Revision(facts=new), near, context)


async def _changes(
    bank: BankId,
    revision: BankRevision,
    encoded: EncodedDrafts,
    revised: revise.Revision,
    near: revise.Neighbours,
    context: RetainContext,
) -> Changes:
    """Return the changes that write new facts with their entities and links, and the revision of known ones."""
    revised = _keep_pins(revised)
    return Changes(
        bank=bank,
        revision=revision,
        embedder=context.embedder.name,
        facts=revised.facts,
        entities=encoded.resolution.entities,
        links=[*await _links(bank, revised.facts, near, context), *revised.links],
        closures=revised.closings,
        successors=revised.successors,
        claims=revised.claims,
        merges=encoded.resolution.merges,
    )


def _keep_pins(done: revise.Revision) -> revise.Revision:
    """Pin the facts that replace pinned ones."""
    pinned = {id for id, fact in done.changed.items() if fact.pinned}
    heirs = {link.source for link in done.links if link.kind == "replaces" and link.target in pinned}
    for at, item in enumerate(done.facts if pinned else ()):
        if item.fact.id in heirs or item.fact.supersedes in pinned:
            done.facts[at] = replace(item, fact=item.fact.model_copy(update={"pinned": True}))
    return done


async def _revise(
    bank: BankId,
    new: Sequence[NewFact],
    near: revise.Neighbours,
    result: ExtractionResult,
    context: RetainContext,
    llm: StructuredLLM | None,
) -> revise.Revision:
    """Apply the verdicts of a language model or, without one, of repeats, instructions and the revision model."""
    if llm is None:
        ending = {at for at, draft in enumerate(result.drafts) if draft.ends_instruction}
        instructions, replaced = await revise.replaced_instructions(bank, new, ending, context.store)
        repeated, repeats = await revise.find_repeats(bank, new, near, context.store)
        decided = revise.apply_verdicts(new, {**repeats, **replaced}, [*repeated, *instructions])
        return await revise_by_model(decided, near, context)
    pairs = await revise.similar_pairs(new, result.drafts, near)
    judged = revise.verdicts_from_engine(result.drafts, pairs)
    unclear = revise.unjudged_pairs(pairs, result.drafts, result, judged)
    if unclear:
        judged |= await revise.judge_pairs(unclear, new, llm)
    decided = revise.apply_verdicts(new, judged, pairs)
    return await _embed_reworded(decided, context)


async def _embed_reworded(done: revise.Revision, context: RetainContext) -> revise.Revision:
    """Count and embed facts whose text is new: merged ones."""
    again = [at for at, item in enumerate(done.facts) if item.fact.id in done.reworded]
    facts = [done.facts[at].fact for at in again]
    counted = [fact.model_copy(update={"tokens": context.counter(fact.text)}) for fact in facts]
    for at, item in zip(again, await embed_facts(counted, context.embedder), strict=True):
        done.facts[at] = item
    return done


def _restated(result: ExtractionResult, episodes: Sequence[Episode], done: revise.Revision) -> list[AddedSource]:
    """Return the new sources of known facts that messages repeat, except facts closed by the same batch."""
    episode_of = {message: episode.id for episode in episodes for message in episode.messages}
    return [
        AddedSource(fact=each.fact, messages=each.messages, episodes=tuple(dict.fromkeys(episodes)))
        for each in result.restated
        if each.fact not in done.changed
        for episodes in [[episode_of[id] for id in each.messages if id in episode_of]]
    ]


async def embed_messages(messages: Sequence[Message], context: RetainContext) -> dict[MessageId, Vector]:
    texts = [f"{message.voice}: {message.content[:MESSAGE_CHARACTERS]}" for message in messages]
    found = await context.embedder.embed(texts, "document") if texts else ()
    return {message.id: vector for message, vector in zip(messages, found, strict=True)}


def _new_facts(
    bank: BankId, encoded: EncodedDrafts, episodes: Sequence[Episode], context: RetainContext
) -> list[NewFact]:
    episode_of = {message: episode.id for episode in episodes for message in episode.messages}
    names = {each.id: Mention(id=each.id, name=each.name, type=each.type) for each in encoded.resolution.entities}
    engine = encoded.result.engine or context.extractor.name
    made: list[NewFact] = []
    for draft, encoding, ids in zip(encoded.result.drafts, encoded.encodings, encoded.resolution.ids, strict=True):
        start, end = draft.occurred or (None, None)
        fact = Fact(
            id=revise.fact_id(bank, context.engine, draft.key),
            bank=bank,
            network=draft.network,
            text=draft.text,
            tokens=context.counter(draft.text),
            context=draft.context,
            context_from=draft.context_from,
            occurred_start=start,
            occurred_end=end,
            mentioned_at=draft.mentioned_at,
            valid_at=draft.valid_at or min(start or draft.mentioned_at, draft.mentioned_at),
            invalid_at=draft.invalid_at,
            recorded_at=draft.recorded_at,
            confidence=draft.confidence,
            importance=draft.importance,
            entities=_mentions(draft, ids, names),
            messages=draft.messages,
            episodes=tuple(dict.fromkeys(episode_of[id] for id in draft.messages if id in episode_of)),
            tags=draft.tags,
            metadata=draft.metadata,
            engine=engine,
            instruction=draft.instruction,
        )
        made.append(NewFact(fact=fact, embedding=encoding.vector, tokens=encoding.tokens))
    return made


def _mentions(draft: FactDraft, ids: Mapping[str, EntityId], names: Mapping[EntityId, Mention]) -> tuple[Mention, ...]:
    found: dict[EntityId, Mention] = {}
    for each in draft.entities:
        if (id := ids.get(each.name.casefold())) is None:
            continue
        mention = names[id]
        name = "" if each.name.casefold() == mention.name.casefold() else each.name
        found.setdefault(mention.id, mention.model_copy(update={"name_in_text": name}) if name else mention)
    return tuple(found.values())


async def _links(bank: BankId, new: Sequence[NewFact], near: revise.Neighbours, context: RetainContext) -> list[Link]:
    if not new:
        return []
    facts, limit = [item.fact for item in new], context.settings.links_per_fact
    earlier = await context.store.facts(
        bank, FactSelect(around=min(fact.mentioned_at for fact in facts), current=True, limit=limit)
    )
    # One more than needed: a fact that is written again finds itself.
    stored = await near.near(new, limit=limit + 1, floor=revise.LINK_COSINE)
    in_batch = revise.similar_in_batch(new, revise.LINK_COSINE, limit)
    semantic = [
        link
        for fact, similar in zip(facts, map(revise.merge_similar, stored, in_batch), strict=True)
        for link in semantic_links(fact.id, similar, limit)
    ]
    return [*temporal_links(facts, earlier, limit), *semantic]


# Links.
DECAY_TIME = timedelta(hours=24)
"""Time over which the weight of a temporal link falls to 1/e; also the longest distance of a link."""
LEAST_TEMPORAL = 0.3


def temporal_links(new: Sequence[Fact], earlier: Sequence[Fact], limit: int) -> Iterator[Link]:
    """Yield links from each new fact to the `limit` nearest earlier ones, new or stored."""
    line = sorted((*earlier, *new), key=event_time)
    times = [event_time(fact) for fact in line]
    fresh = {fact.id for fact in new}
    for i, (fact, time) in enumerate(zip(line, times, strict=True)):
        if fact.id not in fresh:
            continue
        for place in range(max(0, i - limit), i):
            apart = time - times[place]
            if apart <= DECAY_TIME:
                weight = max(LEAST_TEMPORAL, math.exp(-(apart / DECAY_TIME)))
                yield _link(fact.id, line[place].id, "temporal", weight)


def event_time(fact: Fact) -> datetime:
    """Return the time that orders a fact: its occurrence, or else its mention."""
    return fact.occurred_start or fact.mentioned_at


def semantic_links(fact: FactId, near: revise.Similar, limit: int) -> Iterator[Link]:
    others = ((id, score) for id, score in zip(near.ids, near.scores, strict=True) if id != fact)
    for id, score in islice(others, limit):
        if score >= revise.LINK_COSINE:
            yield _link(fact, id, "semantic", min(1.0, score))


def _link(source: FactId, target: FactId, kind: LinkKind, weight: float) -> Link:
    return Link.trusted({"source": source, "target": target, "kind": kind, "weight": weight})


def causal_links(
    drafts: Sequence[FactDraft], ids: Sequence[FactId], duplicate_of: Mapping[FactId, FactId]
) -> Iterator[Link]:
    """Yield the causal links of drafts; a duplicate is replaced by the known fact that it repeats."""
    by_key = {draft.key: duplicate_of.get(id, id) for draft, id in zip(drafts, ids, strict=True)}
    for draft, id in zip(drafts, ids, strict=True):
        source = duplicate_of.get(id, id)
        for cause in draft.causes:
            target = by_key.get(cause.target)
            if target is not None and target != source:
                yield Link(source=source, target=target, kind=cause.kind, weight=min(1.0, max(0.0, cause.strength)))


# Importance: the distance of a new fact from what was expected.
UNRELATED_COSINE = 0.3
"""Cosine up to which a fact has nothing in common with a statement."""


async def _calibrated(
    result: ExtractionResult, encoded: Sequence[Encoding], context: RetainContext
) -> tuple[FactDraft, ...]:
    """Return the drafts with the importance that follows from the nearest of the expected statements."""
    if not result.expected or not result.drafts:
        return result.drafts
    texts = [embedded_text(each.text, each.at, result.engine) for each in result.expected]
    expected = np.stack(list(await context.embedder.embed(texts, "document")))
    cosines = np.stack([encoding.vector for encoding in encoded]) @ expected.T
    nearest: list[int] = cosines.argmax(axis=1).tolist()
    return tuple(
        replace(draft, importance=_importance(draft, float(cosines[at, near]), result.expected[near].text))
        for at, (draft, near) in enumerate(zip(result.drafts, nearest, strict=True))
    )


def _importance(draft: FactDraft, cosine: float, expected: str) -> float:
    """Return the mean of a draft's distance to an expected statement and of the share of its terms that this misses.

    A fact that outdates a known one contradicts what was expected, so the missed part of it counts in full.
    """
    distance = float(np.clip((1 - cosine) / (1 - UNRELATED_COSINE), 0.0, 1.0))
    stated = set(terms(draft.text))
    missed = len(stated - set(terms(expected))) / len(stated) if stated else 0.0
    if any(each.verdict == "supersede" for each in draft.judgements):
        missed = 1.0
    return round((distance + missed) / 2, 3)


async def close_outdated_observations(changes: Changes, store: Store) -> Changes:
    """Return the changes with closures of observations that lose support; all commits that close facts have them.

    An observation may be about the claim of a fact that ended, so that such a fact supports none any more.
    """
    new = {item.fact.id: item.fact.mentioned_at for item in changes.facts}
    ended = {
        id: claim.invalid_at
        for id, claims in changes.claims.items()
        for claim in claims
        if claim.invalid_at is not None and claim.replaced_by in new and claim.invalid_at <= new[claim.replaced_by]
    }
    closed = {each.fact for each in changes.closures} | ended.keys()
    if not closed:
        return changes
    select = FactSelect(basis=sorted(closed), networks=("observation",), current=True)
    observations = [each for each in await store.facts(changes.bank, select) if each.id not in closed]
    ids = {id for each in observations for id in each.basis} - closed
    remaining = {fact.id: fact for fact in await store.facts(changes.bank, FactSelect(ids=sorted(ids)))}
    now = utc_now()
    ends = ended | {each.fact: each.invalid_at for each in changes.closures if each.invalid_at is not None}
    outdated = [
        FactClosure(
            fact=each.id,
            invalid_at=max((ends[id] for id in each.basis if id in ends), default=each.valid_at or each.mentioned_at),
            expired_at=now,
        )
        for each in observations
        if not is_supported(each, remaining, now)
    ]
    return replace(changes, closures=[*changes.closures, *outdated])


# Expiry: a fact expires with the last of the messages that state it.
_LAST = datetime.max.replace(tzinfo=UTC)


async def inherit_expiry(changes: Changes, store: Store) -> Changes:
    """Return the changes with the expiry of new facts, and of known ones that further messages state."""
    bank = changes.bank
    if not await store.messages(bank, MessageSelect(expiring_until=_LAST, limit=1)):
        return changes
    added = {each.fact: each.messages for each in changes.sources}
    known = [fact for fact in await store.facts(bank, FactSelect(ids=sorted(added))) if fact.expires_at is not None]
    messages = {id for item in changes.facts for id in item.fact.messages}
    messages |= {id for fact in known for id in (*fact.messages, *added[fact.id])}
    found = await store.messages(bank, MessageSelect(ids=sorted(messages)))
    expiries = {message.id: message.expires_at for message in found}
    return replace(
        changes,
        facts=[
            replace(item, fact=item.fact.model_copy(update={"expires_at": time}))
            if (time := expiry_of(item.fact.messages, expiries))
            else item
            for item in changes.facts
        ],
        expiries={fact.id: expiry_of((*fact.messages, *added[fact.id]), expiries) for fact in known},
    )


def expiry_of(messages: Iterable[MessageId], expiries: Mapping[MessageId, datetime | None]) -> datetime | None:
    """Return when a fact of some messages expires; never, if one of them does not."""
    times = [expiries.get(message) for message in messages]
    lasting = [time for time in times if time is not None]
    return max(lasting) if lasting and len(lasting) == len(times) else None
