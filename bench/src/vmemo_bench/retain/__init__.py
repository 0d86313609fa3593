"""Cost of retain: calls and tokens of a language model, and time and memory of draining a long queue.

LoCoMo's conversations are retained session by session with a model that replays their recordings: every prompt is the
one that a real model would get, and nothing is paid. Tokens are those of cl100k, for prompt, schema and answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from itertools import product
from pathlib import Path

from vmemo import Memory
from vmemo.errors import InvalidInput
from vmemo.models import utc_now
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.bank_contents import (
    BankAudit,
    BankCost,
    audit_bank,
    audit_tables,
    bank_cost,
    bank_metrics,
    bank_tables,
)
from vmemo_bench.case_run import sessions_of
from vmemo_bench.datasets import load
from vmemo_bench.environment import describe, make_folder, sqlite_url
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.recordings import load_recordings
from vmemo_bench.report import Report
from vmemo_bench.retain import drain
from vmemo_bench.retain.recorded_llm import RecordedLLM

__all__ = ["measure_drain", "measure_retain"]

NEVER = 1e9
OBSERVE_DELAY = 1.0
"""Seconds after new facts until their entities are observed: long enough to retain a whole session first."""


async def measure_retain(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Measure calls and tokens of every step, without observations and with them."""
    dataset = load(options)
    recordings = load_recordings(options, dataset)
    plain = settings.model_copy(update={"background": False, "observe_delay": NEVER})
    observing = plain.model_copy(update={"observe_delay": min(OBSERVE_DELAY, settings.observe_delay)})
    steps = StepCounter(sink, "retain", 2 * sum(len(case.sessions) for case in dataset.cases))
    costs: dict[str, dict[str, BankCost]] = {"": {}, "_observed": {}}
    audits: dict[str, BankAudit] = {}
    split_sources = 0
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        for suffix, case in product(costs, dataset.cases):
            llm = RecordedLLM(case, recordings[case.id])
            file = Path(folder) / f"{case.id}{suffix}.db"
            given = observing if suffix else plain
            async with Memory(sqlite_url(file), bank=case.id, llm=llm, embedder=embedder, settings=given) as memory:
                for _, messages in sessions_of(case):
                    await memory.retain(messages)
                    if suffix:
                        await _observe(memory)
                    steps.advance()
                costs[suffix][case.id] = await bank_cost(memory, case)
                if not suffix:
                    audits[case.id] = await audit_bank(memory, file.with_suffix(".jsonl"))
                    split_sources += llm.split_sources
    tables, observed = (bank_tables(each) for each in costs.values())
    metrics = ((suffix, bank_metrics(list(each.values()))) for suffix, each in costs.items())
    return Report(
        benchmark="retain",
        metrics={f"{name}{suffix}": value for suffix, each in metrics for name, value in each.items()},
        tables={**tables, "retain by step, with observations": observed["retain by step"], **audit_tables(audits)},
        config={
            **describe(embedder, settings),
            "dataset": dataset.digest[:12],
            "limit": options.limit,
            "cases": len(dataset.cases),
            "observe_delay": OBSERVE_DELAY,
            "split_sources": split_sources,
        },
    )


async def _observe(memory: Memory) -> None:
    """Wait until the observation jobs of the session are due, and run them."""
    due = [job.due for job in await memory.jobs() if job.kind == "observe"]
    if due:
        await asyncio.sleep(max(0.0, (max(due) - utc_now()).total_seconds()))
        await memory.process()


async def measure_drain(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Measure speed and memory of draining a queue."""
    count = options.drain or 0
    if count < drain.DOCUMENT_SIZE:
        raise InvalidInput(f"A drained queue has at least {drain.DOCUMENT_SIZE} messages, not {count}.")
    steps = StepCounter(sink, "drain", 1)
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        samples = await drain.drain(drain.queued_messages(count), embedder, Path(folder))
    steps.advance()
    return Report(
        benchmark="retain",
        metrics=drain.metrics(samples),
        tables={"drain": {f"{each.messages:,}": {"seconds": each.seconds, "rss MB": each.rss_mb} for each in samples}},
        config={**describe(embedder, settings), "drain": count},
    )
