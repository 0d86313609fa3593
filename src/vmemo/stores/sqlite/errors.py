"""Errors of SQLite as errors of the store, with their remedies."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from vmemo.errors import StoreBusy, StoreError

DAMAGED = "The file {path} is damaged: check it with `vmemo doctor`, and restore a backup."
_REMEDIES = {
    sqlite3.SQLITE_FULL: "Free some space on the disk of {path} and repeat the call.",
    sqlite3.SQLITE_READONLY: "Allow this user to write to {path} and its folder.",
    sqlite3.SQLITE_CANTOPEN: "{path} must be a file that this user may read and write, in a folder that exists.",
    sqlite3.SQLITE_IOERR: "The disk of {path} can't be read or written; check it, and the file with `vmemo doctor`.",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}


def explain(error: BaseException, path: Path | None) -> StoreError:
    """Return the error to raise for one of SQLite, with the remedy."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or "locked" in str(error):
        return StoreBusy("Another process held the database for too long. Nothing was written; try again.")
    remedy = _REMEDIES.get(code)
    if remedy is None and "no such table" in str(error):
        remedy = DAMAGED
    words = f"SQLite refused: {error}. The transaction was rolled back."
    return StoreError(words if remedy is None else f"{words} {remedy.format(path=path)}")
