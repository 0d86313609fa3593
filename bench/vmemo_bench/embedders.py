"""Embedders that wrap or replace the real one while something is measured or collected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, TextKind, encodings
from vmemo.providers import EmbeddingCache, cached

TOKEN_DIMENSION = 48
"""Dimension of synthetic token vectors, that of the packaged encoder."""


class WrappedEmbedder:
    """Base of wrappers that keep the name and dimension of the real embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self.real = embedder

    @property
    def name(self) -> str:
        """Name of the real embedder."""
        return self.real.name

    @property
    def dimension(self) -> int:
        """Dimension of the real embedder."""
        return self.real.dimension


class RecordingEmbedder(WrappedEmbedder):
    """Records the document texts that the real embedder embeds."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "document":
            self.texts.extend(texts)
        return await self.real.embed(texts, kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if kind == "document":
            self.texts.extend(texts)
        return await encodings(self.real, texts, kind)


class DocumentCacheEmbedder(WrappedEmbedder):
    """Caches documents on disk across runs; embeds queries every time, so that their time is real."""

    def __init__(self, embedder: Embedder, disk: EmbeddingCache) -> None:
        super().__init__(embedder)
        self._cached = cached(embedder, capacity=0, disk=disk)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "query":
            return await self.real.embed(texts, kind)
        # The disk rounds vectors. Reading them back makes the first run equal to the next.
        await self._cached.embed(texts, kind)
        return await self._cached.embed(texts, kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if kind == "query":
            return await encodings(self.real, texts, kind)
        await encodings(self._cached, texts, kind)
        return await encodings(self._cached, texts, kind)


class PlaceholderEmbedder(WrappedEmbedder):
    """Returns random vectors, determined by the text, under the name of the real embedder."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        rows = [_random(text).standard_normal(self.dimension, dtype=np.float32) for text in texts]
        return _normalised(rows, self.dimension)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        return _with_tokens(texts, await self.embed(texts, kind))


class SyntheticEmbedder(WrappedEmbedder):
    """Returns for a document a mix of two real vectors with noise, determined by the text; embeds queries for real.

    A bank of 100,000 facts gets vectors distributed like real ones without hours of embedding.
    """

    NOISE = 0.35

    def __init__(self, embedder: Embedder, base: Vectors) -> None:
        super().__init__(embedder)
        self._base = base

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "query":
            return await self.real.embed(texts, kind)
        return _normalised([self._mix(text) for text in texts], self.dimension)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if kind == "query":
            return await encodings(self.real, texts, kind)
        return _with_tokens(texts, await self.embed(texts, kind))

    def _mix(self, text: str) -> Vector:
        random = _random(text)
        one, two = self._base[random.integers(len(self._base), size=2)]
        weight = random.uniform(0.5, 0.9)
        noise = random.standard_normal(self.dimension) * (self.NOISE / np.sqrt(self.dimension))
        return np.asarray(weight * one + (1 - weight) * two + noise, dtype=np.float32)


def _with_tokens(texts: Sequence[str], vectors: Vectors) -> list[Encoding]:
    return [Encoding(vector, _tokens(text)) for text, vector in zip(texts, vectors, strict=True)]


def _tokens(text: str) -> TokenVectors:
    """Return one vector per word, a little more than a model would keep."""
    rows = _random(text).standard_normal((len(text.split()) + 4, TOKEN_DIMENSION), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _random(text: str) -> np.random.Generator:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _normalised(rows: Sequence[Vector], dimension: int) -> Vectors:
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), dimension)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
