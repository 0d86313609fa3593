"""Texts are exported, their vectors imported, and the run embeds no document."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

from small_data import CountingEmbedder, run, write_conversations

from vmemo_bench import BenchOptions, export_texts, import_vectors


def options(folder: Path, embedder: CountingEmbedder) -> BenchOptions:
    return BenchOptions(benchmark="ours", data=folder / "data", cache=folder / "cache", embedder=embedder)


def compute(texts: Path, vectors: Path) -> int:
    """Compute the vectors of an exported file, as another machine would."""
    header, *lines = [json.loads(line) for line in texts.read_text().splitlines()]
    computed = asyncio.run(CountingEmbedder().embed([line["text"] for line in lines], "document"))
    head = {"format": "vmemo-vectors", "version": 1, "embedder": header["embedder"], "dimension": header["dimension"]}
    body = [
        {"key": line["key"], "vector": base64.b64encode(vector.astype("<f2").tobytes()).decode()}
        for line, vector in zip(lines, computed, strict=True)
    ]
    vectors.write_text("".join(json.dumps(line) + "\n" for line in [head, *body]))
    return len(lines)


def test_a_run_after_the_import_embeds_only_questions(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data")
    texts, vectors = tmp_path / "texts.jsonl", tmp_path / "vectors.jsonl"
    written = asyncio.run(export_texts(options(tmp_path, CountingEmbedder()), texts))
    assert written == compute(texts, vectors) > 0
    assert asyncio.run(import_vectors(options(tmp_path, CountingEmbedder()), vectors)) == written
    embedder = CountingEmbedder()
    report = run(options(tmp_path, embedder))
    assert embedder.documents == []
    assert report.metrics["recall@10"] == 1.0


def test_the_export_embeds_nothing_and_omits_cached_texts(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data")
    embedder = CountingEmbedder()
    assert asyncio.run(export_texts(options(tmp_path, embedder), tmp_path / "before.jsonl")) > 0
    assert embedder.documents == []
    run(options(tmp_path, embedder))
    assert asyncio.run(export_texts(options(tmp_path, embedder), tmp_path / "after.jsonl")) == 0
