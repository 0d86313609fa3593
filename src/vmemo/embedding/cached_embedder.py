"""Embedders that cache vectors in memory and optionally on disk."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vmemo.embedding.disk_cache import EmbeddingCache, cache_key
from vmemo.errors import EmbeddingFailed, VmemoError
from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, LearningEmbedder, TextKind, TokenEmbedder

MAX_TEXTS = 100
"""Texts in one call of the inner embedder, within the limits of hosted services."""
_RETRY_SECONDS = (0.2, 0.4)
"""Pauses before the second and the third attempt."""
_MAX_TOKEN_VALUE = 1.001
"""Greatest number in a unit vector, with rounding; a stored byte cannot hold more than 1."""
CAPACITY = 4096
"""Texts whose vectors are kept in memory."""
_T = TypeVar("_T")
_Array = TypeVar("_Array", bound=NDArray[np.float32] | None)


@runtime_checkable
class _Concurrent(Protocol):
    """An embedder that several calls may wait for at a time, such as a service."""

    @property
    def concurrency(self) -> int: ...


@runtime_checkable
class _Closable(Protocol):
    async def close(self) -> None: ...


def cache_embedder(embedder: Embedder, disk: EmbeddingCache | None, *, capacity: int = CAPACITY) -> CachedEmbedder:
    """Return a cache around an embedder, with token vectors if the embedder provides them."""
    if isinstance(embedder, TokenEmbedder):
        return CachedTokenEmbedder(embedder, capacity=capacity, disk=disk)
    return CachedEmbedder(embedder, capacity=capacity, disk=disk)


class CachedEmbedder:
    """An embedder that computes each text once, and checks the vectors of the inner embedder.

    The vectors of the last `capacity` texts are kept in memory; vectors from `disk`, if given, have float16 precision.
    An exception of the inner embedder is retried twice, then raised as `EmbeddingFailed`. Texts that were computed
    before a failure stay cached, so that a repeated call resumes. Threads and event loops may share it.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        capacity: int = CAPACITY,
        disk: EmbeddingCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inner = inner
        self._disk = disk
        self._sleep = sleep
        self._vectors = _LruCache[Vector](capacity)

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self._inner.name

    @property
    def dimension(self) -> int:
        """The inner embedder's dimension; 0 if it learns it from its first answer, which it has not got yet."""
        return self._inner.dimension

    def expect_dimension(self, dimension: int) -> None:
        """Require the dimension of a bank that the inner embedder wrote, if it does not know its dimension yet."""
        if isinstance(self._inner, LearningEmbedder):
            self._inner.expect_dimension(dimension)

    async def close(self) -> None:
        """Close the inner embedder's connections, if it has any."""
        if isinstance(self._inner, _Closable):
            await self._inner.close()

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Return unit vectors in the order of the texts."""
        keys = [cache_key(self.name, kind, text) for text in texts]
        found = self._vectors.get_many(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= await self._from_disk(list(missing))
            uncached = [key for key in missing if key not in found]
            found |= await self._compute_all({key: missing[key] for key in uncached}, kind)
        vectors = np.empty((len(keys), self.dimension), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = found[key]
        return vectors

    def clear(self) -> None:
        """Drop the vectors in memory; those on disk stay."""
        self._vectors.clear()

    async def _from_disk(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        if self._disk is None:
            return {}
        stored = await asyncio.to_thread(self._disk.get_many, keys)
        if stored and not self.dimension:
            self.expect_dimension(len(next(iter(stored.values()))))
        usable = {key: vector for key, vector in stored.items() if len(vector) == self.dimension}
        self._vectors.put_many(usable)
        return usable

    async def _compute_all(self, texts: Mapping[bytes, str], kind: TextKind) -> dict[bytes, Vector]:
        """Compute chunks of texts, as many at a time as the inner embedder allows; a failure loses no other chunk."""
        keys = list(texts)
        chunks = [keys[start : start + MAX_TEXTS] for start in range(0, len(keys), MAX_TEXTS)]
        width = self._inner.concurrency if isinstance(self._inner, _Concurrent) else 1
        found: dict[bytes, Vector] = {}
        for start in range(0, len(chunks), width):
            calls = (
                self._compute(chunk, [texts[key] for key in chunk], kind) for chunk in chunks[start : start + width]
            )
            for answer in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer
                found |= answer
        return found

    async def _compute(self, keys: Sequence[bytes], texts: Sequence[str], kind: TextKind) -> dict[bytes, Vector]:
        answer = await self._with_retries(lambda: self._inner.embed(texts, kind), len(texts))
        vectors = _unit_vectors(answer, (len(texts), self.dimension), self.name)
        computed = dict(zip(keys, vectors, strict=True))
        if self._disk is not None:
            await asyncio.to_thread(self._disk.put_many, computed)
        self._vectors.put_many(computed)
        return computed

    async def _with_retries(self, call: Callable[[], Awaitable[_T]], texts: int) -> _T:
        for pause in (*_RETRY_SECONDS, None):
            try:
                return await call()
            except VmemoError:
                raise
            # The inner embedder may be the user's own and raise anything.
            except Exception as error:
                if pause is None:
                    attempts = len(_RETRY_SECONDS) + 1
                    raise EmbeddingFailed(
                        f"The embedder {self.name!r} failed {attempts} times on {texts} texts: {error!r}"
                    ) from error
                await self._sleep(pause)
        raise AssertionError("unreachable")


class CachedTokenEmbedder(CachedEmbedder):
    """A `CachedEmbedder` that caches token vectors too: in memory, and those of documents on disk.

    The disk stores one byte per number. That is accurate enough for the unit vectors of documents, but not for the
    weighted vectors of queries, so a query that is not in memory is computed again.
    """

    def __init__(
        self,
        inner: TokenEmbedder,
        *,
        capacity: int = CAPACITY,
        disk: EmbeddingCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner, capacity=capacity, disk=disk, sleep=sleep)
        self._encoder = inner
        self._tokens = _LruCache[TokenVectors | None](capacity)

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return vectors and token vectors in the order of the texts."""
        keys = [cache_key(self.name, kind, text) for text in texts]
        found = await self._cached(list(dict.fromkeys(keys)), kind)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        uncached = list(missing)
        for start in range(0, len(uncached), MAX_TEXTS):
            chunk = uncached[start : start + MAX_TEXTS]
            found |= await self._encode(chunk, [missing[key] for key in chunk], kind)
        return [found[key] for key in keys]

    def clear(self) -> None:
        """Drop the vectors in memory; those on disk stay."""
        super().clear()
        self._tokens.clear()

    async def _cached(self, keys: Sequence[bytes], kind: TextKind) -> dict[bytes, Encoding]:
        """Return the complete encodings; a vector without token vectors is computed again."""
        tokens = self._tokens.get_many(keys)
        missing = [key for key in keys if key not in tokens]
        if missing and self._disk is not None and kind == "document":
            stored = await asyncio.to_thread(self._disk.get_tokens, missing)
            self._tokens.put_many(stored)
            tokens |= stored
        vectors = self._vectors.get_many(list(tokens))
        if without_vector := [key for key in tokens if key not in vectors]:
            vectors |= await self._from_disk(without_vector)
        return {key: Encoding(vectors[key], tokens[key]) for key in tokens if key in vectors}

    async def _encode(self, keys: Sequence[bytes], texts: Sequence[str], kind: TextKind) -> dict[bytes, Encoding]:
        answer = await self._with_retries(lambda: self._encoder.encode(texts, kind), len(texts))
        try:
            vectors, tokens = [encoding.vector for encoding in answer], [encoding.tokens for encoding in answer]
        except (AttributeError, TypeError) as error:
            raise EmbeddingFailed(f"The embedder {self.name!r} returned something other than encodings") from error
        unit = _unit_vectors(vectors, (len(texts), self.dimension), self.name)
        computed = dict(zip(keys, unit, strict=True))
        rows = {key: _token_rows(each, self.name) for key, each in zip(keys, tokens, strict=True)}
        if self._disk is not None:
            await asyncio.to_thread(self._disk.put_many, computed)
            if kind == "document":
                storable = {key: each for key, each in rows.items() if each is not None}
                await asyncio.to_thread(self._disk.put_tokens, storable)
        self._vectors.put_many(computed)
        self._tokens.put_many(rows)
        return {key: Encoding(computed[key], rows[key]) for key in keys}


