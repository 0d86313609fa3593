"""The state that all banks of one memory share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from vmemo.fork import ProcessGuard
from vmemo.jobs.run_result import RunResult
from vmemo.jobs.worker import Worker
from vmemo.memory.access_counts import AccessCounts
from vmemo.memory.request_queue import RequestQueue
from vmemo.models import BankId
from vmemo.ports import Context, ReplicatedStore
from vmemo.recall.llm_time_resolver import LLMTimeResolver
from vmemo.retain.context import RetainContext

ACCESS_DELAY = 2.0
"""Seconds after a recall until access counts are written, so that several recalls share a write."""


@dataclass(frozen=True, eq=False)
class MemoryRuntime:
    """The context, the worker, and what is kept in memory between calls."""

    context: RetainContext
    worker: Worker
    access: AccessCounts
    time_resolver: LLMTimeResolver | None
    reading: Context
    """The context of recalls and listings: the same, or with reads from a replica."""
    open_banks: set[BankId] = field(default_factory=set[BankId])
    """Banks that exist and match the embedder."""
    requests: RequestQueue = field(default_factory=RequestQueue)
    """Requests that run, and those that wait for them."""
    guard: ProcessGuard = field(default_factory=ProcessGuard)
    """The process that opened the store and loaded models."""
    staging_banks: dict[BankId, BankId] = field(default_factory=dict[BankId, BankId])
    """The staging bank of each bank that `reprocess()` works on."""
    _background: dict[BankId, asyncio.Task[RunResult]] = field(default_factory=dict[BankId, asyncio.Task[RunResult]])

    @staticmethod
    def of(context: RetainContext) -> MemoryRuntime:
        """Return the runtime of a context; nothing is opened yet."""
        access = AccessCounts(context.store, ACCESS_DELAY)
        return MemoryRuntime(context, Worker(context), access, _time_resolver(context, access), _reading(context))

    def start_background_jobs(self, bank: BankId) -> None:
        """Run the bank's opinion and observation jobs in this process, unless the settings disable it."""
        if self.context.llm is None or not self.context.settings.background:
            return
        running = self._background.get(bank)
        if running is None or running.done():
            self._background[bank] = asyncio.get_running_loop().create_task(self.worker.follow(bank))

    async def close(self) -> None:
        """Stop background jobs, write the access counts and close the store. Unfinished jobs stay queued."""
        self.open_banks.clear()
        if self.guard.forked:
            # Background jobs and unwritten counts are those of the parent process.
            await self.context.store.close()
            self.guard.reset()
            return
        self.guard.reset()
        await self._stop_background_jobs()
        # A model that was passed in belongs to the caller.
        if self.context.owns_llm and isinstance(self.context.llm, _Closable):
            await self.context.llm.close()
        if self.context.owns_embedder and isinstance(self.context.embedder, _Closable):
            await self.context.embedder.close()
        try:
            await self.access.close()
        finally:
            # Connections are closed even if the counts could not be written.
            await self.context.store.close()

    async def _stop_background_jobs(self) -> None:
        loop = asyncio.get_running_loop()
        for task in [task for task in self._background.values() if not task.done()]:
            if task.get_loop() is loop:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            elif not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        self._background.clear()


def _reading(context: RetainContext) -> Context:
    if not isinstance(context.store, ReplicatedStore) or context.store.replica is None:
        return context
    reading = copy(context)
    object.__setattr__(reading, "store", context.store.replica)
    return reading


def _time_resolver(context: RetainContext, access: AccessCounts) -> LLMTimeResolver | None:
    if context.llm is None or context.settings.question_timeout <= 0:
        return None
    return LLMTimeResolver(context.llm, context.settings.question_timeout, access.spend)


@runtime_checkable
class _Closable(Protocol):
    async def close(self) -> None: ...
