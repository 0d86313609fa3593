"""The worker of the job queue: leases jobs, runs several at a time, and renews the leases of long ones."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import ParamSpec, TypedDict, Unpack, assert_never, get_args
from weakref import WeakKeyDictionary

from vmemo.errors import LLMDenied, LLMUnavailable, NotFound, OutcomeUnknown, StoreBusy, StoreError, Unsupported
from vmemo.lifecycle.entity_merges import merge_entities
from vmemo.lifecycle.maintain import maintain
from vmemo.llm.structured import StructuredLLM
from vmemo.models import BankId, EntityId, FactId, JobKind, MessageId, new_id, utc_now
from vmemo.models.changes import Changes, JobFailure, Lease
from vmemo.models.records import shifted
from vmemo.models.results import Job, Retained
from vmemo.models.select import MessageSelect
from vmemo.ports import WorkNotifier, renewed
from vmemo.reflect.opinions import update_opinions
from vmemo.reflect.profiles import update_observations
from vmemo.retain.context import RetainContext
from vmemo.retain.llm_pipeline import GROUPING_BATCH, ExtractionJob, LeaseLost, extract_episode, group_pending
from vmemo.retain.pipeline import embedder_changed, error_text, process

MAX_CONSECUTIVE_FAILURES = 5
"""Jobs that may fail one after the other because the model is unavailable, before others are held back."""


@dataclass
class CircuitBreaker:
    """Pauses the start of jobs after consecutive failures of the language model."""

    pause_seconds: float
    _failures: int = 0
    _open_until: float = float("-inf")

    def record(self, outcome: Retained | Exception) -> None:
        if not isinstance(outcome, LLMUnavailable | LLMDenied):
            self._failures = 0
            return
        self._failures += 1
        if self._failures >= MAX_CONSECUTIVE_FAILURES:
            self._open_until = time.monotonic() + self.pause_seconds
            self._failures = 0

    @property
    def is_open(self) -> bool:
        """True if no job may start now."""
        return time.monotonic() < self._open_until


PROCESSING_JOBS: tuple[JobKind, ...] = ("process", "extract")
"""Jobs that derive facts from messages."""
MAX_ERRORS = 100
"""Errors that are kept of a run; each of them is also recorded on its job."""


@dataclass
class RunResult:
    """The number of jobs of a run, their errors and what they retained."""

    keep: bool = True
    """Keep what was retained; a worker that runs indefinitely does not."""
    errors: deque[Exception] = field(default_factory=lambda: deque(maxlen=MAX_ERRORS))
    processing_error: Exception | None = None
    """The first error that left messages pending."""
    jobs: int = 0
    failed: int = 0
    _parts: list[Retained] = field(default_factory=list[Retained])

    @property
    def retained(self) -> Retained:
        return Retained.combined(self._parts)

    def add(self, kind: JobKind, outcome: Retained | Exception) -> None:
        self.jobs += 1
        if isinstance(outcome, Exception):
            self.failed += 1
            self.errors.append(outcome)
            if kind in PROCESSING_JOBS:
                self.processing_error = self.processing_error or outcome
        elif self.keep:
            self._parts.append(outcome)


BACKGROUND_JOBS: tuple[JobKind, ...] = ("opinions", "observe")
"""Jobs that new facts cause."""
DEFERRED_JOBS: tuple[JobKind, ...] = ("opinions", "maintain")
"""Jobs that `drain` runs only when they are due; observation jobs also wait until nothing is left to process."""
DELIVERY: JobKind = "webhook"
OTHER_JOBS: tuple[JobKind, ...] = tuple(kind for kind in get_args(JobKind) if kind != DELIVERY)
DELIVERIES = 20
"""Webhook deliveries that a worker runs at a time. They take no slot of other jobs, for receivers may be slow."""
DELIVERIES_PER_BANK = 4
"""Deliveries of one bank among them, so that its receivers do not delay those of another bank."""
OBSERVED_TOGETHER = 200
"""Entities whose observations are updated by one job run, at most."""
FinishedJob = tuple[JobKind, Retained | Exception]
RunningJobs = dict[asyncio.Task[FinishedJob], Job]
"""The task of each running group of jobs, with the first job of the group."""
OnDone = Callable[[Job, Exception | None, float], None]
Callback = ParamSpec("Callback")
TRANSIENT = StoreBusy, OutcomeUnknown
"""Errors of a database that is unavailable for a while."""
_log = logging.getLogger("vmemo.jobs")
_process_limits: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""The limit of concurrent jobs in this process, shared by all memories."""


