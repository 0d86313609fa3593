"""Joining episodes: neighbours in one document that state the same, or that segmentation would not separate today."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vmemo.models import BankId, BankRevision, Episode, EpisodeId, Fact, Message
from vmemo.models.changes import AddedSource, Changes, Deletions, Lease
from vmemo.models.results import Job
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.settings import Settings
from vmemo.ports import Store
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import new_episode
from vmemo.retain.segment import MessageVector, is_repetition, segment
from vmemo.retain.write_plan import embed_messages

SAME = 0.95
"""Least cosine between the mean vectors of two episodes that may be one.

Mean vectors of long episodes are similar whatever their topic. In eight banks, two of them of LoCoMo, one random pair
in a hundred reached 0.92 and none this; of neighbours that were separated by topic one in twenty did, which is why
segmentation has to agree as well.
"""


async def join(
    bank: BankId, first: Episode, second: Episode, context: RetainContext, lease: Lease | None
) -> Episode | None:
    """Join two episodes that belong together; return the joined episode, or None if nothing was changed."""
    one, other = await _lines(bank, first, context.store), await _lines(bank, second, context.store)
    if not _similar(one, other, context.settings):
        return None
    async with context.bank_lock(bank):
        changes = await _changes(bank, first.id, second.id, context, lease)
        if changes is None or not await context.store.commit(changes):
            return None
    return changes.episodes[0]


async def _changes(
    bank: BankId, first: EpisodeId, second: EpisodeId, context: RetainContext, lease: Lease | None
) -> Changes | None:
    """Return the changes that join the episodes as they are now; None if they can't be joined any more."""
    store = context.store
    revision = await store.revision(bank)
    pair = await store.episodes(bank, EpisodeSelect(ids=[first, second]))
    messages = await store.messages(bank, MessageSelect(ids=[id for episode in pair for id in episode.messages]))
    if (
        len(pair) != 2
        or len(messages) > context.settings.episode_messages
        or not settled(pair, messages, await store.jobs(bank, ["extract"]))
    ):
        return None
    kept = await _joined(pair[0], messages, context)
    facts = await store.facts(bank, FactSelect(episode=second, with_embeddings=True))
    return join_changes(bank, kept, second, messages=messages, facts=facts, revision=revision, lease=lease)


def settled(episodes: Sequence[Episode], messages: Sequence[Message], jobs: Sequence[Job]) -> bool:
    """Return True if all messages of the episodes are processed, and no queued extraction is about one of them."""
    queued = {str(job.detail.get("episode")) for job in jobs}
    processed = all(message.state not in ("pending", "grouped") for message in messages)
    return processed and not any(episode.id in queued for episode in episodes)


def join_changes(
    bank: BankId,
    kept: Episode,
    absorbed: EpisodeId,
    *,
    messages: Sequence[Message],
    facts: Sequence[Fact],
    revision: BankRevision,
    lease: Lease | None = None,
) -> Changes:
    """Return the changes by which one episode takes the place of two; `facts` are those of the absorbed one.

    They are refused while a message of the same documents is pending: grouping may be about to continue one of the
    episodes as it was.
    """
    return Changes(
        bank=bank,
        revision=revision,
        lease=lease,
        without_pending=sorted({message.document for message in messages}, key=str),
        episodes=[kept],
        sources=[AddedSource(fact=fact.id, episodes=(kept.id,)) for fact in facts],
        deleted=Deletions(episodes=[absorbed]),
    )


async def _joined(first: Episode, messages: Sequence[Message], context: RetainContext) -> Episode:
    """Return the first episode with the messages of both, and a new title and narrative."""
    ordered = sorted(messages, key=lambda message: message.timestamp)
    written = new_episode(ordered, await embed_messages(ordered, context))
    return written.model_copy(update={"id": first.id, "previous": first.previous, "recorded_at": first.recorded_at})


async def _lines(bank: BankId, episode: Episode, store: Store) -> list[MessageVector]:
    facts = await store.facts(bank, FactSelect(episode=episode.id, with_embeddings=True))
    return [MessageVector(fact.mentioned_at, np.array(fact.embedding, np.float32)) for fact in facts if fact.embedding]


def _similar(first: Sequence[MessageVector], second: Sequence[MessageVector], settings: Settings) -> bool:
    """Return True if the second episode repeats the first, or if both are one topic by mean vector and segmentation."""
    if not first or not second:
        return False
    if is_repetition(second, first):
        return True
    lines = sorted((*first, *second), key=lambda line: line.at)
    return _mean_cosine(first, second) >= SAME and len(segment(lines, settings)) == 1


def _mean_cosine(first: Sequence[MessageVector], second: Sequence[MessageVector]) -> float:
    one, other = (np.mean([line.vector for line in lines], axis=0) for lines in (first, second))
    return float(one @ other / max(float(np.linalg.norm(one) * np.linalg.norm(other)), 1e-9))
