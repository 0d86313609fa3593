"""Recall against the embedder's own time: the same queries, in the same run, turn by turn, nothing cached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from vmemo import Memory
from vmemo.bench.clock import timed
from vmemo.bench.metrics import Metrics, percentile, spread
from vmemo.bench.steps import Steps
from vmemo.models import Budget
from vmemo.ports import Embedder

Timings = dict[str, dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Race:
    """Milliseconds of each query: the embedder alone, the whole recall, and the recall's stages."""

    embed: Sequence[float]
    recall: Sequence[float]
    stages: dict[str, list[float]]

    def metrics(self, size: int) -> Metrics:
        """Recall's median and 95th percentile as multiples of the embedder's median."""
        own = percentile(self.embed, 0.5)
        return {
            f"recall_p50_over_embed@{size}": percentile(self.recall, 0.5) / own,
            f"recall_p95_over_embed@{size}": percentile(self.recall, 0.95) / own,
        }

    def timings(self, size: int) -> Timings:
        """Median and 95th percentile of everything that was timed."""
        named = {f"recall@{size}/{stage}": spread(times) for stage, times in self.stages.items()}
        return {f"embed@{size}": spread(self.embed), f"recall@{size}/total": spread(self.recall), **named}


@dataclass(frozen=True, kw_only=True)
class RecallOptions:
    """How queries are asked."""

    budget: Budget
    max_tokens: int


async def race(
    memory: Memory, embedder: Embedder, queries: Sequence[str], options: RecallOptions, steps: Steps
) -> Race:
    """Ask every query once; every other one is embedded first, so that neither side always runs warm."""
    embed: list[float] = []
    recall: list[float] = []
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for number, query in enumerate(queries):
        if number % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        found, took = await timed(memory.recall(query, max_tokens=options.max_tokens, budget=options.budget))
        if not number % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        recall.append(took)
        for stage, ms in found.timings.items():
            stages[stage].append(ms)
        steps.advance()
    stages.pop("total", None)
    return Race(embed=embed, recall=recall, stages=dict(stages))
