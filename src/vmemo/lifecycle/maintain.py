"""Maintenance of a bank: forget expired messages, join and shorten episodes, close faded facts, optimise indexes.

Every step is committed by itself, so that maintenance can stop anywhere and be run again. Messages are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from vmemo.lifecycle.forget import clear_cache, forget
from vmemo.models import BankId, BankRevision, Episode, EpisodeId, Fact, FactId, Message, MessageId, utc_now
from vmemo.models.changes import AddedSource, Changes, Deletions, FactClosure, ForgetTarget, Lease, NewJob
from vmemo.models.records import shifted
from vmemo.models.results import Job, Maintained
from vmemo.models.select import EpisodeSelect, FactSelect, MessageSelect
from vmemo.models.settings import Settings
from vmemo.ports import Embedder, Store, paged
from vmemo.retain.context import RetainContext
from vmemo.retain.episodes import MessageVector, is_repetition, new_episode, segment, shortened
from vmemo.retain.llm_pipeline import LeaseLost, require_lease
from vmemo.retain.write_plan import embed_messages

PAGE = 500
PAIRS = 50
"""Pairs of episodes that are compared before the lease is renewed."""
ENOUGH_RECALLS = 5
"""Recalls that keep a fact from fading, however old it is, as long as `maintenance_fade_below` is 1 or less."""


async def maintain(
    bank: BankId, context: RetainContext, *, lease: Lease | None = None, now: datetime | None = None
) -> Maintained:
    """Maintain a bank. With a lease it is the work of a job, which is finished and queued for the next time."""
    settings = context.settings
    after, below = settings.maintenance_shorten_after, settings.maintenance_fade_below
    work = _Maintenance(bank, context, lease, now or utc_now())
    done = Maintained(
        forgotten=await work.forget_expired(),
        joined=await work.join(),
        shortened=await work.shorten(after) if after is not None else 0,
        pruned=await work.prune(below, settings.maintenance_half_life) if below is not None else 0,
    )
    await work.require_lease()
    await context.store.optimise()
    if lease is not None:
        hours = settings.maintenance_every
        again = [NewJob(kind="maintain", due=shifted(utc_now(), hours * 3600))] if hours else []
        if not await context.store.commit(Changes(bank=bank, finished=[lease], jobs=again)):
            raise LeaseLost
    return done.model_copy(update={"optimised": True})


def strength(fact: Fact, stated_at: datetime, now: datetime, half_life: float) -> float:
    """Return the weight of a fact, from its importance, the time since a message last stated it, and its recalls."""
    age = max((now - stated_at).total_seconds(), 0.0) / (half_life * 86_400)
    return fact.importance * 0.5**age + min(1.0, fact.access_count / ENOUGH_RECALLS)


def faded(
    facts: Sequence[Fact],
    said: Mapping[MessageId, datetime],
    needed: AbstractSet[FactId],
    *,
    below: float,
    half_life: float,
    now: datetime,
) -> list[FactId]:
    """Return the facts weaker than `below` that are neither pinned nor needed; `said` has the times of messages."""
    free = [fact for fact in facts if not fact.pinned and fact.id not in needed]
    stated = [max((said[id] for id in fact.messages if id in said), default=fact.recorded_at) for fact in free]
    return [fact.id for fact, at in zip(free, stated, strict=True) if strength(fact, at, now, half_life) < below]


@dataclass(frozen=True)
class _Maintenance:
    bank: BankId
    context: RetainContext
    lease: Lease | None
    now: datetime

    async def require_lease(self) -> None:
        """Renew the lease, or raise LeaseLost."""
        if self.lease is not None:
            await require_lease(self.lease, self.context)

    async def forget_expired(self) -> int:
        """Forget the messages that have expired, with everything that rests on them; return how many."""
        store, count = self.context.store, 0
        while gone := await store.messages(self.bank, MessageSelect(expiring_until=self.now, limit=PAGE)):
            await self.require_lease()
            clear_cache(self.context.embedder)
            await forget(store, self.bank, ForgetTarget(messages=[message.id for message in gone]))
            count += len(gone)
        return count

    async def join(self) -> int:
        """Join neighbouring episodes that belong together; return how many were absorbed."""
        settings, count = self.context.settings, 0
        part_of: dict[EpisodeId, EpisodeId] = {}
        gap = timedelta(minutes=settings.episode_gap_minutes)
        pairs = consecutive(await self._spans(), gap=gap, largest=settings.episode_messages)
        for number, (first, second) in enumerate(pairs):
            if number % PAIRS == 0:
                await self.require_lease()
            kept = await join(self.bank, part_of.get(first, first), second, self.context, self.lease)
            if kept is not None:
                count += 1
                part_of[second] = part_of[kept] = kept
        return count

    async def _spans(self) -> list[EpisodeSpan]:
        """Return when each episode was, page by page: their texts would not fit into memory."""
        store, last, spans = self.context.store, None, list[EpisodeSpan]()
        while page := await store.episodes(self.bank, EpisodeSelect(after=last, limit=PAGE)):
            first = [id for each in page for id in each.messages[:1]]
            begun = await store.messages(self.bank, MessageSelect(ids=first))
            documents = {message.id: message.document for message in begun}
            spans += [
                EpisodeSpan(each.id, documents[each.messages[0]], each.started_at, each.ended_at, len(each.messages))
                for each in page
                if each.messages and each.messages[0] in documents
            ]
            last = page[-1].id
        return spans

    async def shorten(self, days: float) -> int:
        """Shorten the narratives of processed episodes that ended that many days ago; return how many."""
        store, count, before = self.context.store, 0, shifted(self.now, -days * 86_400)
        every = paged(lambda after: store.episodes(self.bank, EpisodeSelect(limit=PAGE, after=after)))
        long = [each async for each in every if len(each.narrative) > SHORT_NARRATIVE and each.ended_at < before]
        ended = sorted(long, key=lambda episode: (episode.ended_at, episode.id))
        for start in range(0, len(ended), EPISODES_PER_CALL):
            await self.require_lease()
            some = ended[start : start + EPISODES_PER_CALL]
            said = await store.messages(self.bank, MessageSelect(ids=[id for each in some for id in each.messages]))
            waiting = {message.id for message in said if is_waiting(message)}
            old = [episode for episode in some if waiting.isdisjoint(episode.messages)]
            count += await self._save_narratives(old, await central_lines(old, self.context.embedder)) if old else 0
        return count

    async def _save_narratives(self, old: Sequence[Episode], narratives: Sequence[str]) -> int:
        store = self.context.store
        while True:
            async with self.context.bank_lock(self.bank):
                revision = await store.revision(self.bank)
                stored = await store.episodes(self.bank, EpisodeSelect(ids=[episode.id for episode in old]))
                changed = with_narratives(stored, old, narratives)
                if not changed or await store.commit(Changes(bank=self.bank, revision=revision, episodes=changed)):
                    return len(changed)

    async def prune(self, below: float, half_life: float) -> int:
        """Close facts weaker than `below`; return how many."""
        store, last, count = self.context.store, None, 0
        evidence = {fact for change in await store.confidence_changes(self.bank) for fact in change.evidence}
        current = FactSelect(current=True, networks=("world", "experience"), limit=PAGE)
        while True:
            await self.require_lease()
            async with self.context.bank_lock(self.bank):
                revision = await store.revision(self.bank)
                facts = await store.facts(self.bank, replace(current, after=last))
                if not facts:
                    return count
                holders = await store.facts(self.bank, FactSelect(basis=[fact.id for fact in facts]))
                needed = evidence.union(*(holder.basis for holder in holders if holder.expired_at is None))
                ids = [id for fact in facts for id in fact.messages]
                said = {each.id: each.recorded_at for each in await store.messages(self.bank, MessageSelect(ids=ids))}
                closed = faded(facts, said, needed, below=below, half_life=half_life, now=self.now)
                closures = [FactClosure(fact=fact, expired_at=self.now) for fact in closed]
                if not await store.commit(Changes(bank=self.bank, revision=revision, closures=closures)):
                    continue
            count += len(closed)
            last = facts[-1].id


class EpisodeSpan(NamedTuple):
    id: EpisodeId
    document: str | None
    started_at: datetime
    ended_at: datetime
    messages: int


def is_waiting(message: Message) -> bool:
    return message.state in ("pending", "grouped")


def consecutive(episodes: Iterable[EpisodeSpan], *, gap: timedelta, largest: int) -> list[tuple[EpisodeId, EpisodeId]]:
    """Return pairs of episodes of one document, within `gap`, that hold at most `largest` messages together."""
    last: dict[str | None, EpisodeSpan] = {}
    pairs: list[tuple[EpisodeId, EpisodeId]] = []
    for episode in sorted(episodes, key=lambda episode: (episode.started_at, episode.id)):
        before = last.get(episode.document)
        last[episode.document] = episode
        if before is None or before.messages + episode.messages > largest:
            continue
        if episode.started_at - before.ended_at <= gap:
            pairs.append((before.id, episode.id))
    return pairs


# Joining neighbouring episodes of one document.
JOIN_COSINE = 0.95
"""Least cosine between the mean vectors of two episodes that may be one.

