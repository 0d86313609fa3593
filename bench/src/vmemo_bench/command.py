"""`vmemo benchmark`: one command per benchmark."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from threading import current_thread, main_thread

from vmemo.cli.command import CommandGroup, command
from vmemo.cli.options import parse_budget
from vmemo.cli.output import progress, stdout
from vmemo_bench.command_options import (
    AblationCommandOptions,
    BeamCommandOptions,
    CompareCommandOptions,
    DatasetCommandOptions,
    DatesCommandOptions,
    EnginesCommandOptions,
    FileCommandOptions,
    LanguagesCommandOptions,
    LivesCommandOptions,
    LoadCommandOptions,
    LongMemEvalCommandOptions,
    ModelCommandOptions,
    OutputOptions,
    RetainCommandOptions,
    SampleCommandOptions,
    ScaleCommandOptions,
    SpeedCommandOptions,
    names,
    numbers,
    shared_options,
    takes_options,
)
from vmemo_bench.console import ProgressBars, tables_of
from vmemo_bench.options import BenchmarkName, BenchModelOptions, BenchOptions, DatasetName, LoadOptions, ScaleOptions
from vmemo_bench.qa.prompt_export import dump_prompts
from vmemo_bench.report import Report
from vmemo_bench.run import run_benchmark, write_report
from vmemo_bench.vector_exchange import export_texts, import_vectors


@command("vmemo benchmark sample", "vmemo benchmark sample --json sample.json", name="benchmark sample")
@takes_options(SampleCommandOptions)
def sample(options: SampleCommandOptions) -> None:
    """Measure retrieval or answers on two packaged conversations; needs no data."""
    _run_dataset("sample", options)


@command(
    "vmemo benchmark locomo --data ../shared/data --json locomo.json --html locomo.html",
    "vmemo benchmark locomo --engine recorded",
    "vmemo benchmark locomo --store postgres",
    "vmemo benchmark locomo --mode qa --answerer openai:gpt-5-mini --judge openai:gpt-5 --html qa.html",
    "vmemo benchmark locomo --mode qa --max-lookups 0 --dump-prompts prompts",
    "vmemo benchmark locomo --mode qa --answers answers.jsonl --judge openai:gpt-5",
    name="benchmark locomo",
)
@takes_options(DatasetCommandOptions)
def locomo(options: DatasetCommandOptions) -> None:
    """Measure retrieval or answers on LoCoMo. An interrupted run resumes."""
    _run_dataset("locomo", options)


@command(
    "vmemo benchmark longmemeval --sample 50",
    "vmemo benchmark longmemeval --export-texts missing.jsonl",
    "vmemo benchmark longmemeval --import-vectors vectors.jsonl",
    name="benchmark longmemeval",
)
@takes_options(LongMemEvalCommandOptions)
def longmemeval(options: LongMemEvalCommandOptions) -> None:
    """Measure retrieval or answers on LongMemEval. An interrupted run resumes."""
    _run_dataset("longmemeval", options)


@command(
    "vmemo benchmark beam --size 1m --conversations 3,4 --data ../shared/data",
    "vmemo benchmark beam --mode qa --conversations 1,2,3 --keep-banks banks --answerer openai:gpt-5-mini",
    "vmemo benchmark beam --mode qa --types event_ordering,summarization --dump-prompts prompts",
    name="benchmark beam",
)
@takes_options(BeamCommandOptions)
def beam(options: BeamCommandOptions) -> None:
    """Measure retrieval, or answers by their rubrics, on BEAM. An interrupted run resumes."""
    _run_dataset("beam", options)


@command(
    "vmemo benchmark engines --data ../shared/data --llm openai:gpt-5-mini --record ours.jsonl.xz",
    "vmemo benchmark engines --data ../shared/data --replay ours.jsonl.xz --qa-tokens 500,1000 --max-lookups 0",
    name="benchmark engines",
)
@takes_options(EnginesCommandOptions)
def engines(options: EnginesCommandOptions) -> None:
    """Compare the local engine with a language model: retrieval, derived text, cost, and answers."""
    tokens = numbers(options.qa_tokens, "--qa-tokens") if options.qa_tokens else ()
    _run(replace(_model_options("engines", options), answer_tokens=tokens), options)


@command(
    "vmemo benchmark ours --data ../shared/data --html ours.html",
    "vmemo benchmark ours --engine llm --llm openai:gpt-5-mini --record ours.jsonl.xz",
    name="benchmark ours",
)
@takes_options(DatasetCommandOptions)
def ours(options: DatasetCommandOptions) -> None:
    """Measure retrieval or answers on our own conversations. An interrupted run resumes."""
    _run_dataset("ours", options)


@command(
    "vmemo benchmark ablation --dataset sample --html ablation.html",
    "vmemo benchmark ablation --data ../shared/data",
    name="benchmark ablation",
)
@takes_options(AblationCommandOptions)
def ablation(options: AblationCommandOptions) -> None:
    """Measure retrieval without each channel, step and stage in turn. An interrupted run resumes."""
    _run(_bench_options("ablation", options), options)


@command(
    "vmemo benchmark compare --dataset sample",
    "vmemo benchmark compare --data ../shared/data --mem0 mem0/bin/python --mempalace mempalace/bin/python",
    name="benchmark compare",
)
@takes_options(CompareCommandOptions)
def compare(options: CompareCommandOptions) -> None:
    """Measure retrieval beside plain search and other memory products, with the same encoder and no model calls."""
    _run(replace(_bench_options("compare", options), products=options.products), options)


@command(
    "vmemo benchmark speed --sizes 1000,10000 --budgets low,mid,high --json speed.json",
    "vmemo benchmark speed --store postgres --sizes 10000,100000 --banks 10,1000 --bulk 5000",
    name="benchmark speed",
)
@takes_options(SpeedCommandOptions)
def speed(options: SpeedCommandOptions) -> None:
    """Measure retain and recall as a bank grows, relative to the embedder's own time; needs no data."""
    _run(replace(_bench_options("speed", options), speed=options.speed()), options)


