"""Upkeep of a bank: join episodes that tell the same, shorten old ones, close what has faded, tidy the indexes.

Each step is whole by itself, so that it can stop anywhere and be run again. Messages are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from vmemo.lifecycle.join_episodes import joined
from vmemo.lifecycle.shorten_episodes import LENGTHY, TOGETHER, shortened
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, EpisodeId, FactId, utc_now
from vmemo.models.changes import Changes, FactClosure, Lease, NewJob
from vmemo.models.results import Maintained
from vmemo.models.settings import MaintenanceSettings
from vmemo.ports import RetentionScore
from vmemo.retain.context import RetainContext
from vmemo.retain.extract import LeaseLost, demand
from vmemo.retain.segment import GAP, LARGEST

PAGE = 500
"""Facts that are looked at together."""
PAIRS = 50
"""Pairs of episodes that are looked at together."""
ENOUGH = 5
"""Times that a fact must have been recalled not to fade, however old it is, as long as `fade_below` is 1 or less."""


async def maintain(
    bank: BankId,
    context: RetainContext,
    upkeep: MaintenanceSettings,
    *,
    lease: Lease | None = None,
    now: datetime | None = None,
) -> Maintained:
    """Tidy a bank up. With a lease it is the work of a job, which is done in the end and queued for the next time."""
    work = _Work(bank, context, lease, now or utc_now())
    done = Maintained(
        joined=await work.join() if upkeep.join else 0,
        shortened=await work.shorten(upkeep.shorten_after) if upkeep.shorten_after is not None else 0,
        pruned=await work.prune(upkeep.fade_below, upkeep.half_life) if upkeep.fade_below is not None else 0,
    )
    await work.go_on()
    await context.store.optimise()
    if lease is not None:
        again = [NewJob(kind="maintain", due=utc_now() + timedelta(hours=upkeep.every))] if upkeep.every else []
        if not await context.store.commit(Changes(bank=bank, finished=[lease], jobs=again)):
            raise LeaseLost
    return done.model_copy(update={"optimised": True})


def strength(trace: RetentionScore, now: datetime, half_life: float) -> float:
    """How firmly a fact is in memory."""
    age = max(now - trace.told_at, timedelta(0)) / timedelta(days=half_life)
    return trace.importance * 0.5**age + min(1.0, trace.access_count / ENOUGH)


@dataclass(frozen=True)
class _Work:
    """Maintenance of one bank that is under way."""

    bank: BankId
    context: RetainContext
    lease: Lease | None
    now: datetime

    async def go_on(self) -> None:
        """Raise LeaseLost once the work is another's."""
        if self.lease is not None:
            await demand(self.lease, self.context)

    async def join(self) -> int:
        """Join neighbours that tell the same; how many episodes became part of another."""
        store, mark, count = self.context.store, None, 0
        while pairs := await store.consecutive(self.bank, gap=GAP, largest=LARGEST, after=mark, limit=PAIRS):
            await self.go_on()
            part_of: dict[EpisodeId, Episode] = {}
            for one, other in pairs:
                first = part_of.get(one.id, one)
                kept = await joined(self.bank, first, other, self.context, self.lease)
                if kept is not None:
                    count += 1
                    part_of[other.id] = part_of[kept.id] = kept
            mark = pairs[-1][1]
        return count

    async def shorten(self, days: float) -> int:
        """Tell episodes that ended so many days ago in fewer words; how many."""
        store, mark, count = self.context.store, None, 0
        before = self.now - timedelta(days=days)
        while old := await store.lengthy(self.bank, longer=LENGTHY, before=before, after=mark, limit=TOGETHER):
            await self.go_on()
            desk = StructuredLLM(self.context.llm) if self.context.llm is not None else None
            narratives = await shortened(old, self.context.embedder, desk)
            if desk is not None:
                await store.commit(Changes(bank=self.bank, spending=desk.spending))
            count += await store.shorten(self.bank, list(zip(old, narratives, strict=True)))
            mark = old[-1]
        return count

    async def prune(self, below: float, half_life: float) -> int:
        """Close facts that are weaker than that; how many. What moved an opinion stays, as what it rests on does."""
        store, mark, count = self.context.store, None, 0
        held = {fact for step in await store.moves(self.bank) for fact in step.evidence}
        while True:
            await self.go_on()
            async with self.context.bank_locks(self.bank):
                revision = await store.revision(self.bank)
                traces = await store.traces(self.bank, after=mark, limit=PAGE)
                faint = [each.fact for each in traces if strength(each, self.now, half_life) < below]
                gone = [fact for fact in faint if fact not in held]
                if not traces:
                    return count
                if gone and not await store.commit(self._closing(revision, gone)):
                    continue
            count += len(gone)
            mark = traces[-1].fact

    def _closing(self, revision: int, facts: list[FactId]) -> Changes:
        return Changes(
            bank=self.bank,
            closures=[FactClosure(fact=fact, expired_at=self.now) for fact in facts],
            revision=revision,
            embedder=self.context.embedder.name,
        )
