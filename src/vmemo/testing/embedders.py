"""Embedders for tests: instant and the same everywhere, or failing on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Vector, Vectors
from vmemo.ports import Embedder, TextKind
from vmemo.text.tokens import terms


class HashEmbedder:
    """A bag of words: each stemmed word adds to or takes from one component, so texts that share words are alike."""

    def __init__(self, name: str = "hash", dimension: int = 64) -> None:
        self._name = name
        self._dimension = dimension

    @property
    def name(self) -> str:
        """Identifies the vector space."""
        return self._name

    @property
    def dimension(self) -> int:
        """Components of each vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Unit vectors as rows; queries and documents are embedded alike."""
        rows = [self.vector(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._dimension), np.float32)

    def vector(self, text: str) -> Vector:
        """One text's unit vector; a text without words gets that of the empty text."""
        total = np.zeros(self._dimension, np.float32)
        for term in terms(text):
            place, sign = _bucket(term, self._dimension)
            total[place] += sign
        if not total.any():
            total[_bucket("", self._dimension)[0]] = 1.0
        return total / np.float32(np.linalg.norm(total))


def _bucket(term: str, dimension: int) -> tuple[int, float]:
    number = int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=8).digest(), "little")
    return (number >> 1) % dimension, 1.0 if number & 1 else -1.0


class FailingEmbedder:
    """Another embedder that fails its first calls, or every call where `times` is None."""

    def __init__(self, inner: Embedder, *, times: int | None = None, error: Exception | None = None) -> None:
        self._inner = inner
        self._left = times
        self._error = error or EmbeddingFailed("This embedder fails on purpose.")

    @property
    def name(self) -> str:
        """The inner embedder's name: its vectors are the same."""
        return self._inner.name

    @property
    def dimension(self) -> int:
        """The inner embedder's dimension."""
        return self._inner.dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Raise the error while failures are left; then embed."""
        if self._left is None:
            raise self._error
        if self._left > 0:
            self._left -= 1
            raise self._error
        return await self._inner.embed(texts, kind)
