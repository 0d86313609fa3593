"""Options of a benchmark run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from vmemo.models import Budget
from vmemo.ports import LLM, Embedder
from vmemo.settings import Settings

DatasetName = Literal["locomo", "longmemeval", "beam", "ours", "sample"]
BenchmarkName = (
    DatasetName
    | Literal["engines", "ablation", "compare", "speed", "retain", "load", "scale"]
    | Literal["updates", "dates", "languages", "lives", "precision"]
)
LivesPart = Literal["all", "retrieval"]
EngineName = Literal["local", "llm", "recorded"]
BeamSize = Literal["100k", "500k", "1m"]
Mode = Literal["retrieval", "qa"]
Prices = tuple[float, float]
"""Dollars per million input tokens and per million output tokens."""

DEFAULT_BANKS = (10, 1_000)
DEFAULT_BULK = 5_000


@dataclass(frozen=True, kw_only=True)
class SpeedOptions:
    """Options of the speed benchmark.

    With `budgets`, each budget is measured under its own name instead of the run's single budget. None for `banks` or
    `bulk` is the default of the store: both are measured on PostgreSQL, neither on SQLite.
    """

    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    """Facts to grow a bank to."""
    queries: int = 100
    """Queries at each size."""
    messages: int = 500
    """Messages retained with the real embedder."""
    base_sentences: int = 500
    """Embedded sentences that synthetic vectors are mixed from."""
    budgets: tuple[Budget, ...] = ()
    banks: tuple[int, ...] | None = None
    """Numbers of small banks in one store."""
    facts_per_bank: int = 20
    """Facts in each of the small banks."""
    bulk: int | None = None
    """Messages of the bulk write, which is compared with a plain COPY."""


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    clients: int = 64
    seconds: float = 120.0
    banks: int = 16
    retain_share: float = 0.3
    """Share of calls that retain; the others recall."""
    restart: bool = True
    """Restart the server halfway, while the clients continue."""
    workers: tuple[int, ...] = (1, 2)
    """Numbers of server processes; each is measured with a new database."""


@dataclass(frozen=True, kw_only=True)
class ScaleOptions:
    """Options of the scale benchmark; a part of size zero is left out."""

    facts: Annotated[int, Option(min=0, help="Facts of one large bank; 0 for none.")] = 1_000_000
    banks: Annotated[int, Option(min=0, help="Small banks in one store; 0 for none.")] = 10_000
    facts_per_bank: Annotated[int, Option(min=1, help="Facts in each small bank.")] = 100
    tokens: Annotated[
        int, Option(min=0, help="Tokens of joined LongMemEval conversations in one bank; 0 for none.")
    ] = 10_000_000
    queries: Annotated[int, Option(min=1, help="Queries of the banks.")] = 100
    base_sentences: Annotated[int, Option(min=2, help="Embedded sentences that synthetic vectors are mixed from.")] = (
        500
    )


@dataclass(frozen=True, kw_only=True)
class QaOptions:
    """Options of QA mode.

    A model is anything that `Memory` accepts as llm: a name such as openai:gpt-5-mini, or an object. The default
    answerer is the model of VMEMO_LLM, the default judge is the answerer.
    """

    answerer: str | LLM | None = None
    judge: str | LLM | None = None
    parallel: int = 4
    """Questions answered concurrently."""
    max_lookups: int = 3
    """Memory lookups that an answer may make besides the first recall; answers from a file cannot make any."""
    prices: Prices | None = None
    judge_prices: Prices | None = None
    """Prices of the judge, if they differ from those of the answerer."""
    answers: Path | None = None
    """File of answers, and optionally verdicts, from other systems."""


@dataclass(frozen=True, kw_only=True)
class BenchModelOptions:
    """The language model that fills banks with `engine="llm"`, and the cassette of all models of a run.

    The default model is that of VMEMO_LLM. In QA mode it is also the default answerer.
    """

    model: str | LLM | None = None
    record: Path | None = None
    """File to which requests and answers are recorded; requests that it contains already are not sent again."""
    replay: Path | None = None
    """File, or folder of files, from which all requests are answered."""
    timeout: float | None = None
    """Seconds that one call may take."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """One benchmark run. None is the default: the packaged embedder, the user's cache folder, the dataset's depth."""

    benchmark: BenchmarkName
    dataset: DatasetName = "locomo"
    """Dataset of an ablation; every other benchmark is its own dataset."""
    mode: Mode = "retrieval"
    """Score the recalled facts, or the answers to the questions."""
    engine: EngineName = "local"
    """Extraction engine; `recorded` replays extractions of LoCoMo by a language model."""
    llm: BenchModelOptions = BenchModelOptions()
    store: str = "sqlite"
    """Store of the banks: sqlite, postgres (a server started for the run), neo4j (that of NEO4J_URL) or a URL."""
    data: Path | None = None
    file: Path | None = None
    files: tuple[Path, ...] = ()
    """Files and folders of `languages` and `lives`; empty for the packaged conversations."""
    part: LivesPart = "all"
    """The measured part of `lives`: everything, or its questions alone."""
    sample: int | None = None
    limit: int | None = None
    conversations: tuple[str, ...] = ()
    """Ids of the cases to run; empty for all."""
    types: tuple[str, ...] = ()
    """Categories of the questions to ask; empty for all."""
    size: BeamSize = "100k"
    """Length of BEAM's conversations in tokens."""
    keep_banks: Path | None = None
    """Folder of filled banks that are kept, and used again by the next run with the same dataset and engine."""
    concurrency: int = 1
    """Cases that are filled at a time."""
    answer_tokens: tuple[int, ...] = ()
    """Tokens of context for which `engines` answers and judges the questions."""
    budget: Budget = "mid"
    max_tokens: int | None = None
    cache: Path | None = None
    work: Path | None = None
    embedder: Embedder | str | None = None
    """An embedder, or its name as for `Memory`."""
    settings: Settings | None = None
    speed: SpeedOptions = SpeedOptions()
    qa: QaOptions = QaOptions()
    load: LoadOptions = LoadOptions()
    scale: ScaleOptions = ScaleOptions()
    drain: int | None = None
    """Messages of a queue that `retain` drains, instead of measuring the cost of retaining LoCoMo."""
    products: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Interpreters of the environments in which the products that `compare` measures are installed, by product."""

    @property
    def needs_engine_llm(self) -> bool:
        """True if a language model fills banks."""
        return self.engine == "llm" or self.benchmark == "engines"

    @property
    def has_cassette(self) -> bool:
        """True if the run is recorded or replayed."""
        return self.llm.record is not None or self.llm.replay is not None

    @property
    def data_folder(self) -> Path:
        return self.data or Path("../shared/data")

    @property
    def cache_folder(self) -> Path:
        """Folder of the embeddings that runs share."""
        return self.cache or Path.home() / ".cache" / "vmemo"

    @property
    def work_folder(self) -> Path:
        """Folder of temporary banks and of finished cases."""
        return self.work or self.cache_folder / "benchmarks"
