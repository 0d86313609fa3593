"""Embedders that wrap or replace the real one while something is measured or collected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, TextKind, encodings
from vmemo.providers import EmbeddingCache, cache_embedder

TOKEN_DIMENSION = 48
"""Dimension of synthetic token vectors, that of the packaged encoder."""


class WrappedEmbedder:
    """Wraps an embedder under its name and dimension; `prepare` may change or record the texts."""

    def __init__(self, embedder: Embedder) -> None:
        self.real = embedder

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def dimension(self) -> int:
        return self.real.dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return await self.real.embed(self.prepare(texts, kind), kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        """Embed the prepared texts, with token vectors if the real embedder has them."""
        return await encodings(self.real, self.prepare(texts, kind), kind)

    def prepare(self, texts: Sequence[str], kind: TextKind) -> Sequence[str]:
        """Return the texts to embed."""
        return texts


class RecordingEmbedder(WrappedEmbedder):
    """Records the document texts that the real embedder embeds."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.texts: list[str] = []

    def prepare(self, texts: Sequence[str], kind: TextKind) -> Sequence[str]:
        if kind == "document":
            self.texts.extend(texts)
        return texts


class DocumentCacheEmbedder(WrappedEmbedder):
    """Caches documents on disk across runs; embeds queries every time, so that their time is real."""

    def __init__(self, embedder: Embedder, disk: EmbeddingCache) -> None:
        super().__init__(embedder)
        self._cached = cache_embedder(embedder, disk, capacity=0)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed queries, and documents that are not cached."""
        if kind == "query":
            return await self.real.embed(texts, kind)
        # The disk rounds vectors. Reading them back makes the first run equal to the next.
        await self._cached.embed(texts, kind)
        return await self._cached.embed(texts, kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        """Embed queries, and documents that are not cached, with token vectors."""
        if kind == "query":
            return await encodings(self.real, texts, kind)
        await encodings(self._cached, texts, kind)
        return await encodings(self._cached, texts, kind)


class PlaceholderEmbedder(WrappedEmbedder):
    """Returns random vectors, determined by the text, under the name of the real embedder."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        vectors = np.array([self._vector(text) for text in texts], dtype=np.float32)
        return _normalised(vectors.reshape(len(texts), self.dimension))

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        vectors = await self.embed(texts, kind)
        return [Encoding(vector, _token_vectors(text)) for text, vector in zip(texts, vectors, strict=True)]

    def _vector(self, text: str) -> Vector:
        return _random(text).standard_normal(self.dimension, dtype=np.float32)


class SyntheticEmbedder(PlaceholderEmbedder):
    """Returns for a document a mix of two real vectors with noise, determined by the text; embeds queries for real.

    A bank of 100,000 facts gets vectors distributed like real ones without hours of embedding.
    """

    NOISE = 0.35

    def __init__(self, embedder: Embedder, base: Vectors) -> None:
        super().__init__(embedder)
        self._base = base

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Embed queries, and mix the vectors of documents."""
        return await (self.real.embed(texts, kind) if kind == "query" else super().embed(texts, kind))

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        """Embed queries, and mix the vectors of documents, with token vectors."""
        return await (encodings(self.real, texts, kind) if kind == "query" else super().encode(texts, kind))

    def _vector(self, text: str) -> Vector:
        random = _random(text)
        one, two = self._base[random.integers(len(self._base), size=2)]
        weight = random.uniform(0.5, 0.9)
        noise = random.standard_normal(self.dimension) * (self.NOISE / np.sqrt(self.dimension))
        return np.asarray(weight * one + (1 - weight) * two + noise, dtype=np.float32)


def _token_vectors(text: str) -> TokenVectors:
    """Return one vector per word, a little more than a model would keep."""
    return _normalised(_random(text).standard_normal((len(text.split()) + 4, TOKEN_DIMENSION), dtype=np.float32))


def _random(text: str) -> np.random.Generator:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _normalised(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
