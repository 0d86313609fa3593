"""Compare: every system stores the same turns with the same encoder, and is asked the same questions."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vmemo.errors import MissingExtra
from vmemo.ports import Embedder
from vmemo.providers import count_tokens
from vmemo.settings import Settings
from vmemo_bench.bench_store import location_in_file
from vmemo_bench.case_run import RunSetup, run_case
from vmemo_bench.compare.product import start_product
from vmemo_bench.compare.systems import HybridSearch, KeywordSearch, TurnSearch, VectorSearch, turns_of
from vmemo_bench.datasets import Case, load
from vmemo_bench.environment import describe, make_folder
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter
from vmemo_bench.report import Report
from vmemo_bench.retrieval import COMPARED, setup_of
from vmemo_bench.statistics import Metrics, RankedItem, means, percentiles, rank_metrics, timed, token_metrics

LIMIT = 50
"""Turns that each system returns: those of ten results, and of 2,000 tokens."""
PLAIN = ("vector", "keyword", "hybrid")


@dataclass
class SystemScores:
    """Metrics of every question, and the milliseconds of searches."""

    metrics: list[Metrics] = field(default_factory=list[Metrics])
    searches: list[float] = field(default_factory=list[float])

    @property
    def row(self) -> dict[str, float]:
        scores = means(self.metrics)
        return {
            **{name: scores[name] for name in COMPARED if name in scores},
            "search p50 ms": percentiles(self.searches)["p50_ms"],
        }


async def measure_compare(options: BenchOptions, embedder: Embedder, settings: Settings, sink: ProgressSink) -> Report:
    """Run every case through vmemo, plain search, and the products whose interpreters are given."""
    dataset = load(options)
    setup = setup_of(options, dataset, embedder, settings)
    names = ("vmemo", *PLAIN, *options.products)
    scores = {name: SystemScores() for name in names}
    steps = StepCounter(sink, "compare", len(dataset.cases) * len(names))
    async with _embeddings(options.products, embedder) as endpoint:
        for case in dataset.cases:
            for name in names:
                with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
                    if name == "vmemo":
                        await _measure_vmemo(case, setup, Path(folder), scores[name])
                    else:
                        async with _open(name, options.products, embedder, Path(folder), endpoint) as system:
                            await _measure(case, system, scores[name])
                steps.advance()
    return Report(
        benchmark="compare",
        metrics=means(scores["vmemo"].metrics),
        tables={"systems": {name: scores[name].row for name in names}},
        config={**describe(embedder, settings), "dataset": dataset.digest[:12], "limit": LIMIT},
    )


@asynccontextmanager
async def _embeddings(products: Mapping[str, Path], embedder: Embedder) -> AsyncGenerator[str]:
    """Yield the URL of an endpoint for the products, if there are any."""
    if not products:
        yield ""
        return
    try:
        from vmemo_bench.compare.endpoint import serve_embeddings  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("Comparing products needs another package: pip install 'vmemo[server]'.") from error
    async with serve_embeddings(embedder) as endpoint:
        yield endpoint


@asynccontextmanager
async def _open(
    name: str, products: Mapping[str, Path], embedder: Embedder, folder: Path, endpoint: str
) -> AsyncGenerator[TurnSearch]:
    match name:
        case "vector":
            yield VectorSearch(embedder)
        case "keyword":
            yield KeywordSearch()
        case "hybrid":
            yield HybridSearch(VectorSearch(embedder), KeywordSearch())
        case _:
            async with start_product(name, products[name], folder, endpoint) as product:
                yield product


async def _measure(case: Case, system: TurnSearch, scores: SystemScores) -> None:
    turns = turns_of(case)
    await system.add(turns)
    for question in case.questions:
        found, elapsed = await timed(system.search(question.text, LIMIT))
        ranking = [RankedItem(frozenset({id}), count_tokens(turns[id])) for id in found]
        scores.metrics.append(_score(question.evidence, ranking))
        scores.searches.append(elapsed)


def _score(evidence: frozenset[str], ranking: Sequence[RankedItem]) -> Metrics:
    return {**rank_metrics(evidence, ranking), **token_metrics(evidence, ranking)}


async def _measure_vmemo(case: Case, setup: RunSetup, folder: Path, scores: SystemScores) -> None:
    result = await run_case(case, setup, location_in_file(folder / "vmemo.db", "case"), lambda: None)
    scores.metrics += [dict(question.metrics) for question in result.questions]
    scores.searches += [question.timings["total"] for question in result.questions]