@command(
    "vmemo benchmark retain --limit 1 --json retain.json",
    "vmemo benchmark retain --drain 10000",
    name="benchmark retain",
)
@takes_options(RetainCommandOptions)
def retain(options: RetainCommandOptions) -> None:
    """Measure the calls and tokens of retain on LoCoMo with a recorded model, or the draining of a queue."""
    _run(_bench_options("retain", options), options)


@command("vmemo benchmark updates --data ../shared/data", name="benchmark updates")
@takes_options(FileCommandOptions)
def updates(options: FileCommandOptions) -> None:
    """Measure how well a bank distinguishes current values from outdated ones."""
    _run(_bench_options("updates", options), options)


@command("vmemo benchmark precision --data ../shared/data", name="benchmark precision")
@takes_options(FileCommandOptions)
def precision(options: FileCommandOptions) -> None:
    """Measure on PrecisionMemBench if a recall returns what a query needs and nothing else, beside other products."""
    _run(_bench_options("precision", options), options)


@command("vmemo benchmark dates --data ../shared/data", name="benchmark dates")
@takes_options(DatesCommandOptions)
def dates(options: DatesCommandOptions) -> None:
    """Measure how many of the dates that retain writes into text are right, on judged ones."""
    _run(_bench_options("dates", options), options)


@command(
    "vmemo benchmark languages",
    "vmemo benchmark languages conversations --json languages.json",
    name="benchmark languages",
)
@takes_options(LanguagesCommandOptions)
def languages(options: LanguagesCommandOptions) -> None:
    """Measure recall from conversations in other languages than English, by language."""
    _run_annotated("languages", options)


@command(
    "vmemo benchmark lives",
    "vmemo benchmark lives conversations --part retrieval --json lives.json",
    name="benchmark lives",
)
@takes_options(LivesCommandOptions)
def lives(options: LivesCommandOptions) -> None:
    """Measure questions, changes, instructions, noise, dates and people of annotated conversations."""
    _run_annotated("lives", options)


