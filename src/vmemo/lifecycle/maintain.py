"""Maintenance of a bank: forget expired messages, join and shorten episodes, close faded facts, optimise indexes.

Every step is committed by itself, so that maintenance can stop anywhere and be run again. Messages are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from vmemo.lifecycle.forget import clear_cache, forget
from vmemo.lifecycle.join_episodes import join
from vmemo.lifecycle.shorten_episodes import LENGTHY, TOGETHER, shorten, with_narratives
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, EpisodeId, FactId, RetentionScore, utc_now
from vmemo.models.base import shifted
from vmemo.models.changes import Changes, FactClosure, ForgetTarget, Lease, NewJob
from vmemo.models.results import Maintained
from vmemo.models.select import Condensable, EpisodeSelect, MessageSelect
from vmemo.retain.context import RetainContext
from vmemo.retain.extract import LeaseLost, require_lease

PAGE = 500
"""Facts or messages that are read together."""
PAIRS = 50
"""Pairs of episodes that are read together."""
ENOUGH = 5
"""Recalls that keep a fact from fading, however old it is, as long as `maintenance_fade_below` is 1 or less."""


async def maintain(
    bank: BankId,
    context: RetainContext,
    *,
    lease: Lease | None = None,
    now: datetime | None = None,
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


def strength(score: RetentionScore, now: datetime, half_life: float) -> float:
    """Return how strongly a fact is remembered, by its importance, its age and its recalls."""
    age = max((now - score.stated_at).total_seconds(), 0.0) / (half_life * 86_400)
    return score.importance * 0.5**age + min(1.0, score.access_count / ENOUGH)


def faded(
    scores: Sequence[RetentionScore], evidence: AbstractSet[FactId], *, below: float, half_life: float, now: datetime
) -> list[FactId]:
    """Return the facts weaker than `below`; facts that changed the confidence of an opinion never fade."""
    weak = [score.fact for score in scores if strength(score, now, half_life) < below]
    return [fact for fact in weak if fact not in evidence]


@dataclass(frozen=True)
class _Maintenance:
    """Maintenance of one bank in progress."""

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
        store, last, count = self.context.store, None, 0
        settings = self.context.settings
        while pairs := await store.consecutive_episodes(
            self.bank, gap=settings.episode_gap, largest=settings.episode_messages, after=last, limit=PAIRS
        ):
            await self.require_lease()
            part_of: dict[EpisodeId, Episode] = {}
            for first, second in pairs:
                kept = await join(self.bank, part_of.get(first.id, first), second, self.context, self.lease)
                if kept is not None:
                    count += 1
                    part_of[second.id] = part_of[kept.id] = kept
            last = pairs[-1][1]
        return count

    async def shorten(self, days: float) -> int:
        """Shorten the narratives of episodes that ended that many days ago; return how many."""
        store, last, count = self.context.store, None, 0
        before = shifted(self.now, -days * 86_400)
        while old := await store.episodes(
            self.bank,
            EpisodeSelect(condensable=Condensable(characters=LENGTHY, ended_before=before, after=last), limit=TOGETHER),
        ):
            await self.require_lease()
            llm = StructuredLLM(self.context.llm) if self.context.llm is not None else None
            narratives = await shorten(old, self.context.embedder, llm)
            if llm is not None:
                await store.commit(Changes(bank=self.bank, spending=llm.spending))
            count += await self._save_narratives(old, narratives)
            last = old[-1]
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
        while True:
            await self.require_lease()
            async with self.context.bank_lock(self.bank):
                revision = await store.revision(self.bank)
                scores = await store.retention_scores(self.bank, after=last, limit=PAGE)
                if not scores:
                    return count
                closed = faded(scores, evidence, below=below, half_life=half_life, now=self.now)
                closures = [FactClosure(fact=fact, expired_at=self.now) for fact in closed]
                if not await store.commit(Changes(bank=self.bank, revision=revision, closures=closures)):
                    continue
            count += len(closed)
            last = scores[-1].fact
