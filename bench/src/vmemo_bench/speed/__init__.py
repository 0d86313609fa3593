"""Speed of retain and recall as a bank grows, as ratios to the embedder's own time in the same run.

A bank is filled with vectors mixed from embedded sentences (`SyntheticEmbedder`), because real ones would take hours.
Queries, and the retain that is measured, use the real embedder without a cache. `first_recall@N` is the first recall
after opening a bank, `forget_ms@N` the time to forget a message of a file that was just retained, and
`forget_oldest_ms@N` that of the bank's oldest, with all that is derived again. `process_mb@N` is the peak memory of
a new process that only opens the bank and recalls. Many small banks in one store, and bulk writes, are measured on
request, and by default on PostgreSQL.
"""

from __future__ import annotations

from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.bench_store import open_store
from vmemo_bench.embedders import SyntheticEmbedder
from vmemo_bench.environment import describe
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink
from vmemo_bench.report import Report, Setting
from vmemo_bench.speed.bulk import measure_bulk
from vmemo_bench.speed.growth import base_vectors, measure_growth, measure_retain
from vmemo_bench.speed.many_banks import measure_many_banks
from vmemo_bench.speed.speed_run import MAX_TOKENS, SpeedRun

__all__ = ["measure_speed"]


async def measure_speed(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Measure retain, recall at each size, and then bulk writes and many banks if requested."""
    _check(options)
    async with open_store(options, embedder, settings) as store:
        run = SpeedRun(options=options, embedder=embedder, settings=settings, store=store, sink=sink)
        synthetic = SyntheticEmbedder(embedder, await base_vectors(run))
        result = await measure_retain(run) | await measure_growth(run, synthetic)
        if run.bulk:
            result |= await measure_bulk(run, synthetic)
        if run.banks:
            result |= await measure_many_banks(run, synthetic)
    return Report(
        benchmark="speed",
        metrics=result.metrics,
        timings=result.timings,
        config={**describe(embedder, settings), **store.config, **_config(run)},
        tables=result.tables,
    )


def _check(options: BenchOptions) -> None:
    speed = options.speed
    if not speed.sizes or min(*speed.sizes, speed.queries, speed.messages, speed.facts_per_bank) < 1:
        raise InvalidInput("sizes, queries, messages and facts_per_bank must be at least one.")
    if any(count < 1 for count in speed.banks or ()) or (speed.bulk or 0) < 0:
        raise InvalidInput("Numbers of banks must be at least one, and bulk at least zero.")


def _config(run: SpeedRun) -> dict[str, Setting]:
    speed = run.options.speed
    return {
        "budget": " ".join(str(recall.budget) for recall in run.recalls),
        "max_tokens": run.options.max_tokens or MAX_TOKENS,
        "queries": speed.queries,
        "messages": speed.messages,
        "sizes": " ".join(map(str, run.sizes)),
        "banks": " ".join(map(str, run.banks)),
        "facts_per_bank": speed.facts_per_bank if run.banks else None,
        "bulk": run.bulk,
    }
