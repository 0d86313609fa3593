"""Compute the vectors of a dataset on another machine: export its texts, import their vectors.

Retain decides which texts are embedded (a turn, its date, context before it), so the texts are collected by retaining
every case into a temporary bank with placeholder vectors. Texts whose vectors are cached are omitted. A text that a
later run needs in addition is embedded then. Questions are not exported: every run embeds them, so that their time is
real. `docs/embeddings.md` describes the files.
"""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from vmemo.errors import InvalidInput
from vmemo.models.search import Encoding, TokenVectors, Vector
from vmemo.ports import Embedder, TokenEmbedder
from vmemo.providers import EmbeddingCache, cache_key
from vmemo.settings import Settings
from vmemo_bench.bench_store import location_in_file
from vmemo_bench.case_run import retain_sessions
from vmemo_bench.datasets import load
from vmemo_bench.embedders import PlaceholderEmbedder, RecordingEmbedder
from vmemo_bench.environment import embedder_of, embedding_cache, make_folder
from vmemo_bench.json_files import parse_record
from vmemo_bench.options import BenchOptions
from vmemo_bench.progress import ProgressSink, StepCounter, silent
from vmemo_bench.retrieval import setup_of

_BATCH_SIZE = 1000
"""Lines that are read at a time, because all vectors may not fit in memory."""


class _Header(BaseModel):
    model_config = ConfigDict(strict=True)

    embedder: str
    dimension: int = Field(ge=1)


class _VectorLine(BaseModel):
    model_config = ConfigDict(strict=True)

    key: str = Field(pattern="^[0-9a-f]{32}$")
    vector: str
    token_width: int = Field(1, ge=1)
    tokens: str | None = None


async def export_texts(options: BenchOptions, file: Path, progress: ProgressSink = silent) -> int:
    """Write the texts that a run would embed and that are not cached, and return their number."""
    embedder = embedder_of(options)
    texts = await _collect_texts(options, embedder, progress)
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(_export, cache, embedder, texts, file)


async def import_vectors(options: BenchOptions, file: Path) -> int:
    """Import a file of vectors into the benchmarks' cache and return their number."""
    with embedding_cache(options) as cache:
        return await asyncio.to_thread(_import, cache, embedder_of(options), file)


def _export(cache: EmbeddingCache, embedder: Embedder, texts: Sequence[str], file: Path) -> int:
    tokens = isinstance(embedder, TokenEmbedder)
    by_key = {cache_key(embedder.name, "document", text): text for text in texts}
    all_keys = iter(list(by_key))
    while keys := list(islice(all_keys, _BATCH_SIZE)):
        for key, known in cache.get(keys).items():
            if known.tokens is not None or not tokens:
                del by_key[key]
    header = {"embedder": embedder.name, "dimension": embedder.dimension, "tokens": tokens}
    with file.open("w", encoding="utf-8") as lines:
        print(json.dumps(header), file=lines)
        for key, text in by_key.items():
            print(json.dumps({"key": key.hex(), "text": text}), file=lines)
    return len(by_key)


def _import(cache: EmbeddingCache, embedder: Embedder, file: Path) -> int:
    """Store the vectors of a file. A fault stops the import at its line; the lines before it may be stored."""
    count, number = 0, 1
    try:
        with file.open(encoding="utf-8") as lines:
            header = parse_record(next(lines, ""), _Header, f"{file}, line 1")
            if (header.embedder, header.dimension) != (embedder.name, embedder.dimension):
                raise ValueError(f"made for the embedder {header.embedder!r} of {header.dimension} dimensions")
            while batch := list(islice(lines, _BATCH_SIZE)):
                parsed: list[_VectorLine] = []
                for line in batch:
                    number += 1
                    parsed.append(parse_record(line, _VectorLine, f"{file}, line {number}"))
                cache.put({bytes.fromhex(each.key): _encoding(each, header.dimension) for each in parsed})
                count += len(parsed)
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{file}, at line {number}: {error}") from error
    return count


def _encoding(line: _VectorLine, dimension: int) -> Encoding:
    return Encoding(_vector(line, dimension), None if line.tokens is None else _tokens(line))


def _vector(line: _VectorLine, dimension: int) -> Vector:
    numbers = np.frombuffer(base64.b64decode(line.vector, validate=True), "<f2").astype(np.float32)
    if len(numbers) != dimension or not np.isfinite(numbers).all() or not numbers.any():
        raise ValueError(f"the vector of {line.key} is not {dimension} finite float16 numbers with a direction")
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def _tokens(line: _VectorLine) -> TokenVectors:
    numbers = np.frombuffer(base64.b64decode(line.tokens or "", validate=True), np.int8)
    return (numbers.astype(np.float32) / np.float32(127)).reshape(-1, line.token_width)


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
