"""Settings, and the one place where adapters are chosen. Only this module reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from vmemo.errors import InvalidInput, Unsupported
from vmemo.models import Channel
from vmemo.ports import Embedder, Extractor, NameReader, Reranker, Store, TimeReader, TokenCounter
from vmemo.recall.plan import CHANNELS, Fusion, Plan


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
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_seconds: float = 60.0
    """How long a call waits for another process's write before it gives up."""

    def __post_init__(self) -> None:
        if self.fusion not in get_args(Fusion):
            raise InvalidInput(f"fusion is {' or '.join(get_args(Fusion))}, not {self.fusion!r}.")
        if unknown := set(self.channels) - CHANNELS:
            raise InvalidInput(f"There is no channel {min(unknown)!r}; there are {', '.join(sorted(CHANNELS))}.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings from VMEMO_* variables; what is not set keeps its default."""
        cache = environment.get("VMEMO_EMBEDDING_CACHE")
        return cls(
            embedding_cache=Path(cache).expanduser() if cache else None,
            busy_seconds=_number(environment, "VMEMO_BUSY_SECONDS", cls.busy_seconds),
            reranker_key=environment.get("VMEMO_RERANKER_KEY"),
            names=_names(environment.get("VMEMO_NAMES", "auto")),
            languages=tuple(filter(None, environment.get("VMEMO_LANGUAGES", "").replace(" ", "").split(","))),
        )


def _names(given: str) -> Literal["auto", "rules", "spacy"]:
    if given in ("auto", "rules", "spacy"):
        return given
    raise InvalidInput(f"VMEMO_NAMES is auto, rules or spacy, not {given!r}.")


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
    counter: TokenCounter
    plan: Plan
    settings: Settings


def build(url: str, *, llm: object, embedder: Embedder | None, reranker: object, settings: Settings | None) -> Parts:
    """Choose the adapters for a memory. Nothing is opened or loaded yet."""
    from vmemo.providers.packaged import PackagedEmbedder
    from vmemo.providers.tokens import count_tokens

    if embedder is not None and not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"An embedder is an object with name, dimension and embed(), not {embedder!r:.40}.")
    if not isinstance(settings, Settings | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"settings must be Settings(...), not {settings!r:.40}.")
    chosen = settings or Settings.from_environment()
    times = _time_reader(chosen)
    return Parts(
        store=_store(url, chosen),
        embedder=_cached(embedder or PackagedEmbedder(), chosen),
        extractor=_extractor(llm, chosen, times),
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


def _extractor(llm: object, settings: Settings, times: TimeReader | None) -> Extractor:
    """The local engine unless an engine of the caller's own is given."""
    from vmemo.retain.local import LocalExtractor

    if llm is None:
        return LocalExtractor(_name_reader(settings), times)
    if isinstance(llm, Extractor):
        return llm
    raise Unsupported("This release has the local engine only. Leave llm out, or pass an Extractor of your own.")


def _time_reader(settings: Settings) -> TimeReader | None:
    if not settings.languages:
        return None
    from vmemo.providers.foreign_times import ForeignTimes

    return ForeignTimes(settings.languages)


def _name_reader(settings: Settings) -> NameReader | None:
    if settings.names == "rules":
        return None
    from vmemo.providers.spacy_names import SpacyNames, installed

    return SpacyNames() if settings.names == "spacy" or installed() else None


def _cached(embedder: Embedder, settings: Settings) -> Embedder:
    from vmemo.providers.caching import EmbeddingCache
    from vmemo.providers.token_caching import cached

    disk = EmbeddingCache(settings.embedding_cache) if settings.embedding_cache else None
    return cached(embedder, capacity=settings.remembered_embeddings, disk=disk)


def _reranker(given: object, settings: Settings) -> Reranker | Literal["late", "none"]:
    """Late interaction unless told otherwise; a URL or a path stands for a service or a model file."""
    if given is None or given == "late":
        return "late"
    if given == "none":
        return "none"
    if isinstance(given, str) and given.startswith(("http://", "https://")):
        from vmemo.providers.http_reranker import HttpReranker

        return HttpReranker(given, api_key=settings.reranker_key)
    if isinstance(given, str | Path):
        from vmemo.providers.cross_encoder import CrossEncoder

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
        raise InvalidInput(f"A memory's URL starts with sqlite:///, not {url[:40]!r}.")
    if scheme != "sqlite":
        raise Unsupported(f"This release stores in SQLite only; {scheme}:// is planned. Use sqlite:///file.db.")
    from vmemo.stores.sql.sqlite import SqliteStore

    if rest in ("", "/:memory:"):
        return SqliteStore(None, busy_seconds=settings.busy_seconds)
    if not rest.startswith("/") or len(rest) < 2:
        raise InvalidInput("Write sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:.")
    return SqliteStore(Path(rest[1:]), busy_seconds=settings.busy_seconds)
