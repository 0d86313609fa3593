"""Shared parts of the speed measurements: options, results, and filling and copying of banks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from shutil import copyfile

from vmemo import Memory, Recalled
from vmemo.models import Budget
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.bench_store import BankLocation, BenchStore
from vmemo_bench.embedders import SyntheticEmbedder
from vmemo_bench.environment import make_folder
from vmemo_bench.options import DEFAULT_BANKS, DEFAULT_BULK, BenchOptions
from vmemo_bench.postgres import PostgresDatabase
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Table
from vmemo_bench.speed import texts
from vmemo_bench.statistics import Metrics, Timings, timed

BATCH = 1_000
"""Messages of one retain while a bank is filled."""
MAX_TOKENS = 4_096
"""Tokens to recall: the default of `Memory.recall`."""


@dataclass(frozen=True, kw_only=True)
class SpeedResult:
    """Metrics, milliseconds and tables of one measurement."""

    metrics: Metrics = field(default_factory=dict[str, float])
    timings: Timings = field(default_factory=dict[str, dict[str, float]])
    tables: dict[str, Table] = field(default_factory=dict[str, Table])

    def __or__(self, other: SpeedResult) -> SpeedResult:
        return SpeedResult(
            metrics=self.metrics | other.metrics,
            timings=self.timings | other.timings,
            tables=self.tables | other.tables,
        )


@dataclass(frozen=True, kw_only=True)
class RecallVariant:
    """Budget and tokens of a measured recall, and its name in the report."""

    budget: Budget
    max_tokens: int
    name: str = "recall"

    async def recall(self, memory: Memory, query: str) -> Recalled:
        """Recall as of the end of the generated conversations."""
        return await memory.recall(query, max_tokens=self.max_tokens, budget=self.budget, now=texts.ENDED)


@dataclass(frozen=True, kw_only=True)
class SpeedRun:
    """Options, embedder, settings and store of a speed benchmark."""

    options: BenchOptions
    embedder: Embedder
    settings: Settings
    store: BenchStore
    sink: ProgressSink

    @property
    def recalls(self) -> list[RecallVariant]:
        """Recalls to measure: one per budget under its own name, or one with the run's budget."""
        tokens = self.options.max_tokens or MAX_TOKENS
        budgets = self.options.speed.budgets
        named = [RecallVariant(budget=budget, max_tokens=tokens, name=f"recall_{budget}") for budget in budgets]
        return named or [RecallVariant(budget=self.options.budget, max_tokens=tokens)]

    @property
    def sizes(self) -> list[int]:
        """Facts to grow a bank to, ascending."""
        return sorted(set(self.options.speed.sizes))

    @property
    def banks(self) -> list[int]:
        """Numbers of small banks, ascending."""
        default = () if self.store.database is None else DEFAULT_BANKS
        given = self.options.speed.banks
        return sorted(set(default if given is None else given))

    @property
    def bulk(self) -> int:
        """Messages of the bulk write."""
        default = 0 if self.store.database is None else DEFAULT_BULK
        return default if self.options.speed.bulk is None else self.options.speed.bulk

    def memory(self, embedder: Embedder, location: BankLocation) -> Memory:
        return Memory(location.url, bank=location.bank, embedder=embedder, settings=self.settings)

    async def disk_bytes(self, location: BankLocation) -> int | None:
        """Return the bytes of a database: of its file and the files beside it, or of all tables; None if not known."""
        if self.store.database is not None:
            return (await self.store.database.table_sizes()).total
        if self.store is not self.store.files:
            return None
        files = location.export_file.parent.glob(f"{location.export_file.stem}.db*")
        return sum([path.stat().st_size for path in files])

    async def fill(self, embedder: SyntheticEmbedder, location: BankLocation, first: int, last: int) -> float:
        """Retain generated messages and return the milliseconds, those of retain without the embedder."""
        steps = StepCounter(self.sink, f"fill to {last:,}", last - first)
        total = 0.0
        async with self.memory(embedder, location) as memory:
            for start in range(first, last, BATCH):
                batch = texts.messages(start, min(start + BATCH, last))
                _, ms = await timed(memory.retain(batch))
                total += ms
                steps.advance(len(batch))
        return total

    async def grow(self, embedder: SyntheticEmbedder, location: BankLocation, first: int, last: int) -> float | None:
        """Fill a bank, or copy the one that is kept; return the milliseconds of retain if it was filled."""
        folder = self.options.keep_banks
        if folder is None:
            return await self.fill(embedder, location, first, last)
        database, kept = location.export_file.with_suffix(".db"), folder / f"speed-{last}.db"
        if kept.exists():
            await asyncio.to_thread(copyfile, kept, database)
            return None
        ms = await self.fill(embedder, location, first, last)
        await asyncio.to_thread(copyfile, database, make_folder(folder) / kept.name)
        return ms

    async def copy_bank(self, embedder: SyntheticEmbedder, source: BankLocation, target: BankLocation) -> float:
        """Export a bank, import it at the target, and return the milliseconds of the import."""
        steps = StepCounter(self.sink, f"import into {target.bank}", 1)
        async with self.memory(embedder, source) as memory:
            await memory.export(target.export_file)
        async with self.memory(embedder, target) as memory:
            _, ms = await timed(memory.import_bank(target.export_file))
        target.export_file.unlink()
        steps.advance()
        return ms

    async def optimise(self, embedder: SyntheticEmbedder, location: BankLocation) -> float:
        """Let maintenance build and analyse the indexes, and nothing else; return the milliseconds."""
        steps = StepCounter(self.sink, f"maintenance of {location.bank}", 1)
        settings = self.settings.model_copy(update={"episode_messages": 1, "maintenance_shorten_after": None})
        async with Memory(location.url, bank=location.bank, embedder=embedder, settings=settings) as memory:
            _, ms = await timed(memory.maintain())
        steps.advance()
        return ms


@asynccontextmanager
async def server_time(database: PostgresDatabase | None, name: str, calls: int) -> AsyncGenerator[Metrics]:
    """Yield metrics that on exit contain the server's processor time per call in milliseconds, if it is known."""
    metrics: Metrics = {}
    before = None if database is None else await database.cpu_seconds()
    yield metrics
    after = None if database is None else await database.cpu_seconds()
    if before is not None and after is not None:
        metrics[name] = (after - before) / calls * 1000
