"""One bank of an opened memory, and the state that all banks of a memory share."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Literal, TypeVar

from vmemo.errors import EmbeddingFailed, InvalidInput, NotFound, OutcomeUnknown, StoreBusy, StoreError
from vmemo.jobs.worker import RunResult, Worker
from vmemo.models import Bank, BankId, FactId, requests as r
from vmemo.models.changes import Changes
from vmemo.models.prompt_context import ContextLog
from vmemo.models.results import Spending
from vmemo.ports import (
    BankNotFound,
    Closable,
    Context,
    Embedder,
    LearningEmbedder,
    ReplicatedStore,
    Store,
    dimension_of,
)
from vmemo.recall.llm_time_resolver import LLMTimeResolver
from vmemo.retain.context import RetainContext
from vmemo.retain.pipeline import embedder_mismatch
from vmemo.sync import ProcessGuard

_log = logging.getLogger(__name__)


# Concurrent requests of a server, bounded by kind: many writes do not delay recalls.
WorkKind = Literal["search", "write", "derive"]
_KINDS: Mapping[type[r.Returns[object]], WorkKind] = {
    **dict.fromkeys((r.RecallRequest, r.RetrieveRequest, r.ContextRequest), "search"),
    **dict.fromkeys((r.RetainRequest, r.ProcessRequest, r.UpdateFactRequest), "write"),
    **dict.fromkeys((r.ForgetRequest, r.ForgetContentRequest, r.MaintainRequest, r.ReprocessRequest), "write"),
}
"""Requests that compute for long. Others are short, or wait for a language model."""


class TooManyRequests(StoreBusy):
    """Too many requests wait already. Nothing was changed; repeat the call."""


@dataclass(frozen=True, kw_only=True)
class ConcurrencyLimits:
    """Concurrent requests of each kind, and those that may wait for each other, with their defaults."""

    searches: int = 8
    """Recalls that run at a time."""
    writes: int = 64
    """Retains and other writes that run at a time. Those of one bank are derived together."""
    derivations: int = 2
    """Banks whose messages the local engine processes at a time; this is the work that would delay recalls."""
    waiting: int = 256
    """Requests of each kind that wait; more are refused."""

    def __post_init__(self) -> None:
        if min(self.searches, self.writes, self.derivations, self.waiting) < 1:
            raise InvalidInput("searches, writes, derivations and waiting must be at least 1.")


class RequestQueue:
    """The requests of a memory: those of each kind run in the order in which they arrive."""

    def __init__(self, limits: ConcurrencyLimits) -> None:
        self._running: Mapping[WorkKind, asyncio.Semaphore] = {
            "search": asyncio.Semaphore(limits.searches),
            "write": asyncio.Semaphore(limits.writes),
            "derive": asyncio.Semaphore(limits.derivations),
        }
        self._waiting: dict[WorkKind, int] = dict.fromkeys(self._running, 0)
        self._most = limits.waiting

    def turn(self, request: r.Returns[object]) -> AbstractAsyncContextManager[object]:
        """Wait until a request may run, and count it within the context; raise TooManyRequests if too many wait."""
        kind = _KINDS.get(type(request))
        return nullcontext() if kind is None else self._bounded(kind)

    def derivation(self) -> AbstractAsyncContextManager[object]:
        """Wait until the messages of a bank may be processed. It belongs to a write, and those are bounded."""
        return self._running["derive"]

    @asynccontextmanager
    async def _bounded(self, kind: WorkKind) -> AsyncGenerator[None]:
        running = self._running[kind]
        if running.locked() and self._waiting[kind] >= self._most:
            raise TooManyRequests(f"{self._most} requests of this kind wait already. Nothing was changed; try again.")
        self._waiting[kind] += 1
        try:
            await running.acquire()
        finally:
            self._waiting[kind] -= 1
        try:
            yield
        finally:
            running.release()


class AccessCounts:
    """Access counts and costs that are not written yet."""

    def __init__(self, store: Store, delay: float) -> None:
        self._store = store
        self._delay = delay
        self._lock = Lock()
        self._buffers: dict[BankId, tuple[Counter[FactId], list[Spending]]] = {}
        self._flushing: asyncio.Task[None] | None = None

    def add(self, bank: BankId, facts: Iterable[FactId] = (), spent: Sequence[Spending] = ()) -> None:
        """Count an access of each fact and the cost of a recall, and schedule a write."""
        with self._lock:
            self._keep(bank, facts, spent)
            if self._flushing is None or self._flushing.done():
                self._flushing = asyncio.get_running_loop().create_task(self._flush_later())

    def _keep(self, bank: BankId, facts: Iterable[FactId], spent: Sequence[Spending]) -> None:
        counts, costs = self._buffers.setdefault(bank, (Counter(), []))
        counts.update(facts)
        costs.extend(spent)

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
            bank, (counts, spent) = taken.popitem()
            try:
                await self._store.commit(Changes(bank=bank, spending=spent, accesses=counts))
            except (NotFound, OutcomeUnknown):
                # Do not count twice what may have been written.
                continue
            except StoreBusy:
                with self._lock:
                    for other, left in {bank: (counts, spent), **taken}.items():
                        self._keep(other, *left)
                raise

    async def close(self) -> None:
        """Write everything and stop."""
        with self._lock:
            flushing, self._flushing = self._flushing, None
        if flushing is not None and not flushing.done() and not flushing.get_loop().is_closed():
            flushing.get_loop().call_soon_threadsafe(flushing.cancel)
        await self.flush()


ACCESS_DELAY = 2.0
"""Seconds after a recall until access counts are written, so that several recalls share a write."""


@dataclass(eq=False)
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
    requests: RequestQueue | None = None
    """Requests that run, and those that wait for them; None if they are not limited."""
    guard: ProcessGuard = field(default_factory=ProcessGuard)
    staging_banks: dict[BankId, BankId] = field(default_factory=dict[BankId, BankId])
    """The staging bank of each bank that `reprocess()` works on."""
    context_logs: dict[tuple[tuple[BankId, ...], str | None, str], ContextLog] = field(
        default_factory=dict[tuple[tuple[BankId, ...], str | None, str], ContextLog]
    )
    """The blocks that contexts of a session have shown, by banks, user and session; the one used last is the last."""
    _background: dict[BankId, asyncio.Task[RunResult]] = field(default_factory=dict[BankId, asyncio.Task[RunResult]])

    @staticmethod
    def of(context: RetainContext) -> MemoryRuntime:
        """Return the runtime of a context; nothing is opened yet."""
        access, reading, time_resolver = AccessCounts(context.store, ACCESS_DELAY), context, None
        if context.llm is not None and context.settings.question_timeout > 0:
            time_resolver = LLMTimeResolver(
                context.llm, context.settings.question_timeout, lambda bank, spent: access.add(bank, spent=spent)
            )
        if isinstance(context.store, ReplicatedStore) and context.store.replica is not None:
            reading = copy(context)
            object.__setattr__(reading, "store", context.store.replica)
        return MemoryRuntime(context, Worker(context), access, time_resolver, reading)

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
        forked = self.guard.forked
        self.guard.reset()
        if forked:
            # Background jobs and unwritten counts are those of the parent process.
            await self.context.store.close()
            return
        await self._stop_background_jobs()
        # A model that was passed in belongs to the caller.
        if self.context.owns_llm and isinstance(self.context.llm, Closable):
            await self.context.llm.close()
        if self.context.owns_embedder and isinstance(self.context.embedder, Closable):
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


R = TypeVar("R")
OnDone = Callable[[r.Returns[Any], object, float], None]
"""Called with a request that was answered, its result and the seconds that it took."""


@dataclass(frozen=True, eq=False)
class MemorySession:
    """The bank that the verbs work on, with the state that it shares with other banks."""

    runtime: MemoryRuntime
    bank: BankId
    creates: bool = True
    """Create a missing bank; otherwise raise NotFound."""
    on_done: OnDone = lambda request, result, seconds: None

    @property
    def context(self) -> RetainContext:
        return self.runtime.context

    @property
    def store(self) -> Store:
        return self.runtime.context.store

    @property
    def reads(self) -> Store:
        """The store that recalls and listings read from, whose data may be a little old."""
        return self.runtime.reading.store

    async def open(self) -> None:
        """Open the store and the bank; NotFound if it may not be created, EmbedderMismatch if another one wrote it."""
        # Before a model is used, whose threads do not exist in a forked child either.
        self.runtime.guard.enter()
        if self.bank in self.runtime.open_banks:
            return
        await self.store.open()
        stored = await self.store.bank(self.bank) or await self._create()
        expect_dimension(self.context.embedder, [stored])
        if error := embedder_mismatch(stored, self.context.embedder):
            raise error
        self.runtime.open_banks.add(self.bank)

    async def _create(self) -> Bank:
        if not self.creates:
            raise NotFound(f"There is no bank {self.bank!r:.80} here.")
        embedder = self.context.embedder
        if not embedder.dimension:
            # Another bank saves a request, which fails while the embedder's service is down.
            expect_dimension(embedder, await self.store.banks())
        try:
            dimension = await dimension_of(embedder)
        except EmbeddingFailed as error:
            raise EmbeddingFailed(
                f"{str(error).rstrip('.')}. Nothing was stored: a new bank needs the dimension that the first answer "
                "of its embedder states."
            ) from error
        return await self.store.create_bank(Bank(id=self.bank, embedder=embedder.name, dimension=dimension))

    async def run(self, verb: Callable[[], Awaitable[R]]) -> R:
        """Run a verb, once more if another process deleted the bank since it was opened: then it changed nothing."""
        was_open = self.bank in self.runtime.open_banks
        try:
            return await verb()
        except BankNotFound as error:
            if error.bank != self.bank or not (was_open or self.bank in self.runtime.open_banks):
                raise
        await self._reopen()
        return await verb()

    async def recheck(self) -> None:
        """Open the bank, again if another process deleted it; raise EmbedderMismatch if one switched its embedder."""
        await self.open()
        stored = await self.store.bank(self.bank)
        if stored is None:
            await self._reopen()
        elif error := embedder_mismatch(stored, self.context.embedder):
            raise error

    async def _reopen(self) -> None:
        self.runtime.open_banks.discard(self.bank)
        await self.open()


def expect_dimension(embedder: Embedder, banks: Iterable[Bank]) -> None:
    """Make an embedder that does not know its dimension yet expect that of the banks which it wrote."""
    for bank in banks:
        if bank.embedder == embedder.name and not embedder.dimension and isinstance(embedder, LearningEmbedder):
            embedder.expect_dimension(bank.dimension)


def bank_id(name: str) -> BankId:
    """Return a bank's id, or raise InvalidInput if no bank can have this name."""
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"A bank's name must be text, not {name!r:.60}. Write bank(str(id)) for another kind of id.")
    bank = Bank.of({"id": name, "embedder": "-", "dimension": 1})
    if bank.id.startswith("\x1f"):
        raise InvalidInput(f"A bank's name must not start with the reserved character U+001F: {name!r:.60}.")
    return BankId(bank.id)
