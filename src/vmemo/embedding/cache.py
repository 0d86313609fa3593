"""Caches around any embedder: the latest vectors in memory, all of them on disk if wanted."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import EmbeddingFailed, StoreBusy, StoreError, VmemoError
from vmemo.models.search import TokenVectors, Vector, Vectors
from vmemo.ports import Embedder, TextKind

MAX_TEXTS = 100
"""Texts of one request to the inner embedder: few enough for every hosted service."""
_BACKOFF = (0.2, 0.4)
"""Seconds to wait before the second and the third try."""
_MAX_VARIABLES = 500
_Answer = TypeVar("_Answer")
_ONE = 127.0
_PATIENCE = 30.0
"""Seconds to wait for another process that writes to the same file."""


def cache_key(embedder: str, kind: TextKind, text: str) -> bytes:
    """Sixteen bytes that stand for a text in one embedder's space; the text can't be read from them."""
    identity = f"{embedder}\0{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(identity, digest_size=16).digest()


class EmbeddingCache:
    """Vectors in an SQLite file of its own, which several processes and threads may use at once.

    Numbers are kept as float16: half the size of float32, while cosines change by less than 0.001. The file is
    created at first use. It holds no texts, but delete it where forgotten texts must leave no vectors behind.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """The unit vectors that are there, by key; a damaged row counts as missing."""
        found: dict[bytes, Vector] = {}
        with self._connection() as connection:
            for start in range(0, len(keys), _MAX_VARIABLES):
                chunk = keys[start : start + _MAX_VARIABLES]
                marks = ",".join("?" * len(chunk))
                rows = connection.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", chunk)
                found.update((key, _unpack(packed)) for key, packed in rows if _usable(packed))
        return found

    def put_many(self, vectors: Mapping[bytes, Vector]) -> None:
        """Store vectors by key, in one transaction; one that is there already is replaced."""
        rows = [(key, vector.astype("<f2").tobytes()) for key, vector in vectors.items()]
        with self._connection() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)

    def get_tokens(self, keys: Sequence[bytes]) -> dict[bytes, TokenVectors]:
        """The token vectors that are there, by key; a damaged row counts as missing."""
        found: dict[bytes, TokenVectors] = {}
        with self._connection() as connection:
            for start in range(0, len(keys), _MAX_VARIABLES):
                chunk = keys[start : start + _MAX_VARIABLES]
                marks = ",".join("?" * len(chunk))
                rows = connection.execute(f"SELECT key, width, vectors FROM tokens WHERE key IN ({marks})", chunk)
                found.update((key, unpack_tokens(packed, width)) for key, width, packed in rows if _even(packed, width))
        return found

    def put_tokens(self, tokens: Mapping[bytes, TokenVectors]) -> None:
        """Store a document's token vectors by key, in one transaction: a signed byte per number, 127 standing for 1."""
        rows = [
            (key, vectors.shape[1], np.rint(vectors * _ONE).clip(-_ONE, _ONE).astype(np.int8).tobytes())
            for key, vectors in tokens.items()
        ]
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
        with self._lock, _translated(self.path):
            if self._opened is None:
                self._opened = _open(self.path)
            yield self._opened


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    try:
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tokens (key BLOB PRIMARY KEY, width INTEGER NOT NULL, vectors BLOB NOT NULL)"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """SQLite fails at once when two processes change a new file's journal mode, so the waiting is done here."""
    deadline = time.monotonic() + _PATIENCE
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
    # The low byte is the error; the rest tells how it came about.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def _translated(path: Path) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if _is_busy(error):
            raise StoreBusy(f"The embedding cache {path} is held by another process; try again") from error
        raise StoreError(
            f"The embedding cache {path} can't be used: {error}. Its vectors can be computed again: "
            "free the disk, or move the file away"
        ) from error


def _usable(packed: bytes) -> bool:
    if not packed or len(packed) % 2:
        return False
    numbers = np.frombuffer(packed, dtype="<f2")
    return bool(np.isfinite(numbers).all() and numbers.any())


def _even(packed: bytes, width: int) -> bool:
    return width > 0 and len(packed) % width == 0


def unpack_tokens(packed: bytes, width: int) -> TokenVectors:
    """Token vectors as they were before they became signed bytes, to 1/254."""
    return (np.frombuffer(packed, np.int8).astype(np.float32) / _ONE).reshape(-1, width)


