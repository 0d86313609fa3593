"""Everything that follows from a batch of unread messages: episodes, facts, entities and links."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from vmemo.models import (
    BankId,
    EntityId,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    Link,
    Mention,
    Message,
    MessageId,
    Usage,
)
from vmemo.ports import Batch, Draft, Embedder, Extractor, NewFact, Store, TokenCounter, Vectors, encodings
from vmemo.retain.episodes import chained, place
from vmemo.retain.link import ALIKE, CLOSEST, MOST_ALIKE, semantic_links, temporal_links
from vmemo.retain.resolve import Resolution
from vmemo.retain.roster import Roster
from vmemo.searches import Scored, Vector

_FACTS = uuid.UUID("6f6d656d-7600-5000-8000-666163747300")
"""Name space of fact ids; it must never change."""


@dataclass(frozen=True)
class Tools:
    """What deriving works with."""

    store: Store
    embedder: Embedder
    extractor: Extractor
    counter: TokenCounter
    roster: Roster


@dataclass(frozen=True)
class _Stream:
    """Consecutive messages of one document and what was read from them."""

    messages: tuple[Message, ...]
    before: Message | None
    drafts: tuple[Draft, ...]
    usage: Usage


async def derive(bank: BankId, revision: int, messages: Sequence[Message], tools: Tools) -> tuple[Batch, Usage]:
    """A batch that can be written whole, and what it cost."""
    streams = [await _read(bank, stream, tools) for stream in _streams(messages)]
    drafts = [draft for stream in streams for draft in stream.drafts]
    texts = [embedded_text(draft.text, draft.mentioned_at) for draft in drafts]
    # Names are resolved while the model runs: neither needs the other.
    encoded, resolution = await asyncio.gather(
        encodings(tools.embedder, texts, "document"), tools.roster.resolve(bank, revision, drafts)
    )
    vectors = stacked([encoding.vector for encoding in encoded], tools.embedder.dimension)
    episodes = await _place(bank, streams, _by_message(drafts, vectors), tools.store)
    facts = await asyncio.to_thread(_facts, bank, drafts, episodes, resolution, tools)
    batch = Batch(
        bank=bank,
        revision=revision,
        space=tools.embedder.name,
        claims=[message.id for message in messages],
        episodes=episodes,
        facts=[
            NewFact(fact=fact, embedding=encoding.vector, tokens=encoding.tokens)
            for fact, encoding in zip(facts, encoded, strict=True)
        ],
        entities=resolution.entities,
        links=await _links(bank, facts, vectors, tools.store),
        words_kept=tools.extractor.keeps_words,
    )
    return batch, _total([stream.usage for stream in streams], embedded=len(drafts))


def stacked(vectors: Sequence[Vector], dimension: int) -> Vectors:
    """Vectors as rows, also when there are none."""
    return np.stack(vectors) if vectors else np.empty((0, dimension), np.float32)


def _streams(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Messages by document, each document's in order of time, documents by their first message."""
    first: dict[str | None, int] = {}
    for i, message in enumerate(messages):
        first.setdefault(message.document, i)
    ordered = sorted(messages, key=lambda message: first[message.document])
    return [tuple(group) for _, group in groupby(ordered, key=lambda message: message.document)]


async def _read(bank: BankId, stream: tuple[Message, ...], tools: Tools) -> _Stream:
    before = await tools.store.before(bank, stream[0])
    reading = await tools.extractor.read(stream, before)
    return _Stream(stream, before, reading.drafts, reading.usage)


def embedded_text(text: str, mentioned_at: datetime) -> str:
    """The text that is embedded: the stored text carries no date of its own, so the day is put before it."""
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {text}"


def _by_message(drafts: Sequence[Draft], vectors: Vectors) -> dict[MessageId, NDArray[np.float32]]:
    """A unit vector for each message: the middle of its facts."""
    sums: dict[MessageId, NDArray[np.float32]] = {}
    for draft, vector in zip(drafts, vectors, strict=True):
        for message in draft.messages:
            sums[message] = sums[message] + vector if message in sums else vector
    return {message: total / max(float(np.linalg.norm(total)), 1e-9) for message, total in sums.items()}


async def _place(
    bank: BankId, streams: Sequence[_Stream], vectors: dict[MessageId, NDArray[np.float32]], store: Store
) -> list[Episode]:
    placed: list[Episode] = []
    for stream in streams:
        told = [message for message in stream.messages if message.id in vectors]
        if told:
            placed += await place(bank, told, vectors, store, stream.before)
    return chained(placed, await store.last_episode(bank))


def _facts(
    bank: BankId, drafts: Sequence[Draft], episodes: Sequence[Episode], resolution: Resolution, tools: Tools
) -> list[Fact]:
    episode_of = {message: episode.id for episode in episodes for message in episode.messages}
    names = {entity.id: Mention(id=entity.id, name=entity.name, type=entity.type) for entity in resolution.entities}
    return [_fact(bank, draft, episode_of, _mentions(draft, resolution, names), tools) for draft in drafts]


def _mentions(draft: Draft, resolution: Resolution, names: dict[EntityId, Mention]) -> tuple[Mention, ...]:
    ids = dict.fromkeys(resolution.ids[found.name.casefold()] for found in draft.entities)
    return tuple(names[id] for id in ids)


def _fact(
    bank: BankId,
    draft: Draft,
    episode_of: dict[MessageId, EpisodeId],
    mentions: tuple[Mention, ...],
    tools: Tools,
) -> Fact:
    start, end = draft.occurred or (None, None)
    episodes = dict.fromkeys(episode_of[message] for message in draft.messages if message in episode_of)
    return Fact(
        id=_id(bank, tools.extractor.name, draft.key),
        bank=bank,
        network=draft.network,
        text=draft.text,
        tokens=tools.counter(draft.text),
        context=draft.context,
        context_from=draft.context_from,
        occurred_start=start,
        occurred_end=end,
        mentioned_at=draft.mentioned_at,
        valid_at=draft.mentioned_at if start is None else min(start, draft.mentioned_at),
        recorded_at=draft.recorded_at,
        entities=mentions,
        messages=draft.messages,
        episodes=tuple(episodes),
        tags=draft.tags,
        metadata=draft.metadata,
        engine=tools.extractor.name,
    )


def _id(bank: BankId, engine: str, key: str) -> FactId:
    """The same reading gives the same id, so deriving again replaces nothing and repeats nothing."""
    return FactId(str(uuid.uuid5(_FACTS, "\x00".join((bank, engine, key)))))


async def _links(bank: BankId, facts: Sequence[Fact], vectors: Vectors, store: Store) -> list[Link]:
    if not facts:
        return []
    earlier = await store.recent(bank, min(fact.mentioned_at for fact in facts), limit=CLOSEST)
    near = await store.neighbours(bank, vectors, limit=MOST_ALIKE, floor=ALIKE)
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


def _total(usages: Sequence[Usage], *, embedded: int) -> Usage:
    return Usage(
        calls=sum(usage.calls for usage in usages),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        embedded_texts=embedded,
    )
