"""Scale: one large bank, many small banks, and a haystack of joined LongMemEval conversations.

Each part prints latency, memory, disk and quality. The first two are filled with synthetic vectors, as `speed` does; in
the large bank, quality is the share of some messages, embedded for real, that a recall with their own words finds among
the first ten. The haystack is embedded for real too, and its questions are scored as LongMemEval's are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.providers import count_tokens
from vmemo.settings import Settings
from vmemo_bench.bench_store import BankLocation, open_store
from vmemo_bench.case_run import run_case
from vmemo_bench.datasets import Case, ChatSession, load
from vmemo_bench.embedders import SyntheticEmbedder
from vmemo_bench.environment import current_mb, describe, peak_mb
from vmemo_bench.options import BenchOptions, SpeedOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report, Setting
from vmemo_bench.retrieval import setup_of
from vmemo_bench.speed import texts
from vmemo_bench.speed.growth import base_vectors, measure_recall
from vmemo_bench.speed.many_banks import measure_many_banks
from vmemo_bench.speed.speed_run import SpeedRun
from vmemo_bench.statistics import means, percentiles

FEW_BANKS = 10
"""Banks that the many banks are compared with."""
PROBES = 50
"""Messages that are added to the large bank and looked for."""
Row = Mapping[str, Setting]


async def measure_scale(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Measure the parts whose size is not zero."""
    scale = options.scale
    if min(scale.facts, scale.banks, scale.tokens) < 0 or min(scale.facts_per_bank, scale.queries) < 1:
        raise InvalidInput("facts, banks and tokens must not be negative, facts_per_bank and queries at least one.")
    speed = SpeedOptions(
        sizes=(max(1, scale.facts),),
        queries=scale.queries,
        base_sentences=scale.base_sentences,
        banks=tuple(sorted({min(FEW_BANKS, scale.banks), scale.banks})) if scale.banks else (),
        facts_per_bank=scale.facts_per_bank,
    )
    rows: dict[str, Row] = {}
    async with open_store(options, embedder, settings) as store:
        run = SpeedRun(
            options=replace(options, speed=speed), embedder=embedder, settings=settings, store=store, sink=sink
        )
        if scale.facts or scale.banks:
            synthetic = SyntheticEmbedder(embedder, await base_vectors(run))
            if scale.facts:
                rows[f"{scale.facts:,} facts in one bank"] = await _large_bank(run, synthetic, scale.facts)
            if scale.banks:
                rows[f"{scale.banks:,} banks of {scale.facts_per_bank} facts"] = await _many_banks(run, synthetic)
        if scale.tokens:
            name, row = await _haystack(run)
            rows[name] = row
    metrics = {f"{row} {column}": float(value) for row, cells in rows.items() for column, value in _numbers(cells)}
    config = {**describe(embedder, settings), **store.config, **asdict(scale)}
    return Report(benchmark="scale", metrics=metrics, config=config, tables={"scale": rows})


def _numbers(cells: Row) -> Iterator[tuple[str, float]]:
    return ((column, value) for column, value in cells.items() if isinstance(value, int | float))


async def _large_bank(run: SpeedRun, embedder: SyntheticEmbedder, facts: int) -> Row:
    """Fill one bank, or use one that is kept; on PostgreSQL it is filled in a file and imported."""
    async with run.store.files.bank("speed") as prepared:
        ms = await run.grow(embedder, prepared, 0, facts)
        database = run.store.database
        if database is None:
            return await _measure_bank(run, embedder, prepared, facts, ms)
        async with run.store.bank("speed") as location:
            ms = await run.copy_bank(embedder, prepared, location)
            await database.vacuum()
            await run.optimise(embedder, location)
            return await _measure_bank(run, embedder, location, facts, ms)


