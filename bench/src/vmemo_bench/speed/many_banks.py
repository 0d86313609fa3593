"""Many small banks in one store: recall with ten of them and with thousands.

One small bank is retained and imported under every name.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from vmemo import Memory
from vmemo_bench.bench_store import BankLocation
from vmemo_bench.embedders import SyntheticEmbedder
from vmemo_bench.environment import current_mb
from vmemo_bench.progress import StepCounter
from vmemo_bench.report import Setting
from vmemo_bench.speed import texts
from vmemo_bench.speed.growth import RecallTimes
from vmemo_bench.speed.speed_run import SpeedResult, SpeedRun, server_time
from vmemo_bench.statistics import Metrics, percentile, percentiles, timed

WARM_UP = 10
"""Recalls that are not counted."""


@dataclass(frozen=True, kw_only=True)
class BankTimes:
    """Milliseconds of each query: the embedder alone, opening the bank, and the recall.

    `opened` are the banks that were recalled from, and `grown_mb` is the memory that they added to the process.
    """

    embed: list[float] = field(default_factory=list[float])
    opening: list[float] = field(default_factory=list[float])
    recalls: RecallTimes = field(default_factory=RecallTimes)
    opened: set[str] = field(default_factory=set[str])
    grown_mb: float = 0.0

    def result(self, count: int) -> SpeedResult:
        """Return the median and 95th percentile, in milliseconds and as multiples of the embedder's median."""
        embed = percentile(self.embed, 0.5)
        return SpeedResult(
            metrics={
                **{
                    f"banks_over_embed_p{p}@{count}": percentile(self.recalls.recall, p / 100) / embed for p in (50, 95)
                },
                f"banks_cpu_ms@{count}": fmean(self.recalls.cpu),
                f"idle_bank_kb@{count}": self.grown_mb * 1024 / max(1, len(self.opened)),
            },
            timings={
                f"banks@{count}/embed": percentiles(self.embed),
                f"banks@{count}/open": percentiles(self.opening),
                f"banks@{count}/recall": percentiles(self.recalls.recall),
            },
        )


async def measure_many_banks(run: SpeedRun, embedder: SyntheticEmbedder) -> SpeedResult:
    """Measure recall over banks chosen at random, with each number of banks."""
    result, existing = SpeedResult(), 0
    async with (
        run.store.files.bank("template") as template,
        run.store.banks([f"bank {number}" for number in range(run.banks[-1])]) as locations,
    ):
        await run.fill(embedder, template, 0, run.options.speed.facts_per_bank)
        async with run.memory(embedder, template) as memory:
            await memory.export(template.export_file)
        for count in run.banks:
            await _create_banks(run, embedder, template.export_file, locations[:count], existing)
            if (used := await run.disk_bytes(locations[0])) is not None:
                result |= SpeedResult(metrics={f"banks_disk_mb@{count}": used / 2**20})
            queries = run.options.speed.queries + WARM_UP
            async with server_time(run.store.database, f"banks_server_cpu_ms@{count}", queries) as server:
                times = await _recall_from_banks(run, embedder, locations[:count])
            result |= times.result(count) | SpeedResult(metrics=server)
            existing = count
        template.export_file.unlink()
    return result | SpeedResult(metrics=_growth(run, result), tables={"many banks": _table(run, result)})


async def _create_banks(
    run: SpeedRun, embedder: SyntheticEmbedder, export_file: Path, locations: Sequence[BankLocation], existing: int
) -> None:
    """Create the banks that do not exist yet, then optimise the store."""
    new = locations[existing:]
    steps = StepCounter(run.sink, f"{len(new):,} more banks", len(new))
    async with run.memory(embedder, locations[0]) as memory:
        for location in new:
            await memory.bank(location.bank).import_bank(export_file)
            steps.advance()
    if run.store.database is not None:
        await run.store.database.vacuum()
    await run.optimise(embedder, locations[0])


async def _recall_from_banks(
    run: SpeedRun, embedder: SyntheticEmbedder, locations: Sequence[BankLocation]
) -> BankTimes:
    choice, times = random.Random(len(locations)), BankTimes()
    queries = texts.queries(run.options.speed.queries + WARM_UP)
    steps = StepCounter(run.sink, f"recall with {len(locations):,} banks", len(queries))
    async with run.memory(embedder, locations[0]) as memory:
        warm, before = set[str](), 0.0
        for number, query in enumerate(queries):
            if number == WARM_UP:
                warm, times, before = times.opened, BankTimes(), current_mb()
            name = choice.choice(locations).bank
            await _measure_once(run, memory.bank(name), query, times, embed_first=bool(number % 2))
            if name not in warm:
                times.opened.add(name)
            steps.advance()
        return replace(times, grown_mb=max(0.0, current_mb() - before))


async def _measure_once(run: SpeedRun, memory: Memory, query: str, times: BankTimes, *, embed_first: bool) -> None:
    """Measure one query; the order alternates, so that neither side always runs warm."""
    if embed_first:
        times.embed.append((await timed(run.embedder.embed([query], "query")))[1])
    times.opening.append((await timed(memory.open()))[1])
    await times.recalls.measure(memory, run.recalls[0], query)
    if not embed_first:
        times.embed.append((await timed(run.embedder.embed([query], "query")))[1])


def _growth(run: SpeedRun, result: SpeedResult) -> Metrics:
    """Return the 95th percentile with the most banks over that with the fewest."""
    ends = run.banks[0], run.banks[-1]
    few, many = (result.timings[f"banks@{count}/recall"]["p95_ms"] for count in ends)
    ratio_few, ratio_many = (result.metrics[f"banks_over_embed_p95@{count}"] for count in ends)
    return {"banks_p95_growth": many / few, "banks_over_embed_p95_growth": ratio_many / ratio_few}


def _table(run: SpeedRun, result: SpeedResult) -> dict[str, dict[str, Setting]]:
    return {
        f"{count:,} banks": {
            "facts": count * run.options.speed.facts_per_bank,
            **{
                f"{part} {share} ms": result.timings[f"banks@{count}/{part}"][f"{share}_ms"]
                for part in ("recall", "open", "embed")
                for share in ("p50", "p95")
            },
            "cpu ms": result.metrics[f"banks_cpu_ms@{count}"],
            "disk MB": result.metrics.get(f"banks_disk_mb@{count}"),
            "kB per idle bank": result.metrics[f"idle_bank_kb@{count}"],
            "server cpu ms": result.metrics.get(f"banks_server_cpu_ms@{count}"),
        }
        for count in run.banks
    }
