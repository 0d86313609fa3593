"""Texts go out, vectors come back, and the run has nothing left to embed."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

from toy import ToyEmbedder, write_conversations

from vmemo_bench import BenchOptions, export_texts, import_vectors, run_benchmark


def options(folder: Path, embedder: ToyEmbedder) -> BenchOptions:
    return BenchOptions(benchmark="ours", data=folder / "data", cache=folder / "cache", embedder=embedder)


def compute(texts: Path, vectors: Path) -> int:
    """What another machine does with the exported file."""
    header, *lines = [json.loads(line) for line in texts.read_text().splitlines()]
    computed = asyncio.run(ToyEmbedder().embed([line["text"] for line in lines], "document"))
    head = {"format": "vmemo-vectors", "version": 1, "embedder": header["embedder"], "dimension": header["dimension"]}
    body = [
        {"key": line["key"], "vector": base64.b64encode(vector.astype("<f2").tobytes()).decode()}
        for line, vector in zip(lines, computed, strict=True)
    ]
    vectors.write_text("".join(json.dumps(line) + "\n" for line in [head, *body]))
    return len(lines)


def test_a_run_after_the_import_embeds_only_its_questions(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data")
    texts, vectors = tmp_path / "texts.jsonl", tmp_path / "vectors.jsonl"
    written = asyncio.run(export_texts(options(tmp_path, ToyEmbedder()), texts))
    assert written == compute(texts, vectors) > 0
    assert asyncio.run(import_vectors(options(tmp_path, ToyEmbedder()), vectors)) == written
    embedder = ToyEmbedder()
    report = asyncio.run(run_benchmark(options(tmp_path, embedder)))
    assert embedder.documents == []
    assert report.metrics["recall@10"] == 1.0


def test_exporting_embeds_nothing_and_leaves_out_what_is_cached(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data")
    embedder = ToyEmbedder()
    assert asyncio.run(export_texts(options(tmp_path, embedder), tmp_path / "before.jsonl")) > 0
    assert embedder.documents == []
    asyncio.run(run_benchmark(options(tmp_path, embedder)))
    assert asyncio.run(export_texts(options(tmp_path, embedder), tmp_path / "after.jsonl")) == 0
