"""Settings, and the one place where adapters are chosen. Only this module reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from vmemo.errors import InvalidInput, Unsupported
from vmemo.ports import Embedder, Extractor, Store, TokenCounter
from vmemo.recall.fuse import Fusion


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set, each default stated here and nowhere else."""

    embedding_cache: Path | None = None
    """File of the on-disk embedding cache; None keeps vectors in memory only."""
    remembered_embeddings: int = 4096
    """Texts whose vectors the in-memory cache keeps."""
    fusion: Fusion = "sum"
    """How channels are merged."""
    access_delay: float = 2.0
    """Seconds after a recall until access counts are written."""
    busy_seconds: float = 60.0
    """How long a call waits for another process's write before it gives up."""

    def __post_init__(self) -> None:
        if self.fusion not in get_args(Fusion):
            raise InvalidInput(f"fusion is {' or '.join(get_args(Fusion))}, not {self.fusion!r}.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Settings from VMEMO_* variables; what is not set keeps its default."""
        cache = environment.get("VMEMO_EMBEDDING_CACHE")
        return cls(
            embedding_cache=Path(cache).expanduser() if cache else None,
            busy_seconds=_number(environment, "VMEMO_BUSY_SECONDS", cls.busy_seconds),
        )


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
    settings: Settings


def build(url: str, *, llm: object, embedder: Embedder | None, reranker: object, settings: Settings | None) -> Parts:
    """Choose the adapters for a memory. Nothing is opened or loaded yet."""
    from vmemo.providers.caching import CachedEmbedder, EmbeddingCache
    from vmemo.providers.packaged import PackagedEmbedder
    from vmemo.providers.tokens import count_tokens
    from vmemo.retain.local import LocalExtractor

    if llm is not None:
        raise Unsupported("This release has the local engine only. Leave llm out.")
    if reranker is not None:
        raise Unsupported("This release has no reranker yet. Leave reranker out.")
    if embedder is not None and not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"An embedder is an object with name, dimension and embed(), not {embedder!r:.40}.")
    if not isinstance(settings, Settings | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"settings must be Settings(...), not {settings!r:.40}.")
    chosen = settings or Settings.from_environment()
    disk = EmbeddingCache(chosen.embedding_cache) if chosen.embedding_cache else None
    return Parts(
        store=_store(url, chosen),
        embedder=CachedEmbedder(embedder or PackagedEmbedder(), capacity=chosen.remembered_embeddings, disk=disk),
        extractor=LocalExtractor(),
        counter=count_tokens,
        settings=chosen,
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
