"""Compute the vectors of a dataset on another machine: export its texts, import their vectors.

Retain decides which texts are embedded (a turn, its date, context before it), so the texts are collected by retaining
every case into a temporary bank with placeholder vectors. Texts whose vectors are cached are omitted. A text that a
later run needs in addition is embedded then. Questions are not exported: every run embeds them, so that their time is
real.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vmemo.ports import Embedder, TokenEmbedder
from vmemo.providers import PackagedEmbedder, export_missing, import_vectors as import_into_cache
from vmemo.settings import Settings
from vmemo_bench.bench_store import location_in_file
from vmemo_bench.case_run import retain_sessions
from vmemo_bench.datasets import load
from vmemo_bench.embedders import PlaceholderEmbedder, RecordingEmbedder
from vmemo_bench.environment import embedder_of, embedding_cache, make_folder
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter, silent
from vmemo_bench.retrieval import setup_of


@dataclass(frozen=True)
class _VectorSpace:
    name: str
    dimension: int
    query_prefix: str


async def export_texts(options: BenchOptions, file: Path, progress: ProgressSink = silent) -> int:
    """Write the texts that a run would embed and return their number. `docs/embeddings.md` describes the format."""
    embedder = embedder_of(options)
    texts = await _collect_texts(options, embedder, progress)
    space, tokens = _vector_space(embedder), isinstance(embedder, TokenEmbedder)
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(export_missing, cache, space, texts, "document", file, tokens=tokens)


async def import_vectors(options: BenchOptions, file: Path) -> int:
    """Import a file of vectors into the benchmarks' cache and return their number."""
    space = _vector_space(embedder_of(options))
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(import_into_cache, cache, file, space=space)


async def _collect_texts(options: BenchOptions, embedder: Embedder, progress: ProgressSink) -> list[str]:
    dataset = load(options)
    recorder = RecordingEmbedder(PlaceholderEmbedder(embedder))
    setup = setup_of(
        options, dataset, recorder, (options.settings or Settings()).model_copy(update={"embedding_cache": None})
    )
    steps = StepCounter(progress, f"texts of {dataset.name}", sum(len(case.sessions) for case in dataset.cases))
    with tempfile.TemporaryDirectory(dir=make_folder(options.work_folder)) as folder:
        for number, case in enumerate(dataset.cases):
            location = location_in_file(Path(folder) / f"{number}.db", case.id)
            async with setup.memory(case, location) as memory:
                await retain_sessions(memory, case, steps.advance)
    return recorder.texts


def _vector_space(embedder: Embedder) -> _VectorSpace:
    prefix = embedder.query_prefix if isinstance(embedder, PackagedEmbedder) else ""
    return _VectorSpace(embedder.name, embedder.dimension, prefix)
