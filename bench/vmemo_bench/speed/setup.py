"""What every measurement of a speed run shares, and how a bank is filled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from vmemo import Memory
from vmemo.ports import Embedder, Store
from vmemo.settings import Settings, build
from vmemo_bench.clock import timed
from vmemo_bench.database import Database
from vmemo_bench.embedders import Synthetic
from vmemo_bench.metrics import Metrics
from vmemo_bench.options import DEFAULT_BANKS, DEFAULT_BULK, BenchOptions, ProgressSink
from vmemo_bench.speed import texts
from vmemo_bench.speed.recalls import Pace
from vmemo_bench.steps import Steps
from vmemo_bench.stores import Ground, Spot

FILL = 1_000
"""Messages of one retain while a bank is filled."""
DEPTH = 4_096
"""Tokens to recall: what the library asks for by default."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Options, embedder, settings, and what banks are built on."""

    options: BenchOptions
    embedder: Embedder
    settings: Settings
    land: Ground
    sink: ProgressSink

    @property
    def paces(self) -> list[Pace]:
        """How recalls are asked: with each budget under its own name, or with the run's one."""
        depth = self.options.max_tokens or DEPTH
        budgets = self.options.speed.budgets
        named = [Pace(budget=budget, max_tokens=depth, name=f"recall_{budget}") for budget in budgets]
        return named or [Pace(budget=self.options.budget, max_tokens=depth)]

    @property
    def sizes(self) -> list[int]:
        """Facts to grow a bank to, in turn."""
        return sorted(set(self.options.speed.sizes))

    @property
    def banks(self) -> list[int]:
        """How many banks to ask, in turn."""
        usual = () if self.land.database is None else DEFAULT_BANKS
        given = self.options.speed.banks
        return sorted(set(usual if given is None else given))

    @property
    def bulk(self) -> int:
        """Messages to write beside a bare COPY."""
        usual = 0 if self.land.database is None else DEFAULT_BULK
        return usual if self.options.speed.bulk is None else self.options.speed.bulk

    def memory(self, embedder: Embedder, spot: Spot) -> Memory:
        """A memory in its place."""
        return Memory(spot.url, bank=spot.bank, embedder=embedder, settings=self.settings)


async def fill(bench: Bench, embedder: Synthetic, spot: Spot, first: int, last: int) -> float:
    """Grow a bank; with embeddings for nothing, the milliseconds are those of everything else retain does."""
    steps = Steps(bench.sink, f"fill to {last:,}", last - first)
    spent = 0.0
    async with bench.memory(embedder, spot) as memory:
        for start in range(first, last, FILL):
            batch = texts.messages(start, min(start + FILL, last))
            _, took = await timed(memory.retain(batch))
            spent += took
            steps.advance(len(batch))
    return spent


async def carry(bench: Bench, embedder: Synthetic, source: Spot, target: Spot) -> float:
    """Export a bank and import it elsewhere; the import's milliseconds."""
    steps = Steps(bench.sink, f"import into {target.bank}", 1)
    async with bench.memory(embedder, source) as memory:
        await memory.export(target.beside)
    async with bench.memory(embedder, target) as memory:
        _, took = await timed(memory.import_bank(target.beside))
    target.beside.unlink()
    steps.advance()
    return took


@asynccontextmanager
async def opened(bench: Bench, spot: Spot) -> AsyncGenerator[Store]:
    """The store of a place, for what no verb does."""
    store = build(spot.url, llm=None, embedder=None, reranker=None, settings=bench.settings).store
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def optimise(bench: Bench, spot: Spot) -> float:
    """Do for a store what maintenance does: its plans and indexes are put in order; in milliseconds."""
    steps = Steps(bench.sink, f"upkeep of {spot.bank}", 1)
    async with opened(bench, spot) as store:
        _, took = await timed(store.optimise())
    steps.advance()
    return took


@asynccontextmanager
async def server_time(database: Database | None, name: str, times: int) -> AsyncGenerator[Metrics]:
    """The server's processor time in milliseconds for one of so many times, once all are over; empty if not known."""
    metrics: Metrics = {}
    before = None if database is None else await database.cpu_seconds()
    yield metrics
    after = None if database is None else await database.cpu_seconds()
    if before is not None and after is not None:
        metrics[name] = (after - before) / times * 1000
