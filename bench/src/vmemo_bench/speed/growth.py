"""Retain into an empty bank, and recall from one that grows from size to size, relative to the embedder's own time.

The bank is closed and reopened before it is queried. On a server each size is an import of what was retained into a
file, which is several times faster; the cost of retain on the server is measured separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from time import process_time

from vmemo import Memory, Message
from vmemo.models.search import Vectors
from vmemo.ports import Embedder
from vmemo.providers import PackagedEmbedder
from vmemo_bench.bench_store import BankLocation
from vmemo_bench.embedders import RecordingEmbedder, SyntheticEmbedder
from vmemo_bench.environment import peak_mb
from vmemo_bench.fresh_process import measure_fresh_process
from vmemo_bench.postgres import PostgresDatabase
from vmemo_bench.progress import StepCounter
from vmemo_bench.speed import texts
from vmemo_bench.speed.speed_run import RecallVariant, SpeedResult, SpeedRun, server_time
from vmemo_bench.statistics import Metrics, Timings, percentile, percentiles, timed

INDEXED = 50_000
"""Facts from which on maintenance builds a vector index on PostgreSQL; recall is measured before it as well."""
WARM_UP = 10
"""Messages retained before retain is measured."""
FORGOTTEN = 10**9
"""Number of the first message that is retained to be forgotten; no size reaches it."""
FRESH = 20
"""Queries of a process that only opens a bank and recalls."""
CHUNK = 100
"""Messages of one measured retain; after each the embedder embeds the same texts alone, in one batch."""


async def base_vectors(run: SpeedRun) -> Vectors:
    """Embed the sentences that synthetic vectors are mixed from; this also loads and warms the model."""
    steps = StepCounter(run.sink, "base sentences", 1)
    vectors = await run.embedder.embed(texts.sentences(run.options.speed.base_sentences), "document")
    await run.embedder.embed(["Is it warm?"], "query")
    steps.advance()
    return vectors


async def measure_retain(run: SpeedRun) -> SpeedResult:
    """Retain with the real embedder into an empty bank."""
    count = run.options.speed.messages
    recorder = RecordingEmbedder(run.embedder)
    async with run.store.bank("retain") as location, run.memory(recorder, location) as memory:
        # Word lists and vocabularies are loaded once per process.
        await memory.retain(texts.messages(count, count + WARM_UP))
        steps = StepCounter(run.sink, "retain", count)
        return SpeedResult(metrics=await _compare_retain(memory, recorder, texts.messages(0, count), steps))


async def _compare_retain(
    memory: Memory, recorder: RecordingEmbedder, messages: Sequence[Message], steps: StepCounter
) -> Metrics:
    """Retain in chunks, and embed the texts of each chunk again without retain."""
    retain_ms = embed_ms = 0.0
    facts = embedded = 0
    for first in range(0, len(messages), CHUNK):
        chunk = messages[first : first + CHUNK]
        recorder.texts.clear()
        retained, ms = await timed(memory.retain(chunk))
        retain_ms += ms
        embedded += len(recorder.texts)
        _, ms = await timed(recorder.real.embed(tuple(recorder.texts), "document"))
        embed_ms += ms
        facts += len(retained.derived)
        steps.advance(len(chunk))
    return {
        # 1.0 would mean that retain costs nothing beyond embedding.
        "retain_over_embed": embed_ms / retain_ms,
        "retain_facts_per_second": facts / retain_ms * 1000,
        "embedded_texts_per_fact": embedded / max(1, facts),
    }


async def measure_growth(run: SpeedRun, embedder: SyntheticEmbedder) -> SpeedResult:
    # One query more per size: the first is asked cold and reported separately.
    count = run.options.speed.queries * len(run.recalls) + 1
    queries = texts.queries(count * len(run.sizes))
    result, reached = SpeedResult(), 0
    async with run.store.files.bank("speed") as prepared:
        for number, size in enumerate(run.sizes):
            ms = await run.grow(embedder, prepared, reached, size)
            own = queries[number * count : (number + 1) * count]
            if run.store is run.store.files:
                if ms is not None:
                    result |= SpeedResult(metrics={f"fill_facts_per_second@{size}": (size - reached) / ms * 1000})
                result |= await _measure_file(run, embedder, prepared, size, own)
            elif (database := run.store.database) is None:
                result |= await _measure_server(run, embedder, prepared, size, own)
            else:
                result |= await _measure_database(run, embedder, prepared, database, size=size, queries=own)
            reached = size
    last = result.metrics.get(f"bytes_per_fact@{run.sizes[-1]}")
    return result if last is None else result | SpeedResult(metrics={"bytes_per_fact": last})


async def _measure_file(
    run: SpeedRun, embedder: SyntheticEmbedder, location: BankLocation, size: int, queries: Sequence[str]
) -> SpeedResult:
    stored = await run.disk_bytes(location) or 0
    result = await measure_recall(run, embedder, location, size, queries)
    facts = max(1.0, result.metrics[f"facts@{size}"])
    result |= SpeedResult(metrics={f"bytes_per_fact@{size}": stored / facts})
    if isinstance(run.embedder, PackagedEmbedder):
        fresh = await measure_fresh_process(location.url, location.bank, list(queries[:FRESH]))
        result |= SpeedResult(metrics={f"{name}@{size}": value for name, value in fresh.items()})
    return result | await _measure_forget(run, embedder, location, size)


async def _measure_forget(run: SpeedRun, embedder: SyntheticEmbedder, location: BankLocation, size: int) -> SpeedResult:
    """Forget new messages, then the oldest, which is retained again.

    The first time, the file is also cleaned of what its growth left. The messages of the oldest one's episode are
    processed again, and the names that facts about it use are looked for in the facts that remain.
    """
    times: list[float] = []
    async with run.memory(embedder, location) as memory:
        for number in range(FORGOTTEN, FORGOTTEN + 2):
            retained = await memory.retain(texts.messages(number, number + 1))
            _, ms = await timed(memory.forget(messages=retained.stored))
            times.append(ms)
        [oldest] = await memory.messages(limit=1)
        _, ms = await timed(memory.forget(messages=[oldest.id]))
        times.append(ms)
        await memory.retain([oldest])
    names = ("first_forget_ms", "forget_ms", "forget_oldest_ms")
    return SpeedResult(metrics={f"{name}@{size}": ms for name, ms in zip(names, times, strict=True)})


async def _measure_server(
    run: SpeedRun, embedder: SyntheticEmbedder, prepared: BankLocation, size: int, queries: Sequence[str]
) -> SpeedResult:
    """Measure a server of which nothing is known but what the store returns."""
    async with run.store.bank(f"speed {size}") as location:
        import_ms = await run.copy_bank(embedder, prepared, location)
        maintenance_ms = await run.optimise(embedder, location)
        result = await measure_recall(run, embedder, location, size, queries)
    metrics = {
        f"import_facts_per_second@{size}": result.metrics[f"facts@{size}"] / import_ms * 1000,
        f"maintenance_seconds@{size}": maintenance_ms / 1000,
    }
    return result | SpeedResult(metrics=metrics)


async def _measure_database(
    run: SpeedRun,
    embedder: SyntheticEmbedder,
    prepared: BankLocation,
    database: PostgresDatabase,
    *,
    size: int,
    queries: Sequence[str],
) -> SpeedResult:
    async with run.store.bank(f"speed {size}") as location:
        before = await database.table_sizes()
        import_ms = await run.copy_bank(embedder, prepared, location)
        await database.vacuum()
        result = await _measure_scan(run, embedder, location, size, queries) if size >= INDEXED else SpeedResult()
        maintenance_ms = await run.optimise(embedder, location)
        growth = (await database.table_sizes()).minus(before)
        async with server_time(database, f"server_cpu_ms@{size}", len(queries) - 1) as server:
            result |= await measure_recall(run, embedder, location, size, queries)
        facts = max(1, int(result.metrics[f"facts@{size}"]))
        metrics: Metrics = {
            f"import_facts_per_second@{size}": facts / import_ms * 1000,
            f"maintenance_seconds@{size}": maintenance_ms / 1000,
            f"bytes_per_fact@{size}": growth.total / facts,
            **server,
        }
        table = await database.bytes_per_fact(location.bank, growth, facts)
    return result | SpeedResult(metrics=metrics, tables={f"per fact, {size:,} facts in one bank": table})


async def _measure_scan(
    run: SpeedRun, embedder: SyntheticEmbedder, location: BankLocation, size: int, queries: Sequence[str]
) -> SpeedResult:
    """Measure recall before there is an index, under its own name."""
    recall = replace(run.recalls[0], name="recall_scan")
    result = await measure_recall(run, embedder, location, size, queries, [recall])
    timings = {name: times for name, times in result.timings.items() if name.startswith(recall.name)}
    return SpeedResult(metrics=result.metrics, timings=timings)


async def measure_recall(
    run: SpeedRun,
    embedder: SyntheticEmbedder,
    location: BankLocation,
    size: int,
    queries: Sequence[str],
    recalls: Sequence[RecallVariant] | None = None,
) -> SpeedResult:
    """Open the bank, recall once cold, then compare the other queries with the embedder."""
    measured = recalls or run.recalls
    memory = run.memory(embedder, location)
    _, open_ms = await timed(memory.open())
    try:
        _, cold_ms = await timed(measured[0].recall(memory, queries[0]))
        # No query is asked twice before the end, when its vector is cached.
        steps = StepCounter(run.sink, f"recall at {size:,}", len(queries) - 1)
        compared = await compare_recall(memory, run.embedder, queries[1:], measured, steps)
        cached = RecallTimes()
        for query in queries[1 :: len(measured)]:
            await cached.measure(memory, measured[0], query)
        facts = (await memory.status()).facts
    finally:
        await memory.close()
    metrics = {f"facts@{size}": float(facts), f"rss_mb@{size}": peak_mb(), **cached.metrics("recall_cached", size)}
    timings = {
        f"open@{size}": percentiles([open_ms]),
        f"first_recall@{size}": percentiles([cold_ms]),
        f"recall_cached@{size}": percentiles(cached.recall),
    }
    return SpeedResult(metrics=metrics | compared.metrics(size), timings=timings | compared.timings(size))


@dataclass(frozen=True)
class RecallTimes:
    """Milliseconds of each query: the whole recall, the processor time of this process, and the stages."""

    recall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    stages: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict[str, list[float]](list))

    async def measure(self, memory: Memory, recall: RecallVariant, query: str) -> None:
        """Recall once and record the times."""
        began = process_time()
        found, ms = await timed(recall.recall(memory, query))
        self.recall.append(ms)
        self.cpu.append((process_time() - began) * 1000)
        for stage, stage_ms in found.timings.items():
            if stage != "total":
                self.stages[stage].append(stage_ms)

    def metrics(self, name: str, size: int) -> Metrics:
        """Return the median, the 95th percentile as a multiple of it, and the mean processor time."""
        if not self.recall:
            return {}
        median = percentile(self.recall, 0.5)
        return {
            f"{name}_p50_ms@{size}": median,
            f"{name}_p95_over_p50@{size}": percentile(self.recall, 0.95) / median,
            f"{name}_cpu_ms@{size}": fmean(self.cpu),
        }


@dataclass(frozen=True, kw_only=True)
class RecallComparison:
    """Milliseconds of the embedder alone, and of each measured recall."""

    embed: Sequence[float]
    recalls: dict[str, RecallTimes]

    def metrics(self, size: int) -> Metrics:
        """Return the embedder's median, and each recall's median and 95th percentile as multiples of it."""
        embed = percentile(self.embed, 0.5)
        ratios = {
            f"{name}_p{share}_over_embed@{size}": percentile(times.recall, share / 100) / embed
            for name, times in self.recalls.items()
            for share in (50, 95)
        }
        alone = [times.metrics(name, size) for name, times in self.recalls.items()]
        return (
            ratios | {f"embed_p50_ms@{size}": embed} | {name: value for each in alone for name, value in each.items()}
        )

    def timings(self, size: int) -> Timings:
        """Return the median and 95th percentile of everything that was timed."""
        timings = {f"embed@{size}": percentiles(self.embed)}
        for name, times in self.recalls.items():
            timings[f"{name}@{size}/total"] = percentiles(times.recall)
            timings |= {f"{name}@{size}/{stage}": percentiles(values) for stage, values in times.stages.items()}
        return timings


async def compare_recall(
    memory: Memory, embedder: Embedder, queries: Sequence[str], recalls: Sequence[RecallVariant], steps: StepCounter
) -> RecallComparison:
    """Run every query once, the variants in turn, so that a slow phase of the machine slows all of them.

    Every other query of a variant is embedded before the recall, so that neither side always runs warm.
    """
    embed: list[float] = []
    times = {recall.name: RecallTimes() for recall in recalls}
    for number, query in enumerate(queries):
        turn, position = divmod(number, len(recalls))
        if turn % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        await times[recalls[position].name].measure(memory, recalls[position], query)
        if not turn % 2:
            embed.append((await timed(embedder.embed([query], "query")))[1])
        steps.advance()
    return RecallComparison(embed=embed, recalls=times)
