"""Embedders for tests: a fast deterministic one, and one that fails on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Vector, Vectors
from vmemo.ports import Embedder, TextKind
from vmemo.text.tokens import terms


class HashEmbedder:
    """A hashed bag of words: each stemmed word adds +1 or -1 to one component, so shared words make texts similar."""

    def __init__(self, name: str = "hash", dimension: int = 64) -> None:
        self._name = name
        self._dimension = dimension

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return unit vectors as rows; queries and documents get the same vectors."""
        rows = [self.vector(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self._dimension), np.float32)

    def vector(self, text: str) -> Vector:
        """Return the unit vector of one text; a text without words gets that of the empty text."""
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
    """Wraps an embedder and fails its first `times` calls, or every call if `times` is None."""

    def __init__(self, inner: Embedder, *, times: int | None = None, error: Exception | None = None) -> None:
        self._inner = inner
        self._left = times
        self._error = error or EmbeddingFailed("FailingEmbedder fails on purpose.")

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Raise the error until the failures are used up, then embed."""
        if self._left is None:
            raise self._error
        if self._left > 0:
            self._left -= 1
            raise self._error
        return await self._inner.embed(texts, kind)
