"""One bank, filled to each size in turn, closed, opened again and measured."""

from __future__ import annotations

import asyncio
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from vmemo import Memory
from vmemo.bench.clock import timed
from vmemo.bench.embedders import Recorder, Synthetic
from vmemo.bench.environment import sqlite_url
from vmemo.bench.metrics import Metrics, spread
from vmemo.bench.options import BenchOptions, ProgressSink
from vmemo.bench.speed import texts
from vmemo.bench.speed.recalls import Pace, Timings, race
from vmemo.bench.speed.retains import cost
from vmemo.bench.steps import Steps
from vmemo.ports import Embedder
from vmemo.searches import Vectors
from vmemo.settings import Settings

FILL = 1_000
"""Messages of one retain while a bank is filled."""
WARM_UP = 10
"""Messages retained before retain is measured."""
DEPTH = 4_096
"""Tokens to recall: what the library asks for by default."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every measurement of a run shares."""

    options: BenchOptions
    embedder: Embedder
    settings: Settings
    folder: Path
    sink: ProgressSink

    @property
    def paces(self) -> list[Pace]:
        """How recalls are asked: with each budget under its own name, or with the run's one."""
        depth = self.options.max_tokens or DEPTH
        budgets = self.options.speed.budgets
        named = [Pace(budget=budget, max_tokens=depth, name=f"recall_{budget}") for budget in budgets]
        return named or [Pace(budget=self.options.budget, max_tokens=depth)]

    def memory(self, embedder: Embedder, name: str) -> Memory:
        """A memory in a file of that name."""
        return Memory(sqlite_url(self.folder / name), embedder=embedder, settings=self.settings)

    def size(self, name: str) -> int:
        """Bytes of that file and of what stands beside it."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{name}*"))


async def base_vectors(bench: Bench) -> Vectors:
    """Really embedded sentences; the model is loaded and warm afterwards."""
    steps = Steps(bench.sink, "base sentences", 1)
    vectors = await bench.embedder.embed(texts.sentences(bench.options.speed.base_sentences), "document")
    await bench.embedder.embed(["Is it warm?"], "query")
    steps.advance()
    return vectors


async def measure_retain(bench: Bench) -> Metrics:
    """Retain with the real embedder into an empty bank."""
    count = bench.options.speed.messages
    recorder = Recorder(bench.embedder)
    async with bench.memory(recorder, "retain.db") as memory:
        # Word lists and vocabularies are read once per process, as the model was.
        await memory.retain(texts.messages(count, count + WARM_UP))
        spent = await cost(memory, recorder, texts.messages(0, count), Steps(bench.sink, "retain", count))
    return spent.metrics()


async def fill(bench: Bench, embedder: Synthetic, first: int, last: int) -> Metrics:
    """Grow the bank; with embeddings for nothing, the pace is that of everything else retain does."""
    steps = Steps(bench.sink, f"fill to {last:,}", last - first)
    spent = 0.0
    async with bench.memory(embedder, "speed.db") as memory:
        for start in range(first, last, FILL):
            batch = texts.messages(start, min(start + FILL, last))
            _, took = await timed(memory.retain(batch))
            spent += took
            steps.advance(len(batch))
    return {f"fill_facts_per_second@{last}": (last - first) / spent * 1000}


async def measure_recall(bench: Bench, embedder: Synthetic, size: int, queries: list[str]) -> tuple[Metrics, Timings]:
    """Open the bank, ask once cold, then race the rest of the queries against the embedder."""
    stored = await asyncio.to_thread(bench.size, "speed.db")
    memory = bench.memory(embedder, "speed.db")
    _, opening = await timed(memory.open())
    try:
        _, cold = await timed(bench.paces[0].recall(memory, queries[0]))
        # No query is asked twice: its vector would be remembered.
        steps = Steps(bench.sink, f"recall at {size:,}", len(queries) - 1)
        raced = await race(memory, bench.embedder, queries[1:], bench.paces, steps)
        facts = (await memory.status()).facts
    finally:
        await memory.close()
    metrics = {
        f"facts@{size}": float(facts),
        f"bytes_per_fact@{size}": stored / max(1, facts),
        f"rss_mb@{size}": peak_mb(),
    }
    times = {f"open@{size}": spread([opening]), f"first_recall@{size}": spread([cold])}
    return metrics | raced.metrics(size), times | raced.timings(size)


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
