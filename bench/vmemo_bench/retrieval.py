"""E1 in retrieval mode: every case of a dataset, one after the other, and the means over its questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.audit import tables
from vmemo_bench.datasets import Case, Dataset, load
from vmemo_bench.engines import engine
from vmemo_bench.environment import describe, fingerprint
from vmemo_bench.ledger import Asked, Finished, Ledger
from vmemo_bench.metrics import means, spread
from vmemo_bench.options import BenchOptions, ProgressSink
from vmemo_bench.report import Report, Setting
from vmemo_bench.runner import Setup, run_case
from vmemo_bench.steps import Steps
from vmemo_bench.stores import Ground, ground


async def measure_retrieval(
    options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink
) -> Report:
    """Run what is left of the dataset and report on all of it."""
    dataset = load(options)
    setup = setup_of(options, dataset, embedder, settings)
    async with ground(options, settings) as land:
        config = {**config_of(dataset, setup), **land.config}
        ledger = Ledger(options.work_folder, f"{dataset.name}-{fingerprint(config)}")
        finished = await _run(dataset, setup, ledger, land, sink)
    ledger.clear()
    return summarise(options, dataset, finished, {**config, **setup.engine.counts})


def setup_of(options: BenchOptions, dataset: Dataset, embedder: Embedder, settings: Settings) -> Setup:
    """How the dataset's cases are kept and asked."""
    return Setup(
        embedder=embedder,
        settings=settings,
        unit=dataset.unit,
        budget=options.budget,
        max_tokens=dataset.max_tokens,
        engine=engine(options, dataset),
    )


async def _run(dataset: Dataset, setup: Setup, ledger: Ledger, land: Ground, sink: ProgressSink) -> list[Finished]:
    known = ledger.load()
    steps = Steps(sink, dataset.name, sum(map(_length, dataset.cases)))
    finished: list[Finished] = []
    for case in dataset.cases:
        done = known.get(case.id)
        if done is None:
            async with land.bank(case.id) as spot:
                done = await run_case(case, setup, spot, steps.advance)
            ledger.note(done)
        else:
            steps.advance(_length(case))
        finished.append(done)
    return finished


def _length(case: Case) -> int:
    return len(case.sessions) + len(case.questions)


def config_of(dataset: Dataset, setup: Setup) -> dict[str, Setting]:
    """What the scores depend on."""
    # What selects cases (sample, limit) is left out: a wider run may build on a narrower one.
    return {
        **describe(setup.embedder, setup.settings),
        **setup.engine.config,
        "dataset": dataset.digest[:12],
        "unit": setup.unit,
        "budget": setup.budget,
        "max_tokens": setup.max_tokens,
    }


def summarise(
    options: BenchOptions, dataset: Dataset, finished: Sequence[Finished], config: dict[str, Setting]
) -> Report:
    """Means over all questions and per category, and times per stage."""
    asked = [question for case in finished for question in case.questions]
    categories: defaultdict[str, list[Asked]] = defaultdict(list)
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for question in asked:
        categories[question.category].append(question)
        for stage, ms in question.timings.items():
            stages[stage].append(ms)
    counts: dict[str, Setting] = {
        "sample": options.sample,
        "limit": options.limit,
        "cases": len(finished),
        "questions": len(asked),
        "messages": sum(case.messages for case in finished),
        "facts": sum(case.facts for case in finished),
        "skipped_evidence": dataset.parsed.skipped_evidence,
        "skipped_questions": dataset.parsed.skipped_questions,
    }
    return Report(
        benchmark=options.benchmark,
        metrics=means([question.metrics for question in asked]),
        categories={name: means([q.metrics for q in members]) for name, members in sorted(categories.items())},
        # Some stages run for some questions only; the sum of all stands at the end.
        timings={stage: spread(stages[stage]) for stage in sorted(stages, key="total".__eq__)},
        config=config | counts,
        tables=tables({case.case: case.audit for case in finished if case.audit is not None}),
    )
