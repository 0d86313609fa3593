"""Texts are exported, their vectors imported, and the run embeds no document."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue
from small_data import CountingEmbedder, run, write_conversations

from vmemo.errors import InvalidInput
from vmemo_bench import BenchOptions, export_texts, import_vectors

HEADER: JsonValue = {"embedder": "counting", "dimension": 64}
KEY = "0123456789abcdef" * 2


def options(folder: Path, embedder: CountingEmbedder) -> BenchOptions:
    return BenchOptions(benchmark="ours", data=folder / "data", cache=folder / "cache", embedder=embedder)


def compute(texts: Path, vectors: Path) -> int:
    """Compute the vectors of an exported file, as another machine would."""
    header, *lines = [json.loads(line) for line in texts.read_text().splitlines()]
    computed = asyncio.run(CountingEmbedder().embed([line["text"] for line in lines], "document"))
    head = {"embedder": header["embedder"], "dimension": header["dimension"]}
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


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "line 1"),
        ([{"embedder": "other", "dimension": 64}], "made for the embedder 'other'"),
        ([{"embedder": "counting", "dimension": 4}], "of 4 dimensions"),
        ([HEADER, {"key": "short", "vector": ""}], "line 2: key"),
        ([HEADER, {"key": KEY}], "line 2: vector"),
        ([HEADER, {"key": KEY, "vector": "§"}], "line 2"),
        ([HEADER, {"key": KEY, "vector": "AAAA"}], "line 2"),
        ([HEADER, {"key": KEY, "vector": base64.b64encode(bytes(128)).decode()}], "with a direction"),
    ],
)
def test_a_faulty_file_is_refused_by_line(lines: list[JsonValue], problem: str, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.jsonl"
    vectors.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InvalidInput, match=rf"vectors\.jsonl, .*{problem}"):
        asyncio.run(import_vectors(options(tmp_path, CountingEmbedder()), vectors))


def test_token_vectors_are_exported_and_imported(tmp_path: Path) -> None:
    write_conversations(tmp_path / "data")
    packaged = BenchOptions(benchmark="ours", data=tmp_path / "data", cache=tmp_path / "cache")
    texts, vectors = tmp_path / "texts.jsonl", tmp_path / "vectors.jsonl"
    written = asyncio.run(export_texts(packaged, texts))
    header, *lines = [json.loads(line) for line in texts.read_text().splitlines()]
    assert header["tokens"] is True
    pack = base64.b64encode
    answer = {
        "vector": pack(np.ones(384, "<f2").tobytes()).decode(),
        "token_width": 48,
        "tokens": pack(b"1" * 96).decode(),
    }
    vectors.write_text("".join(json.dumps(each) + "\n" for each in [header, *({**line, **answer} for line in lines)]))
    assert asyncio.run(import_vectors(packaged, vectors)) == written > 0
    assert asyncio.run(export_texts(packaged, texts)) == 0