async def _measure_bank(
    run: SpeedRun, embedder: SyntheticEmbedder, location: BankLocation, facts: int, fill_ms: float | None
) -> Row:
    disk = await run.disk_bytes(location)
    result = await measure_recall(run, embedder, location, facts, texts.queries(run.options.speed.queries + 1))
    async with run.memory(run.embedder, location) as memory:
        found = await _found_share(run, memory, facts)
    times = result.timings[f"recall@{facts}/total"]
    return {
        "recall p50 ms": times["p50_ms"],
        "recall p95 ms": times["p95_ms"],
        "embed p50 ms": result.metrics[f"embed_p50_ms@{facts}"],
        "p50 over embed": result.metrics[f"recall_p50_over_embed@{facts}"],
        "first recall ms": result.timings[f"first_recall@{facts}"]["p50_ms"],
        **({} if fill_ms is None else {"filled facts/s": facts / fill_ms * 1000}),
        "memory MB": peak_mb(),
        **_disk(disk),
        "found@10": found,
    }


def _disk(stored: int | None) -> Row:
    """Return the cell of the bytes on disk; none if the store does not report them."""
    return {} if stored is None else {"disk MB": stored / 2**20}


async def _found_share(run: SpeedRun, memory: Memory, facts: int) -> float:
    """Return the share of messages that a recall with their own words finds among the first ten facts.

    The messages are added for it, because a real query is not near a synthetic vector.
    """
    probes = texts.messages(facts, facts + PROBES)
    await memory.retain(probes)
    steps, found = StepCounter(run.sink, "probes", len(probes)), 0
    for message in probes:
        hits = (await run.recalls[0].recall(memory, message.content)).hits[:10]
        found += any(hit.fact.mentioned_at == message.timestamp for hit in hits)
        steps.advance()
    return found / len(probes)


async def _many_banks(run: SpeedRun, embedder: SyntheticEmbedder) -> Row:
    result, count = await measure_many_banks(run, embedder), run.banks[-1]
    times = result.timings[f"banks@{count}/recall"]
    return {
        "recall p50 ms": times["p50_ms"],
        "recall p95 ms": times["p95_ms"],
        "embed p50 ms": result.timings[f"banks@{count}/embed"]["p50_ms"],
        "p50 over embed": result.metrics[f"banks_over_embed_p50@{count}"],
        "open p50 ms": result.timings[f"banks@{count}/open"]["p50_ms"],
        "kB per idle bank": result.metrics[f"idle_bank_kb@{count}"],
        "memory MB": current_mb(),
        "disk MB": result.metrics[f"banks_disk_mb@{count}"],
    }


async def _haystack(run: SpeedRun) -> tuple[str, Row]:
    """Retain joined conversations into one bank, and ask all of their questions."""
    dataset = load(replace(run.options, benchmark="longmemeval"))
    case, tokens = join_cases(dataset.cases, run.options.scale.tokens)
    setup = setup_of(run.options, dataset, run.embedder, run.settings)
    steps = StepCounter(run.sink, "haystack", len(case.sessions) + len(case.questions))
    async with run.store.bank("haystack") as location:
        result = await run_case(case, setup, location, steps.advance)
        disk = await run.disk_bytes(location)
    times = percentiles([question.timings["total"] for question in result.questions])
    scores = means([question.metrics for question in result.questions])
    row: Row = {
        "facts": result.facts,
        "questions": len(result.questions),
        "recall p50 ms": times["p50_ms"],
        "recall p95 ms": times["p95_ms"],
        "memory MB": peak_mb(),
        **_disk(disk),
        "recall@10": scores["recall@10"],
        "evidence@1000": scores["evidence@1000"],
    }
    return f"haystack of {tokens:,} tokens", row


def join_cases(cases: Sequence[Case], tokens: int) -> tuple[Case, int]:
    """Return one case of as many cases as have that many tokens together, and its tokens; sessions are not repeated."""
    sessions: dict[str, ChatSession] = {}
    joined, total = list[Case](), 0
    for case in cases:
        if total >= tokens:
            break
        joined.append(case)
        for session in case.sessions:
            if session.id not in sessions:
                sessions[session.id] = session
                total += sum(count_tokens(turn.text) for turn in session.turns)
    questions = tuple(question for case in joined for question in case.questions)
    return Case(id="haystack", sessions=tuple(sessions.values()), questions=questions), total