Mean vectors of long episodes are similar whatever their topic. In eight banks, two of them of LoCoMo, one random pair
in a hundred reached 0.92 and none this; of neighbours that were separated by topic one in twenty did, which is why
segmentation has to agree as well.
"""


async def join(
    bank: BankId, first: EpisodeId, second: EpisodeId, context: RetainContext, lease: Lease | None
) -> EpisodeId | None:
    """Join two processed episodes that belong together; return the joined one, or None if nothing was changed."""
    one, other = await _fact_vectors(bank, first, context.store), await _fact_vectors(bank, second, context.store)
    if not _similar(one, other, context.settings):
        return None
    async with context.bank_lock(bank):
        changes = await _changes(bank, first, second, context, lease)
        if changes is None or not await context.store.commit(changes):
            return None
    return changes.episodes[0].id


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
    ordered = sorted(messages, key=lambda message: message.timestamp)
    written = new_episode(ordered, await embed_messages(ordered, context))
    own = {"id": first, "previous": pair[0].previous, "recorded_at": pair[0].recorded_at}
    kept = written.model_copy(update=own)
    facts = await store.facts(bank, FactSelect(episode=second, with_embeddings=True))
    return join_changes(bank, kept, second, messages=messages, facts=facts, revision=revision, lease=lease)


def settled(episodes: Sequence[Episode], messages: Sequence[Message], jobs: Sequence[Job]) -> bool:
    """Return True if all messages of the episodes are processed, and no queued extraction is about one of them."""
    queued = {str(job.detail.get("episode")) for job in jobs}
    return not any(map(is_waiting, messages)) and not any(episode.id in queued for episode in episodes)


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
    """Return the changes that put one episode in place of two, refused while messages of the documents are pending."""
    return Changes(
        bank=bank,
        revision=revision,
        lease=lease,
        without_pending=sorted({message.document for message in messages}, key=str),
        episodes=[kept],
        sources=[AddedSource(fact=fact.id, episodes=(kept.id,)) for fact in facts],
        deleted=Deletions(episodes=[absorbed]),
    )


async def _fact_vectors(bank: BankId, episode: EpisodeId, store: Store) -> list[MessageVector]:
    facts = await store.facts(bank, FactSelect(episode=episode, with_embeddings=True))
    return [MessageVector(fact.mentioned_at, np.array(fact.embedding, np.float32)) for fact in facts if fact.embedding]


def _similar(first: Sequence[MessageVector], second: Sequence[MessageVector], settings: Settings) -> bool:
    """Return True if the second episode repeats the first, or if both are one topic by mean vector and segmentation."""
    if not first or not second:
        return False
    if is_repetition(second, first):
        return True
    one, other = (np.mean([line.vector for line in lines], axis=0) for lines in (first, second))
    if one @ other < JOIN_COSINE * np.linalg.norm(one) * np.linalg.norm(other):
        return False
    return len(segment(sorted((*first, *second), key=lambda line: line.at), settings)) == 1


SHORT_NARRATIVE = 200
"""Characters of a shortened narrative, at most; longer narratives are shortened."""
EPISODES_PER_CALL = 10
"""Episodes whose lines are embedded together."""
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]*\s*")
_OPENING = re.compile(r"On \d.* talked\.")
"""The first line of narratives that were written without a model; it repeats the episode's date and speakers."""


