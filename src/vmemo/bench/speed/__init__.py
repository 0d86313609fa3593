"""E2: how fast retain and recall are as a bank grows, as ratios to the embedder's own time in the same run.

A bank is filled with vectors mixed from really embedded sentences (`Synthetic`), for real ones would take
hours; queries, and the retain that is measured, use the real embedder with no cache before it. The bank is
closed and opened again before it is asked, so that `first_recall@N` shows what a cold start costs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from vmemo.bench.embedders import Synthetic
from vmemo.bench.environment import describe, make_folder
from vmemo.bench.options import BenchOptions, ProgressSink
from vmemo.bench.report import Report
from vmemo.bench.speed import texts
from vmemo.bench.speed.growth import DEPTH, Bench, base_vectors, fill, measure_recall, measure_retain
from vmemo.bench.speed.recalls import Timings
from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings

__all__ = ["measure_speed"]


async def measure_speed(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Retain is measured in a bank of its own, recall in one that grows from size to size."""
    sizes = sorted(set(options.speed.sizes))
    if not sizes or sizes[0] < 1 or min(options.speed.queries, options.speed.messages) < 1:
        raise InvalidInput("speed needs sizes, queries and messages of at least one")
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        bench = Bench(options=options, embedder=embedder, settings=settings, folder=Path(folder), sink=sink)
        mixed = Synthetic(embedder, await base_vectors(bench))
        metrics = await measure_retain(bench)
        timings: Timings = {}
        # One query more per size: the first is asked cold and counts apart.
        asked = options.speed.queries * len(bench.paces) + 1
        questions = texts.queries(asked * len(sizes))
        for number, size in enumerate(sizes):
            metrics |= await fill(bench, mixed, 0 if number == 0 else sizes[number - 1], size)
            mine = questions[number * asked : (number + 1) * asked]
            found, times = await measure_recall(bench, mixed, size, mine)
            metrics |= found
            timings |= times
        metrics["bytes_per_fact"] = metrics[f"bytes_per_fact@{sizes[-1]}"]
    config = {
        **describe(embedder, settings),
        "budget": " ".join(str(pace.budget) for pace in bench.paces),
        "max_tokens": options.max_tokens or DEPTH,
        "queries": options.speed.queries,
        "messages": options.speed.messages,
        "sizes": " ".join(map(str, sizes)),
    }
    return Report(benchmark="speed", metrics=metrics, timings=timings, config=config)
