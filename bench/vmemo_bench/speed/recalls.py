"""Recall against the embedder's own time: the same queries, in the same run, turn by turn, nothing cached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from time import process_time

from vmemo import Memory, Recalled
from vmemo.models import Budget
from vmemo.ports import Embedder
from vmemo_bench.clock import timed
from vmemo_bench.metrics import Metrics, percentile, spread
from vmemo_bench.speed import texts
from vmemo_bench.steps import Steps

Timings = dict[str, dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How queries are asked; the name tells one pace of a run from another."""

    budget: Budget
    max_tokens: int
    name: str = "recall"

    async def recall(self, memory: Memory, query: str) -> Recalled:
        """Ask at the moment when the made-up talk has ended."""
        return await memory.recall(query, max_tokens=self.max_tokens, budget=self.budget, now=texts.ENDED)


@dataclass(frozen=True)
class Lap:
    """Milliseconds of each query at one pace: the whole recall, this process's processors, and recall's stages."""

    recall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    stages: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))

    async def run(self, memory: Memory, pace: Pace, query: str) -> None:
        """Ask one query and note what it took."""
        began = process_time()
        found, took = await timed(pace.recall(memory, query))
        self.recall.append(took)
        self.cpu.append((process_time() - began) * 1000)
        for stage, ms in found.timings.items():
            if stage != "total":
                self.stages[stage].append(ms)


@dataclass(frozen=True, kw_only=True)
class Race:
    """Milliseconds of each query: the embedder alone, and recall at each pace."""

    embed: Sequence[float]
    laps: dict[str, Lap]

    def metrics(self, size: int) -> Metrics:
        """Recall's median and 95th percentile as multiples of the embedder's median, and its mean processor time."""
        own = percentile(self.embed, 0.5)
        ratios = {
            f"{name}_p{share}_over_embed@{size}": percentile(lap.recall, share / 100) / own
            for name, lap in self.laps.items()
            for share in (50, 95)
        }
        return ratios | {f"{name}_cpu_ms@{size}": fmean(lap.cpu) for name, lap in self.laps.items() if lap.cpu}

    def timings(self, size: int) -> Timings:
        """Median and 95th percentile of everything that was timed."""
        times = {f"embed@{size}": spread(self.embed)}
        for name, lap in self.laps.items():
            times[f"{name}@{size}/total"] = spread(lap.recall)
            times |= {f"{name}@{size}/{stage}": spread(spent) for stage, spent in lap.stages.items()}
        return times


async def race(memory: Memory, embedder: Embedder, queries: Sequence[str], paces: Sequence[Pace], steps: Steps) -> Race:
    """Ask every query once, the paces in turn, so that a slow minute of the machine slows all of them.

    Every other query of a pace is embedded first, so that neither side always runs warm.
    """
    embed: list[float] = []
    laps = {pace.name: Lap() for pace in paces}
    for number, query in enumerate(queries):
        turn, place = divmod(number, len(paces))
        if turn % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        await laps[paces[place].name].run(memory, paces[place], query)
        if not turn % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        steps.advance()
    return Race(embed=embed, laps=laps)