def with_narratives(stored: Sequence[Episode], old: Sequence[Episode], narratives: Sequence[str]) -> list[Episode]:
    """Return the stored episodes with their new narratives, without those that were rewritten since they were read."""
    known = {episode.id: (episode.narrative, new) for episode, new in zip(old, narratives, strict=True)}
    current = [(episode, *known[episode.id]) for episode in stored]
    return [each.model_copy(update={"narrative": new}) for each, before, new in current if each.narrative == before]


async def central_lines(episodes: Sequence[Episode], embedder: Embedder) -> list[str]:
    """Return the most central line of each narrative, shortened."""
    lines = [_lines_of(episode.narrative) for episode in episodes]
    vectors = await embedder.embed([line for each in lines for line in each], "document")
    ends = np.cumsum([len(each) for each in lines])
    central: list[str] = []
    for each, rows in zip(lines, np.split(vectors, ends[:-1]), strict=True):
        # The line nearest to the mean vector; very short lines count less.
        weight = np.array([min(len(line), 120) / 120 for line in each])
        central.append(each[int(np.argmax((rows @ rows.mean(axis=0)) * weight))])
    return [shortened(" ".join(line.split()), SHORT_NARRATIVE) for line in central]


def _lines_of(narrative: str) -> list[str]:
    """Return the lines of a narrative without its opening, or the sentences of a single line."""
    lines = [line.strip() for line in narrative.splitlines() if line.strip()]
    if len(lines) > 1 and _OPENING.fullmatch(lines[0]):
        lines = lines[1:]
    elif len(lines) == 1:
        lines = [sentence.strip() for sentence in _SENTENCE.findall(lines[0]) if sentence.strip()]
    return lines or [narrative.strip() or narrative]