class WorkCallbacks(TypedDict, total=False):
    """Functions of a program that a worker calls. An error of one is logged and stops nothing."""

    on_done: OnDone
    """Called after each job with the job, its error and its duration in seconds."""
    on_unavailable: Callable[[StoreError], None]
    """Called once each time that the database becomes unavailable or busy."""
    on_poll: Callable[[], None]
    """Called each time that the worker has looked for jobs: a worker that no longer calls it is stuck."""


class Worker:
    """Runs queued jobs with the context of one memory. Several workers may share a database."""

    def __init__(self, context: RetainContext) -> None:
        self._store = context.store
        self._runner = JobRunner(context)
        self._settings = context.settings
        self._held: dict[int, Lease] = {}
        self._to_release: list[tuple[BankId, Lease]] = []
        self._last_notification = 0
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{new_id()}"

    async def drain(self, bank: BankId) -> RunResult:
        """Run a bank's jobs until none can run now.

        Processing jobs that failed before are tried again at once; other jobs run when they are due. Processing jobs
        of other workers are awaited, so that afterwards every message that can be processed is. While the model is
        unavailable, the remaining jobs stay queued.
        """
        tried: set[int] = set()
        breaker = CircuitBreaker(self._settings.retry_initial_seconds)

        async def take(running: Collection[Job]) -> list[Job]:
            free = self._free_slots(running)
            if breaker.is_open:
                return []
            jobs = await self._lease(free, bank=bank, kinds=PROCESSING_JOBS, due=False, beside=sorted(tried))
            more = free - len(jobs)
            # Facts that are still to come share one update of the observations.
            kinds = DEFERRED_JOBS if jobs or await self._is_processing(bank) else (*DEFERRED_JOBS, "observe")
            return [*jobs, *(await self._lease(more, bank=bank, kinds=kinds, beside=sorted(tried)) if more else [])]

        async def idle() -> bool:
            if breaker.is_open:
                return True
            jobs = await self._store.jobs(bank, PROCESSING_JOBS)
            if _any_held(jobs):
                await asyncio.sleep(self._settings.poll_seconds)
                return False
            # Another worker may have released its job after `take` looked for free ones.
            return tried.issuperset(job.id for job in jobs)

        return await self._run_jobs(take, idle, RunResult(), breaker=breaker, tried=tried)

    async def _is_processing(self, bank: BankId) -> bool:
        return _any_held(await self._store.jobs(bank, PROCESSING_JOBS))

    async def follow(self, bank: BankId) -> RunResult:
        """Run a bank's opinion and observation jobs as they become due, until none is left or the database is away."""

        async def take(running: Collection[Job]) -> list[Job]:
            with suppress(*TRANSIENT):
                kinds = ("opinions",) if await self._is_processing(bank) else BACKGROUND_JOBS
                return await self._lease(self._free_slots(running), bank=bank, kinds=kinds)
            return []

        async def idle() -> bool:
            waiting: list[datetime] = []
            with suppress(*TRANSIENT):
                waiting = [job.due for job in await self._store.jobs(bank, BACKGROUND_JOBS) if job.error is None]
            if waiting:
                pause = (min(waiting) - utc_now()).total_seconds()
                await asyncio.sleep(max(self._settings.poll_seconds, pause))
            return not waiting

        return await self._run_jobs(take, idle, RunResult(keep=False))

    async def serve(
        self,
        stop: asyncio.Event,
        *,
        banks: Sequence[BankId] = (),
        once: bool = False,
        **callbacks: Unpack[WorkCallbacks],
    ) -> RunResult:
        """Run the due jobs of all banks, or of some, until `stop` is set, or with `once` until none is due.

        While the database is unavailable the worker waits; with `once` the error is raised.
        """
        breaker, unavailable = CircuitBreaker(self._settings.retry_initial_seconds), False

        async def take(running: Collection[Job]) -> list[Job]:
            nonlocal unavailable
            _notify(callbacks.get("on_poll"))
            if stop.is_set():
                return []
            free, found = 0 if breaker.is_open else self._free_slots(running), list[Job]()
            try:
                async for jobs in self._lease_due(free, running, banks):
                    found += jobs
            except TRANSIENT as error:
                if once and not found:
                    raise
                if not unavailable:
                    _notify(callbacks.get("on_unavailable"), error)
                unavailable = True
            else:
                unavailable = False
            return found

        async def idle() -> bool:
            if once or stop.is_set():
                return True
            await self._wait_for_work(stop)
            return False

        return await self._run_jobs(
            take, idle, RunResult(keep=False), breaker=breaker, on_done=callbacks.get("on_done")
        )

    def _free_slots(self, running: Collection[Job]) -> int:
        """Return the number of jobs that may start beside those that run, deliveries aside."""
        return self._settings.extractions_per_bank - sum(job.kind != DELIVERY for job in running)

    async def _lease_any(
        self, free: int, banks: Sequence[BankId], kinds: Sequence[JobKind], *, except_banks: Collection[BankId] = ()
    ) -> list[Job]:
        if not banks:
            return await self._lease(free, kinds=kinds, except_banks=list(except_banks))
        found: list[Job] = []
        for bank in (each for each in banks if each not in except_banks):
            found += await self._lease(free - len(found), bank=bank, kinds=kinds)
        return found

    async def _lease_due(
        self, free: int, running: Collection[Job], banks: Sequence[BankId]
    ) -> AsyncGenerator[list[Job]]:
        """Lease due jobs for the free slots, and due deliveries of banks that run fewer than their share."""
        yield await self._lease_any(free, banks, OTHER_JOBS)
        counts = Counter(job.bank for job in running if job.kind == DELIVERY)
        while counts.total() < DELIVERIES:
            full = {bank for bank, count in counts.items() if count >= DELIVERIES_PER_BANK}
            jobs = await self._lease_any(1, banks, [DELIVERY], except_banks=full)
            if not jobs:
                break
            yield jobs
            counts.update(job.bank for job in jobs)

    async def _wait_for_work(self, stop: asyncio.Event) -> None:
        """Wait until a job may be available, or until `stop` is set."""
        waits = [asyncio.create_task(wait) for wait in (stop.wait(), self._new_work())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            ended = await asyncio.gather(*waits, return_exceptions=True)
        for error in (each for each in ended if isinstance(each, Exception)):
            raise error

    async def _new_work(self) -> bool:
        if isinstance(self._store, WorkNotifier):
            self._last_notification = await self._store.wait_for_work(
                self._settings.poll_seconds, self._last_notification
            )
        else:
            await asyncio.sleep(self._settings.poll_seconds)
        return True

    async def _lease(
        self,
        free: int,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        due: bool = True,
        beside: Sequence[int] = (),
        except_banks: Sequence[BankId] = (),
    ) -> list[Job]:
        if free <= 0:
            return []
        # Release the jobs that could not be finished while the database was unavailable.
        while self._to_release:
            owed_by, lease = self._to_release[0]
            await self._store.commit(Changes(bank=owed_by, released=[lease]))
            self._to_release.pop(0)
        seconds = self._settings.lease_seconds
        jobs = await self._store.lease(
            self._owner, seconds, bank=bank, kinds=kinds, limit=free, due=due, beside=beside, except_banks=except_banks
        )
        for bank in dict.fromkeys(job.bank for job in jobs if job.kind == "observe"):
            jobs += await self._lease_observations(bank, beside)
        self._held |= {job.id: lease_of(job, seconds) for job in jobs}
        return jobs

    async def _lease_observations(self, bank: BankId, beside: Sequence[int]) -> list[Job]:
        """Lease the other observation jobs of a bank, except failed ones, so that one call updates all its profiles."""
        failed = [job.id for job in await self._store.jobs(bank, ["observe"]) if job.error is not None]
        return await self._store.lease(
            self._owner,
            self._settings.lease_seconds,
            bank=bank,
            kinds=["observe"],
            limit=OBSERVED_TOGETHER,
            due=False,
            beside=[*beside, *failed],
        )

    async def _run_jobs(
        self,
        take: Callable[[Collection[Job]], Awaitable[list[Job]]],
        idle: Callable[[], Awaitable[bool]],
        result: RunResult,
        *,
        breaker: CircuitBreaker | None = None,
        tried: set[int] | None = None,
        on_done: OnDone | None = None,
    ) -> RunResult:
        """Start the jobs that `take` leases beside those that run, until none runs and `idle` returns True."""
        running, again = RunningJobs(), set[int]() if tried is None else tried
        # If the database is unavailable, the next renewal tries again; three fit into a lease.
        seconds = self._settings.lease_seconds
        async with renewed(lambda: self._store.renew(list(self._held.values()), seconds), seconds / 3):
            try:
                while True:
                    for group in _groups(await take(running.values())):
                        running[asyncio.create_task(self._run_group(group, again, on_done))] = group[0]
                    if running:
                        done, _ = await asyncio.wait(
                            running, timeout=self._settings.poll_seconds, return_when=asyncio.FIRST_COMPLETED
                        )
                        for task in done:
                            del running[task]
                            kind, ended = task.result()
                            result.add(kind, ended)
                            if breaker is not None and kind != DELIVERY:
                                breaker.record(ended)
                    elif await idle():
                        return result
            finally:
                # Each releases its lease.
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    async def _run_group(self, jobs: Sequence[Job], tried: set[int], on_done: OnDone | None) -> FinishedJob:
        # A failed job is released before its failure is seen here, and must not be leased again in this run.
        tried.update(job.id for job in jobs)
        limit = asyncio.Semaphore(self._settings.extractions_per_process)
        limit = _process_limits.setdefault(asyncio.get_running_loop(), limit)
        async with nullcontext() if jobs[0].kind == DELIVERY else limit:
            began = time.monotonic()
            done = await self._runner.run(jobs)
            seconds = time.monotonic() - began
        error = done if isinstance(done, Exception) else None
        for job in jobs:
            lease = self._held.pop(job.id, None)
            if lease is not None and isinstance(error, TRANSIENT):
                self._to_release.append((job.bank, lease))
            _notify(on_done, job, error, seconds)
        if error is None:
            tried.difference_update(job.id for job in jobs)
        return jobs[0].kind, done


def _notify(callback: Callable[Callback, None] | None, *args: Callback.args, **kwargs: Callback.kwargs) -> None:
    """Call a callback, if there is one. It belongs to the program, and its errors must not stop the worker."""
    if callback is not None:
        try:
            callback(*args, **kwargs)
        except Exception:
            _log.exception("A callback of the worker failed.")


def _any_held(jobs: Sequence[Job]) -> bool:
    now = utc_now()
    return any(job.until is not None and job.until > now for job in jobs)


def _groups(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield groups of jobs that run together: the observation jobs of a bank share model calls."""
    entities: dict[BankId, list[Job]] = {}
    for job in jobs:
        if job.kind == "observe":
            entities.setdefault(job.bank, []).append(job)
        else:
            yield [job]
    yield from entities.values()


# Execution of jobs: the stage that runs each kind, and the record of failures and retries.
MAX_RETRY_SECONDS = 3600.0


@dataclass(frozen=True)
class JobRunner:
    """Runs jobs with the context of one memory."""

    context: RetainContext

    async def run(self, jobs: Sequence[Job]) -> Retained | Exception:
        """Run jobs that belong together; an error is recorded on them, and returned rather than raised."""
        leases = [lease_of(job, self.context.settings.lease_seconds) for job in jobs]
        llm = StructuredLLM(self.context.llm) if self.context.llm is not None else None
        try:
            return await self._execute(jobs, leases, llm)
        except asyncio.CancelledError:
            # If the database is unavailable, the leases expire by themselves.
            with suppress(StoreBusy, OutcomeUnknown):
                released = Changes(bank=jobs[0].bank, released=leases)
                await asyncio.shield(self.context.store.commit(released))
            raise
        except LeaseLost:
            return Retained()
        except (StoreBusy, OutcomeUnknown) as error:
            # Recording it would wait for the same lock or server; the worker releases the job later.
            return error
        except Exception as error:
            with suppress(StoreBusy, OutcomeUnknown):
                error = await embedder_changed(jobs[0].bank, self.context) or error
                await self._record_failure(jobs, leases, error, llm)
            return error

    async def _execute(self, jobs: Sequence[Job], leases: Sequence[Lease], llm: StructuredLLM | None) -> Retained:
        job, lease, store = jobs[0], leases[0], self.context.store
        if job.kind == "process" and llm is None:
            # A retain of this process may be deriving the same messages.
            async with self.context.bank_lock(job.bank):
                done = await process(job.bank, self.context)
            await store.commit(Changes(bank=job.bank, finished=[lease]))
            return done
        if job.kind == "maintain":
            await maintain(job.bank, self.context, lease=lease)
            return Retained()
        if job.kind == "webhook":
            # Importing an HTTP client takes as long as the rest of the package.
            from vmemo.jobs.webhook_delivery import deliver  # noqa: PLC0415

            await deliver(job, store, self.context.settings, lease)
            return Retained()
        if llm is None:
            raise Unsupported(f"A job of kind {job.kind!r} needs a language model; pass llm= to Memory.")
        match job.kind:
            case "process":
                done = await group_pending(job.bank, self.context, llm, lease)
                await store.commit(Changes(bank=job.bank, finished=[lease]))
                return done
            case "extract":
                at = shifted(utc_now(), self.context.settings.observe_delay)
                work = ExtractionJob.of(job.detail)
                done, same = await extract_episode(job.bank, work, self.context, llm, lease, observe_at=at)
                for other, kept in same.items():
                    with suppress(NotFound):
                        await merge_entities(store, job.bank, kept, other, "the model identified them", observe=True)
                return done
            case "opinions":
                named = job.detail.get("facts")
                facts = [FactId(str(id)) for id in named] if isinstance(named, list) else []
                await update_opinions(job.bank, facts, self.context, llm, lease)
            case "observe":
                entities = [EntityId(each.key) for each in jobs]
                forced = {id for id, each in zip(entities, jobs, strict=True) if each.detail.get("anew")}
                held = dict(zip(entities, leases, strict=True))
                await update_observations(job.bank, held, forced, self.context, llm)
            case _:
                assert_never(job.kind)
        return Retained(usage=llm.take_usage())

    async def _record_failure(
        self, jobs: Sequence[Job], leases: Sequence[Lease], error: Exception, llm: StructuredLLM | None
    ) -> None:
        failed: list[JobFailure] = []
        for job, lease in zip(jobs, leases, strict=True):
            # Exponential backoff with jitter.
            pause = min(MAX_RETRY_SECONDS, self.context.settings.retry_initial_seconds * 2.0 ** min(job.attempts, 30))
            again, kept = shifted(utc_now(), pause * random.uniform(0.5, 1.0)), await self._messages_of(job)
            failed.append(JobFailure(lease=lease, error=error_text(error), retry_at=again, messages=kept))
        spent = () if llm is None else llm.spending
        await self.context.store.commit(Changes(bank=jobs[0].bank, failed=failed, spending=spent))

    async def _messages_of(self, job: Job) -> list[MessageId]:
        """Return the messages that stay pending because of a job."""
        if job.kind == "extract":
            return list(ExtractionJob.of(job.detail).messages)
        if job.kind != "process":
            return []
        pending = await self.context.store.messages(job.bank, MessageSelect.oldest_pending(GROUPING_BATCH))
        return [message.id for message in pending]


def lease_of(job: Job, seconds: float) -> Lease:
    """Return the lease of a job that was just leased."""
    assert job.owner is not None
    return Lease(job=job.id, owner=job.owner, requests=job.requests, seconds=seconds)
