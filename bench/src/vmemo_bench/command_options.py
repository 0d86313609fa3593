"""Command line options of the benchmarks, as dataclasses whose fields become options.

Commands share options by inheriting from the same dataclass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_type_hints

import typer

from vmemo.cli.options import Budgeted, EmbedderName, parse_budget
from vmemo.models import Budget
from vmemo_bench.options import (
    BeamSize,
    BenchModelOptions,
    DatasetName,
    EngineName,
    LivesPart,
    LoadOptions,
    Mode,
    QaOptions,
    ScaleOptions,
    SpeedOptions,
)

OptionsT = TypeVar("OptionsT")
_QA = "Questions and answers (--mode qa)"
_VECTORS = "Vectors computed on another machine"
_MODEL = "Language model"

Data = Annotated[Path | None, typer.Option(envvar="VMEMO_DATA", help="Folder of the datasets.")]
DataFile = Annotated[Path | None, typer.Option(help="One dataset file instead of the folder.")]
Store = Annotated[
    str,
    typer.Option(
        metavar="sqlite|postgres|neo4j|URL",
        help="Store of the banks; postgres starts a server for the run, neo4j uses that of NEO4J_URL.",
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(help="Extraction engine: local, a language model (llm), or its recorded extractions of LoCoMo."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Only the first N cases.")]
Sample = Annotated[int | None, typer.Option(min=1, help="A stratified sample of N questions.")]
KeptBanks = Annotated[
    Path | None, typer.Option(help="Keep the filled banks in this folder, and use those that it contains.")
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Tokens that a recall returns at most.")]

Llm = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Model that retains, such as openai:gpt-5-mini; --engine llm takes VMEMO_LLM by default.",
        rich_help_panel=_MODEL,
    ),
]
LlmTimeout = Annotated[
    float | None, typer.Option(min=1, help="Seconds that a call of a model may take.", rich_help_panel=_MODEL)
]
Concurrency = Annotated[int, typer.Option(min=1, help="Conversations retained concurrently.", rich_help_panel=_MODEL)]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options of every benchmark."""

    work: Annotated[Path | None, typer.Option(help="Folder of temporary banks and of an interrupted run.")] = None
    json: Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")] = None
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with plots to this file.")] = None


@dataclass(frozen=True, kw_only=True)
class CachedOptions(OutputOptions):
    """Options of benchmarks that cache embeddings."""

    embedder: EmbedderName = None
    cache: Annotated[Path | None, typer.Option(help="Folder of the embeddings that runs share.")] = None
    limit: Limit = None


@dataclass(frozen=True, kw_only=True)
class FileCommandOptions(CachedOptions):
    """Options of benchmarks that cache embeddings and read their data from files."""

    data: Data = None
    file: DataFile = None


@dataclass(frozen=True, kw_only=True)
class ModelCommandOptions(CachedOptions):
    """Options of benchmarks that can retain and answer with a language model."""

    llm: Llm = None
    record: Annotated[
        Path | None,
        typer.Option(
            help="Record requests and answers of all models in this cassette (.jsonl or .jsonl.xz), or resume it.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option(help="Answer all requests from this cassette, or folder of them.", rich_help_panel=_MODEL),
    ] = None
    llm_timeout: LlmTimeout = None
    concurrency: Concurrency = 1
    conversations: Annotated[str | None, typer.Option(metavar="ID,ID,…", help="Only these conversations.")] = None
    keep_banks: KeptBanks = None
    max_lookups: Annotated[
        int, typer.Option(min=0, max=3, help="Memory lookups that an answer may make.", rich_help_panel=_QA)
    ] = 3
    answerer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model that answers, such as openai:gpt-5-mini; by default --llm.",
            rich_help_panel=_QA,
        ),
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Model that judges; by default the answerer.", rich_help_panel=_QA),
    ] = None
    parallel: Annotated[int, typer.Option(min=1, help="Questions answered concurrently.", rich_help_panel=_QA)] = 4

    def qa(self) -> QaOptions:
        return shared_options(QaOptions, self)

    def llm_options(self) -> BenchModelOptions:
        return BenchModelOptions(model=self.llm, record=self.record, replay=self.replay, timeout=self.llm_timeout)


