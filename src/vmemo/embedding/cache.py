"""Caches of vectors in memory and on disk."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import EmbeddingFailed, StoreBusy, StoreError, VmemoError
from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, LearningEmbedder, TextKind, TokenEmbedder

_MAX_VARIABLES = 500
_INT8_ONE = 127.0
"""The signed byte that stands for 1."""
_BUSY_SECONDS = 30.0
"""Time to wait for another process that writes to the same file."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, width INTEGER NOT NULL, vectors BLOB NOT NULL)",
)


def cache_key(embedder: str, kind: TextKind, text: str) -> bytes:
    """Return a 16-byte digest that identifies a text and its embedder."""
    identity = f"{embedder}\0{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(identity, digest_size=16).digest()


class EmbeddingCache:
    """Vectors in an SQLite file, created at first use, which several processes and threads may share.

    Numbers are stored as float16: half the size of float32, while cosines change by less than 0.001. The file contains
    no texts; delete it if vectors of forgotten texts must not remain either.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Return the stored unit vectors by key; a damaged row counts as missing."""
        found: dict[bytes, Vector] = {}
        with self._connection() as connection:
            for chunk, placeholders in _chunks(keys):
                rows = connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({placeholders})", chunk)
                found.update((key, _unpack_vector(packed)) for key, packed in rows if _is_valid_vector(packed))
        return found

    def put_many(self, vectors: Mapping[bytes, Vector]) -> None:
        """Store vectors by key in one transaction, replacing those that exist."""
        rows = [(key, vector.astype("<f2").tobytes()) for key, vector in vectors.items()]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)

    def get_tokens(self, keys: Sequence[bytes]) -> dict[bytes, TokenVectors]:
        """Return the stored token vectors by key; a damaged row counts as missing."""
        found: dict[bytes, TokenVectors] = {}
        with self._connection() as connection:
            for chunk, placeholders in _chunks(keys):
                rows = connection.execute(
                    f"SELECT key, width, vectors FROM tokens WHERE key IN ({placeholders})", chunk
                )
                found.update(
                    (key, unpack_tokens(packed, width))
                    for key, width, packed in rows
                    if width > 0 and len(packed) % width == 0
                )
        return found

    def put_tokens(self, tokens: Mapping[bytes, TokenVectors]) -> None:
        """Store the token vectors of documents by key in one transaction, with one signed byte per number."""
        rows = [(key, vectors.shape[1], _pack_tokens(vectors)) for key, vectors in tokens.items()]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO tokens (key, width, vectors) VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        with self._lock, _translated_errors(self.path):
            if self._opened is None:
                self._opened = _open(self.path)
            yield self._opened


def _chunks(keys: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], str]]:
    """Yield the keys in chunks that fit into one statement, with their placeholders."""
    for start in range(0, len(keys), _MAX_VARIABLES):
        chunk = keys[start : start + _MAX_VARIABLES]
        yield chunk, ",".join("?" * len(chunk))


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        for statement in _TABLES:
            connection.execute(statement)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Set WAL mode, waiting for other processes: SQLite does not apply its timeout to this statement."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.Error as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _is_busy(error: sqlite3.Error | OSError) -> bool:
    # The low byte is the primary result code.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def _translated_errors(path: Path) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if _is_busy(error):
            raise StoreBusy(f"The embedding cache {path} is locked by another process; try again") from error
        raise StoreError(
            f"The embedding cache {path} can't be used: {error}. Free disk space, or move the file away: "
            "its vectors are then computed again"
        ) from error


def _is_valid_vector(packed: bytes) -> bool:
    if not packed or len(packed) % 2:
        return False
    numbers = np.frombuffer(packed, dtype="<f2")
    return bool(np.isfinite(numbers).all() and numbers.any())


def _unpack_vector(packed: bytes) -> Vector:
    numbers = np.frombuffer(packed, dtype="<f2").astype(np.float32)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


def _pack_tokens(vectors: TokenVectors) -> bytes:
    return np.rint(vectors * _INT8_ONE).clip(-_INT8_ONE, _INT8_ONE).astype(np.int8).tobytes()


def unpack_tokens(packed: bytes, width: int) -> TokenVectors:
    """Return token vectors from signed bytes; each number is accurate to 1/254."""
    return (np.frombuffer(packed, np.int8).astype(np.float32) / _INT8_ONE).reshape(-1, width)


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
