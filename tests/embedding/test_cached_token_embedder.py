"""The cache of an embedder that gives token vectors, and the contract it holds it to."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest

from vmemo.embedding.cache import CachedEmbedder, CachedTokenEmbedder, EmbeddingCache, cache_embedder, cache_key
from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, TextKind, TokenEmbedder

DIMENSION, WIDTH = 8, 6
STEP = 1 / 127
"""The precision of a stored byte."""
Answer: TypeAlias = Callable[[list[Encoding]], object]


def directions(count: int, width: int, seed: str) -> Vectors:
    rows = np.random.default_rng(int.from_bytes(cache_key("seed", "document", seed)[:4], "big"))
    vectors = rows.normal(size=(count, width))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def vector_of(text: str, kind: TextKind) -> Vector:
    return directions(1, DIMENSION, f"{kind} {text}")[0]


def tokens_of(text: str, kind: TextKind) -> TokenVectors:
    """As many as the text has words; a query's lengths add up to 1."""
    rows = directions(len(text.split()), WIDTH, f"{kind} {text} tokens")
    return rows / np.float32(len(rows) or 1) if kind == "query" else rows


class Counting:
    """A deterministic embedder that notes what it is asked; `answer` may replace its encodings."""

    name = "counting"
    dimension = DIMENSION

    def __init__(self, answer: Answer | None = None) -> None:
        self.embedded: list[list[str]] = []
        self.encoded: list[list[str]] = []
        self._answer = answer

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        self.embedded.append(list(texts))
        return np.stack([vector_of(text, kind) for text in texts])

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        self.encoded.append(list(texts))
        given = [Encoding(vector_of(text, kind), tokens_of(text, kind)) for text in texts]
        return cast("Sequence[Encoding]", self._answer(given)) if self._answer else given


class Plain:
    """An embedder without token vectors."""

    name = "plain"
    dimension = DIMENSION

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return np.stack([vector_of(text, kind) for text in texts])


class Unsteady(Counting):
    """Fails twice, then works."""

    failures = 2

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("refused")
        return await super().encode(texts, kind)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[EmbeddingCache]:
    opened = EmbeddingCache(tmp_path / "cache.db")
    yield opened
    opened.close()


def encode(embedder: TokenEmbedder, *texts: str, kind: TextKind = "document") -> list[Encoding]:
    return list(asyncio.run(embedder.encode(texts, kind)))


def embed(embedder: Embedder, *texts: str, kind: TextKind = "document") -> Vectors:
    return asyncio.run(embedder.embed(texts, kind))


def assert_encoded(encodings: Sequence[Encoding], *texts: str, kind: TextKind = "document", off: float = 1e-6) -> None:
    for text, (vector, tokens, *_) in zip(texts, encodings, strict=True):
        assert tokens is not None
        assert tokens.dtype == vector.dtype == np.float32
        np.testing.assert_allclose(vector, vector_of(text, kind), atol=max(off / 4, 1e-6))
        np.testing.assert_allclose(tokens, tokens_of(text, kind), atol=off)


def test_an_embedder_of_tokens_gets_a_cache_of_tokens_and_a_plain_one_does_not(disk: EmbeddingCache) -> None:
    assert isinstance(cache_embedder(Counting(), disk), CachedTokenEmbedder)
    plain = cache_embedder(Plain(), disk)
    assert type(plain) is CachedEmbedder
    assert not isinstance(plain, TokenEmbedder)
    np.testing.assert_allclose(embed(plain, "a"), [vector_of("a", "document")], atol=1e-6)


def test_it_has_the_inner_name_and_dimension_and_is_an_embedder_of_tokens() -> None:
    embedder: TokenEmbedder = CachedTokenEmbedder(Counting())
    assert (embedder.name, embedder.dimension) == ("counting", DIMENSION)
    assert isinstance(embedder, TokenEmbedder)


@pytest.mark.parametrize("kind", ["query", "document"])
def test_a_text_is_computed_once(kind: TextKind) -> None:
    inner = Counting()
    embedder = CachedTokenEmbedder(inner)
    for _ in range(2):
        assert_encoded(encode(embedder, "one text", kind=kind), "one text", kind=kind)
    assert inner.encoded == [["one text"]]


def test_vectors_of_encodings_serve_embed() -> None:
    inner = Counting()
    embedder = CachedTokenEmbedder(inner)
    encode(embedder, "a", "b")
    np.testing.assert_allclose(embed(embedder, "b"), [vector_of("b", "document")], atol=1e-6)
    assert inner.embedded == []


def test_a_text_to_which_the_embedder_gives_no_tokens_is_computed_once_too(disk: EmbeddingCache) -> None:
    inner = Counting(lambda given: [Encoding(encoding.vector) for encoding in given])
    embedder = CachedTokenEmbedder(inner, disk=disk)
    assert [encode(embedder, "a")[0].tokens for _ in range(2)] == [None, None]
    assert inner.encoded == [["a"]]