@dataclass(frozen=True, kw_only=True)
class SampleCommandOptions(ModelCommandOptions):
    """Options of `sample`, and common options of all datasets."""

    engine: Engine = "local"
    types: Annotated[str | None, typer.Option(metavar="TYPE,TYPE,…", help="Only questions of these types.")] = None
    store: Store = "sqlite"
    budget: Budgeted = "mid"
    max_tokens: MaxTokens = None
    mode: Annotated[Mode, typer.Option(help="Score the recalled facts, or the answers to the questions.")] = "retrieval"
    prices: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT[,IN,OUT]",
            help="Dollars per million tokens of the answerer, and of the judge if they differ.",
            rich_help_panel=_QA,
        ),
    ] = None
    answers: Annotated[
        Path | None,
        typer.Option(help="JSON Lines of answers, and optionally verdicts, to score.", rich_help_panel=_QA),
    ] = None
    dump_prompts: Annotated[
        Path | None,
        typer.Option(help="Only write the prompts for the models to this folder.", rich_help_panel=_QA),
    ] = None
    export_texts: Annotated[
        Path | None, typer.Option(help="Only write the texts whose vectors are missing.", rich_help_panel=_VECTORS)
    ] = None
    import_vectors: Annotated[
        Path | None, typer.Option(help="Only import vectors into the cache.", rich_help_panel=_VECTORS)
    ] = None

    def qa(self) -> QaOptions:
        prices = _prices(self.prices) if self.prices else ()
        own = (prices[0], prices[1]) if prices else None
        return shared_options(QaOptions, self, prices=own, judge_prices=prices[2:] or None)


@dataclass(frozen=True, kw_only=True)
class DatasetCommandOptions(SampleCommandOptions):
    """Options of datasets in files."""

    data: Data = None
    file: DataFile = None


@dataclass(frozen=True, kw_only=True)
class BeamCommandOptions(DatasetCommandOptions):
    size: Annotated[BeamSize, typer.Option(help="Length of the conversations in tokens.")] = "100k"


@dataclass(frozen=True, kw_only=True)
class EnginesCommandOptions(ModelCommandOptions):
    dataset: Annotated[DatasetName, typer.Option(help="Dataset to run over.")] = "ours"
    data: Data = None
    file: DataFile = None
    sample: Sample = None
    budget: Budgeted = "mid"
    qa_tokens: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Also answer and judge within N tokens of context.", rich_help_panel=_QA),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LongMemEvalCommandOptions(DatasetCommandOptions):
    sample: Sample = None


@dataclass(frozen=True, kw_only=True)
class AblationCommandOptions(FileCommandOptions):
    dataset: Annotated[DatasetName, typer.Option(help="Dataset to run over.")] = "locomo"
    engine: Engine = "local"
    sample: Sample = None
    store: Store = "sqlite"
    budget: Budgeted = "mid"
    max_tokens: MaxTokens = None


@dataclass(frozen=True, kw_only=True)
class CompareCommandOptions(FileCommandOptions):
    dataset: Annotated[Literal["locomo", "ours", "sample"], typer.Option(help="Dataset to run over.")] = "locomo"
    conversations: Annotated[str | None, typer.Option(metavar="ID,ID,…", help="Only these conversations.")] = None
    mem0: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="Interpreter of an environment with mem0ai, to measure it.")
    ] = None
    mempalace: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="Interpreter of an environment with mempalace, to measure it.")
    ] = None

    @property
    def products(self) -> Mapping[str, Path]:
        """The interpreters of the products to measure."""
        given = {"mem0": self.mem0, "mempalace": self.mempalace}
        return {name: python for name, python in given.items() if python is not None}


@dataclass(frozen=True, kw_only=True)
class DatesCommandOptions(OutputOptions):
    data: Data = None
    file: DataFile = None


@dataclass(frozen=True, kw_only=True)
class LanguagesCommandOptions(OutputOptions):
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="Annotated conversations: .json, .jsonl or .jsonl.xz; by default a few packaged ones.",
        ),
    ] = None
    embedder: EmbedderName = None
    store: Store = "sqlite"
    limit: Limit = None
    engine: Annotated[
        Literal["local", "llm"], typer.Option(help="Extraction engine: local, or a language model (llm).")
    ] = "local"
    llm: Llm = None
    llm_timeout: LlmTimeout = None
    concurrency: Concurrency = 1


@dataclass(frozen=True, kw_only=True)
class LivesCommandOptions(LanguagesCommandOptions):
    part: Annotated[LivesPart, typer.Option(help="Measure everything, or the questions alone.")] = "all"


