"""Counting recalls behind the recall: collected in memory, written a little later in one transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from threading import Lock

from vmemo.errors import NotFound, StoreBusy
from vmemo.models import BankId, FactId
from vmemo.ports import Store


class AccessCounts:
    """Access counts that are not written yet."""

    def __init__(self, store: Store, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._lock = Lock()
        self._counts: dict[BankId, Counter[FactId]] = {}
        self._flushing: asyncio.Task[None] | None = None

    def add(self, bank: BankId, facts: Iterable[FactId]) -> None:
        """Count facts as recalled once more and see to it that this is written soon."""
        with self._lock:
            self._counts.setdefault(bank, Counter()).update(facts)
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(self._delay)
        try:
            await self.flush()
        except StoreBusy:
            # The counts are kept, and the next recall or the closing writes them.
            return

    async def flush(self) -> None:
        """Write what was counted; on failure the counts are kept."""
        with self._lock:
            taken, self._counts = self._counts, {}
        for bank, counts in taken.items():
            try:
                await self._store.touch(bank, counts)
            except NotFound:
                continue
            except StoreBusy:
                with self._lock:
                    self._counts.setdefault(bank, Counter()).update(counts)
                raise

    async def close(self) -> None:
        """Write the rest and stop."""
        with self._lock:
            flushing, self._flushing = self._flushing, None
        if flushing is not None and not flushing.done() and not flushing.get_loop().is_closed():
            flushing.get_loop().call_soon_threadsafe(flushing.cancel)
        await self.flush()
