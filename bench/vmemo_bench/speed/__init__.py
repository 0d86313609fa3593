"""E2: how fast retain and recall are as a bank grows, as ratios to the embedder's own time in the same run.

A bank is filled with vectors mixed from really embedded sentences (`Synthetic`), for real ones would take
hours; queries, and the retain that is measured, use the real embedder with no cache before it. The bank is
closed and opened again before it is asked, so that `first_recall@N` shows what a cold start costs. Many small
banks in one store, and writing much at once beside a bare COPY, are measured where they are asked for, and on
PostgreSQL.
"""

from __future__ import annotations

from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.embedders import Synthetic
from vmemo_bench.environment import describe
from vmemo_bench.options import BenchOptions, ProgressSink
from vmemo_bench.report import Report, Setting
from vmemo_bench.speed.bulk import measure_bulk
from vmemo_bench.speed.growth import base_vectors, measure_growth, measure_retain
from vmemo_bench.speed.many_banks import measure_crowd
from vmemo_bench.speed.setup import DEPTH, Bench
from vmemo_bench.stores import ground

__all__ = ["measure_speed"]


async def measure_speed(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Retain is measured in a bank of its own, recall in one that grows from size to size, then bulk and many banks."""
    _check(options)
    async with ground(options, settings) as land:
        bench = Bench(options=options, embedder=embedder, settings=settings, land=land, sink=sink)
        mixed = Synthetic(embedder, await base_vectors(bench))
        found = await measure_retain(bench) | await measure_growth(bench, mixed)
        if bench.bulk:
            found |= await measure_bulk(bench, mixed)
        if bench.banks:
            found |= await measure_crowd(bench, mixed)
    return Report(
        benchmark="speed",
        metrics=found.metrics,
        timings=found.timings,
        config={**describe(embedder, settings), **land.config, **_config(bench)},
        tables=found.tables,
    )


def _check(options: BenchOptions) -> None:
    asked = options.speed
    if not asked.sizes or min(*asked.sizes, asked.queries, asked.messages, asked.facts_per_bank) < 1:
        raise InvalidInput("speed needs sizes, queries, messages and facts per bank of at least one")
    if any(count < 1 for count in asked.banks or ()) or (asked.bulk or 0) < 0:
        raise InvalidInput("speed needs numbers of banks of at least one, and bulk of none or more")


def _config(bench: Bench) -> dict[str, Setting]:
    asked = bench.options.speed
    return {
        "budget": " ".join(str(pace.budget) for pace in bench.paces),
        "max_tokens": bench.options.max_tokens or DEPTH,
        "queries": asked.queries,
        "messages": asked.messages,
        "sizes": " ".join(map(str, bench.sizes)),
        "banks": " ".join(map(str, bench.banks)),
        "facts_per_bank": asked.facts_per_bank if bench.banks else None,
        "bulk": bench.bulk,
    }
