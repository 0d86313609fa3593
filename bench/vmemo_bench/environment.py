"""What a run's numbers depend on: program, embedder, settings; and where a run keeps its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

import vmemo
from vmemo.embedding.cache import EmbeddingCache
from vmemo.ports import Embedder
from vmemo.settings import Settings
from vmemo_bench.options import BenchOptions
from vmemo_bench.report import Setting


def describe(embedder: Embedder, settings: Settings) -> dict[str, Setting]:
    """Program, code and embedder, and a digest of the settings."""
    return {
        "vmemo": metadata.version("vmemo"),
        "code": code_digest(),
        "embedder": embedder.name,
        "dimension": embedder.dimension,
        "settings": _short(_written(settings)),
    }


def _written(settings: Settings) -> str:
    """The settings as text that is the same in every process, where a set's own order is not."""
    rest = replace(settings, embedding_cache=None, channels=frozenset())
    return f"{rest!r} {sorted(settings.channels)}"


@cache
def code_digest() -> str:
    """A digest of the package's own source and prompts: while they are worked on, its version alone says too little."""
    whole = hashlib.sha256()
    folder = Path(vmemo.__file__).parent
    for path in sorted(path for kind in ("*.py", "*.md") for path in folder.rglob(kind)):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


def fingerprint(config: Mapping[str, Setting]) -> str:
    """A short name for a configuration."""
    return _short(json.dumps(dict(config), sort_keys=True))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def make_folder(folder: Path) -> Path:
    """The folder, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def embedding_cache(options: BenchOptions) -> Generator[EmbeddingCache]:
    """The file of vectors that runs share."""
    cache = EmbeddingCache(make_folder(options.cache_folder) / "embeddings.db")
    try:
        yield cache
    finally:
        cache.close()


def sqlite_url(path: Path) -> str:
    """The URL of a database file."""
    return f"sqlite:///{path.absolute()}"
