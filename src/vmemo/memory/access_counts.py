"""Buffers access counts and model costs of recalls, and writes them shortly after each recall."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from vmemo.errors import NotFound, OutcomeUnknown, StoreBusy, StoreError
from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes
from vmemo.models.results import Spending
from vmemo.ports import Store

_log = logging.getLogger(__name__)


@dataclass
class _Buffer:
    """The unwritten access counts and costs of one bank."""

    counts: Counter[FactId] = field(default_factory=Counter[FactId])
    spent: list[Spending] = field(default_factory=list[Spending])


class AccessCounts:
    """Access counts and costs that are not written yet."""

    def __init__(self, store: Store, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._lock = Lock()
        self._buffers: dict[BankId, _Buffer] = {}
        self._flushing: asyncio.Task[None] | None = None

    def add(self, bank: BankId, facts: Iterable[FactId]) -> None:
        """Count an access of each fact, and schedule a write."""
        self._collect(bank, Counter(facts), ())

    def spend(self, bank: BankId, spent: Sequence[Spending]) -> None:
        """Add the cost of a recall, and schedule a write."""
        self._collect(bank, Counter(), spent)

    def _collect(self, bank: BankId, counts: Counter[FactId], spent: Sequence[Spending]) -> None:
        with self._lock:
            self._keep(bank, _Buffer(counts, list(spent)))
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    def _keep(self, bank: BankId, buffer: _Buffer) -> None:
        kept = self._buffers.setdefault(bank, _Buffer())
        kept.counts.update(buffer.counts)
        kept.spent.extend(buffer.spent)

    async def _flush_later(self) -> None:
        await asyncio.sleep(self._delay)
        try:
            await self.flush()
        except StoreBusy:
            # The counts stay buffered; the next recall or close() writes them.
            return
        except StoreError as error:
            # The recall itself was answered, and its caller may have gone.
            _log.warning("access counts and costs of recalls were not written: %s", error)

    async def flush(self) -> None:
        """Write everything that is buffered; on failure the rest stays buffered."""
        with self._lock:
            taken, self._buffers = self._buffers, {}
        while taken:
            bank, buffer = taken.popitem()
            try:
                await self._write(bank, buffer)
            except (NotFound, OutcomeUnknown):
                # Do not count twice what may have been written.
                continue
            except StoreBusy:
                with self._lock:
                    for other, left in [(bank, buffer), *taken.items()]:
                        self._keep(other, left)
                raise

    async def _write(self, bank: BankId, buffer: _Buffer) -> None:
        await self._store.commit(Changes(bank=bank, spending=buffer.spent, accesses=buffer.counts))

    async def close(self) -> None:
        """Write everything and stop."""
        with self._lock:
            flushing, self._flushing = self._flushing, None
        if flushing is not None and not flushing.done() and not flushing.get_loop().is_closed():
            flushing.get_loop().call_soon_threadsafe(flushing.cancel)
        await self.flush()
