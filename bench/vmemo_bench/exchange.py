"""Embed a dataset elsewhere: its texts go out to a file, the vectors come back from one.

What is embedded is made by retain (a turn, its date, perhaps what was said before it), so the texts are
collected by retaining every case into a bank that is thrown away, with vectors that cost nothing. Texts whose
vectors lie in the cache already are left out. Should a later run want a text that was not foreseen, it is
embedded then. Questions are not exported: they are embedded in every run, so that their time is real.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from vmemo.embedding import vector_files
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.ports import Embedder, TokenEmbedder
from vmemo.settings import Settings
from vmemo_bench.datasets import Dataset, load
from vmemo_bench.embedders import Placeholder, Recorder
from vmemo_bench.environment import embedding_cache, make_folder
from vmemo_bench.options import BenchOptions, ProgressSink, silent
from vmemo_bench.retrieval import setup_of
from vmemo_bench.runner import Setup, ingest
from vmemo_bench.steps import Steps
from vmemo_bench.stores import in_file


@dataclass(frozen=True)
class _Space:
    name: str
    dimension: int
    query_prefix: str


async def export_texts(options: BenchOptions, file: Path, progress: ProgressSink = silent) -> int:
    """Write the texts that a run would have to embed; how many they are. `docs/embeddings.md` has the format."""
    dataset = load(options)
    embedder = options.embedder or PackagedEmbedder()
    recorder = Recorder(Placeholder(embedder))
    settings = replace(options.settings or Settings(), embedding_cache=None)
    setup = setup_of(options, dataset, recorder, settings)
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        await _collect(dataset, setup, Path(folder), progress)
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(
            vector_files.export_missing,
            cache,
            _space(embedder),
            recorder.texts,
            "document",
            file,
            tokens=isinstance(embedder, TokenEmbedder),
        )


async def import_vectors(options: BenchOptions, file: Path) -> int:
    """Put a file's vectors into the benchmarks' cache; how many they are."""
    space = _space(options.embedder or PackagedEmbedder())
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(vector_files.import_vectors, cache, file, space=space)


async def _collect(dataset: Dataset, setup: Setup, folder: Path, progress: ProgressSink) -> None:
    steps = Steps(progress, f"texts of {dataset.name}", sum(len(case.sessions) for case in dataset.cases))
    for number, case in enumerate(dataset.cases):
        async with setup.memory(case, in_file(folder / f"{number}.db", case.id)) as memory:
            await ingest(memory, case, steps.advance)


def _space(embedder: Embedder) -> _Space:
    prefix = embedder.query_prefix if isinstance(embedder, PackagedEmbedder) else ""
    return _Space(embedder.name, embedder.dimension, prefix)
