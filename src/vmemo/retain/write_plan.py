"""From drafts to what can be written: facts with vectors, entities, verdicts on what is known, and links."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, EntityId, Episode, EpisodeId, Fact, FactId, Link, Mention, Message, MessageId
from vmemo.models.changes import AddedSource, Changes, NewFact
from vmemo.models.drafts import ExtractionResult, FactDraft
from vmemo.models.results import Usage
from vmemo.models.search import Encoding, Scored, Vector, Vectors
from vmemo.ports import encodings
from vmemo.retain import revise
from vmemo.retain.context import RetainContext
from vmemo.retain.link import ALIKE, CLOSEST, MOST_ALIKE, causal_links, semantic_links, temporal_links
from vmemo.retain.llm_judgements import identify, judge
from vmemo.retain.resolve import Resolution
from vmemo.retain.revise import Revision
from vmemo.text.fact_text import embedded_text

_FACTS = uuid.UUID("6f6d656d-7600-5000-8000-666163747300")
"""Name space of fact ids; it must never change."""
MESSAGE = 1600
"""Characters of a message by which it is compared with others."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """Drafts with their vectors and the entities they name."""

    reading: ExtractionResult
    encodings: Sequence[Encoding]
    resolution: Resolution

    @property
    def by_message(self) -> dict[MessageId, NDArray[np.float32]]:
        """A unit vector for each message: the middle of its facts."""
        sums: dict[MessageId, NDArray[np.float32]] = {}
        for draft, encoding in zip(self.reading.drafts, self.encodings, strict=True):
            for message in draft.messages:
                sums[message] = sums[message] + encoding.vector if message in sums else encoding.vector
        return {message: total / max(float(np.linalg.norm(total)), 1e-9) for message, total in sums.items()}


@dataclass(frozen=True, kw_only=True)
class Landing:
    """What a reading comes to beside what is known."""

    encoded: Encoded
    episodes: Sequence[Episode]
    revision: Revision
    links: Sequence[Link]

    def batch(self, bank: BankId, revision: int, context: RetainContext) -> Changes:
        """All of it as it is written, but for the messages that it claims."""
        return Changes(
            bank=bank,
            revision=revision,
            embedder=context.embedder.name,
            episodes=self.episodes,
            facts=self.revision.facts,
            entities=self.encoded.resolution.entities,
            links=self.links,
            closures=self.revision.closings,
            sources=self.revision.sourced,
            successors=self.revision.successors,
            merges=self.encoded.resolution.merges,
        )


async def encode(
    bank: BankId, revision: int, reading: ExtractionResult, context: RetainContext, desk: StructuredLLM | None = None
) -> Encoded:
    """Embed drafts and resolve their names, which goes on while the model runs: neither needs the other."""
    texts = [embedded_text(draft.text, draft.mentioned_at) for draft in reading.drafts]
    encoded, resolution = await asyncio.gather(
        encodings(context.embedder, texts, "document"), context.entity_cache.resolve(bank, revision, reading.drafts)
    )
    if desk is not None and resolution.doubts:
        advice = await identify(bank, resolution.doubts, reading.drafts, context.store, desk)
        resolution = await context.entity_cache.resolve(bank, revision, reading.drafts, advice=advice)
    return Encoded(reading=reading, encodings=encoded, resolution=resolution)


async def land(
    bank: BankId,
    encoded: Encoded,
    episodes: Sequence[Episode],
    context: RetainContext,
    desk: StructuredLLM | None = None,
) -> Landing:
    """Facts beside what is known, and their links."""
    facts = await asyncio.to_thread(_facts, bank, encoded, episodes, context)
    new = [
        NewFact(fact=fact, embedding=encoding.vector, tokens=encoding.tokens)
        for fact, encoding in zip(facts, encoded.encodings, strict=True)
    ]
    done = await _revised(bank, new, encoded.reading, context, desk)
    done.sourced += _restated(encoded.reading, episodes, done)
    links = await _links(bank, done.facts, context)
    causal = causal_links(encoded.reading.drafts, [fact.id for fact in facts], done.stands_for)
    return Landing(encoded=encoded, episodes=episodes, revision=done, links=[*links, *causal])


async def _revised(
    bank: BankId, new: Sequence[NewFact], reading: ExtractionResult, context: RetainContext, desk: StructuredLLM | None
) -> Revision:
    """Verdicts by what the engine said, what is proven, and, for the rest, what a model says."""
    if desk is None:
        pairs = await revise.rivals(bank, new, context.store)
        return revise.apply(new, revise.proven(pairs, new, duplicates=not context.extractor.keeps_words), pairs)
    pairs = await revise.near(bank, new, reading.drafts, context.store)
    judged = {**revise.proven(pairs, new, duplicates=True), **revise.plausible(reading.drafts, pairs)}
    unclear = revise.open_questions(pairs, reading.drafts, reading, judged)
    if unclear:
        judged |= await judge(unclear, new, desk)
    return await _embedded_again(revise.apply(new, judged, pairs), context)


async def _embedded_again(done: Revision, context: RetainContext) -> Revision:
    """Merged facts have a new text, so they are counted and embedded anew."""
    again = [at for at, item in enumerate(done.facts) if item.fact.id in done.merged]
    texts = [embedded_text(done.facts[at].fact.text, done.facts[at].fact.mentioned_at) for at in again]
    fresh = await encodings(context.embedder, texts, "document")
    for at, encoding in zip(again, fresh, strict=True):
        fact = done.facts[at].fact
        counted = fact.model_copy(update={"tokens": context.counter(fact.text)})
        done.facts[at] = NewFact(fact=counted, embedding=encoding.vector, tokens=encoding.tokens)
    return done


def _restated(reading: ExtractionResult, episodes: Sequence[Episode], done: Revision) -> list[AddedSource]:
    """Known facts that were told again get the messages as sources; those closed in the same breath don't."""
    holding = {message: episode.id for episode in episodes for message in episode.messages}
    return [
        AddedSource(
            fact=each.fact,
            messages=each.messages,
            episodes=tuple(dict.fromkeys(holding[message] for message in each.messages if message in holding)),
        )
        for each in reading.restated
        if each.fact not in done.changed
    ]


