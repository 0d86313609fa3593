"""Connections to one SQLite file, plain or encrypted in the format of SQLCipher 4, and the change of its key."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from types import ModuleType
from typing import Any, TypeAlias, cast

from vmemo.errors import InvalidInput, MissingExtra, NotFound, StoreBusy, StoreError, Unsupported

KeySource: TypeAlias = str | bytes | Path | Callable[[], str | bytes]
"""A key, the file that holds it as text, or a function that returns it."""
_KEY_BYTES, _SALT_BYTES = 32, 16
_KDF_ITERATIONS = 256_000
"""PBKDF2-HMAC-SHA512, as SQLCipher 4 derives a key from a passphrase and the file's salt."""
_PLACEHOLDER = f"x'{bytes(_KEY_BYTES).hex()}'"


def sqlcipher() -> ModuleType:
    """Return the driver of encrypted files; it is imported only when one is opened."""
    try:
        return import_module("sqlcipher3.dbapi2")
    except ImportError as error:
        raise MissingExtra(
            "Encrypted SQLite files need one more package. Install it: pip install 'vmemo[encryption]'"
        ) from error


class FileKey:
    """The key of one file, kept from its first use until it is cleared."""

    def __init__(self, source: KeySource) -> None:
        self._source = source
        self._secret: str | bytes | None = None
        self._derived: dict[str, str] = {}
        self._lock = Lock()

    def load(self) -> str | bytes:
        """Read the key from its source unless it is loaded: a passphrase, or the bytes of a raw key."""
        if self._secret is None:
            self._secret = _read_key(self._source)
        return self._secret

    def unlock(self, connection: Any) -> None:
        """Give a new connection of SQLCipher its key.

        The salt is read under a placeholder key, so that a passphrase is stretched once and not for each connection.
        """
        connection.set_key(_PLACEHOLDER)
        salt = connection.execute("PRAGMA cipher_salt").fetchone()[0]
        connection.set_key(self.text(salt))

    def text(self, salt: str) -> str:
        """Return the key and the salt of a file in the notation of SQLCipher."""
        with self._lock:
            if salt not in self._derived:
                key = self.load()
                if isinstance(key, str):
                    given = key.encode(), bytes.fromhex(salt)
                    key = hashlib.pbkdf2_hmac("sha512", *given, _KDF_ITERATIONS, _KEY_BYTES)
                self._derived[salt] = f"x'{key.hex()}{salt}'"
            return self._derived[salt]

    def clear(self) -> None:
        """Drop the key; the next use reads it from its source again."""
        with self._lock:
            self._secret = None
            self._derived.clear()


def _read_key(source: KeySource) -> str | bytes:
    """Return a passphrase, or the 32 bytes of a key."""
    if isinstance(source, Path):
        return _parse_key(_file_text(source), f"The encryption key file {source}")
    if isinstance(source, str | bytes):
        return _parse_key(source, "The encryption key")
    try:
        returned = source()
    except Exception as error:
        raise StoreError(f"The function that returns the encryption key raised {type(error).__name__}.") from error
    return _parse_key(returned, "The key that the function returned")


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"The encryption key file {path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The encryption key file {path} must be text: a passphrase or 64 hexadecimal characters. "
            "Create one with: openssl rand -hex 32"
        ) from error


def _parse_key(key: object, name: str) -> str | bytes:
    """Return a passphrase or the bytes of a key; an error never contains the key."""
    if isinstance(key, bytes) and len(key) == _KEY_BYTES:
        return key
    if isinstance(key, bytes):
        raise InvalidInput(f"{name} has {len(key)} bytes; as bytes it has 32. Pass a passphrase as str.")
    if not isinstance(key, str):
        raise InvalidInput(f"{name} must be str or bytes, not {type(key).__name__}.")
    # A file that an editor or `echo` wrote ends with a line break.
    text = key.rstrip("\r\n")
    if not text:
        raise InvalidInput(f"{name} is empty. Use a passphrase or 64 hexadecimal characters (openssl rand -hex 32).")
    return bytes.fromhex(text) if re.fullmatch(r"[0-9a-fA-F]{64}", text) else text


_PRAGMAS = (
    # Every acknowledged message survives a power cut, for one fsync per commit.
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    # No temporary file, which would hold text of the database.
    "temp_store=MEMORY",
    # Every connection has its own; most reads of a large file are of vectors and text, which the system caches.
    "cache_size=-16000",
)


class UnrecognizedFile(StoreError):
    """The file has no SQLite header, or has another key."""


