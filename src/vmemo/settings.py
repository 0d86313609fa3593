"""Settings, and the one place where adapters are chosen. Only this module reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args

from vmemo.errors import InvalidInput, MissingExtra, Unsupported
from vmemo.lifecycle.maintain import MaintenanceSettings
from vmemo.models import Channel
from vmemo.ports import LLM, Embedder, Extractor, NameReader, Reranker, Store, TimeReader, TokenCounter
from vmemo.recall.plan import CHANNELS, Fusion, Plan
from vmemo.retain.llm_extraction import Style
from vmemo.retain.resolve import Weights


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set, each default stated here and nowhere else."""

    embedding_cache: Path | None = None
    """File of the on-disk embedding cache; None keeps vectors in memory only."""
    remembered_embeddings: int = 4096
    """Texts whose vectors the in-memory cache keeps."""
    fusion: Fusion = "sum"
    """How channels are merged."""
    channels: frozenset[Channel] = CHANNELS
    """The ways of finding candidates that recall uses."""
    analysis: bool = True
    """Whether a question's type, time and parts are looked for."""
    names: Literal["auto", "rules", "spacy"] = "auto"
    """Who finds names besides the rules: spaCy, where it is installed, or nobody."""
    languages: tuple[str, ...] = ()
    """Codes of languages besides English in which times are read, such as de; needs `vmemo[languages]`."""
    reranker_key: str | None = field(default=None, repr=False)
    """What a reranking service is asked with."""
    llm: str | None = None
    """The language model where none is passed, such as openai:gpt-5-mini; None is the local engine."""
    llm_key: str | None = field(default=None, repr=False)
    """The model's key; without it, the variable that its provider documents is read."""
    llm_url: str | None = None
    """The base URL of an OpenAI-compatible server, in place of the provider's own."""
    llm_timeout: float = 60.0
    """Seconds that one call of a language model may take."""
    question_timeout: float = 5.0
    """Seconds that a model may take for a question's time, which recall does without otherwise; 0 asks none."""
    llm_tries: int = 4
    """How often a call is made that fails for a reason which may pass."""
    llm_rate: float | None = None
    """Calls per minute at most."""
    llm_prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Dollars per million tokens in and out, by model, where the provider does not tell."""
    style: Style = "narrative"
    """How a language model writes facts: a few comprehensive ones, or many that can't be divided."""
    identity: Weights = field(default_factory=Weights)
    """What tells whether two names are one entity."""
    extractions_per_bank: int = 10
    """Pieces of queued work that run at a time for one bank."""
    extractions_per_process: int = 300
    """Pieces of queued work that run at a time in this process."""
    lease_seconds: float = 60.0
    """How long a worker that has died keeps others from its work."""
    poll_seconds: float = 0.25
    """How often the queue is looked at while there is nothing to do."""
    first_retry: float = 15.0
    """Seconds after which failed work is tried again by itself; each failure doubles them."""
    longest_retry: float = 3600.0
    """The most seconds between two tries."""
    observe_delay: float = 30.0
    """Seconds after new facts in which further ones are waited for before an entity is described anew."""
    background: bool = True
    """Whether opinions and observations are seen to while the program goes on, besides by `process()` and workers."""
    upkeep: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    """What maintenance does."""
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_seconds: float = 60.0
    """How long a call waits for another process's write before it gives up."""
    connections: int = 10
    """Connections to a PostgreSQL server that this process opens at most."""

    def __post_init__(self) -> None:
        if self.fusion not in get_args(Fusion):
            raise InvalidInput(f"fusion is {' or '.join(get_args(Fusion))}, not {self.fusion!r}.")
        if unknown := set(self.channels) - CHANNELS:
            raise InvalidInput(f"There is no channel {min(unknown)!r}; there are {', '.join(sorted(CHANNELS))}.")
        if self.style not in get_args(Style):
            raise InvalidInput(f"style is {' or '.join(get_args(Style))}, not {self.style!r}.")
        if self.lease_seconds <= 0 or self.extractions_per_bank < 1 or self.extractions_per_process < 1:
            raise InvalidInput("Leases take time, and at least one piece of work must be allowed to run.")
        if self.connections < 1:
            raise InvalidInput("A memory needs at least one connection.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings from VMEMO_* variables; what is not set keeps its default."""
        cache = environment.get("VMEMO_EMBEDDING_CACHE")
        return cls(
            embedding_cache=Path(cache).expanduser() if cache else None,
            busy_seconds=_number(environment, "VMEMO_BUSY_SECONDS", cls.busy_seconds),
            connections=int(_number(environment, "VMEMO_CONNECTIONS", cls.connections)),
            reranker_key=environment.get("VMEMO_RERANKER_KEY"),
            names=_names(environment.get("VMEMO_NAMES", "auto")),
            llm=environment.get("VMEMO_LLM") or None,
            llm_key=environment.get("VMEMO_LLM_KEY"),
            llm_url=environment.get("VMEMO_LLM_URL"),
            llm_timeout=_number(environment, "VMEMO_LLM_TIMEOUT", cls.llm_timeout),
            style=_style(environment.get("VMEMO_STYLE", "narrative")),
            languages=tuple(filter(None, environment.get("VMEMO_LANGUAGES", "").replace(" ", "").split(","))),
        )


def _names(given: str) -> Literal["auto", "rules", "spacy"]:
    if given in ("auto", "rules", "spacy"):
        return given
    raise InvalidInput(f"VMEMO_NAMES is auto, rules or spacy, not {given!r}.")


def _style(given: str) -> Style:
    if given in ("narrative", "atomic"):
        return given
    raise InvalidInput(f"VMEMO_STYLE is narrative or atomic, not {given!r}.")


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(environment.get(name, default))
    except ValueError as error:
        raise InvalidInput(f"{name} must be a number, not {environment[name]!r}.") from error


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a memory is made of."""

    store: Store
    embedder: Embedder
    extractor: Extractor
    llm: LLM | None
    llm_is_ours: bool
    counter: TokenCounter
    plan: Plan
    settings: Settings


def build(url: str, *, llm: object, embedder: Embedder | None, reranker: object, settings: Settings | None) -> Parts:
    """Choose the adapters for a memory. Nothing is opened or loaded yet."""
    from vmemo.embedding.packaged import PackagedEmbedder
    from vmemo.embedding.token_counter import count_tokens

    if embedder is not None and not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"An embedder is an object with name, dimension and embed(), not {embedder!r:.40}.")
    if not isinstance(settings, Settings | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"settings must be Settings(...), not {settings!r:.40}.")
    chosen = settings or Settings.from_environment()
    times = _time_reader(chosen)
    return Parts(
        store=_store(url, chosen),
        embedder=_cached(embedder or PackagedEmbedder(), chosen),
        extractor=llm if isinstance(llm, Extractor) else _local(chosen, times),
        llm=None if isinstance(llm, Extractor) else _llm(llm or chosen.llm, chosen),
        llm_is_ours=isinstance(llm or chosen.llm, str),
        counter=count_tokens,
        plan=Plan(
            channels=frozenset(chosen.channels),
            fusion=chosen.fusion,
            analysis=chosen.analysis,
            reranker=_reranker(reranker, chosen),
            times=times,
        ),
        settings=chosen,
    )


def _local(settings: Settings, times: TimeReader | None) -> Extractor:
    from vmemo.retain.local import LocalExtractor

    return LocalExtractor(_name_reader(settings), times)


def _llm(given: object, settings: Settings) -> LLM | None:
    """The language model that reads; None leaves reading to the local engine."""
    if given is None or isinstance(given, LLM):
        return given
    if not isinstance(given, str):
        raise InvalidInput(
            "llm is a text such as openai:gpt-5-mini, an object with name and complete(), or an Extractor, "
            f"not {given!r:.40}."
        )
    from vmemo.llm.resolve import LLMOptions, resolve

    options = LLMOptions(
        timeout=settings.llm_timeout,
        tries=settings.llm_tries,
        requests_per_minute=settings.llm_rate,
        prices=settings.llm_prices,
        base_url=settings.llm_url,
        api_key=settings.llm_key,
    )
    return resolve(given, keys=os.environ, options=options)


def _time_reader(settings: Settings) -> TimeReader | None:
    if not settings.languages:
        return None
    from vmemo.text.temporal.other_languages import ForeignTimes

    return ForeignTimes(settings.languages)


def _name_reader(settings: Settings) -> NameReader | None:
    if settings.names == "rules":
        return None
    from vmemo.text.names.spacy_names import SpacyNames, installed

    return SpacyNames() if settings.names == "spacy" or installed() else None


def _cached(embedder: Embedder, settings: Settings) -> Embedder:
    from vmemo.embedding.cache import EmbeddingCache
    from vmemo.embedding.token_cache import cached

    disk = EmbeddingCache(settings.embedding_cache) if settings.embedding_cache else None
    return cached(embedder, capacity=settings.remembered_embeddings, disk=disk)


def _reranker(given: object, settings: Settings) -> Reranker | Literal["late", "none"]:
    """Late interaction unless told otherwise; a URL or a path stands for a service or a model file."""
    if given is None or given == "late":
        return "late"
    if given == "none":
        return "none"
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        from vmemo.embedding.http_reranker import HttpReranker

        return HttpReranker(given, api_key=settings.reranker_key)
    if isinstance(given, str | Path):
        from vmemo.embedding.cross_encoder import CrossEncoder

        return CrossEncoder(Path(given).expanduser())
    if isinstance(given, Reranker):
        return given
    raise InvalidInput(
        'A reranker is "late", "none", a service\'s URL, the path of a cross-encoder, or an object with name and '
        f"rerank(), not {given!r:.40}."
    )


def _store(url: str, settings: Settings) -> Store:
    if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"A memory's URL must be text, not {type(url).__name__}.")
    scheme, found, rest = url.partition("://")
    if not found or scheme not in ("sqlite", "postgresql", "neo4j") or "\0" in url:
        # What follows the first colon may hold a password.
        begin = url.partition(":")[0][:40]
        raise InvalidInput(f"A memory's URL starts with sqlite:/// or postgresql://, not {begin!r}.")
    if scheme == "postgresql":
        return _postgres(url, settings)
    if scheme != "sqlite":
        raise Unsupported(f"This release stores in SQLite and PostgreSQL; {scheme}:// is planned.")
    from vmemo.stores.sqlite.store import SqliteStore

    if rest in ("", "/:memory:"):
        return SqliteStore(None, busy_seconds=settings.busy_seconds)
    if not rest.startswith("/") or len(rest) < 2:
        raise InvalidInput("Write sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:.")
    return SqliteStore(Path(rest[1:]), busy_seconds=settings.busy_seconds)


def _postgres(url: str, settings: Settings) -> Store:
    if find_spec("asyncpg") is None:
        raise MissingExtra("PostgreSQL needs one more package. Install it: pip install 'vmemo[postgres]'")
    from vmemo.stores.postgres.store import PostgresStore

    return PostgresStore(url, size=settings.connections, busy_seconds=settings.busy_seconds)
