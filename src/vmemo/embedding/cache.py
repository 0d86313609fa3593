"""Caches of vectors in memory and on disk."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import EmbeddingFailed, StoreBusy, StoreError, VmemoError
from vmemo.models.search import READING_TAGS, Encoding, Reading, TokenVectors, Vectors
from vmemo.ports import Closable, Embedder, LearningEmbedder, TextKind, TokenEmbedder, gives_tokens

MAX_TEXTS = 100
"""Texts in one call of the inner embedder, within the limits of hosted services."""
CAPACITY = 4096
_RETRY_SECONDS = (0.2, 0.4)
"""Pauses before the second and the third attempt."""
_MAX_TOKEN_VALUE = 1.001
"""Greatest number in a unit vector, with rounding; a stored byte cannot hold more than 1."""
_MAX_VARIABLES = 500
_INT8_ONE = 127.0
"""The signed byte that stands for 1."""
_BUSY_SECONDS = 30.0
"""Time to wait for another process that writes to the same file."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS encodings (key BLOB PRIMARY KEY, vector BLOB NOT NULL, tokens BLOB, "
    "token_width INTEGER, noise REAL, tags BLOB, spans BLOB)"
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

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Encoding]:
        """Return the stored encodings by key, with unit vectors; a damaged row counts as missing."""
        found: dict[bytes, Encoding] = {}
        for start in range(0, len(keys), _MAX_VARIABLES):
            chunk = keys[start : start + _MAX_VARIABLES]
            with self._connection() as connection:
                places = ",".join("?" * len(chunk))
                rows = connection.execute(f"SELECT * FROM encodings WHERE key IN ({places})", chunk).fetchall()
            for key, *columns in rows:
                with suppress(ValueError):
                    found[key] = _unpacked(*columns)
        return found

    def put(self, encodings: Mapping[bytes, Encoding]) -> None:
        """Store encodings by key in one transaction, replacing those that exist."""
        rows = [(key, *_packed(encoding)) for key, encoding in encodings.items()]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO encodings VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

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
        connection.execute(_TABLE)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _packed(encoding: Encoding) -> tuple[object, ...]:
    vector, tokens, _, reading = encoding
    packed = None if tokens is None else np.rint(tokens * _INT8_ONE).clip(-_INT8_ONE, _INT8_ONE).astype(np.int8)
    return (
        vector.astype("<f2").tobytes(),
        *((None, None) if tokens is None or packed is None else (packed.tobytes(), tokens.shape[1])),
        *((None,) * 3 if reading is None else (reading.noise, reading.tags.tobytes(), reading.spans.tobytes())),
    )


def _unpacked(
    vector: bytes, tokens: bytes | None, width: int | None, noise: float | None, tags: bytes, spans: bytes
) -> Encoding:
    """Return the encoding of a row, or raise ValueError if it is damaged."""
    numbers = np.frombuffer(vector, "<f2").astype(np.float32)
    if not np.isfinite(numbers).all() or not numbers.any() or (width is not None and width < 1):
        raise ValueError("the row is damaged")
    unit = (numbers / np.linalg.norm(numbers)).astype(np.float32)
    rows = reading = None
    if tokens is not None and width is not None:
        rows = (np.frombuffer(tokens, np.int8).astype(np.float32) / _INT8_ONE).reshape(-1, width)
    if noise is not None:
        by_token = np.frombuffer(tags, np.float32).reshape(-1, len(READING_TAGS))
        reading = Reading(noise, by_token, np.frombuffer(spans, np.int32).reshape(len(by_token), 2))
    return Encoding(unit, rows, reading=reading)


@runtime_checkable
class _Concurrent(Protocol):
    """An embedder that several calls may wait for at a time, such as a service."""

    @property
    def concurrency(self) -> int: ...


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
        if (floor := getattr(inner, "floor", None)) is not None:
            self.floor = float(floor)

    @property
    def name(self) -> str:
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
        if isinstance(self._inner, Closable):
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
        disk = self._disk_for(kind)
        if missing and disk is not None:
            stored = self._usable(await asyncio.to_thread(disk.get, list(missing)))
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
        if (disk := self._disk_for(kind)) is not None:
            await asyncio.to_thread(disk.put, computed)
        self._remember(computed)
        return computed

    def _disk_for(self, kind: TextKind) -> EmbeddingCache | None:
        """Return the cache on disk; None for token vectors of queries, which are weighted: a byte is too coarse."""
        return None if kind == "query" and gives_tokens(self._inner) else self._disk

    def _usable(self, stored: Mapping[bytes, Encoding]) -> dict[bytes, Encoding]:
        """Return the stored encodings of the embedder's dimension, with token vectors if it provides them."""
        if stored and not self.dimension:
            self.expect_dimension(len(next(iter(stored.values())).vector))
        with_tokens = gives_tokens(self._inner)
        return {
            key: encoding
            for key, encoding in stored.items()
            if len(encoding.vector) == self.dimension and (encoding.tokens is not None or not with_tokens)
        }

    async def _call(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return what the inner embedder answers, checked."""
        inner = self._inner
        if not gives_tokens(inner):
            vectors = await self._with_retries(lambda: inner.embed(texts, kind), len(texts))
            shape = (len(texts), self.dimension)
            return [Encoding(vector) for vector in _unit_vectors(vectors, shape, self.name)]
        answer = await self._with_retries(lambda: inner.encode(texts, kind), len(texts))
        try:
            given = [encoding.vector for encoding in answer]
            tokens = [_token_rows(encoding.tokens, self.name) for encoding in answer]
        except (AttributeError, TypeError) as error:
            raise EmbeddingFailed(f"The embedder {self.name!r} returned something other than encodings") from error
        unit = _unit_vectors(given, (len(texts), self.dimension), self.name)
        whole = zip(answer, unit, tokens, strict=True)
        return [encoding._replace(vector=vector, tokens=rows) for encoding, vector, rows in whole]

    def _remembered(self, keys: Sequence[bytes]) -> dict[bytes, Encoding]:
        with self._lock:
            found = {key: self._memory[key] for key in keys if key in self._memory}
            for key in found:
                self._memory.move_to_end(key)
        return found

    def _remember(self, encodings: Mapping[bytes, Encoding]) -> None:
        with self._lock:
            for key, encoding in encodings.items():
                tokens = None if encoding.tokens is None else _read_only(encoding.tokens)
                self._memory[key] = encoding._replace(vector=_read_only(encoding.vector), tokens=tokens)
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
    """A `CachedEmbedder` of an embedder with token vectors, which it caches too."""

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Return vectors and token vectors in the order of the texts."""
        return await self._encodings(texts, kind)


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
