"""Embedders that stand around or in place of the real one while something is measured or collected."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from vmemo.embedding.cache import EmbeddingCache
from vmemo.embedding.token_cache import cached
from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, TextKind, encodings

WIDTH = 48
"""Of made-up token vectors."""


class Around:
    """Stands around an embedder under its name."""

    def __init__(self, embedder: Embedder) -> None:
        self.real = embedder

    @property
    def name(self) -> str:
        """The real embedder's name."""
        return self.real.name

    @property
    def dimension(self) -> int:
        """The real embedder's dimension."""
        return self.real.dimension


class Recorder(Around):
    """Passes everything on, and keeps the document texts that were embedded."""

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


class StoredDocuments(Around):
    """Documents are embedded once and for all runs, on disk; queries every time, so that their time is real."""

    def __init__(self, embedder: Embedder, disk: EmbeddingCache) -> None:
        super().__init__(embedder)
        self._stored = cached(embedder, capacity=0, disk=disk)

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "query":
            return await self.real.embed(texts, kind)
        # The disk keeps fewer digits: what is used is what was read back, in the first run as in the next.
        await self._stored.embed(texts, kind)
        return await self._stored.embed(texts, kind)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if kind == "query":
            return await encodings(self.real, texts, kind)
        await encodings(self._stored, texts, kind)
        return await encodings(self._stored, texts, kind)


class Placeholder(Around):
    """Vectors that cost nothing and mean nothing, under the real embedder's name."""

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        return _unit([_dice(text).standard_normal(self.dimension, dtype=np.float32) for text in texts], self.dimension)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        return _with_tokens(texts, await self.embed(texts, kind))


class Synthetic(Around):
    """Documents get a mix of two really embedded vectors with noise, chosen by the text; queries are real.

    So a bank of 100,000 facts has vectors that lie where real ones lie, without hours of embedding.
    """

    NOISE = 0.35

    def __init__(self, embedder: Embedder, base: Vectors) -> None:
        super().__init__(embedder)
        self._base = base

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        if kind == "query":
            return await self.real.embed(texts, kind)
        return _unit([self._mix(text) for text in texts], self.dimension)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> Sequence[Encoding]:
        if kind == "query":
            return await encodings(self.real, texts, kind)
        return _with_tokens(texts, await self.embed(texts, kind))

    def _mix(self, text: str) -> Vector:
        dice = _dice(text)
        one, two = self._base[dice.integers(len(self._base), size=2)]
        weight = dice.uniform(0.5, 0.9)
        noise = dice.standard_normal(self.dimension) * (self.NOISE / np.sqrt(self.dimension))
        return np.asarray(weight * one + (1 - weight) * two + noise, dtype=np.float32)


def _with_tokens(texts: Sequence[str], vectors: Vectors) -> list[Encoding]:
    return [Encoding(vector, _tokens(text)) for text, vector in zip(texts, vectors, strict=True)]


def _tokens(text: str) -> TokenVectors:
    """As many as the text has words, a little more than a model would keep."""
    rows = _dice(text).standard_normal((len(text.split()) + 4, WIDTH), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _dice(text: str) -> np.random.Generator:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _unit(rows: Sequence[Vector], dimension: int) -> Vectors:
    vectors = np.array(rows, dtype=np.float32).reshape(len(rows), dimension)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
