"""`vmemo benchmark`."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Annotated

import typer
from rich.progress import Progress as Bar
from rich.progress import TaskID
from rich.table import Table

from vmemo.cli.command import command
from vmemo.cli.options import Budgeted, parse_budget
from vmemo.cli.output import one_line, progress, stdout, table
from vmemo.models import Budget
from vmemo_bench import (
    BenchmarkName,
    BenchOptions,
    DatasetName,
    EngineName,
    LoadOptions,
    Mode,
    Progress,
    QaOptions,
    Report,
    SpeedOptions,
    dump_prompts,
    export_texts,
    import_vectors,
    plain,
    run_benchmark,
    write_report,
)
from vmemo_bench.tables import tables

_SPEED = "Speed"
_ELSEWHERE = "Embedding elsewhere"
_QA = "Questions and answers (--mode qa)"

Answerer = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Who answers, such as openai:gpt-5-mini; else VMEMO_LLM.", rich_help_panel=_QA),
]
Judge = Annotated[str | None, typer.Option(metavar="MODEL", help="Who judges; else the answerer.", rich_help_panel=_QA)]
Parallel = Annotated[int | None, typer.Option(min=1, help="Questions at a time; else 4.", rich_help_panel=_QA)]
Looks = Annotated[
    int | None,
    typer.Option(min=0, max=3, help="How often an answer may look into memory again; else 3.", rich_help_panel=_QA),
]
PricesText = Annotated[
    str | None,
    typer.Option(
        metavar="IN,OUT[,IN,OUT]",
        help="Dollars per million tokens of the answerer, and of the judge if they differ.",
        rich_help_panel=_QA,
    ),
]
Answers = Annotated[
    Path | None, typer.Option(help="JSON Lines of answers, and perhaps verdicts, from elsewhere.", rich_help_panel=_QA)
]
DumpTo = Annotated[
    Path | None,
    typer.Option("--dump-prompts", help="Only write what models are to be asked to this folder.", rich_help_panel=_QA),
]


@command(
    "vmemo benchmark sample",
    "vmemo benchmark locomo --data ../shared/data --json locomo.json --html locomo.html",
    "vmemo benchmark locomo --engine recorded",
    "vmemo benchmark locomo --store postgres",
    "vmemo benchmark longmemeval --sample 50",
    "vmemo benchmark locomo --mode qa --answerer openai:gpt-5-mini --judge openai:gpt-5 --html qa.html",
    "vmemo benchmark locomo --mode qa --looks 0 --dump-prompts prompts",
    "vmemo benchmark locomo --mode qa --answers answers.jsonl --judge openai:gpt-5",
    "vmemo benchmark ablation --dataset sample --html ablation.html",
    "vmemo benchmark speed --sizes 1000,10000 --budgets low,mid,high --json speed.json",
    "vmemo benchmark speed --store postgres --sizes 10000,100000 --banks 10,10000 --bulk 5000",
    "vmemo benchmark retain --limit 1 --json retain.json",
    "vmemo benchmark retain --drain 10000",
    "vmemo benchmark load --clients 64 --seconds 120",
    "vmemo benchmark longmemeval --export-texts missing.jsonl",
)
def benchmark(  # noqa: PLR0913 - each is an option of the command line
    name: Annotated[BenchmarkName, typer.Argument(help="Which one; sample and speed need no data.")],
    data: Annotated[Path | None, typer.Option(envvar="VMEMO_DATA", help="The folder of the datasets.")] = None,
    file: Annotated[Path | None, typer.Option(help="One file in place of the folder.")] = None,
    store: Annotated[
        str,
        typer.Option(metavar="sqlite|postgres|URL", help="Where banks are made; postgres starts a server for the run."),
    ] = "sqlite",
    dataset: Annotated[DatasetName, typer.Option(help="What it runs over.", rich_help_panel="Ablation")] = "locomo",
    engine: Annotated[EngineName, typer.Option(help="Who reads: recorded replays an LLM, locomo only.")] = "local",
    sample: Annotated[int | None, typer.Option(min=1, help="A stratified part of longmemeval's questions.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first cases.")] = None,
    how_far: Budgeted = "mid",
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens that a recall may return.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of the embeddings kept from run to run.")] = None,
    work: Annotated[Path | None, typer.Option(help="Folder of an interrupted run's banks and cases.")] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Facts to grow a bank to.", rich_help_panel=_SPEED)
    ] = None,
    budgets: Annotated[
        str | None, typer.Option(metavar="low,mid,…", help="Budgets to measure in turn.", rich_help_panel=_SPEED)
    ] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Queries at each size.", rich_help_panel=_SPEED)] = None,
    banks: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="How many small banks to ask in one store; 0 none.", rich_help_panel=_SPEED),
    ] = None,
    facts_per_bank: Annotated[
        int | None, typer.Option(min=1, help="Facts of each of them; else 20.", rich_help_panel=_SPEED)
    ] = None,
    bulk: Annotated[
        int | None, typer.Option(min=0, help="Messages to write beside a bare COPY; 0 none.", rich_help_panel=_SPEED)
    ] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Messages retained with the real embedder.", rich_help_panel=_SPEED)
    ] = None,
    drain: Annotated[
        int | None, typer.Option(min=1, help="Drain a queue of so many messages.", rich_help_panel="Retain")
    ] = None,
    clients: Annotated[
        int | None, typer.Option(min=1, help="Clients at a time; else 64.", rich_help_panel="Load")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long they press; else 120.", rich_help_panel="Load")
    ] = None,
    export_to: Annotated[
        Path | None,
        typer.Option("--export-texts", help="Write the texts that lack a vector.", rich_help_panel=_ELSEWHERE),
    ] = None,
    import_from: Annotated[
        Path | None, typer.Option("--import-vectors", help="Read vectors into the cache.", rich_help_panel=_ELSEWHERE)
    ] = None,
    mode: Annotated[Mode, typer.Option(help="Score what is recalled, or how questions are answered.")] = "retrieval",
    answerer: Answerer = None,
    judge: Judge = None,
    parallel: Parallel = None,
    looks: Looks = None,
    prices: PricesText = None,
    answers: Answers = None,
    dump_to: DumpTo = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with plots to this file.")] = None,
) -> None:
    """Measure how well memory finds what answers a question, or answers it, and how fast. A broken-off run goes on."""
    options = BenchOptions(
        benchmark=name,
        dataset=dataset,
        mode=mode,
        engine=engine,
        store=store,
        data=data,
        file=file,
        sample=sample,
        limit=limit,
        budget=parse_budget(how_far),
        max_tokens=max_tokens,
        cache=cache,
        work=work,
        speed=_speed(
            sizes,
            budgets,
            queries=queries,
            messages=messages,
            banks=banks,
            facts_per_bank=facts_per_bank,
            bulk=bulk,
        ),
        drain=drain,
        load=_load(clients, seconds),
        qa=_qa(answerer, judge, parallel=parallel, looks=looks, prices=prices, answers=answers),
    )
    if dump_to is not None:
        _dump(options, dump_to)
        return
    if export_to is not None or import_from is not None:
        _elsewhere(options, export_to, import_from)
        return
    with progress() as bar, _stoppable():
        report = asyncio.run(run_benchmark(options, Bars(bar)))
    write_report(report, json=json, html=html)
    _show(report, [path for path in (json, html) if path is not None])


@contextmanager
def _stoppable() -> Generator[None]:
    """A run that is told to stop takes away what it has started, as an interrupted one does."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _speed(
    sizes: str | None,
    budgets: str | None,
    *,
    queries: int | None,
    messages: int | None,
    banks: str | None,
    facts_per_bank: int | None,
    bulk: int | None,
) -> SpeedOptions:
    given = SpeedOptions()
    return SpeedOptions(
        sizes=given.sizes if sizes is None else _sizes(sizes, "--sizes"),
        queries=queries or given.queries,
        messages=messages or given.messages,
        budgets=given.budgets if budgets is None else _budgets(budgets),
        banks=given.banks if banks is None else () if banks == "0" else _sizes(banks, "--banks"),
        facts_per_bank=facts_per_bank or given.facts_per_bank,
        bulk=bulk,
    )


