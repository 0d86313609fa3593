"""Run a benchmark and write its report."""

from __future__ import annotations

from pathlib import Path

from vmemo.errors import InvalidInput
from vmemo.settings import Settings
from vmemo_bench.ablation import measure_ablation
from vmemo_bench.compare.run import measure_compare
from vmemo_bench.dates import measure_dates
from vmemo_bench.embedders import DocumentCacheEmbedder
from vmemo_bench.engines import measure_engines
from vmemo_bench.environment import embedder_of, embedding_cache, make_folder
from vmemo_bench.languages import measure_languages
from vmemo_bench.lives import measure_lives
from vmemo_bench.llms import open_llms
from vmemo_bench.load import measure_load
from vmemo_bench.options import BenchOptions, QaOptions
from vmemo_bench.pages.report_page import render
from vmemo_bench.precision import measure_precision
from vmemo_bench.progress import ProgressSink, silent
from vmemo_bench.qa.run import measure_qa
from vmemo_bench.report import Report
from vmemo_bench.retain import measure_drain, measure_retain
from vmemo_bench.retrieval import measure_retrieval
from vmemo_bench.scale import measure_scale
from vmemo_bench.speed import measure_speed
from vmemo_bench.updates import measure_updates

_WITHOUT_CACHE = {
    "speed": measure_speed,
    "load": measure_load,
    "scale": measure_scale,
    "dates": measure_dates,
    "languages": measure_languages,
    "lives": measure_lives,
    "precision": measure_precision,
}
_WITH_CACHE = {
    "ablation": measure_ablation,
    "compare": measure_compare,
    "engines": measure_engines,
    "retain": measure_retain,
    "updates": measure_updates,
}
_SQLITE_ONLY = ("retain", "load", "updates", "compare", "precision")
_ANSWERABLE = ("locomo", "longmemeval", "beam", "ours", "sample")


async def run_benchmark(options: BenchOptions, progress: ProgressSink = silent) -> Report:
    """Run a benchmark, or the rest of an interrupted run of it, and return its report."""
    _check(options)
    async with open_llms(options) as opened:
        return await _run(opened, progress)


async def _run(options: BenchOptions, progress: ProgressSink) -> Report:
    embedder = embedder_of(options)
    # Benchmarks cache documents by themselves; a cache of the settings would also cache queries.
    settings = (options.settings or Settings()).model_copy(update={"embedding_cache": None})
    measure = measure_drain if options.drain is not None else _WITHOUT_CACHE.get(options.benchmark)
    if measure is not None:
        return await measure(options, embedder, settings, progress)
    measure = _WITH_CACHE.get(options.benchmark, measure_qa if options.mode == "qa" else measure_retrieval)
    with embedding_cache(options) as cache:
        return await measure(options, DocumentCacheEmbedder(embedder, cache), settings, progress)


def _check(options: BenchOptions) -> None:
    if options.store != "sqlite" and (options.mode == "qa" or options.benchmark in _SQLITE_ONLY):
        raise InvalidInput(f"QA mode, {', '.join(_SQLITE_ONLY)} are measured on sqlite only; omit --store.")
    if options.mode == "qa" and options.benchmark not in _ANSWERABLE:
        raise InvalidInput(f"QA mode is for {', '.join(_ANSWERABLE)}, not for {options.benchmark}.")
    if options.mode != "qa" and options.qa != QaOptions() and options.benchmark != "engines":
        raise InvalidInput("Options of the answerer and the judge apply to QA mode only: pass --mode qa as well.")
    if options.drain is not None and options.benchmark != "retain":
        raise InvalidInput(f"drain is an option of retain, not of {options.benchmark}.")


def write_report(report: Report, *, json: Path | None = None, html: Path | None = None) -> None:
    """Write the report as JSON and as an HTML page, each if a path is given; missing folders are created."""
    for path, format_report in ((json, Report.to_json), (html, render)):
        if path is not None:
            make_folder(path.parent)
            path.write_text(format_report(report), encoding="utf-8")