class ConnectionFactory:
    """Opens connections to a file, or to a database in memory when there is no path, which is never encrypted."""

    def __init__(self, path: Path | None, *, busy_seconds: float, key: FileKey | None = None) -> None:
        self._path = path
        self._busy_ms = int(busy_seconds * 1000)
        self._key = None if path is None else key

    @property
    def driver(self) -> ModuleType:
        """The DB-API module: the standard library's, or that of SQLCipher, which has the same interface."""
        return sqlite3 if self._key is None else sqlcipher()

    def connect(self) -> sqlite3.Connection:
        """Open a connection that leaves transactions to its user; raise UnrecognizedFile if the key is wrong."""
        try:
            return self._open()
        except self.driver.DatabaseError as error:
            if not _is_not_a_database(error):
                raise
        try:
            # Another process may have created the file, with a salt of its own, after this one read the salt.
            return self._open()
        except self.driver.DatabaseError as error:
            if _is_not_a_database(error):
                raise UnrecognizedFile(self._explain()) from error
            raise

    def _open(self) -> sqlite3.Connection:
        if self._key is not None and self._path is not None:
            connection = connect_sqlcipher(self._path, self._key)
        else:
            name = ":memory:" if self._path is None else self._path
            connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")
        self._write_ahead(connection)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Turn the log on. SQLite does not wait for others here, so processes that create a file take turns."""
        deadline = monotonic() + self._busy_ms / 1000
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except self.driver.OperationalError as error:
                if "locked" not in str(error) or monotonic() > deadline:
                    raise
            sleep(0.01)

    def _explain(self) -> str:
        """Return the reason why SQLite does not recognise the file, and the remedy."""
        if self._key is None:
            return (
                f"{self._path} is no plain SQLite database: it is encrypted, or damaged. Nothing was changed. For an "
                "encrypted file set VMEMO_ENCRYPTION_KEY_FILE or VMEMO_ENCRYPTION_KEY, or pass encryption_key."
            )
        if self._is_plain():
            return (
                f"{self._path} is not encrypted, but an encryption key is set. Nothing was changed. Encrypt the file "
                "with `vmemo rekey`, or open it without the key."
            )
        return f"The encryption key does not open {self._path}: the key is wrong, or the file is damaged."

    def _is_plain(self) -> bool:
        assert self._path is not None
        # With the same driver: closing a file in another way drops the locks that SQLite holds on it in this process.
        with closing(connect_sqlcipher(self._path, None)) as connection:
            try:
                connection.execute("PRAGMA schema_version")
            except self.driver.DatabaseError:
                return False
        return True


def connect_sqlcipher(path: Path, key: FileKey | None) -> sqlite3.Connection:
    """Open a connection of SQLCipher without settings; one without a key reads plain files."""
    if key is not None:
        # Before SQLite creates the file.
        key.load()
    # The module is a copy of the standard library's, so its connections are typed as that one's.
    opened = sqlcipher().connect(path, isolation_level=None, check_same_thread=False)
    connection = cast("sqlite3.Connection", opened)
    try:
        # Its own log goes to stderr; what went wrong is raised as an error anyway.
        connection.execute("PRAGMA cipher_log_level=NONE")
        if key is not None:
            key.unlock(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_not_a_database(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB


_COPY, _OLD = ".rekey-new", ".rekey-old"
_SIDE_FILES = ("", "-journal", "-wal", "-shm")
_BUSY_SECONDS = 1.0
_ZEROS = bytes(1 << 20)
_TABLES = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name"


def rekey_file(path: Path, old: FileKey | None, new: FileKey | None) -> bool:
    """Copy a file under a new key, or none, and replace it; return False if the file has that key already.

    Raises StoreBusy, and changes nothing, while another connection has the file open.
    """
    if sys.platform == "win32":
        raise Unsupported(
            "Windows does not replace a file that is open, as a change of the key must. Nothing was changed. "
            "Export each bank, and import it into a new file with the other key."
        )
    if not path.is_file():
        raise NotFound(f"There is no database {path}. Nothing was changed; correct its name.")
    path = path.resolve()
    with _translated_errors(path):
        if _has_key(path, old, new):
            _erase_leftovers(path)
            return False
        with closing(connect_sqlcipher(path, old)) as source:
            _lock(source)
            _erase_leftovers(path)
            _replace(source, path, new)
    return True


def leftovers(path: Path) -> list[Path]:
    """Return the files that an interrupted change of the key left beside a file."""
    names = [path.name + _OLD, *(path.name + _COPY + end for end in _SIDE_FILES)]
    return [found for name in names if (found := path.with_name(name)).exists()]


def _has_key(path: Path, old: FileKey | None, new: FileKey | None) -> bool:
    """Return True if the file has the new key already; otherwise the old key must open it, and nobody else use it.

    This takes the driver that others of this process use: two copies of SQLite do not see each other's locks.
    """
    try:
        with closing(_factory(path, old).connect()) as connection:
            if (old and old.load()) == (new and new.load()):
                return True
            # This ends the write-ahead log, which SQLite refuses while another connection is open.
            connection.execute("PRAGMA journal_mode=DELETE")
            return False
    except UnrecognizedFile:
        with suppress(UnrecognizedFile):
            _factory(path, new).connect().close()
            return True
        raise


def _factory(path: Path, key: FileKey | None) -> ConnectionFactory:
    return ConnectionFactory(path, busy_seconds=_BUSY_SECONDS, key=key)


def _lock(source: sqlite3.Connection) -> None:
    """Lock the file until the connection is closed."""
    source.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
    source.execute("PRAGMA temp_store=MEMORY")
    source.execute("PRAGMA locking_mode=EXCLUSIVE")
    source.execute("BEGIN EXCLUSIVE")
    source.execute("COMMIT")


def _replace(source: sqlite3.Connection, path: Path, new: FileKey | None) -> None:
    copy, old = path.with_name(path.name + _COPY), path.with_name(path.name + _OLD)
    try:
        _export(source, path, copy, new)
        _verify(source, copy, new)
        _sync(copy)
        # With a second name the old file can still be erased after an interruption.
        os.link(path, old)
        os.replace(copy, path)
    except BaseException:
        _erase_leftovers(path)
        raise
    _sync(path.parent)
    # While the lock is held: a process that waits for it must not go on in the old file.
    _erase(old, source)
    _sync(path.parent)


def _export(source: sqlite3.Connection, path: Path, copy: Path, new: FileKey | None) -> None:
    copy.touch(mode=0o600)
    shutil.copymode(path, copy)
    with suppress(PermissionError):
        os.chown(copy, path.stat().st_uid, path.stat().st_gid)
    source.execute(
        "ATTACH ? AS copy KEY ?", (str(copy), "" if new is None else new.text(os.urandom(_SALT_BYTES).hex()))
    )
    # Nothing is lost if the copy is incomplete after a crash: it is made again.
    source.execute("PRAGMA copy.journal_mode=OFF")
    source.execute("PRAGMA copy.synchronous=OFF")
    source.execute("BEGIN")
    source.execute("SELECT sqlcipher_export('copy')").fetchall()
    source.execute("COMMIT")
    source.execute("DETACH copy")


def _verify(source: sqlite3.Connection, copy: Path, new: FileKey | None) -> None:
    """Open the copy with its key, check every page, and compare the number of rows of each table."""
    with closing(_factory(copy, new).connect()) as connection:
        damage = [line for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"]
        if new is not None:
            damage += [line for (line,) in connection.execute("PRAGMA cipher_integrity_check")]
        if damage or _counts(connection) != _counts(source):
            raise StoreError(
                f"The copy of {copy} is not equal to its source ({damage or 'rows'}). Nothing was changed."
            )


def _counts(connection: sqlite3.Connection) -> dict[str, int]:
    names: list[str] = [name for (name,) in connection.execute(_TABLES).fetchall()]
    return {name: connection.execute(f'SELECT count(*) FROM main."{name}"').fetchone()[0] for name in names}


def _erase_leftovers(path: Path) -> None:
    for file in leftovers(path):
        if file.samefile(path):
            # Interrupted before the copy took the name: this is the database itself.
            file.unlink()
        else:
            _erase(file)


def _erase(file: Path, connection: sqlite3.Connection | None = None) -> None:
    """Overwrite a file and delete it; a connection to it is closed first, which must not write to it any more."""
    with file.open("r+b", buffering=0) as content:
        left = os.fstat(content.fileno()).st_size
        while left > 0:
            left -= content.write(_ZEROS[:left])
        os.fsync(content.fileno())
        # Closing `content` drops the locks of this process on the file, so the connection goes first.
        if connection is not None:
            connection.close()
    file.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated_errors(path: Path) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, sqlcipher().Error) as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreBusy(
                f"{path} is open in another connection. Nothing was changed; close it there and try again."
            ) from error
        raise StoreError(f"SQLite refused: {error}. {path} is unchanged.") from error
    except OSError as error:
        raise StoreError(f"{error.filename or path}: {error.strerror}. {path} is complete; try again.") from error
