"""What all banks of one opened memory have in common."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from vmemo.jobs.run_result import RunResult
from vmemo.jobs.worker import Worker
from vmemo.memory.access_counts import AccessCounts
from vmemo.models import BankId
from vmemo.models.results import Retained
from vmemo.recall.llm_time_resolver import LLMTimeResolver
from vmemo.retain.pipeline import process
from vmemo.retain.write_plan import RetainContext


@dataclass
class Shared:
    """Parts, tools and what is remembered between calls; `checked` holds the banks that are known to be open."""

    context: RetainContext
    worker: Worker
    access: AccessCounts
    when: LLMTimeResolver | None
    checked: set[BankId] = field(default_factory=set[BankId])
    following: dict[BankId, asyncio.Task[RunResult]] = field(default_factory=dict[BankId, asyncio.Task[RunResult]])

    @staticmethod
    def of(context: RetainContext) -> Shared:
        """Return the shared state over a context, before anything is opened."""
        worker = Worker(context)
        access = AccessCounts(context.store, context.settings.access_delay)
        return Shared(context, worker, access, _time_model(context, access))

    async def derive(self, bank: BankId) -> Retained:
        """Read all that is unread. An error is raised when everything that can be read is read.

        That other work failed keeps nothing from being known, so it is told by the bank's status alone.
        """
        if self.context.llm is None:
            async with self.context.bank_locks(bank):
                await self._regroup(bank)
                return await process(bank, self.context)
        outcome = await self.worker.drain(bank)
        if outcome.unread:
            raise outcome.unread[0]
        return outcome.retained

    async def _regroup(self, bank: BankId) -> None:
        """What a language model had begun to read is left to the engine that reads now."""
        if await self.context.store.jobs(bank, ["extract"]):
            await self.context.store.ungroup(bank)

    def follow(self, bank: BankId) -> None:
        """See to opinions and observations while the program goes on."""
        if self.context.llm is None or not self.context.settings.background:
            return
        running = self.following.get(bank)
        if running is None or running.done():
            self.following[bank] = asyncio.get_running_loop().create_task(self.worker.follow(bank))

    async def stop(self) -> None:
        """Leave what is not done in the queue."""
        loop = asyncio.get_running_loop()
        for task in [task for task in self.following.values() if not task.done()]:
            if task.get_loop() is loop:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            elif not task.get_loop().is_closed():
                task.get_loop().call_soon_threadsafe(task.cancel)
        self.following.clear()
        # A model that was passed in is its owner's to close.
        if self.context.owns_llm and isinstance(self.context.llm, _Closing):
            await self.context.llm.close()


def _time_model(context: RetainContext, access: AccessCounts) -> LLMTimeResolver | None:
    if context.llm is None or context.settings.question_timeout <= 0:
        return None
    return LLMTimeResolver(context.llm, context.settings.question_timeout, access.spend)


@runtime_checkable
class _Closing(Protocol):
    async def close(self) -> None: ...
