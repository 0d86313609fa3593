"""What recalls leave behind: access counts and costs, collected in memory and written a little later."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

from vmemo.errors import NotFound, OutcomeUnknown, StoreBusy
from vmemo.models import BankId, FactId
from vmemo.models.changes import Changes
from vmemo.models.results import Spending
from vmemo.ports import Store


@dataclass
class _Traces:
    """What a bank's recalls left behind."""

    counts: Counter[FactId] = field(default_factory=Counter[FactId])
    spent: list[Spending] = field(default_factory=list[Spending])


class AccessCounts:
    """Access counts, and what recalls have cost, that are not written yet."""

    def __init__(self, store: Store, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._lock = Lock()
        self._traces: dict[BankId, _Traces] = {}
        self._flushing: asyncio.Task[None] | None = None

    def add(self, bank: BankId, facts: Iterable[FactId]) -> None:
        """Count facts as recalled once more and see to it that this is written soon."""
        self._collect(bank, Counter(facts), ())

    def spend(self, bank: BankId, spent: Sequence[Spending]) -> None:
        """Note what a recall has cost and see to it that this is written soon."""
        self._collect(bank, Counter(), spent)

    def _collect(self, bank: BankId, counts: Counter[FactId], spent: Sequence[Spending]) -> None:
        with self._lock:
            self._keep(bank, _Traces(counts, list(spent)))
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    def _keep(self, bank: BankId, traces: _Traces) -> None:
        kept = self._traces.setdefault(bank, _Traces())
        kept.counts.update(traces.counts)
        kept.spent.extend(traces.spent)

    async def _flush_later(self) -> None:
        await asyncio.sleep(self._delay)
        try:
            await self.flush()
        except StoreBusy:
            # What was collected is kept, and the next recall or the closing writes it.
            return

    async def flush(self) -> None:
        """Write what was collected; on failure what is not written is kept."""
        with self._lock:
            taken, self._traces = self._traces, {}
        while taken:
            bank, traces = taken.popitem()
            try:
                await self._write(bank, traces)
            except (NotFound, OutcomeUnknown):
                # A count that is perhaps written is not worth counting twice.
                continue
            except StoreBusy:
                with self._lock:
                    for other, left in [(bank, traces), *taken.items()]:
                        self._keep(other, left)
                raise

    async def _write(self, bank: BankId, traces: _Traces) -> None:
        await self._store.commit(Changes(bank=bank, spending=traces.spent, accesses=traces.counts))

    async def close(self) -> None:
        """Write the rest and stop."""
        with self._lock:
            flushing, self._flushing = self._flushing, None
        if flushing is not None and not flushing.done() and not flushing.get_loop().is_closed():
            flushing.get_loop().call_soon_threadsafe(flushing.cancel)
        await self.flush()
