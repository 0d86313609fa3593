"""What writing to memory costs: a language model's calls and tokens, and, for a long queue, time and memory.

LoCoMo's conversations are retained session by session with a model that replays their recordings, so that every prompt
is the one that a real model would get and nothing is paid. Token counts are cl100k's, of prompt, schema and answer.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench import audit
from vmemo_bench.datasets import Dataset, load
from vmemo_bench.engines import recordings
from vmemo_bench.environment import describe, make_folder
from vmemo_bench.options import BenchOptions, ProgressSink
from vmemo_bench.report import Report
from vmemo_bench.retain import cost, drain
from vmemo_bench.steps import Steps

__all__ = ["measure_drain", "measure_retain"]

NEVER = 1e9
PAUSE = 1.0
"""Seconds in which a session is read whole before the entities it touched are described, as its delay does live."""


async def measure_retain(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Calls and tokens of every step, without observations and with them."""
    dataset = load(options)
    told = recordings(options, dataset)
    plain = replace(settings, background=False, observe_delay=NEVER)
    steps = Steps(sink, "retain", 2 * sum(len(case.sessions) for case in dataset.cases))
    runs: dict[bool, list[cost.Written]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        for observe, written in runs.items():
            chosen = replace(plain, observe_delay=min(PAUSE, settings.observe_delay)) if observe else plain
            desk = cost.Desk(embedder=embedder, settings=chosen, folder=Path(folder), observe=observe)
            for case in dataset.cases:
                written.append(await cost.write(case, told[case.id], desk, steps.advance))
    return _report(options, dataset, runs, embedder, settings)


def _report(
    options: BenchOptions,
    dataset: Dataset,
    runs: dict[bool, list[cost.Written]],
    embedder: Embedder,
    settings: Settings,
) -> Report:
    held = audit.tables({each.case: each.audit for each in runs[False]})
    return Report(
        benchmark="retain",
        metrics={**cost.metrics(runs[False]), **cost.metrics(runs[True], "_observed")},
        tables={
            "steps": cost.steps(runs[False]),
            "steps with observations": cost.steps(runs[True]),
            "conversations": cost.conversations(runs[False]),
            **held,
        },
        config={
            **describe(embedder, settings),
            "dataset": dataset.digest[:12],
            "limit": options.limit,
            "cases": len(dataset.cases),
            "observe_pause": PAUSE,
        },
    )


async def measure_drain(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Speed and memory of draining a queue."""
    count = options.drain or 0
    if count < drain.SITTING:
        raise InvalidInput(f"a queue to drain holds at least {drain.SITTING} messages, not {count}")
    steps = Steps(sink, "drain", 1)
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        samples = await drain.drain(drain.queued(count), embedder, Path(folder), steps.advance)
    return Report(
        benchmark="retain",
        metrics=drain.metrics(samples),
        tables={"drain": drain.table(samples)},
        config={**describe(embedder, settings), "drain": count},
    )