def test_a_text_may_have_no_token_at_all(disk: EmbeddingCache) -> None:
    for _ in range(2):
        (encoding,) = encode(CachedTokenEmbedder(Counting(), disk=disk), "")
        assert encoding.tokens is not None
        assert encoding.tokens.shape == (0, WIDTH)


def test_a_caller_can_not_change_what_is_cached() -> None:
    embedder = CachedTokenEmbedder(Counting())
    fresh = encode(embedder, "a text")[0]
    assert fresh.tokens is not None
    fresh.vector[:] = 0
    fresh.tokens[:] = 0
    kept = encode(embedder, "a text")[0]
    assert kept.tokens is not None
    for array in (kept.vector, kept.tokens):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    assert_encoded(encode(embedder, "a text"), "a text")


def test_the_disk_serves_a_later_embedder_within_a_byte(disk: EmbeddingCache) -> None:
    first, second = Counting(), Counting()
    texts = ["a", "two words", "three short words", ""]
    encode(CachedTokenEmbedder(first, disk=disk), *texts)
    disk.close()
    embedder = CachedTokenEmbedder(second, disk=disk)
    assert_encoded(encode(embedder, *texts[::-1]), *texts[::-1], off=STEP)
    assert second.encoded == []
    disk.close()
    disk.path.unlink()
    assert_encoded(encode(embedder, *texts), *texts, off=STEP)
    assert second.encoded == []


def test_the_disk_keeps_no_tokens_of_queries_for_which_a_byte_is_too_coarse(disk: EmbeddingCache) -> None:
    question = " ".join(["word"] * 60)
    inner = Counting()
    encode(CachedTokenEmbedder(inner, disk=disk), question, kind="query")
    assert_encoded(encode(CachedTokenEmbedder(inner, disk=disk), question, kind="query"), question, kind="query")
    assert len(inner.encoded) == 2
    assert disk.get([cache_key("counting", "query", question)]) == {}


def test_a_vector_without_tokens_on_disk_is_computed_again(disk: EmbeddingCache) -> None:
    inner = Counting()
    disk.put({cache_key("counting", "document", "a"): Encoding(vector_of("a", "document"))})
    assert_encoded(encode(CachedTokenEmbedder(inner, disk=disk), "a"), "a")
    assert inner.encoded == [["a"]]
    assert_encoded(encode(CachedTokenEmbedder(inner, disk=disk), "a"), "a", off=STEP)
    assert inner.encoded == [["a"]]


def test_damaged_tokens_on_disk_are_computed_again(disk: EmbeddingCache) -> None:
    encode(CachedTokenEmbedder(Counting(), disk=disk), *"bcd")
    disk.close()
    raw = sqlite3.connect(disk.path)
    for text, width in (("b", 0), ("c", -1), ("d", 5)):
        values = width, cache_key("counting", "document", text)
        raw.execute("UPDATE encodings SET token_width = ? WHERE key = ?", values)
    raw.commit()
    raw.close()
    inner = Counting()
    assert_encoded(encode(CachedTokenEmbedder(inner, disk=disk), *"bcd"), *"bcd")
    assert inner.encoded == [list("bcd")]


def test_a_transient_failure_is_retried() -> None:
    async def no_pause(_: float) -> None: ...

    assert_encoded(encode(CachedTokenEmbedder(Unsteady(), sleep=no_pause), "a"), "a")


def last(**changed: object) -> Answer:
    """Encodings of which the last one has something else in it."""
    return lambda given: [*given[:-1], given[-1]._replace(**cast("dict[str, Vector]", changed))]


BROKEN: dict[str, tuple[Answer, str]] = {
    "too few": (lambda given: given[1:], r"shape \(1, 8\), but \(2, 8\) was expected"),
    "nothing": (lambda given: None, "something other than encodings"),
    "vectors": (lambda given: np.stack([encoding.vector for encoding in given]), "something other than encodings"),
    "narrow vector": (last(vector=np.ones(7)), "rows of numbers"),
    "vector of zeros": (last(vector=np.zeros(8)), "zeros"),
    "vector of nan": (last(vector=np.full(8, np.nan)), "not finite"),
    "flat tokens": (last(tokens=np.ones(6)), "rows of finite numbers"),
    "tokens of no width": (last(tokens=np.ones((3, 0))), "rows of finite numbers"),
    "ragged tokens": (last(tokens=[[1.0], [0.6, 0.8]]), "rows of numbers"),
    "nan tokens": (last(tokens=np.full((2, 6), np.nan)), "rows of finite numbers"),
    "long tokens": (last(tokens=np.full((2, 6), 1.5)), "longer than 1"),
}


@pytest.mark.parametrize(("answer", "reason"), BROKEN.values(), ids=BROKEN)
def test_an_answer_that_breaks_the_contract_is_refused_and_not_kept(
    answer: Answer, reason: str, disk: EmbeddingCache
) -> None:
    embedder = CachedTokenEmbedder(Counting(answer), disk=disk)
    with pytest.raises(EmbeddingFailed, match=f"'counting'.*{reason}"):
        encode(embedder, "a", "b")
    keys = [cache_key("counting", "document", text) for text in "ab"]
    assert disk.get(keys) == {}
