"""One bank, filled to each size in turn, closed, opened again and measured.

A server is given each size as an export of what was retained into a file, which is there several times as fast; what
retaining costs on the server is measured apart.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Sequence
from dataclasses import replace

from vmemo.models.search import Vectors
from vmemo_bench.clock import timed
from vmemo_bench.database import Database
from vmemo_bench.embedders import Recorder, Synthetic
from vmemo_bench.metrics import Metrics, spread
from vmemo_bench.speed import table_sizes, texts
from vmemo_bench.speed.found import Found
from vmemo_bench.speed.recalls import Pace, race
from vmemo_bench.speed.retains import cost
from vmemo_bench.speed.setup import Bench, carry, fill, optimise, server_time
from vmemo_bench.steps import Steps
from vmemo_bench.stores import Spot

INDEXED = 50_000
"""Facts from which on a server's maintenance builds an index of a bank's vectors; recall is measured before, too."""
WARM_UP = 10
"""Messages retained before retain is measured."""


async def base_vectors(bench: Bench) -> Vectors:
    """Really embedded sentences; the model is loaded and warm afterwards."""
    steps = Steps(bench.sink, "base sentences", 1)
    vectors = await bench.embedder.embed(texts.sentences(bench.options.speed.base_sentences), "document")
    await bench.embedder.embed(["Is it warm?"], "query")
    steps.advance()
    return vectors


async def measure_retain(bench: Bench) -> Found:
    """Retain with the real embedder into an empty bank."""
    count = bench.options.speed.messages
    recorder = Recorder(bench.embedder)
    async with bench.land.bank("retain") as spot, bench.memory(recorder, spot) as memory:
        # Word lists and vocabularies are read once per process, as the model was.
        await memory.retain(texts.messages(count, count + WARM_UP))
        spent = await cost(memory, recorder, texts.messages(0, count), Steps(bench.sink, "retain", count))
    return Found(metrics=spent.metrics())


async def measure_growth(bench: Bench, embedder: Synthetic) -> Found:
    """Recall at each size."""
    # One query more per size: the first is asked cold and counts apart.
    asked = bench.options.speed.queries * len(bench.paces) + 1
    questions = texts.queries(asked * len(bench.sizes))
    found, reached = Found(), 0
    async with bench.land.files.bank("speed") as prepared:
        for number, size in enumerate(bench.sizes):
            spent = await fill(bench, embedder, prepared, reached, size)
            mine = questions[number * asked : (number + 1) * asked]
            if (database := bench.land.database) is None:
                found |= Found(metrics={f"fill_facts_per_second@{size}": (size - reached) / spent * 1000})
                found |= await _in_file(bench, embedder, prepared, size, mine)
            else:
                found |= await _in_database(bench, embedder, prepared, database, size=size, queries=mine)
            reached = size
    last = found.metrics[f"bytes_per_fact@{bench.sizes[-1]}"]
    return found | Found(metrics={"bytes_per_fact": last})


async def _in_file(bench: Bench, embedder: Synthetic, spot: Spot, size: int, queries: Sequence[str]) -> Found:
    stored = await asyncio.to_thread(_bytes, spot)
    found = await measure_recall(bench, embedder, spot, size, queries)
    return found | Found(metrics={f"bytes_per_fact@{size}": stored / max(1.0, found.metrics[f"facts@{size}"])})


def _bytes(spot: Spot) -> int:
    """Bytes of a file and of what stands beside it."""
    return sum(path.stat().st_size for path in spot.beside.parent.glob(f"{spot.beside.stem}.db*"))


async def _in_database(
    bench: Bench, embedder: Synthetic, prepared: Spot, database: Database, *, size: int, queries: Sequence[str]
) -> Found:
    async with bench.land.bank(f"speed {size}") as spot:
        before = await table_sizes.taken(database)
        spent = await carry(bench, embedder, prepared, spot)
        await database.settle()
        found = await _scanned(bench, embedder, spot, size, queries) if size >= INDEXED else Found()
        upkeep = await optimise(bench, spot)
        grown = (await table_sizes.taken(database)).less(before)
        async with server_time(database, f"server_cpu_ms@{size}", len(queries) - 1) as server:
            found |= await measure_recall(bench, embedder, spot, size, queries)
        facts = max(1, int(found.metrics[f"facts@{size}"]))
        metrics: Metrics = {
            f"import_facts_per_second@{size}": facts / spent * 1000,
            f"upkeep_seconds@{size}": upkeep / 1000,
            f"bytes_per_fact@{size}": grown.total / facts,
            **server,
        }
        table = await table_sizes.by_table(database, spot.bank, grown, facts)
    return found | Found(metrics=metrics, tables={f"per fact, {size:,} facts in one bank": table})


async def _scanned(bench: Bench, embedder: Synthetic, spot: Spot, size: int, queries: Sequence[str]) -> Found:
    """Recall before there is an index, under a name of its own."""
    pace = replace(bench.paces[0], name="recall_scan")
    found = await measure_recall(bench, embedder, spot, size, queries, [pace])
    kept = {name: times for name, times in found.timings.items() if name.startswith(pace.name)}
    return Found(metrics=found.metrics, timings=kept)


async def measure_recall(
    bench: Bench,
    embedder: Synthetic,
    spot: Spot,
    size: int,
    queries: Sequence[str],
    paces: Sequence[Pace] | None = None,
) -> Found:
    """Open the bank, ask once cold, then race the rest of the queries against the embedder."""
    asked = paces or bench.paces
    memory = bench.memory(embedder, spot)
    _, opening = await timed(memory.open())
    try:
        _, cold = await timed(asked[0].recall(memory, queries[0]))
        # No query is asked twice: its vector would be remembered.
        steps = Steps(bench.sink, f"recall at {size:,}", len(queries) - 1)
        raced = await race(memory, bench.embedder, queries[1:], asked, steps)
        facts = (await memory.status()).facts
    finally:
        await memory.close()
    metrics = {f"facts@{size}": float(facts), f"rss_mb@{size}": peak_mb()}
    times = {f"open@{size}": spread([opening]), f"first_recall@{size}": spread([cold])}
    return Found(metrics=metrics | raced.metrics(size), timings=times | raced.timings(size))


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
