"""Change of the key of an encrypted database."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from vmemo.errors import Unsupported
from vmemo.settings import EncryptionKey, Settings, build_store
from vmemo.sync import twin_function


@runtime_checkable
class Rekeyable(Protocol):
    """A store whose database is a file that can be encrypted."""

    async def rekey(self, key: EncryptionKey | Path | None) -> bool: ...


async def rekey(
    url: str | Path,
    /,
    *,
    new_key: EncryptionKey | Path | None,
    encryption_key: EncryptionKey | None = None,
    settings: Settings | None = None,
) -> bool:
    """Encrypt a SQLite file, change its key, or with None decrypt it; return False if it has that key already.

    A path names a file that holds the new key. The present key is `encryption_key` or that of the settings. Nobody may
    have the file open meanwhile. Called again after an interruption, it completes the change.
    """
    chosen = settings or Settings.from_environment()
    if encryption_key is not None:
        chosen = chosen.model_copy(update={"encryption_key": encryption_key, "encryption_key_file": None})
    store = build_store(url, chosen)
    if not isinstance(store, Rekeyable):
        raise Unsupported("Only SQLite files have an encryption key. Encrypt the storage of the database server.")
    try:
        return await store.rekey(new_key)
    finally:
        await store.close()


rekey_sync = twin_function(rekey)
