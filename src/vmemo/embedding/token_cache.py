"""The cache of an embedder that gives token vectors too."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

import numpy as np

from vmemo.embedding.cache import MAX_TEXTS, CachedEmbedder, EmbeddingCache, cache_key, checked
from vmemo.errors import EmbeddingFailed
from vmemo.models.search import Encoding, TokenVectors
from vmemo.ports import Embedder, TextKind, TokenEmbedder

_MOST = 1.001
"""No number of a vector of length 1 is larger, but for rounding; a stored byte stands for 1 at most."""


def cached(embedder: Embedder, *, capacity: int, disk: EmbeddingCache | None) -> CachedEmbedder:
    """A cache around an embedder, with token vectors if it gives any."""
    if isinstance(embedder, TokenEmbedder):
        return CachedTokenEmbedder(embedder, capacity=capacity, disk=disk)
    return CachedEmbedder(embedder, capacity=capacity, disk=disk)


class CachedTokenEmbedder(CachedEmbedder):
    """As `CachedEmbedder`, and keeps token vectors beside the vectors: in memory, and documents' on disk if wanted.

    The disk keeps a byte per number, which is fine enough for a document's unit vectors but not for a query's,
    whose lengths are small shares of 1. So a query that is not in memory is computed again.
    """

    def __init__(
        self,
        inner: TokenEmbedder,
        *,
        capacity: int = 4096,
        disk: EmbeddingCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner, capacity=capacity, disk=disk, sleep=sleep)
        self._encoder = inner
        self._tokens = _RecentTokens(capacity)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Vectors and token vectors in the order of the texts."""
        keys = [cache_key(self.name, kind, text) for text in texts]
        found = await self._known(list(dict.fromkeys(keys)), kind)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        unknown = list(missing)
        for start in range(0, len(unknown), MAX_TEXTS):
            chunk = unknown[start : start + MAX_TEXTS]
            found |= await self._encoded(chunk, [missing[key] for key in chunk], kind)
        return [found[key] for key in keys]

    def clear(self) -> None:
        """Forget what is in memory; what is on disk stays."""
        super().clear()
        self._tokens.clear()

    async def _known(self, keys: Sequence[bytes], kind: TextKind) -> dict[bytes, Encoding]:
        """What is cached whole; a vector without its tokens is computed again."""
        tokens = self._tokens.get_many(keys)
        absent = [key for key in keys if key not in tokens]
        if absent and self._disk is not None and kind == "document":
            stored = await asyncio.to_thread(self._disk.get_tokens, absent)
            self._tokens.put_many(stored)
            tokens |= stored
        vectors = self._recent.get_many(list(tokens))
        if lacking := [key for key in tokens if key not in vectors]:
            vectors |= await self._from_disk(lacking)
        return {key: Encoding(vectors[key], tokens[key]) for key in tokens if key in vectors}

    async def _encoded(self, keys: Sequence[bytes], texts: Sequence[str], kind: TextKind) -> dict[bytes, Encoding]:
        answer = await self._tried(lambda: self._encoder.encode(texts, kind), len(texts))
        try:
            vectors, rows = [encoding.vector for encoding in answer], [encoding.tokens for encoding in answer]
        except (AttributeError, TypeError) as error:
            raise EmbeddingFailed(f"The embedder {self.name!r} gave something else than encodings") from error
        unit = checked(vectors, (len(texts), self.dimension), self.name)
        computed = dict(zip(keys, unit, strict=True))
        tokens = {key: None if given is None else self._rows(given) for key, given in zip(keys, rows, strict=True)}
        if self._disk is not None:
            await asyncio.to_thread(self._disk.put_many, computed)
            if kind == "document":
                given = {key: rows for key, rows in tokens.items() if rows is not None}
                await asyncio.to_thread(self._disk.put_tokens, given)
        self._recent.put_many(computed)
        self._tokens.put_many(tokens)
        return {key: Encoding(computed[key], tokens[key]) for key in keys}

    def _rows(self, given: object) -> TokenVectors:
        """Token vectors as float32 rows, or `EmbeddingFailed` with what is wrong with them."""
        try:
            rows: TokenVectors = np.asarray(given, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EmbeddingFailed(f"The embedder {self.name!r} gave no rows of numbers for a text's tokens") from error
        if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
            raise EmbeddingFailed(f"The embedder {self.name!r} gave no rows of finite numbers for a text's tokens")
        if np.abs(rows).max(initial=0) > _MOST:
            raise EmbeddingFailed(f"The embedder {self.name!r} gave a token's vector that is longer than 1")
        return rows


class _RecentTokens:
    """The token vectors of the most recent texts; None stands for a text to which the embedder gave none."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, TokenVectors | None] = OrderedDict()

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, TokenVectors | None]:
        with self._lock:
            for key in keys:
                if key in self._kept:
                    self._kept.move_to_end(key)
            return {key: self._kept[key] for key in keys if key in self._kept}

    def put_many(self, tokens: Mapping[bytes, TokenVectors | None]) -> None:
        with self._lock:
            for key, rows in tokens.items():
                self._kept[key] = None if rows is None else _own(rows)
                self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


def _own(rows: TokenVectors) -> TokenVectors:
    """A copy that nobody changes: a part of an array would keep its whole batch alive."""
    copied = rows.copy()
    copied.flags.writeable = False
    return copied
