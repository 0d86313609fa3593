"""Texts that go out to be embedded elsewhere, and the vectors that come back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from vmemo.errors import InvalidInput
from vmemo.ports import TextKind
from vmemo.providers.caching import EmbeddingCache, cache_key
from vmemo.providers.packaged import PackagedEmbedder
from vmemo.providers.vector_files import export_missing, import_vectors


@dataclass(frozen=True)
class Plain:
    """A small space."""

    name: str = "small"
    dimension: int = 4
    query_prefix: str = "query: "


SPACE = Plain()
HEADER: dict[str, JsonValue] = {"format": "vmemo-vectors", "version": 1, "embedder": "small", "dimension": 4}
KEY = "0123456789abcdef" * 2


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[EmbeddingCache]:
    opened = EmbeddingCache(tmp_path / "cache.db")
    yield opened
    opened.close()


def packed(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, dtype="<f2").tobytes()).decode()


def write(path: Path, *lines: JsonValue) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def lines_of(path: Path) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def key_of(text: str, kind: TextKind = "document") -> bytes:
    return cache_key("small", kind, text)


def test_only_missing_texts_are_written_each_once(cache: EmbeddingCache, tmp_path: Path) -> None:
    cache.put_many({key_of("known"): np.ones(4, dtype=np.float32)})
    file = tmp_path / "texts.jsonl"
    assert export_missing(cache, SPACE, ["new", "known", "new", "zeile\n日本"], "document", file) == 2
    header, *entries = lines_of(file)
    assert header == {
        "format": "vmemo-texts",
        "version": 1,
        "embedder": "small",
        "dimension": 4,
        "query_prefix": "query: ",
    }
    assert entries == [
        {"key": key_of("new").hex(), "kind": "document", "text": "new"},
        {"key": key_of("zeile\n日本").hex(), "kind": "document", "text": "zeile\n日本"},
    ]


def test_queries_and_documents_have_keys_of_their_own(cache: EmbeddingCache, tmp_path: Path) -> None:
    cache.put_many({key_of("same", "document"): np.ones(4, dtype=np.float32)})
    assert export_missing(cache, SPACE, ["same"], "query", tmp_path / "texts.jsonl") == 1


def test_the_packaged_embedder_describes_its_space(cache: EmbeddingCache, tmp_path: Path) -> None:
    export_missing(cache, PackagedEmbedder(), ["a"], "query", tmp_path / "texts.jsonl")
    header = lines_of(tmp_path / "texts.jsonl")[0]
    assert (header["embedder"], header["dimension"]) == ("arctic-embed-s-int8", 384)


def test_vectors_come_back_for_the_exported_keys(cache: EmbeddingCache, tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    export_missing(cache, SPACE, [f"text {n}" for n in range(2500)], "document", texts)
    vectors: list[JsonValue] = [{"key": line["key"], "vector": packed(0, 3, 4, 0)} for line in lines_of(texts)[1:]]
    assert import_vectors(cache, write(tmp_path / "vectors.jsonl", HEADER, *vectors), space=SPACE) == 2500
    assert export_missing(cache, SPACE, [f"text {n}" for n in range(2500)], "document", texts) == 0
    found = cache.get_many([key_of("text 7")])[key_of("text 7")]
    np.testing.assert_allclose(found, [0, 0.6, 0.8, 0], atol=1e-3)


GOOD: JsonValue = {"key": KEY, "vector": packed(1, 0, 0, 0)}
BAD: list[tuple[list[JsonValue], str]] = [
    ([], "line 1"),
    ([[1]], "line 1"),
    ([HEADER | {"format": "vmemo-texts"}], "line 1: format"),
    ([HEADER | {"version": 2}], "line 1: version"),
    ([HEADER | {"embedder": ""}], "line 1: embedder"),
    ([HEADER | {"embedder": "other"}], "line 1: made for the embedder 'other'"),
    ([HEADER | {"dimension": 0}], "line 1: dimension"),
    ([HEADER | {"dimension": "4"}], "line 1: dimension"),
    ([HEADER | {"dimension": 5}], "line 1: dimension 5"),
    ([HEADER, GOOD, "text"], "line 3"),
    ([HEADER, GOOD, {"key": KEY}], "line 3: vector"),
    ([HEADER, GOOD, {"key": "short", "vector": packed(1, 0, 0, 0)}], "line 3: key"),
    ([HEADER, GOOD, {"key": KEY, "vector": "§"}], "line 3: vector: not base64"),
    ([HEADER, GOOD, {"key": KEY, "vector": packed(1, 0, 0)}], "line 3: vector: 6 bytes"),
    ([HEADER, GOOD, {"key": KEY, "vector": packed(1, 0, 0, float("nan"))}], "line 3: .*not finite"),
    ([HEADER, GOOD, {"key": KEY, "vector": packed(1, 0, 0, float("inf"))}], "line 3: .*not finite"),
    ([HEADER, GOOD, {"key": KEY, "vector": packed(0, 0, 0, 0)}], "line 3: .*all zeros"),
]


@pytest.mark.parametrize(("lines", "reason"), BAD)
def test_a_file_with_a_fault_is_refused_by_line_and_changes_nothing(
    lines: list[JsonValue], reason: str, cache: EmbeddingCache, tmp_path: Path
) -> None:
    file = write(tmp_path / "vectors.jsonl", *lines)
    with pytest.raises(InvalidInput, match=rf"vectors\.jsonl, {reason}"):
        import_vectors(cache, file, space=SPACE)
    assert cache.get_many([bytes.fromhex(KEY)]) == {}


@pytest.mark.parametrize("content", [b"{not json\n", b"\xff\xfe\n", b"\n"])
def test_a_file_that_is_not_json_lines_is_refused(content: bytes, cache: EmbeddingCache, tmp_path: Path) -> None:
    file = tmp_path / "vectors.jsonl"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"vectors\.jsonl, line 1"):
        import_vectors(cache, file)


def test_a_file_that_is_not_there_is_refused(cache: EmbeddingCache, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.jsonl can't be read"):
        import_vectors(cache, tmp_path / "nowhere.jsonl")
