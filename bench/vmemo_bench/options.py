"""What a benchmark run can be told, and how it reports on its way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from vmemo.models import Budget
from vmemo.ports import LLM, Embedder
from vmemo.settings import Settings

DatasetName = Literal["locomo", "longmemeval", "ours", "sample"]
BenchmarkName = Literal[DatasetName, "speed", "ablation", "retain", "load"]
BENCHMARKS: tuple[BenchmarkName, ...] = get_args(BenchmarkName)
EngineName = Literal["local", "recorded"]
Mode = Literal["retrieval", "qa"]
Prices = tuple[float, float]
"""Dollars for a million tokens in, and out."""

DEFAULT_DATA = Path("../shared/data")
DEFAULT_SIZES = (1_000, 10_000, 100_000)
DEFAULT_BANKS = (10, 10_000)
DEFAULT_BULK = 5_000


@dataclass(frozen=True, kw_only=True)
class SpeedOptions:
    """Sizes to grow a bank to, queries asked at each, and messages retained with the real embedder.

    With `budgets` each of them is measured under its own name, in place of the run's one budget. `banks` are numbers of
    small banks in one store, each of `facts_per_bank`, and `bulk` is how many messages are written beside a bare COPY;
    None is the default: both are measured on PostgreSQL, and neither on SQLite.
    """

    sizes: tuple[int, ...] = DEFAULT_SIZES
    queries: int = 100
    messages: int = 500
    base_sentences: int = 500
    budgets: tuple[Budget, ...] = ()
    banks: tuple[int, ...] | None = None
    facts_per_bank: int = 20
    bulk: int | None = None


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """How many clients press a server, for how long, over how many banks, and which share of calls retains.

    With `restart` the server is told to stop half way and started again, while the clients go on.
    """

    clients: int = 64
    seconds: float = 120.0
    banks: int = 16
    retains: float = 0.3
    restart: bool = True


@dataclass(frozen=True, kw_only=True)
class QaOptions:
    """Who answers, who judges, how many questions at a time, and what their tokens cost.

    A model is what `Memory` takes as llm: a text such as openai:gpt-5-mini, or an object. Without an answerer it is the
    one of VMEMO_LLM, without a judge the answerer. `answers` is a file of answers and perhaps verdicts from elsewhere.
    """

    answerer: str | LLM | None = None
    judge: str | LLM | None = None
    parallel: int = 4
    looks: int = 3
    """How often an answer may look into memory again; a prompt that is answered elsewhere has no second look."""
    prices: Prices | None = None
    judge_prices: Prices | None = None
    """Those of the judge, where they are others."""
    answers: Path | None = None


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """One run. None is the default: packaged embedder, the user's cache folder, the dataset's own depth."""

    benchmark: BenchmarkName
    dataset: DatasetName = "locomo"
    """What an ablation runs over; every other benchmark is its own dataset."""
    mode: Mode = "retrieval"
    """What is scored of a dataset: what is recalled for a question, or how it is answered."""
    engine: EngineName = "local"
    """Who reads the messages; `recorded` replays what an LLM wrote about LoCoMo's conversations."""
    store: str = "sqlite"
    """What banks are built on: sqlite, postgres (a server that is started for the run) or a postgresql:// URL."""
    data: Path | None = None
    file: Path | None = None
    sample: int | None = None
    limit: int | None = None
    budget: Budget = "mid"
    max_tokens: int | None = None
    cache: Path | None = None
    work: Path | None = None
    embedder: Embedder | None = None
    settings: Settings | None = None
    speed: SpeedOptions = SpeedOptions()
    qa: QaOptions = QaOptions()
    load: LoadOptions = LoadOptions()
    drain: int | None = None
    """Messages of a queue that retain drains, in place of what it costs to write LoCoMo."""

    @property
    def data_folder(self) -> Path:
        """The folder of the datasets."""
        return self.data or DEFAULT_DATA

    @property
    def cache_folder(self) -> Path:
        """Where embeddings are kept from run to run."""
        return self.cache or Path.home() / ".cache" / "vmemo"

    @property
    def work_folder(self) -> Path:
        """Where banks are built and finished cases are noted."""
        return self.work or self.cache_folder / "benchmarks"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a named part of the run is."""

    what: str
    done: int
    total: int


class ProgressSink(Protocol):
    """Told whenever a step is done; a command line draws its bar from it."""

    def __call__(self, progress: Progress, /) -> None: ...


def silent(progress: Progress, /) -> None:
    """A sink that shows nothing."""
