"""Joining episodes that tell the same: neighbours of one document that today's grouping would not have parted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmemo.models import BankId, Episode
from vmemo.models.changes import Lease
from vmemo.ports import Store
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import new_episode
from vmemo.retain.segment import LARGEST, Line, repeats, segment
from vmemo.retain.write_plan import message_vectors

SAME = 0.95
"""Cosine of the middles of two episodes that may be one.

The middles of long episodes are alike whatever they tell. In eight banks, two of them of LoCoMo, one pair in a hundred
taken at random reached 0.92 and none this; of neighbours that were parted by topic one in twenty did, so that the lines
must agree as well.
"""


async def joined(
    bank: BankId, one: Episode, other: Episode, context: RetainContext, lease: Lease | None
) -> Episode | None:
    """The first episode with the second one's messages, if they tell the same and nobody was faster; it is written."""
    if not _alike(await _lines(bank, one, context.store), await _lines(bank, other, context.store)):
        return None
    async with context.bank_locks(bank):
        revision = await context.store.revision(bank)
        kept = await _united(bank, one, other, context)
        if kept is None or not await context.store.join(bank, kept, other.id, revision=revision, lease=lease):
            return None
    return kept


async def _united(bank: BankId, one: Episode, other: Episode, context: RetainContext) -> Episode | None:
    """Both episodes as they are now in one, summed up anew; None if one is gone or they grew too large."""
    found = await context.store.episodes(bank, [one.id, other.id])
    messages = [id for episode in found for id in episode.messages]
    if len(found) != 2 or len(messages) > LARGEST:
        return None
    said = sorted(await context.store.messages(bank, messages), key=lambda message: message.timestamp)
    told = new_episode(said, await message_vectors(said, context))
    first = found[0]
    return told.model_copy(update={"id": first.id, "previous": first.previous, "recorded_at": first.recorded_at})


async def _lines(bank: BankId, episode: Episode, store: Store) -> list[Line]:
    """What was read from an episode."""
    facts = await store.facts_of(bank, episode.id)
    return [Line(fact.mentioned_at, np.array(fact.embedding, np.float32)) for fact in facts if fact.embedding]


def _alike(one: Sequence[Line], other: Sequence[Line]) -> bool:
    """Whether the second says again what the first says, or both are one topic by their middles and line by line."""
    if not one or not other:
        return False
    if repeats(other, one):
        return True
    return _middles(one, other) >= SAME and len(segment(sorted((*one, *other), key=lambda line: line.at))) == 1


def _middles(one: Sequence[Line], other: Sequence[Line]) -> float:
    first, second = (np.mean([line.vector for line in lines], axis=0) for lines in (one, other))
    return float(first @ second / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-9))
