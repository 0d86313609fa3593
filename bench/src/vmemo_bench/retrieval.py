"""Retrieval mode: run every case of a dataset and report means over its questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.bank_contents import audit_tables, bank_metrics, bank_tables
from vmemo_bench.bench_store import BenchStore, kept_banks, open_store
from vmemo_bench.case_run import CaseResult, QuestionScore, RunSetup, run_case
from vmemo_bench.checkpoint import Checkpoint
from vmemo_bench.concurrency import run_limited
from vmemo_bench.datasets import Case, Dataset, load
from vmemo_bench.environment import describe, fingerprint
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.recordings import engine_of
from vmemo_bench.report import Report, Setting, Table
from vmemo_bench.statistics import means, percentiles

COMPARED = ("recall@10", "evidence@500", "evidence@1000", "evidence@2000", "mrr")
"""Metrics by which engines and cases are compared."""
LEASE_SECONDS = 3600.0
"""Lease of the jobs of a bank that one process fills."""


async def measure_retrieval(
    options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink
) -> Report:
    """Run the cases that are not finished yet, and report on all of them."""
    dataset = load(options)
    setup = setup_of(options, dataset, embedder, settings)
    async with open_store(options, embedder, settings) as store:
        config = {**config_of(dataset, setup), **store.config}
        checkpoint = case_checkpoint(options.work_folder, dataset.name, config)
        results = await _run(options, dataset, setup, checkpoint=checkpoint, store=store, sink=sink)
    checkpoint.clear()
    return summarise(options, dataset, results, {**config, **setup.engine.counts})


def case_checkpoint(folder: Path, name: str, config: Mapping[str, Setting]) -> Checkpoint[CaseResult]:
    """Return the checkpoint of the cases of a run with this configuration."""
    return Checkpoint(folder / f"{name}-{fingerprint(config)}.jsonl", CaseResult, lambda result: result.case)


def setup_of(options: BenchOptions, dataset: Dataset, embedder: Embedder, settings: Settings) -> RunSetup:
    """Return the setup of a run over the dataset."""
    return RunSetup(
        embedder=embedder,
        settings=_repeatable(settings) if options.engine == "llm" else settings,
        unit=dataset.unit,
        budget=options.budget,
        max_tokens=dataset.max_tokens,
        engine=engine_of(options, dataset),
    )


def _repeatable(settings: Settings) -> Settings:
    """Return settings with which the prompts of a run depend on its data alone, not on the speed of the model.

    Episodes are extracted one after the other, observations follow at once, and rules resolve the times of questions.
    A job whose lease expired while the model takes its time would be sent again.
    """
    return settings.model_copy(
        update={
            "background": False,
            "extractions_per_bank": 1,
            "observe_delay": 0.0,
            "question_timeout": 0.0,
            "lease_seconds": LEASE_SECONDS,
        }
    )


async def _run(
    options: BenchOptions,
    dataset: Dataset,
    setup: RunSetup,
    *,
    checkpoint: Checkpoint[CaseResult],
    store: BenchStore,
    sink: ProgressSink,
) -> list[CaseResult]:
    steps = StepCounter(sink, dataset.name, sum(map(_steps_of, dataset.cases)))
    kept = kept_banks(options, dataset)

    async def run(case: Case) -> CaseResult:
        result = checkpoint.get(case.id)
        if result is not None:
            steps.advance(_steps_of(case))
            return result
        async with store.bank(case.id) as temporary:
            location = temporary if kept is None else kept.location(case.id)
            return checkpoint.append(await run_case(case, setup, location, steps.advance))

    return await run_limited(options.concurrency, run, dataset.cases)


def _steps_of(case: Case) -> int:
    return len(case.sessions) + len(case.questions)


def config_of(dataset: Dataset, setup: RunSetup) -> dict[str, Setting]:
    """Return the configuration that the scores of a case depend on."""
    # The selection of cases (sample, limit) is omitted: a larger run resumes from a smaller one.
    return {
        **describe(setup.embedder, setup.settings),
        **setup.engine.config,
        "dataset": dataset.digest[:12],
        "unit": setup.unit,
        "budget": setup.budget,
        "max_tokens": setup.max_tokens,
    }


def selection_of(options: BenchOptions, dataset: Dataset, results: Sequence[object]) -> dict[str, Setting]:
    """Return the selected part of a dataset as configuration of the report."""
    return {
        "sample": options.sample,
        "limit": options.limit,
        "cases": len(dataset.cases),
        "questions": len(results),
        "skipped_evidence": dataset.parsed.skipped_evidence,
        "skipped_questions": dataset.parsed.skipped_questions,
    }


def summarise(
    options: BenchOptions, dataset: Dataset, results: Sequence[CaseResult], config: Mapping[str, Setting]
) -> Report:
    """Report means over all questions and per category, and times per stage."""
    scores = [question for result in results for question in result.questions]
    categories: defaultdict[str, list[QuestionScore]] = defaultdict(list)
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for question in scores:
        categories[question.category].append(question)
        for stage, ms in question.timings.items():
            stages[stage].append(ms)
    costs = {result.case: result.cost for result in results if result.cost is not None}
    return Report(
        benchmark=options.benchmark,
        metrics={
            **means([question.metrics for question in scores]),
            **(bank_metrics(list(costs.values())) if costs else {}),
        },
        categories={name: means([q.metrics for q in members]) for name, members in sorted(categories.items())},
        # The total comes last.
        timings={stage: percentiles(stages[stage]) for stage in sorted(stages, key="total".__eq__)},
        config={
            **config,
            **selection_of(options, dataset, scores),
            "messages": sum(result.messages for result in results),
            "facts": sum(result.facts for result in results),
        },
        tables={
            **audit_tables({result.case: result.audit for result in results if result.audit is not None}),
            **(bank_tables(costs) | {"retrieval by case": _by_case(results)} if costs else {}),
        },
    )


def _by_case(results: Sequence[CaseResult]) -> Table:
    means_of = {result.case: means([question.metrics for question in result.questions]) for result in results}
    return {case: {name: scores[name] for name in COMPARED if name in scores} for case, scores in means_of.items()}