def _load(clients: int | None, seconds: float | None) -> LoadOptions:
    given = LoadOptions()
    return LoadOptions(clients=clients or given.clients, seconds=seconds or given.seconds)


def _qa(
    answerer: str | None,
    judge: str | None,
    *,
    parallel: int | None,
    looks: int | None,
    prices: str | None,
    answers: Path | None,
) -> QaOptions:
    given = QaOptions()
    paid = _prices(prices) if prices else ()
    return QaOptions(
        answerer=answerer,
        judge=judge,
        parallel=given.parallel if parallel is None else parallel,
        looks=given.looks if looks is None else looks,
        prices=(paid[0], paid[1]) if paid else None,
        judge_prices=(paid[2], paid[3]) if len(paid) > 2 else None,
        answers=answers,
    )


def _prices(text: str) -> tuple[float, ...]:
    try:
        paid = tuple(map(float, text.split(",")))
    except ValueError:
        paid = ()
    if len(paid) not in (2, 4) or not all(0 <= price < math.inf for price in paid):
        raise typer.BadParameter(f"{text!r} is not two or four prices such as 0.25,2.", param_hint="--prices")
    return paid


def _dump(options: BenchOptions, folder: Path) -> None:
    with progress() as bar:
        file, count = asyncio.run(dump_prompts(options, folder, Bars(bar)))
    stdout().print(f"{count:,} prompts written to {file}.", markup=False, soft_wrap=True)


def _sizes(text: str, option: str) -> tuple[int, ...]:
    parts = text.replace(" ", "").split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1000,10000.", param_hint=option)
    return tuple(map(int, parts))


def _budgets(text: str) -> tuple[Budget, ...]:
    return tuple(parse_budget(part) for part in text.replace(" ", "").split(","))


def _elsewhere(options: BenchOptions, export_to: Path | None, import_from: Path | None) -> None:
    if import_from is not None:
        stdout().print(f"{asyncio.run(import_vectors(options, import_from)):,} vectors imported.")
    if export_to is not None:
        with progress() as bar:
            count = asyncio.run(export_texts(options, export_to, Bars(bar)))
        stdout().print(f"{count:,} texts written to {export_to}.", markup=False)


class Bars:
    """A bar for each part of a run."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, progress: Progress, /) -> None:
        """Move the part's bar."""
        if progress.what not in self._tasks:
            self._tasks[progress.what] = self._bar.add_task(progress.what, total=progress.total)
        self._bar.update(self._tasks[progress.what], completed=progress.done, total=progress.total)


def _show(report: Report, written: list[Path]) -> None:
    for shown in (*tables(report), *_found(report)):
        stdout().print(shown)
    if missing := report.config.get("missing_answers"):
        stdout().print(f"{missing:,} questions have no answer, and are left out of all numbers.")
    for path in written:
        stdout().print(f"written: {path}", markup=False, soft_wrap=True)


def _found(report: Report) -> Iterator[Table]:
    """The report's own tables; one without rows is left out."""
    for title, rows in report.tables.items():
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
        if rows:
            words = {c for c in columns if any(isinstance(cells.get(c), str) for cells in rows.values())}
            made = table("", *(column if column in words else f"{column}>" for column in columns), title=title)
            for name, cells in rows.items():
                made.add_row(name, *(one_line(plain(cells.get(column))) for column in columns))
            yield made
