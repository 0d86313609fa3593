"""Keys of encrypted SQLite files, in the format of SQLCipher 4.

A key is 32 bytes, as `bytes` or as 64 hexadecimal characters, or else a passphrase from which SQLCipher derives one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Protocol, TypeAlias

from vmemo.errors import InvalidInput, MissingExtra, StoreError

KeySource: TypeAlias = str | bytes | Path | Callable[[], str | bytes]
"""A key, the file that holds it as text, or a function that returns it."""

_KEY_BYTES, _SALT_BYTES = 32, 16
_KDF_ITERATIONS = 256_000
"""PBKDF2-HMAC-SHA512, as SQLCipher 4 derives a key from a passphrase and the file's salt."""
_PLACEHOLDER = f"x'{bytes(_KEY_BYTES).hex()}'"


class KeyedConnection(Protocol):
    """The methods of a SQLCipher connection that the standard library's lacks, and `execute`."""

    def set_key(self, key: str) -> None: ...
    def execute(self, sql: str, /) -> Cursor: ...


class Cursor(Protocol):
    """A cursor, as far as keys need it."""

    def fetchone(self) -> tuple[str, ...]: ...


def sqlcipher() -> ModuleType:
    """Return the driver of encrypted files; it is imported only when one is opened."""
    try:
        return import_module("sqlcipher3.dbapi2")
    except ImportError as error:
        raise MissingExtra(
            "Encrypted SQLite files need one more package. Install it: pip install 'vmemo[encryption]'"
        ) from error


def new_salt() -> str:
    """Return the salt of a new file."""
    return os.urandom(_SALT_BYTES).hex()


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
            self._secret = _read(self._source)
        return self._secret

    def unlock(self, connection: KeyedConnection) -> None:
        """Give a new connection its key.

        The salt is read under a placeholder key, so that a passphrase is stretched once and not for each connection.
        """
        connection.set_key(_PLACEHOLDER)
        salt = connection.execute("PRAGMA cipher_salt").fetchone()[0]
        connection.set_key(self.text(salt))

    def text(self, salt: str) -> str:
        """Return the key and the salt of a file in the notation of SQLCipher."""
        with self._lock:
            if salt not in self._derived:
                self._derived[salt] = f"x'{_derive(self.load(), bytes.fromhex(salt)).hex()}{salt}'"
            return self._derived[salt]

    def clear(self) -> None:
        """Drop the key; the next use reads it from its source again."""
        with self._lock:
            self._secret = None
            self._derived.clear()


def _derive(secret: str | bytes, salt: bytes) -> bytes:
    if isinstance(secret, bytes):
        return secret
    return hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, _KDF_ITERATIONS, _KEY_BYTES)


def _read(source: KeySource) -> str | bytes:
    """Return a passphrase, or the 32 bytes of a key."""
    if isinstance(source, Path):
        return _parse(_file_text(source), f"The encryption key file {source}")
    if isinstance(source, str | bytes):
        return _parse(source, "The encryption key")
    try:
        returned = source()
    except Exception as error:
        raise StoreError(f"The function that returns the encryption key raised {type(error).__name__}.") from error
    return _parse(returned, "The key that the function returned")


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


def _parse(key: object, name: str) -> str | bytes:
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
