"""Many small banks in one store: what recall costs when there are ten of them, and when there are thousands.

One small bank is retained and loaded again under every name, or copied inside the database where that can be done, so
that thousands are there in minutes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from time import process_time

from vmemo import Memory
from vmemo.models import Bank
from vmemo.models.changes import RestoreRecord
from vmemo.ports import Store
from vmemo.transfer.files import read
from vmemo_bench.clock import timed
from vmemo_bench.embedders import Synthetic
from vmemo_bench.metrics import percentile, spread
from vmemo_bench.report import Setting
from vmemo_bench.speed import texts
from vmemo_bench.speed.cloning import clone
from vmemo_bench.speed.found import Found
from vmemo_bench.speed.setup import Bench, fill, opened, optimise, server_time
from vmemo_bench.steps import Steps
from vmemo_bench.stores import Spot

TOGETHER = 100
"""Banks that are copied at a time."""
WARM_UP = 10
"""Recalls before those that count."""


@dataclass(frozen=True)
class Pattern:
    """A small bank that is loaded under many names."""

    bank: Bank
    records: Sequence[RestoreRecord]

    async def load(self, store: Store, name: str) -> None:
        """Make a bank of that name."""
        await store.restore(self.bank.model_copy(update={"id": name}), iter(self.records))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Milliseconds of each query: the embedder alone, opening its bank, recalling from it, and processors for that."""

    embed: list[float] = field(default_factory=list[float])
    opening: list[float] = field(default_factory=list[float])
    recall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])

    def found(self, count: int) -> Found:
        """Median and 95th percentile, in milliseconds and as multiples of the embedder's median."""
        own = percentile(self.embed, 0.5)
        return Found(
            metrics={
                **{f"banks_over_embed_p{p}@{count}": percentile(self.recall, p / 100) / own for p in (50, 95)},
                f"banks_cpu_ms@{count}": fmean(self.cpu),
            },
            timings={
                f"banks@{count}/embed": spread(self.embed),
                f"banks@{count}/open": spread(self.opening),
                f"banks@{count}/recall": spread(self.recall),
            },
        )


async def measure_crowd(bench: Bench, embedder: Synthetic) -> Found:
    """Recall over banks chosen at random, with each number of them."""
    pattern = await _pattern(bench, embedder)
    found, made = Found(), 0
    async with bench.land.banks([f"bank {number}" for number in range(bench.banks[-1])]) as spots:
        for count in bench.banks:
            await _load(bench, pattern, spots[:count], made)
            every = bench.options.speed.queries + WARM_UP
            async with server_time(bench.land.database, f"banks_server_cpu_ms@{count}", every) as server:
                asked = await _ask(bench, embedder, spots[:count])
            found |= asked.found(count) | Found(metrics=server)
            made = count
    return found | Found(metrics=_growth(bench, found), tables={"many banks": _table(bench, found)})


async def _pattern(bench: Bench, embedder: Synthetic) -> Pattern:
    async with bench.land.files.bank("pattern") as spot:
        await fill(bench, embedder, spot, 0, bench.options.speed.facts_per_bank)
        async with bench.memory(embedder, spot) as memory:
            await memory.export(spot.beside)
        exported = read(spot.beside)
        records = list(exported.records)
        spot.beside.unlink()
    return Pattern(exported.bank, records)


async def _load(bench: Bench, pattern: Pattern, spots: Sequence[Spot], made: int) -> None:
    """Make the banks that are not made yet, then do what maintenance does for a store."""
    new = spots[made:]
    steps = Steps(bench.sink, f"{len(new):,} banks more", len(new))
    if (database := bench.land.database) is None:
        await _restore(bench, pattern, new, steps)
    else:
        first = new[:1] if made == 0 else ()
        await _restore(bench, pattern, first, steps)
        for start in range(len(first), len(new), TOGETHER):
            some = [spot.bank for spot in new[start : start + TOGETHER]]
            await clone(database, spots[0].bank, some)
            steps.advance(len(some))
        await database.settle()
    await optimise(bench, spots[0])


async def _restore(bench: Bench, pattern: Pattern, spots: Sequence[Spot], steps: Steps) -> None:
    if not spots:
        return
    async with opened(bench, spots[0]) as store:
        for spot in spots:
            await pattern.load(store, spot.bank)
            steps.advance()


async def _ask(bench: Bench, embedder: Synthetic, spots: Sequence[Spot]) -> Asked:
    """Ask each query of a bank chosen at random, and the embedder in turn."""
    dice, asked = random.Random(len(spots)), Asked()
    queries = texts.queries(bench.options.speed.queries + WARM_UP)
    steps = Steps(bench.sink, f"recall with {len(spots):,} banks", len(queries))
    async with bench.memory(embedder, spots[0]) as memory:
        for number, query in enumerate(queries):
            if number == WARM_UP:
                asked = Asked()
            await _once(bench, memory.bank(dice.choice(spots).bank), query, asked, first=bool(number % 2))
            steps.advance()
    return asked


async def _once(bench: Bench, memory: Memory, query: str, asked: Asked, *, first: bool) -> None:
    """One query; every other one is embedded first, so that neither side always runs warm."""
    if first:
        asked.embed.append((await timed(bench.embedder.embed([query], "query")))[1])
    asked.opening.append((await timed(memory.open()))[1])
    began = process_time()
    asked.recall.append((await timed(bench.paces[0].recall(memory, query)))[1])
    asked.cpu.append((process_time() - began) * 1000)
    if not first:
        asked.embed.append((await timed(bench.embedder.embed([query], "query")))[1])


def _growth(bench: Bench, found: Found) -> dict[str, float]:
    """How much longer the slow recalls take among the most banks than among the fewest."""
    ends = bench.banks[0], bench.banks[-1]
    few, many = (found.timings[f"banks@{count}/recall"]["p95_ms"] for count in ends)
    slow_few, slow_many = (found.metrics[f"banks_over_embed_p95@{count}"] for count in ends)
    return {"banks_p95_growth": many / few, "banks_over_embed_p95_growth": slow_many / slow_few}


def _table(bench: Bench, found: Found) -> dict[str, dict[str, Setting]]:
    return {
        f"{count:,} banks": {
            "facts": count * bench.options.speed.facts_per_bank,
            **{
                f"{what} {share} ms": found.timings[f"banks@{count}/{what}"][f"{share}_ms"]
                for what in ("recall", "open", "embed")
                for share in ("p50", "p95")
            },
            "cpu ms": found.metrics[f"banks_cpu_ms@{count}"],
            "server cpu ms": found.metrics.get(f"banks_server_cpu_ms@{count}"),
        }
        for count in bench.banks
    }
