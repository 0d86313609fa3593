"""The cache of in-memory indexes is bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vmemo.models import BankId
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.index.cache import IndexCache
from vmemo.stores.sqlite.store import SqliteStore
from vmemo.testing.samples import a_bank, store_fact

NAMES = [BankId(name) for name in ("one", "two", "three")]


def test_the_index_that_was_not_used_for_longest_is_evicted(tmp_path: Path) -> None:
    async def fill() -> None:
        store = SqliteStore(tmp_path / "memory.db")
        await store.open()
        for name in NAMES:
            await store.create_bank(a_bank(name))
            await store_fact(store, "tulips", bank=name)
        await store.close()

    asyncio.run(fill())
    file = SqliteFile(tmp_path / "memory.db", busy_seconds=1)
    one, two, three = NAMES
    first = file.read(lambda c: IndexCache().get(c, one))
    cache = IndexCache(most_bytes=2 * first.nbytes)
    kept = {name: file.read(lambda c, name=name: cache.get(c, name)) for name in (one, two)}
    assert file.read(lambda c: cache.get(c, one)) is kept[one]
    file.read(lambda c: cache.get(c, three))
    assert file.read(lambda c: cache.get(c, one)) is kept[one]
    assert file.read(lambda c: cache.get(c, two)) is not kept[two]
    file.close()
