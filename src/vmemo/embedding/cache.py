"""Caches of vectors in memory and on disk."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import EmbeddingFailed, StoreBusy, StoreError, VmemoError
from vmemo.models.search import Encoding, TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, LearningEmbedder, TextKind, TokenEmbedder

MAX_TEXTS = 100
"""Texts in one call of the inner embedder, within the limits of hosted services."""
CAPACITY = 4096
"""Texts whose vectors are kept in memory."""
_RETRY_SECONDS = (0.2, 0.4)
"""Pauses before the second and the third attempt."""
_MAX_TOKEN_VALUE = 1.001
"""Greatest number in a unit vector, with rounding; a stored byte cannot hold more than 1."""
_MAX_VARIABLES = 500
"""Keys in one statement."""
_INT8_ONE = 127.0
"""The signed byte that stands for 1."""
_BUSY_SECONDS = 30.0
"""Time to wait for another process that writes to the same file."""
_TABLES = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, width INTEGER NOT NULL, vectors BLOB NOT NULL)",
)
_T = TypeVar("_T")


def cache_key(embedder: str, kind: TextKind, text: str) -> bytes:
    """Return a 16-byte digest that identifies a text and its embedder."""
    identity = f"{embedder}\0{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(identity, digest_size=16).digest()


class EmbeddingCache:
    """Vectors in an SQLite file, created at first use, which several processes and threads may share.

    Vectors are stored as float16: half the size of float32, while cosines change by less than 0.001. Token vectors are
    stored as signed bytes, accurate to 1/254. The file contains no texts; delete it if vectors of forgotten texts must
    not remain either.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Return the stored unit vectors by key; a damaged row counts as missing."""
        found: dict[bytes, Vector] = {}
        for key, packed in self._select("SELECT key, vector FROM vectors WHERE key IN", keys):
            numbers = np.frombuffer(packed, "<f2").astype(np.float32) if len(packed) % 2 == 0 else np.zeros(0)
            if np.isfinite(numbers).all() and numbers.any():
                found[key] = (numbers / np.linalg.norm(numbers)).astype(np.float32)
        return found

    def put_many(self, vectors: Mapping[bytes, Vector]) -> None:
        """Store vectors by key in one transaction, replacing those that exist."""
        rows = [(key, vector.astype("<f2").tobytes()) for key, vector in vectors.items()]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)

    def get_tokens(self, keys: Sequence[bytes]) -> dict[bytes, TokenVectors]:
        """Return the stored token vectors by key; a damaged row counts as missing."""
        return {
            key: (np.frombuffer(packed, np.int8).astype(np.float32) / _INT8_ONE).reshape(-1, width)
            for key, width, packed in self._select("SELECT key, width, vectors FROM tokens WHERE key IN", keys)
            if width > 0 and len(packed) % width == 0
        }

    def put_tokens(self, tokens: Mapping[bytes, TokenVectors]) -> None:
        """Store token vectors by key in one transaction, replacing those that exist."""
        rows = [
            (key, each.shape[1], np.rint(each * _INT8_ONE).clip(-_INT8_ONE, _INT8_ONE).astype(np.int8).tobytes())
            for key, each in tokens.items()
        ]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO tokens (key, width, vectors) VALUES (?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def _select(self, statement: str, keys: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(keys), _MAX_VARIABLES):
            chunk = keys[start : start + _MAX_VARIABLES]
            with self._connection() as connection:
                yield from connection.execute(f"{statement} ({','.join('?' * len(chunk))})", chunk).fetchall()

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        try:
            with self._lock:
                if self._opened is None:
                    self._opened = _open(self.path)
                yield self._opened
        except (sqlite3.Error, OSError) as error:
            # The low byte is the primary result code.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreBusy(f"The embedding cache {self.path} is locked by another process; try again") from error
            raise StoreError(
                f"The embedding cache {self.path} can't be used: {error}. Free disk space, or move the file away: "
                "its vectors are then computed again"
            ) from error


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        for statement in _TABLES:
            connection.execute(statement)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


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
        self._capacity = capacity
        self._lock = threading.Lock()
        self._memory: OrderedDict[bytes, Encoding] = OrderedDict()

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
        encodings = await self._encodings(texts, kind)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for row, encoding in enumerate(encodings):
            vectors[row] = encoding.vector
        return vectors

    def clear(self) -> None:
        """Drop the vectors in memory; those on disk stay."""
        with self._lock:
            self._memory.clear()

    async def _encodings(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        keys = [cache_key(self.name, kind, text) for text in texts]
        found = self._remembered(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing and self._disk is not None:
            stored = await asyncio.to_thread(self._read, self._disk, list(missing), kind)
            self._remember(stored)
            found |= stored
        uncached = [key for key in missing if key not in found]
        chunks = [uncached[start : start + MAX_TEXTS] for start in range(0, len(uncached), MAX_TEXTS)]
        width = self._inner.concurrency if isinstance(self._inner, _Concurrent) else 1
        for start in range(0, len(chunks), width):
            calls = (self._compute({key: missing[key] for key in chunk}, kind) for chunk in chunks[start:][:width])
            for answer in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(answer, BaseException):
                    raise answer
                found |= answer
        return [found[key] for key in keys]

    async def _compute(self, texts: Mapping[bytes, str], kind: TextKind) -> dict[bytes, Encoding]:
        computed = dict(zip(texts, await self._call(list(texts.values()), kind), strict=True))
        if self._disk is not None:
            await asyncio.to_thread(self._write, self._disk, computed, kind)
        self._remember(computed)
        return computed

    async def _call(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return what the inner embedder answers, checked."""
        answer = await self._with_retries(lambda: self._inner.embed(texts, kind), len(texts))
        return [Encoding(vector) for vector in _unit_vectors(answer, (len(texts), self.dimension), self.name)]

    def _read(self, disk: EmbeddingCache, keys: Sequence[bytes], kind: TextKind) -> dict[bytes, Encoding]:
        stored = disk.get_many(keys)
        if stored and not self.dimension:
            self.expect_dimension(len(next(iter(stored.values()))))
        return {key: Encoding(vector) for key, vector in stored.items() if len(vector) == self.dimension}

    def _write(self, disk: EmbeddingCache, encodings: Mapping[bytes, Encoding], kind: TextKind) -> None:
        disk.put_many({key: encoding.vector for key, encoding in encodings.items()})

    def _remembered(self, keys: Sequence[bytes]) -> dict[bytes, Encoding]:
        with self._lock:
            found = {key: self._memory[key] for key in keys if key in self._memory}
            for key in found:
                self._memory.move_to_end(key)
        return found

    def _remember(self, encodings: Mapping[bytes, Encoding]) -> None:
        with self._lock:
            for key, (vector, tokens) in encodings.items():
                self._memory[key] = Encoding(_read_only(vector), None if tokens is None else _read_only(tokens))
                self._memory.move_to_end(key)
            while len(self._memory) > self._capacity:
                self._memory.popitem(last=False)

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

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return vectors and token vectors in the order of the texts."""
        return await self._encodings(texts, kind)

    async def _call(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        answer = await self._with_retries(lambda: self._encoder.encode(texts, kind), len(texts))
        try:
            vectors, tokens = [encoding.vector for encoding in answer], [encoding.tokens for encoding in answer]
        except (AttributeError, TypeError) as error:
            raise EmbeddingFailed(f"The embedder {self.name!r} returned something other than encodings") from error
        unit = _unit_vectors(vectors, (len(texts), self.dimension), self.name)
        return [Encoding(vector, _token_rows(rows, self.name)) for vector, rows in zip(unit, tokens, strict=True)]

    def _read(self, disk: EmbeddingCache, keys: Sequence[bytes], kind: TextKind) -> dict[bytes, Encoding]:
        """Return the complete encodings; a vector without token vectors is computed again."""
        tokens = disk.get_tokens(keys) if kind == "document" else {}
        return {
            key: Encoding(encoding.vector, tokens[key])
            for key, encoding in super()._read(disk, list(tokens), kind).items()
        }

    def _write(self, disk: EmbeddingCache, encodings: Mapping[bytes, Encoding], kind: TextKind) -> None:
        if kind == "document":
            super()._write(disk, encodings, kind)
            disk.put_tokens({key: tokens for key, (_, tokens) in encodings.items() if tokens is not None})


def _read_only(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Copy an array: a view would keep its whole batch in memory."""
    copied = array.copy()
    copied.flags.writeable = False
    return copied


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