async def message_vectors(messages: Sequence[Message], context: RetainContext) -> dict[MessageId, Vector]:
    """A vector for each message."""
    texts = [f"{message.voice}: {message.content[:MESSAGE]}" for message in messages]
    found = await context.embedder.embed(texts, "document")
    return {message.id: vector for message, vector in zip(messages, found, strict=True)}


def stacked(vectors: Sequence[Vector], dimension: int) -> Vectors:
    """Vectors as rows, also when there are none."""
    return np.stack(vectors) if vectors else np.empty((0, dimension), np.float32)


def _facts(bank: BankId, encoded: Encoded, episodes: Sequence[Episode], context: RetainContext) -> list[Fact]:
    episode_of = {message: episode.id for episode in episodes for message in episode.messages}
    names = {
        entity.id: Mention(id=entity.id, name=entity.name, type=entity.type) for entity in encoded.resolution.entities
    }
    engine = encoded.reading.engine or context.extractor.name
    return [
        _fact(bank, draft, episode_of, _mentions(draft, encoded.resolution, names), context, engine)
        for draft in encoded.reading.drafts
    ]


def _mentions(draft: FactDraft, resolution: Resolution, names: Mapping[EntityId, Mention]) -> tuple[Mention, ...]:
    found: dict[EntityId, Mention] = {}
    for each in draft.entities:
        mention = names[resolution.ids[each.name.casefold()]]
        said = "" if each.name.casefold() == mention.name.casefold() else each.name
        found.setdefault(mention.id, mention.model_copy(update={"said": said}) if said else mention)
    return tuple(found.values())


def _fact(
    bank: BankId,
    draft: FactDraft,
    episode_of: Mapping[MessageId, EpisodeId],
    mentions: tuple[Mention, ...],
    context: RetainContext,
    engine: str,
) -> Fact:
    start, end = draft.occurred or (None, None)
    episodes = dict.fromkeys(episode_of[message] for message in draft.messages if message in episode_of)
    began = draft.mentioned_at if start is None else min(start, draft.mentioned_at)
    return Fact(
        id=_id(bank, context.engine, draft.key),
        bank=bank,
        network=draft.network,
        text=draft.text,
        tokens=context.counter(draft.text),
        context=draft.context,
        context_from=draft.context_from,
        occurred_start=start,
        occurred_end=end,
        mentioned_at=draft.mentioned_at,
        valid_at=draft.valid_at or began,
        recorded_at=draft.recorded_at,
        confidence=draft.confidence,
        importance=draft.importance,
        entities=mentions,
        messages=draft.messages,
        episodes=tuple(episodes),
        tags=draft.tags,
        metadata=draft.metadata,
        engine=engine,
    )


def _id(bank: BankId, engine: str, key: str) -> FactId:
    """The same reading gives the same id, so deriving again replaces nothing and repeats nothing."""
    return FactId(str(uuid.uuid5(_FACTS, "\x00".join((bank, engine, key)))))


async def _links(bank: BankId, new: Sequence[NewFact], context: RetainContext) -> list[Link]:
    if not new:
        return []
    facts = [item.fact for item in new]
    vectors = stacked([item.embedding for item in new], context.embedder.dimension)
    earlier = await context.store.recent(bank, min(fact.mentioned_at for fact in facts), limit=CLOSEST)
    near = await context.store.nearest(bank, vectors, limit=MOST_ALIKE, floor=ALIKE)
    inside = vectors @ vectors.T
    semantic = [
        link
        for i, fact in enumerate(facts)
        for link in semantic_links(fact.id, _closest(near[i], _inside(facts, inside[i, :i])))
    ]
    return [*temporal_links(facts, earlier), *semantic]


def _inside(facts: Sequence[Fact], cosines: NDArray[np.float32]) -> list[Scored]:
    """The few facts of the batch before this one that are most alike."""
    closest: list[int] = np.argsort(-cosines)[:MOST_ALIKE].tolist()
    return [Scored(facts[j].id, float(cosines[j]), facts[j].tokens) for j in closest]


def _closest(stored: Sequence[Scored], inside: Sequence[Scored]) -> list[Scored]:
    return sorted((*stored, *inside), key=lambda hit: hit.score, reverse=True)[: MOST_ALIKE + 1]


def joined(readings: Sequence[ExtractionResult]) -> ExtractionResult:
    """Several readings as one."""
    whole = ExtractionResult(drafts=tuple(draft for reading in readings for draft in reading.drafts))
    skipped = tuple(each for reading in readings for each in reading.skipped)
    restated = tuple(each for reading in readings for each in reading.restated)
    usage = sum((reading.usage for reading in readings), Usage())
    return replace(whole, skipped=skipped, restated=restated, usage=usage)