@dataclass(frozen=True, kw_only=True)
class RetainCommandOptions(FileCommandOptions):
    drain: Annotated[int | None, typer.Option(min=1, help="Drain a queue of N messages instead.")] = None


@dataclass(frozen=True, kw_only=True)
class SpeedCommandOptions(OutputOptions):
    embedder: EmbedderName = None
    store: Store = "sqlite"
    sizes: Annotated[str | None, typer.Option(metavar="N,N,…", help="Facts to grow a bank to.")] = None
    keep_banks: KeptBanks = None
    budget: Budgeted = "mid"
    budgets: Annotated[str | None, typer.Option(metavar="low,mid,…", help="Budgets to measure, each by itself.")] = None
    max_tokens: MaxTokens = None
    queries: Annotated[int, typer.Option(min=1, help="Queries at each size.")] = SpeedOptions.queries
    messages: Annotated[int, typer.Option(min=1, help="Messages retained with the real embedder.")] = (
        SpeedOptions.messages
    )
    banks: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="Numbers of small banks in one store; 0 for none.")
    ] = None
    facts_per_bank: Annotated[int, typer.Option(min=1, help="Facts in each small bank.")] = SpeedOptions.facts_per_bank
    bulk: Annotated[
        int | None, typer.Option(min=0, help="Messages of a bulk write, compared with COPY; 0 for none.")
    ] = None

    def speed(self) -> SpeedOptions:
        return shared_options(
            SpeedOptions,
            self,
            sizes=SpeedOptions.sizes if self.sizes is None else numbers(self.sizes, "--sizes"),
            budgets=() if self.budgets is None else _budgets(self.budgets),
            banks=None if self.banks is None else () if self.banks == "0" else numbers(self.banks, "--banks"),
        )


@dataclass(frozen=True, kw_only=True)
class LoadCommandOptions(OutputOptions):
    clients: Annotated[int, typer.Option(min=1, help="Concurrent clients.")] = LoadOptions.clients
    seconds: Annotated[float, typer.Option(min=1, help="Duration of the load.")] = LoadOptions.seconds
    workers: Annotated[
        str, typer.Option(metavar="<numbers>", help="Numbers of server processes, each measured on its own.")
    ] = ",".join(map(str, LoadOptions.workers))
    restart: Annotated[bool, typer.Option(help="Restart the server halfway.")] = LoadOptions.restart


@dataclass(frozen=True, kw_only=True)
class ScaleCommandOptions(OutputOptions, ScaleOptions):
    embedder: EmbedderName = None
    store: Store = "sqlite"
    data: Data = None
    keep_banks: KeptBanks = None


def shared_options(kind: type[OptionsT], options: object, **others: object) -> OptionsT:
    """Return options of another class: those of the same name, and the others that are given."""
    own, given = ({field.name for field in fields(each)} for each in (kind, options))  # pyright: ignore[reportArgumentType]
    return kind(**{name: getattr(options, name) for name in own & given - others.keys()}, **others)


def takes_options(options: type[OptionsT]) -> Callable[[Callable[[OptionsT], None]], Callable[..., None]]:
    """Make the fields of a dataclass the options of a command whose function takes the dataclass."""
    hints = get_type_hints(options, include_extras=True)
    parameters = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(options)  # pyright: ignore[reportArgumentType]
    ]

    def wrap(run: Callable[[OptionsT], None]) -> Callable[..., None]:
        @wraps(run)
        def call(**values: object) -> None:
            run(options(**values))

        # Typer reads both to find the parameters of a command.
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        vars(call)["__signature__"] = Signature(parameters)
        return call

    return wrap


def _prices(text: str) -> tuple[float, ...]:
    try:
        prices = tuple(map(float, text.split(",")))
    except ValueError:
        prices = ()
    if len(prices) not in (2, 4) or not all(0 <= price < math.inf for price in prices):
        raise typer.BadParameter(f"{text!r} is not two or four prices such as 0.25,2.", param_hint="--prices")
    return prices


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Return the positive numbers of a list separated by commas. Raise BadParameter for another text."""
    parts = text.replace(" ", "").split(",")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1000,10000.", param_hint=option)
    return tuple(map(int, parts))


def names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (text or "").split(","))))


def _budgets(text: str) -> tuple[Budget, ...]:
    return tuple(parse_budget(part) for part in text.replace(" ", "").split(","))
