"""Derivation without jobs: a batch of pending messages becomes episodes and facts in one step."""

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
from vmemo.models.select import EpisodeSelect, MessageSelect, first_of
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import link_to_previous, place_messages
from vmemo.retain.write_plan import combine_results, embed_messages, encode_drafts, plan_writes


@dataclass(frozen=True)
class DerivedBatch:
    """A batch ready to commit, with its usage and the skipped items."""

    batch: Changes
    usage: Usage
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _DocumentExtraction:
    """Messages of one document and the drafts extracted from them."""

    messages: tuple[Message, ...]
    before: Message | None
    reading: ExtractionResult


async def derive(bank: BankId, revision: int, messages: Sequence[Message], context: RetainContext) -> DerivedBatch:
    """Return the episodes, facts, entities and links of pending messages."""
    read = [await _extract(bank, stream, context) for stream in by_document(messages)]
    reading = combine_results([stream.reading for stream in read])
    encoded = await encode_drafts(bank, revision, reading, context)
    # Facts in the messages' own words represent them; facts drawn from several messages would blur their topics.
    own = context.extractor.keeps_words
    vectors = encoded.by_message if own else await embed_messages(messages, context)
    episodes = await _place(bank, read, vectors, context)
    plan = await plan_writes(bank, encoded, episodes, context)
    batch = replace(
        plan.batch(bank, revision, context),
        pending=[message.id for message in messages],
        becomes="derived" if own else "extracted",
    )
    usage = reading.usage.model_copy(update={"embedded_texts": len(reading.drafts)})
    return DerivedBatch(batch, usage, reading.skipped)


def by_document(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Group messages by document, in order of each document's first message."""
    first: dict[str | None, int] = {}
    for i, message in enumerate(messages):
        first.setdefault(message.document, i)
    ordered = sorted(messages, key=lambda message: first[message.document])
    return [tuple(group) for _, group in groupby(ordered, key=lambda message: message.document)]


async def _extract(bank: BankId, stream: tuple[Message, ...], context: RetainContext) -> _DocumentExtraction:
    before = first_of(await context.store.messages(bank, MessageSelect(preceding=stream[0], limit=1)))
    return _DocumentExtraction(stream, before, await context.extractor.read(stream, before))


async def _place(
    bank: BankId,
    read: Sequence[_DocumentExtraction],
    vectors: Mapping[MessageId, NDArray[np.float32]],
    context: RetainContext,
) -> list[Episode]:
    placed: list[Episode] = []
    for stream in read:
        placed_messages = [message for message in stream.messages if message.id in vectors]
        if placed_messages:
            placed += await place_messages(bank, placed_messages, vectors, context.store, stream.before)
    return link_to_previous(
        placed, first_of(await context.store.episodes(bank, EpisodeSelect(last_first=True, limit=1)))
    )
