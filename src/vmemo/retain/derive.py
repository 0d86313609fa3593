"""Deriving with an engine that reads messages by themselves: a batch of unread messages becomes episodes and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, Episode, Message, MessageId
from vmemo.models.changes import Changes
from vmemo.models.drafts import ExtractionResult
from vmemo.models.results import Skipped, Usage
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import chained, place
from vmemo.retain.write_plan import encode, joined, land, message_vectors


@dataclass(frozen=True)
class Derived:
    """A batch that can be written whole, what it cost, and what was left out of it."""

    batch: Changes
    usage: Usage
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _Stream:
    """Consecutive messages of one document and what was read from them."""

    messages: tuple[Message, ...]
    before: Message | None
    reading: ExtractionResult


async def derive(bank: BankId, revision: int, messages: Sequence[Message], context: RetainContext) -> Derived:
    """Everything that follows from some unread messages."""
    read = [await _read(bank, stream, context) for stream in streams(messages)]
    reading = joined([stream.reading for stream in read])
    encoded = await encode(bank, revision, reading, context)
    # Facts that repeat the messages' words stand for them; others, told by several messages, would blur their topics.
    own = context.extractor.keeps_words
    vectors = encoded.by_message if own else await message_vectors(messages, context)
    episodes = await _place(bank, read, vectors, context)
    landing = await land(bank, encoded, episodes, context)
    batch = replace(
        landing.batch(bank, revision, context),
        pending=[message.id for message in messages],
        becomes="derived" if own else "extracted",
    )
    usage = reading.usage.model_copy(update={"embedded_texts": len(reading.drafts)})
    return Derived(batch, usage, reading.skipped)


def streams(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Messages by document, each document's in order of time, documents by their first message."""
    first: dict[str | None, int] = {}
    for i, message in enumerate(messages):
        first.setdefault(message.document, i)
    ordered = sorted(messages, key=lambda message: first[message.document])
    return [tuple(group) for _, group in groupby(ordered, key=lambda message: message.document)]


async def _read(bank: BankId, stream: tuple[Message, ...], context: RetainContext) -> _Stream:
    before = await context.store.before(bank, stream[0])
    return _Stream(stream, before, await context.extractor.read(stream, before))


async def _place(
    bank: BankId, read: Sequence[_Stream], vectors: Mapping[MessageId, NDArray[np.float32]], context: RetainContext
) -> list[Episode]:
    placed: list[Episode] = []
    for stream in read:
        told = [message for message in stream.messages if message.id in vectors]
        if told:
            placed += await place(bank, told, vectors, context.store, stream.before)
    return chained(placed, await context.store.last_episode(bank))
