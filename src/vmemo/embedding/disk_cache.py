"""The on-disk embedding cache, an SQLite file."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from vmemo.errors import StoreBusy, StoreError
from vmemo.models.search import TokenVectors, Vector
from vmemo.ports import TextKind

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