class _LruCache(Generic[_Array]):
    """The most recently used arrays by key. None stands for a text without token vectors."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._arrays: OrderedDict[bytes, _Array] = OrderedDict()

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, _Array]:
        with self._lock:
            found = {key: self._arrays[key] for key in keys if key in self._arrays}
            for key in found:
                self._arrays.move_to_end(key)
        return found

    def put_many(self, arrays: Mapping[bytes, _Array]) -> None:
        with self._lock:
            for key, array in arrays.items():
                self._arrays[key] = _read_only_copy(array)
                self._arrays.move_to_end(key)
            while len(self._arrays) > self._capacity:
                self._arrays.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._arrays.clear()


def _read_only_copy(array: _Array) -> _Array:
    """Copy an array: a view would keep its whole batch in memory."""
    if array is None:
        return array
    copied = cast("NDArray[np.float32]", array).copy()
    copied.flags.writeable = False
    return cast("_Array", copied)


def _unit_vectors(answer: object, shape: tuple[int, int], name: str) -> Vectors:
    """Return an embedder's answer as float32 unit vectors, or raise EmbeddingFailed."""
    try:
        numbers: NDArray[np.float64] = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EmbeddingFailed(f"The embedder {name!r} returned something other than rows of numbers") from error
    if numbers.shape != shape:
        raise EmbeddingFailed(f"The embedder {name!r} returned shape {numbers.shape}, but {shape} was expected")
    if not np.isfinite(numbers).all():
        raise EmbeddingFailed(f"The embedder {name!r} returned a vector with numbers that are not finite")
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbeddingFailed(f"The embedder {name!r} returned a vector of zeros, which has no direction")
    scaled = numbers / largest
    return (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)


def _token_rows(tokens: object, name: str) -> TokenVectors | None:
    """Return a text's token vectors, if it has any, as float32 rows, or raise EmbeddingFailed."""
    if tokens is None:
        return None
    try:
        rows: TokenVectors = np.asarray(tokens, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbeddingFailed(f"The embedder {name!r} returned token vectors that are not rows of numbers") from error
    if rows.ndim != 2 or not rows.shape[1] or not np.isfinite(rows).all():
        raise EmbeddingFailed(f"The embedder {name!r} returned token vectors that are not rows of finite numbers")
    if np.abs(rows).max(initial=0) > _MAX_TOKEN_VALUE:
        raise EmbeddingFailed(f"The embedder {name!r} returned a token vector that is longer than 1")
    return rows