def _unpack(packed: bytes) -> Vector:
    numbers = np.frombuffer(packed, dtype="<f2").astype(np.float32)
    return (numbers / np.linalg.norm(numbers)).astype(np.float32)


class CachedEmbedder:
    """An embedder that computes each text once. It also holds every inner embedder to the port's contract.

    Vectors of the last `capacity` texts stay in memory; those from `disk`, if given, are float16 on the way.
    Foreign exceptions are tried three times in all, then `EmbeddingFailed` is raised. Texts that were computed
    before a failure stay cached, so a repetition resumes. May be shared by threads and event loops.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        capacity: int = 4096,
        disk: EmbeddingCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._inner = inner
        self._disk = disk
        self._sleep = sleep
        self._recent = _Recent(capacity)

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self._inner.name

    @property
    def dimension(self) -> int:
        """The inner embedder's dimension."""
        return self._inner.dimension

    async def embed(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Unit vectors in the order of the texts."""
        keys = [cache_key(self.name, kind, text) for text in texts]
        found = self._recent.get_many(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            found |= await self._from_disk(list(missing))
            unknown = [key for key in missing if key not in found]
            for start in range(0, len(unknown), MAX_TEXTS):
                chunk = unknown[start : start + MAX_TEXTS]
                found |= await self._compute(chunk, [missing[key] for key in chunk], kind)
        vectors = np.empty((len(keys), self.dimension), dtype=np.float32)
        for row, key in enumerate(keys):
            vectors[row] = found[key]
        return vectors

    def clear(self) -> None:
        """Forget the vectors in memory; those on disk stay."""
        self._recent.clear()

    async def _from_disk(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        if self._disk is None:
            return {}
        stored = await asyncio.to_thread(self._disk.get_many, keys)
        fitting = {key: vector for key, vector in stored.items() if len(vector) == self.dimension}
        self._recent.put_many(fitting)
        return fitting

    async def _compute(self, keys: Sequence[bytes], texts: Sequence[str], kind: TextKind) -> dict[bytes, Vector]:
        answer = await self._tried(lambda: self._inner.embed(texts, kind), len(texts))
        vectors = checked(answer, (len(texts), self.dimension), self.name)
        computed = dict(zip(keys, vectors, strict=True))
        if self._disk is not None:
            await asyncio.to_thread(self._disk.put_many, computed)
        self._recent.put_many(computed)
        return computed

    async def _tried(self, ask: Callable[[], Awaitable[_Answer]], texts: int) -> _Answer:
        for pause in (*_BACKOFF, None):
            try:
                return await ask()
            except VmemoError:
                raise
            # Anyone's embedder may stand here, so nothing is known about what it raises.
            except Exception as error:
                if pause is None:
                    tries = len(_BACKOFF) + 1
                    raise EmbeddingFailed(
                        f"The embedder {self.name!r} failed {tries} times on {texts} texts: {error!r}"
                    ) from error
                await self._sleep(pause)
        raise AssertionError("unreachable")


class _Recent:
    """The most recently used vectors. Keys are digests: a long text takes no more room than a short one."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        found: dict[bytes, Vector] = {}
        with self._lock:
            for key in keys:
                if key in self._vectors:
                    self._vectors.move_to_end(key)
                    found[key] = self._vectors[key]
        return found

    def put_many(self, vectors: Mapping[bytes, Vector]) -> None:
        with self._lock:
            for key, vector in vectors.items():
                # A row would keep its whole batch alive.
                self._vectors[key] = kept = vector.copy()
                kept.flags.writeable = False
                self._vectors.move_to_end(key)
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._vectors.clear()


def checked(answer: object, shape: tuple[int, int], name: str) -> Vectors:
    """The answer as float32 unit vectors, or `EmbeddingFailed` with what is wrong with it."""
    try:
        numbers: NDArray[np.float64] = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EmbeddingFailed(f"The embedder {name!r} gave something else than rows of numbers") from error
    if numbers.shape != shape:
        raise EmbeddingFailed(f"The embedder {name!r} gave shape {numbers.shape} where {shape} was due")
    if not np.isfinite(numbers).all():
        raise EmbeddingFailed(f"The embedder {name!r} gave a vector with numbers that are not finite")
    largest = np.abs(numbers).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbeddingFailed(f"The embedder {name!r} gave a vector of zeros, which has no direction")
    scaled = numbers / largest
    return (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)
