"""Connections to one SQLite file, plain or encrypted: the only module that opens them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from types import ModuleType
from typing import cast

from vmemo.errors import StoreError
from vmemo.stores.sqlite.encryption import FileKey, KeyedConnection, sqlcipher

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
        # SQLite's own lower() knows ASCII only.
        connection.create_function("vmemo_fold", 1, str.casefold, deterministic=True)
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
            key.unlock(cast("KeyedConnection", connection))
    except BaseException:
        connection.close()
        raise
    return connection


def _is_not_a_database(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB
