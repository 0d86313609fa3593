"""The environment of a run: versions and digests that its numbers depend on, and its files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path

import vmemo
from vmemo.ports import Embedder
from vmemo.providers import EmbeddingCache, PackagedEmbedder
from vmemo.settings import Settings, build_embedder
from vmemo_bench.options import BenchOptions
from vmemo_bench.report import Setting

_VERSION = re.compile(r"version: (\d+)")
_PROBE = "Where did Ada fly the red kite that she bought in Porto?"


def describe(embedder: Embedder, settings: Settings) -> dict[str, Setting]:
    """Return the version, a digest of the code, the embedder, and a digest of the settings."""
    return {
        "vmemo": metadata.version("vmemo"),
        "code": code_digest(),
        "embedder": embedder.name,
        "dimension": embedder.dimension,
        "settings": _digest(_settings_text(settings)),
    }


async def vector_digest(embedder: Embedder) -> str:
    """Return a digest of the vector of a fixed text; the same model rounds differently on other processors."""
    (vector,) = await embedder.embed([_PROBE], "query")
    return hashlib.sha256(vector.tobytes()).hexdigest()[:12]


def _settings_text(settings: Settings) -> str:
    # The order of a set differs between processes.
    rest = settings.model_copy(update={"embedding_cache": None, "channels": frozenset()})
    return f"{rest!r} {sorted(settings.channels)}"


@cache
def code_digest() -> str:
    """Return a digest of all source and prompts, which change more often than its version."""
    whole = hashlib.sha256()
    for folder in (Path(vmemo.__file__).parent, Path(__file__).parent):
        for path in sorted(path for pattern in ("*.py", "*.md") for path in folder.rglob(pattern)):
            whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


@cache
def prompt_versions() -> dict[str, int]:
    """Return the version of each prompt of vmemo and of the judges, by the prompt's name."""
    folders = (Path(vmemo.__file__).parent, Path(__file__).parent)
    files = sorted(file for folder in folders for file in folder.glob("**/prompts/*.md"))
    found = ((file.stem, _VERSION.match(file.read_text(encoding="utf-8"))) for file in files)
    return {name: int(match[1]) for name, match in found if match is not None}


def fingerprint(config: Mapping[str, Setting]) -> str:
    """Return a short name for a configuration."""
    return _digest(json.dumps(dict(config), sort_keys=True))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def make_folder(folder: Path) -> Path:
    """Create the folder if it is missing, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def embedder_of(options: BenchOptions) -> Embedder:
    """Return the embedder of a run.

    The packaged one embeds texts one by one if the run has a cassette: in batches their vectors depend on each other,
    and then on what is cached already, so that a replay would show the model other facts than the recording did.
    """
    if options.embedder is not None:
        return build_embedder(options.embedder, options.settings or Settings())
    return PackagedEmbedder(batch=1) if options.has_cassette else PackagedEmbedder()


@contextmanager
def embedding_cache(options: BenchOptions) -> Generator[EmbeddingCache]:
    """Open the file of vectors that runs share; runs with a cassette have one of their own, see `embedder_of`."""
    name = "embeddings-unbatched.db" if options.has_cassette else "embeddings.db"
    cache = EmbeddingCache(make_folder(options.cache_folder) / name)
    try:
        yield cache
    finally:
        cache.close()


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"


def cpu_seconds(pid: int) -> tuple[int, float, float]:
    """Return the parent of a process, its processor time, and that of its children that have ended; OSError without."""
    # The second field, the program's name, may contain blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, ended = (sum(map(int, fields[first : first + 2])) / os.sysconf("SC_CLK_TCK") for first in (11, 13))
    return int(fields[1]), own, ended


def peak_mb() -> float:
    """Return the peak memory of this process so far, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def current_mb() -> float:
    """Return the memory of this process, in megabytes; its peak on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20
    except OSError:
        return peak_mb()
