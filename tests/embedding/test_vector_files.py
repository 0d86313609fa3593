"""Texts that go out to be embedded elsewhere, and the vectors that come back."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from pydantic import JsonValue

from vmemo.embedding.cache import CachedTokenEmbedder, EmbeddingCache, cache_key
from vmemo.embedding.packaged import PackagedEmbedder
from vmemo.embedding.vector_files import export_missing, import_vectors
from vmemo.errors import InvalidInput
from vmemo.models.search import Encoding, Vectors
from vmemo.ports import TextKind


@dataclass(frozen=True)
class Plain:
    """A small space."""

    name: str = "small"
    dimension: int = 4
    query_prefix: str = "query: "


class Unasked:
    """Has the packaged embedder's name, and must never be asked."""

    name = PackagedEmbedder().name
    dimension = PackagedEmbedder().dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        raise AssertionError("was asked")

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        raise AssertionError("was asked")


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


def rows(*numbers: Sequence[int]) -> str:
    return base64.b64encode(np.array(numbers, dtype=np.int8).tobytes()).decode()


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
    assert (header["embedder"], header["dimension"]) == ("vmemo-encoder-1", 384)


def test_vectors_come_back_for_the_exported_keys(cache: EmbeddingCache, tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    export_missing(cache, SPACE, [f"text {n}" for n in range(2500)], "document", texts)
    vectors: list[JsonValue] = [{"key": line["key"], "vector": packed(0, 3, 4, 0)} for line in lines_of(texts)[1:]]
    assert import_vectors(cache, write(tmp_path / "vectors.jsonl", HEADER, *vectors), space=SPACE) == 2500
    assert export_missing(cache, SPACE, [f"text {n}" for n in range(2500)], "document", texts) == 0
    found = cache.get_many([key_of("text 7")])[key_of("text 7")]
    np.testing.assert_allclose(found, [0, 0.6, 0.8, 0], atol=1e-3)


def test_texts_without_token_vectors_are_written_where_those_are_wanted(cache: EmbeddingCache, tmp_path: Path) -> None:
    one, file = np.ones(4, dtype=np.float32), tmp_path / "texts.jsonl"
    cache.put_many({key_of(text): one for text in ("whole", "half")})
    cache.put_tokens({key_of(text): np.eye(2, dtype=np.float32) for text in ("whole", "other half")})
    texts = ["whole", "half", "other half", "neither"]
    assert export_missing(cache, SPACE, texts, "document", file, tokens=True) == 3
    header, *entries = lines_of(file)
    assert header["tokens"] is True
    assert [entry["text"] for entry in entries] == texts[1:]
    assert export_missing(cache, SPACE, texts, "document", file) == 2
    assert "tokens" not in lines_of(file)[0]


def test_token_vectors_are_not_wanted_for_queries(cache: EmbeddingCache, tmp_path: Path) -> None:
    cache.put_many({key_of("known", "query"): np.ones(4, dtype=np.float32)})
    assert export_missing(cache, SPACE, ["known"], "query", tmp_path / "texts.jsonl", tokens=True) == 0
    assert "tokens" not in lines_of(tmp_path / "texts.jsonl")[0]


def test_token_vectors_come_back_beside_the_vectors(cache: EmbeddingCache, tmp_path: Path) -> None:
    texts, vector = [f"text {n}" for n in range(1200)], packed(1, 0, 0, 0)
    lines: list[JsonValue] = [
        {"key": key_of(text).hex(), "vector": vector, "token_width": 3, "tokens": rows([127, 0, 0], [0, -n % 127, 64])}
        for n, text in enumerate(texts)
    ]
    assert import_vectors(cache, write(tmp_path / "vectors.jsonl", HEADER, *lines), space=SPACE) == 1200
    assert export_missing(cache, SPACE, texts, "document", tmp_path / "texts.jsonl", tokens=True) == 0
    found = cache.get_tokens([key_of("text 1100")])[key_of("text 1100")]
    np.testing.assert_allclose(found, [[1, 0, 0], [0, (-1100 % 127) / 127, 64 / 127]], atol=1e-6)


def test_lines_with_and_without_token_vectors_may_stand_in_one_file(cache: EmbeddingCache, tmp_path: Path) -> None:
    vector = packed(1, 0, 0, 0)
    lines: list[JsonValue] = [
        {"key": key_of("with").hex(), "vector": vector, "token_width": 2, "tokens": rows([0, 127])},
        {"key": key_of("none").hex(), "vector": vector, "token_width": 2, "tokens": ""},
        {"key": key_of("without").hex(), "vector": vector},
    ]
    assert import_vectors(cache, write(tmp_path / "vectors.jsonl", HEADER, *lines), space=SPACE) == 3
    keys = [key_of(text) for text in ("with", "none", "without")]
    assert cache.get_many(keys).keys() == set(keys)
    tokens = cache.get_tokens(keys)
    assert [tokens[key].shape for key in keys if key in tokens] == [(1, 2), (0, 2)]


def test_vectors_of_the_packaged_embedder_survive_a_file_round_trip(cache: EmbeddingCache, tmp_path: Path) -> None:
    text, real = "Caroline adopted a grey cat named Oscar.", PackagedEmbedder()
    vector, tokens = asyncio.run(real.encode([text], "document"))[0]
    assert tokens is not None
    export_missing(cache, real, [text], "document", tmp_path / "texts.jsonl", tokens=True)
    header, line = lines_of(tmp_path / "texts.jsonl")
    answer: dict[str, JsonValue] = {
        "key": line["key"],
        "vector": packed(*vector.tolist()),
        "token_width": tokens.shape[1],
        "tokens": rows(*np.rint(tokens * 127).astype(int).tolist()),
    }
    file = write(tmp_path / "vectors.jsonl", header | {"format": "vmemo-vectors"}, answer)
    import_vectors(cache, file, space=real)
    found = asyncio.run(CachedTokenEmbedder(Unasked(), disk=cache).encode([text], "document"))[0]
    assert found.tokens is not None
    np.testing.assert_allclose(found.vector, vector, atol=1e-3)
    np.testing.assert_allclose(found.tokens, tokens, atol=1 / 127)


GOOD: dict[str, JsonValue] = {"key": KEY, "vector": packed(1, 0, 0, 0)}
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
    ([HEADER, GOOD, GOOD | {"token_width": 2}], "line 3: token_width and tokens must be given together"),
    ([HEADER, GOOD, GOOD | {"tokens": rows([1, 2])}], "line 3: token_width and tokens must be given together"),
    ([HEADER, GOOD, GOOD | {"token_width": 0, "tokens": ""}], "line 3: token_width"),
    ([HEADER, GOOD, GOOD | {"token_width": "2", "tokens": ""}], "line 3: token_width"),
    ([HEADER, GOOD, GOOD | {"token_width": 2, "tokens": 12}], "line 3: tokens"),
    ([HEADER, GOOD, GOOD | {"token_width": 2, "tokens": "§"}], "line 3: tokens: not base64"),
    ([HEADER, GOOD, GOOD | {"token_width": 2, "tokens": rows([1, 2, 3])}], "line 3: tokens: 3 bytes"),
    ([HEADER, GOOD, GOOD | {"token_width": 2, "tokens": rows([1, 2], [0, 0])}], "line 3: tokens: a row of zeros"),
]


@pytest.mark.parametrize(("lines", "reason"), BAD)
def test_a_file_with_a_fault_is_refused_by_line_and_changes_nothing(
    lines: list[JsonValue], reason: str, cache: EmbeddingCache, tmp_path: Path
) -> None:
    file = write(tmp_path / "vectors.jsonl", *lines)
    with pytest.raises(InvalidInput, match=rf"vectors\.jsonl, {reason}"):
        import_vectors(cache, file, space=SPACE)
    assert cache.get_many([bytes.fromhex(KEY)]) == cache.get_tokens([bytes.fromhex(KEY)]) == {}


@pytest.mark.parametrize("content", [b"{not json\n", b"\xff\xfe\n", b"\n"])
def test_a_file_that_is_not_json_lines_is_refused(content: bytes, cache: EmbeddingCache, tmp_path: Path) -> None:
    file = tmp_path / "vectors.jsonl"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"vectors\.jsonl, line 1"):
        import_vectors(cache, file)


def test_a_file_that_is_not_there_is_refused(cache: EmbeddingCache, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nowhere\.jsonl can't be read"):
        import_vectors(cache, tmp_path / "nowhere.jsonl")
