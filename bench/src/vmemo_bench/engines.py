"""Comparison of the local engine with a language model on the same conversations.

Each engine retains the conversations; its facts are scored by retrieval, and by answers within a few tokens of context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.environment import vector_digest
from vmemo_bench.options import BenchOptions, EngineName
from vmemo_bench.progress import Progress, ProgressSink
from vmemo_bench.qa.run import measure_qa
from vmemo_bench.report import Report, Table
from vmemo_bench.retrieval import COMPARED, measure_retrieval
from vmemo_bench.statistics import Metrics

ENGINES: tuple[EngineName, ...] = ("local", "llm")
_ANSWERS = ("accuracy_strict", "accuracy_lenient")


async def measure_engines(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Measure retrieval with both engines, the cost of the model, and answers for each number of tokens."""
    scores: dict[EngineName, Metrics] = {}
    reports: dict[EngineName, Report] = {}
    for engine in ENGINES:
        part = replace(options, benchmark=options.dataset, engine=engine)
        reports[engine] = await measure_retrieval(part, embedder, settings, _named(engine, sink))
        scores[engine] = _without_other_ranks(reports[engine].metrics)
        for tokens in options.answer_tokens:
            asked = replace(part, mode="qa", max_tokens=tokens)
            answered = await measure_qa(asked, embedder, settings, _named(f"{engine} {tokens}", sink))
            scores[engine] |= {f"{name}@{tokens}": answered.metrics[name] for name in _ANSWERS}
    return Report(
        benchmark="engines",
        metrics={f"{engine}_{name}": value for engine in ENGINES for name, value in scores[engine].items()},
        tables={"engines": _side_by_side(scores), **reports["llm"].tables},
        config={**reports["llm"].config, "vectors": await vector_digest(embedder)},
    )


def _without_other_ranks(metrics: Mapping[str, float]) -> Metrics:
    """Return the compared metrics of retrieval, and all of the cost."""
    return {name: value for name, value in metrics.items() if name in COMPARED or not _is_rank_metric(name)}


def _is_rank_metric(name: str) -> bool:
    return name.startswith(("recall", "evidence@", "ndcg@", "mrr"))


def _named(part: str, sink: ProgressSink) -> ProgressSink:
    """Return a sink that puts the part of the comparison before the name of each progress."""

    def report(progress: Progress, /) -> None:
        sink(replace(progress, part=f"{part}: {progress.part}"))

    return report


def _side_by_side(scores: Mapping[EngineName, Metrics]) -> Table:
    """Return a row for each metric with a column for each engine, and the difference where both have it."""
    names = dict.fromkeys(name for metrics in scores.values() for name in metrics)
    rows: dict[str, dict[str, float | None]] = {}
    for name in names:
        local, llm = (scores[engine].get(name) for engine in ENGINES)
        rows[name] = {"local": local, "llm": llm, "difference": None if local is None or llm is None else llm - local}
    return rows
