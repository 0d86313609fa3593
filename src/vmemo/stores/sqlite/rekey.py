"""Change of a SQLite file's key: encrypt a plain file, rotate the key of an encrypted one, or decrypt it.

The rows are copied into a new file beside the old one, verified, and moved into its place in one step. After an
interruption the old or the new file is in place, whole, and the next run removes what the first one left.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from vmemo.errors import NotFound, StoreBusy, StoreError, Unsupported
from vmemo.stores.sqlite.connection import ConnectionFactory, UnrecognizedFile, connect_sqlcipher
from vmemo.stores.sqlite.encryption import FileKey, new_salt, sqlcipher

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
    source.execute("ATTACH ? AS copy KEY ?", (str(copy), "" if new is None else new.text(new_salt())))
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
