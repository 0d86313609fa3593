"""Identity of a database file and of its write-ahead log, by which a replaced file is noticed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FileInodes:
    """Device and inode of a database and of its write-ahead log; None for a missing file."""

    database: tuple[int, int] | None
    log: tuple[int, int] | None

    @staticmethod
    def of(path: Path) -> FileInodes:
        """Return those of the files that have the name now."""
        return FileInodes(_inode(path), _inode(f"{path}-wal"))


def log_size(path: Path) -> int:
    """Return the bytes of a database's log."""
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


def _inode(path: Path | str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def replaced(path: Path, found: FileInodes, opened: FileInodes, effect: str) -> str:
    """Return the error for a file, or log, that is no longer the one that was opened."""
    if found.database == opened.database:
        what = f"The log {path}-wal was deleted or replaced while the database was open. {effect} Leave it alone, close"
        return f"{what} this memory, so that its connections write their log into the file, and open it again."
    what = "deleted" if found.database is None else "replaced"
    return (
        f"The database {path} was {what} while it was open. {effect} Close this memory and open it again to use the "
        "file that has the name now."
    )
