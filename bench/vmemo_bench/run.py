"""From options to a report, and from a report to files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.errors import InvalidInput
from vmemo.settings import Settings
from vmemo_bench.ablation import measure_ablation
from vmemo_bench.embedders import StoredDocuments
from vmemo_bench.environment import embedding_cache, make_folder
from vmemo_bench.html import render
from vmemo_bench.load import measure_load
from vmemo_bench.options import BenchOptions, ProgressSink, QaOptions, silent
from vmemo_bench.qa.measure import measure_qa
from vmemo_bench.report import Report
from vmemo_bench.retain import measure_drain, measure_retain
from vmemo_bench.retrieval import measure_retrieval
from vmemo_bench.speed import measure_speed

_MEASURES = {"ablation": measure_ablation, "retain": measure_retain}


async def run_benchmark(options: BenchOptions, progress: ProgressSink = silent) -> Report:
    """Run one benchmark to its end, or what an interrupted run of it left to do."""
    _check(options)
    embedder = options.embedder or PackagedEmbedder()
    # Caching is the benchmarks' own affair: whatever else is set, no file stands before the embedder here.
    settings = replace(options.settings or Settings(), embedding_cache=None)
    if options.benchmark == "speed":
        return await measure_speed(options, embedder, settings, progress)
    if options.benchmark == "load":
        return await measure_load(options, embedder, settings, progress)
    if options.drain is not None:
        if options.benchmark != "retain":
            raise InvalidInput(f"drain is for retain, not for {options.benchmark}")
        return await measure_drain(options, embedder, settings, progress)
    with embedding_cache(options) as cache:
        usual = measure_qa if options.mode == "qa" else measure_retrieval
        measure = _MEASURES.get(options.benchmark, usual)
        return await measure(options, StoredDocuments(embedder, cache), settings, progress)


def _check(options: BenchOptions) -> None:
    if options.store != "sqlite" and (options.mode == "qa" or options.benchmark in ("retain", "load")):
        raise InvalidInput("another store is for retrieval, ablation and speed; the rest is measured on sqlite")
    if options.mode == "qa" and (options.benchmark == "speed" or options.benchmark in _MEASURES):
        raise InvalidInput(f"QA mode is for locomo, longmemeval, ours and sample, not for {options.benchmark}")
    if options.mode != "qa" and options.qa != QaOptions():
        raise InvalidInput("who answers and who judges matters in QA mode only: pass --mode qa as well")


def write_report(report: Report, *, json: Path | None = None, html: Path | None = None) -> None:
    """Write the report in the forms that are asked for; folders are made if need be."""
    for path, text in ((json, report.to_json()), (html, render(report))):
        if path is not None:
            make_folder(path.parent)
            path.write_text(text, encoding="utf-8")