@command("vmemo benchmark load --clients 64 --seconds 120", name="benchmark load")
@takes_options(LoadCommandOptions)
def load(options: LoadCommandOptions) -> None:
    """Measure a server under concurrent clients, with a restart halfway; needs no data."""
    parts = shared_options(LoadOptions, options, workers=numbers(options.workers, "--workers"))
    _run(replace(_bench_options("load", options), load=parts), options)


@command(
    "vmemo benchmark scale --data ../shared/data",
    "vmemo benchmark scale --store postgres --facts 100000 --banks 0 --tokens 0",
    name="benchmark scale",
)
@takes_options(ScaleCommandOptions)
def scale(options: ScaleCommandOptions) -> None:
    """Measure a bank of a million facts, ten thousand banks, and a haystack of ten million tokens."""
    _run(replace(_bench_options("scale", options), scale=shared_options(ScaleOptions, options)), options)


benchmark = CommandGroup(
    "benchmark",
    "Measure retrieval, answers, speed and cost.",
    (
        sample,
        locomo,
        longmemeval,
        beam,
        ours,
        engines,
        ablation,
        compare,
        speed,
        retain,
        load,
        scale,
        updates,
        dates,
        languages,
        lives,
        precision,
    ),
)


def _bench_options(benchmark: BenchmarkName, options: OutputOptions) -> BenchOptions:
    """Return a run with every option of the command that `BenchOptions` has too."""
    bench = shared_options(BenchOptions, options, benchmark=benchmark)
    listed = {name: names(getattr(options, name)) for name in ("conversations", "types") if hasattr(options, name)}
    return replace(bench, budget=parse_budget(str(bench.budget)), **listed)


def _model_options(benchmark: BenchmarkName, options: ModelCommandOptions) -> BenchOptions:
    return replace(_bench_options(benchmark, options), llm=options.llm_options(), qa=options.qa())


def _run_dataset(name: DatasetName, options: SampleCommandOptions) -> None:
    bench = _model_options(name, options)
    if options.dump_prompts is not None:
        with progress() as bars:
            file, count = asyncio.run(dump_prompts(bench, options.dump_prompts, ProgressBars(bars)))
        stdout().print(f"{count:,} prompts written to {file}.", markup=False, soft_wrap=True)
    elif options.import_vectors is not None or options.export_texts is not None:
        _exchange_vectors(bench, options)
    else:
        _run(bench, options)


def _run_annotated(benchmark: BenchmarkName, options: LanguagesCommandOptions) -> None:
    llm = BenchModelOptions(model=options.llm, timeout=options.llm_timeout)
    bench = replace(_bench_options(benchmark, options), files=tuple(options.files or ()), llm=llm)
    _run(replace(bench, engine="llm" if options.llm else options.engine), options)


def _exchange_vectors(bench: BenchOptions, options: SampleCommandOptions) -> None:
    if options.import_vectors is not None:
        count = asyncio.run(import_vectors(bench, options.import_vectors))
        stdout().print(f"{count:,} vectors imported.")
    if options.export_texts is not None:
        with progress() as bars:
            count = asyncio.run(export_texts(bench, options.export_texts, ProgressBars(bars)))
        stdout().print(f"{count:,} texts written to {options.export_texts}.", markup=False)


def _run(bench: BenchOptions, options: OutputOptions) -> None:
    with progress() as bars, _terminate_as_interrupt():
        report = asyncio.run(run_benchmark(bench, ProgressBars(bars)))
    write_report(report, json=options.json, html=options.html)
    _print(report)
    for path in (options.json, options.html):
        if path is not None:
            stdout().print(f"written: {path}", markup=False, soft_wrap=True)


@contextmanager
def _terminate_as_interrupt() -> Generator[None]:
    """Treat SIGTERM like an interrupt, so that a terminated run removes its temporary files and servers."""
    if current_thread() is not main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _print(report: Report) -> None:
    for table in tables_of(report):
        stdout().print(table)
    if missing := report.config.get("missing_answers"):
        stdout().print(f"{missing:,} questions have no answer, and are omitted from all numbers.")
