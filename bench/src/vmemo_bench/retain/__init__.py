"""Cost of retain: calls and tokens of a language model, and time and memory of draining a long queue.

LoCoMo's conversations are retained session by session with a model that replays their recordings: every prompt is the
one that a real model would get, and nothing is paid. Tokens are those of cl100k, for prompt, schema and answer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.bank_audit import audit_tables
from vmemo_bench.datasets import load
from vmemo_bench.environment import describe, make_folder
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.recordings import load_recordings
from vmemo_bench.report import Report
from vmemo_bench.retain import cost, drain

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
    costs: dict[bool, list[cost.ConversationCost]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        for observe, measured in costs.items():
            run = cost.CostRun(
                embedder=embedder, settings=observing if observe else plain, folder=Path(folder), observe=observe
            )
            for case in dataset.cases:
                measured.append(await run.measure(case, recordings[case.id], steps.advance))
    return Report(
        benchmark="retain",
        metrics={**cost.metrics(costs[False]), **cost.metrics(costs[True], "_observed")},
        tables={
            "steps": cost.step_table(costs[False]),
            "steps with observations": cost.step_table(costs[True]),
            "conversations": cost.conversation_table(costs[False]),
            **audit_tables({each.case: each.audit for each in costs[False]}),
        },
        config={
            **describe(embedder, settings),
            "dataset": dataset.digest[:12],
            "limit": options.limit,
            "cases": len(dataset.cases),
            "observe_delay": OBSERVE_DELAY,
        },
    )


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
        tables={"drain": drain.table(samples)},
        config={**describe(embedder, settings), "drain": count},
    )
