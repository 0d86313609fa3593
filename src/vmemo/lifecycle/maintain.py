"""Upkeep of a bank: join episodes that tell the same, shorten old ones, close what has faded, tidy the indexes.

Each step is whole by itself, so that it can stop anywhere and be run again. Messages are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from vmemo.errors import InvalidInput
from vmemo.lifecycle.join_episodes import joined
from vmemo.lifecycle.shorten_episodes import LENGTHY, TOGETHER, shortened
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, Episode, EpisodeId, FactId, utc_now
from vmemo.models.changes import Batch, FactClosure, Lease
from vmemo.models.results import Maintained
from vmemo.ports import RetentionScore
from vmemo.retain.extract import LeaseLost, demand
from vmemo.retain.segment import GAP, LARGEST
from vmemo.retain.write_plan import Tools

PAGE = 500
"""Facts that are looked at together."""
PAIRS = 50
"""Pairs of episodes that are looked at together."""
ENOUGH = 5
"""Times that a fact must have been recalled not to fade, however old it is, as long as `fade_below` is 1 or less."""


@dataclass(frozen=True, kw_only=True)
class MaintenanceSettings:
    """What maintenance does, and how often."""

    join: bool = True
    """Whether episodes that tell the same become one."""
    shorten_after: float | None = 90.0
    """Days after which an episode's narrative is cut down to a sentence or two; None keeps narratives as they are."""
    fade_below: float | None = None
    """Strength below which facts are no longer believed to matter, and closed; None lets none fade.

    A fact's strength is its importance, halved with each half-life since it was last told, plus a fifth for each time
    it was recalled, at most 1.
    """
    half_life: float = 180.0
    """Days in which a fact loses half of its importance."""
    every: float = 24.0
    """Hours from the end of scheduled maintenance to the next; 0 is never."""

    def __post_init__(self) -> None:
        if not (self.half_life > 0 and self.every >= 0 and (self.shorten_after is None or self.shorten_after >= 0)):
            raise InvalidInput("Times of upkeep can't be negative, and half_life must be more than 0.")


async def maintain(
    bank: BankId, tools: Tools, upkeep: MaintenanceSettings, *, lease: Lease | None = None, now: datetime | None = None
) -> Maintained:
    """Tidy a bank up. With a lease it is the work of a job, which is done in the end and queued for the next time."""
    work = _Work(bank, tools, lease, now or utc_now())
    done = Maintained(
        joined=await work.join() if upkeep.join else 0,
        shortened=await work.shorten(upkeep.shorten_after) if upkeep.shorten_after is not None else 0,
        pruned=await work.prune(upkeep.fade_below, upkeep.half_life) if upkeep.fade_below is not None else 0,
    )
    await work.go_on()
    await tools.store.optimise()
    if lease is not None:
        again_at = utc_now() + timedelta(hours=upkeep.every) if upkeep.every else None
        if not await tools.store.rest(lease, again_at=again_at):
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
    tools: Tools
    lease: Lease | None
    now: datetime

    async def go_on(self) -> None:
        """Raise LeaseLost once the work is another's."""
        if self.lease is not None:
            await demand(self.lease, self.tools)

    async def join(self) -> int:
        """Join neighbours that tell the same; how many episodes became part of another."""
        store, mark, count = self.tools.store, None, 0
        while pairs := await store.consecutive(self.bank, gap=GAP, largest=LARGEST, after=mark, limit=PAIRS):
            await self.go_on()
            part_of: dict[EpisodeId, Episode] = {}
            for one, other in pairs:
                first = part_of.get(one.id, one)
                kept = await joined(self.bank, first, other, self.tools, self.lease)
                if kept is not None:
                    count += 1
                    part_of[other.id] = part_of[kept.id] = kept
            mark = pairs[-1][1]
        return count

    async def shorten(self, days: float) -> int:
        """Tell episodes that ended so many days ago in fewer words; how many."""
        store, mark, count = self.tools.store, None, 0
        before = self.now - timedelta(days=days)
        while old := await store.lengthy(self.bank, longer=LENGTHY, before=before, after=mark, limit=TOGETHER):
            await self.go_on()
            desk = StructuredLLM(self.tools.llm) if self.tools.llm is not None else None
            narratives = await shortened(old, self.tools.embedder, desk)
            if desk is not None:
                await store.spend(self.bank, desk.spent)
            count += await store.shorten(self.bank, list(zip(old, narratives, strict=True)))
            mark = old[-1]
        return count

    async def prune(self, below: float, half_life: float) -> int:
        """Close facts that are weaker than that; how many. What moved an opinion stays, as what it rests on does."""
        store, mark, count = self.tools.store, None, 0
        held = {fact for step in await store.moves(self.bank) for fact in step.evidence}
        while True:
            await self.go_on()
            async with self.tools.turns(self.bank):
                revision = await store.revision(self.bank)
                traces = await store.traces(self.bank, after=mark, limit=PAGE)
                faint = [each.fact for each in traces if strength(each, self.now, half_life) < below]
                gone = [fact for fact in faint if fact not in held]
                if not traces:
                    return count
                if gone and not await store.write(self._closing(revision, gone)):
                    continue
            count += len(gone)
            mark = traces[-1].fact

    def _closing(self, revision: int, facts: list[FactId]) -> Batch:
        return Batch(
            bank=self.bank,
            claims=(),
            closings=[FactClosure(fact=fact, expired_at=self.now) for fact in facts],
            revision=revision,
            space=self.tools.embedder.name,
        )
