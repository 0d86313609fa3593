"""The durable queue's worker: takes jobs, runs several at a time, and holds on to what takes long."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from weakref import WeakKeyDictionary

from vmemo.errors import OutcomeUnknown, StoreBusy, StoreError
from vmemo.jobs.handlers import Performer, lease_of
from vmemo.jobs.run_result import READING, CircuitBreaker, RunResult
from vmemo.models import BankId, JobKind, new_id, utc_now
from vmemo.models.changes import Changes, Lease
from vmemo.models.results import Job, Retained
from vmemo.ports import WorkNotifier
from vmemo.reflect.observations import MAX_ENTITIES_PER_CALL
from vmemo.retain.context import RetainContext

FOLLOWING: tuple[JobKind, ...] = ("opinions", "observe")
"""Work that follows from what is known."""
LATER: tuple[JobKind, ...] = (*FOLLOWING, "maintain")
"""Work that is done when it is due."""
Ended = tuple[JobKind, Retained | Exception]
Running = set[asyncio.Task[Ended]]
Done = Callable[[Job, Exception | None, float], None]
"""Told of each piece of work that has ended: what it was, what went wrong, and how many seconds it took."""
Away = Callable[[StoreError], None]
"""Told once each time that the database is found to be away or busy."""
AWAY = StoreBusy, OutcomeUnknown
"""Errors that pass by themselves."""
_everywhere: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""How many jobs run at a time in this process, all memories together."""


class Worker:
    """Runs queued work with the context of one memory. Any number of them may work on one database."""

    def __init__(self, context: RetainContext) -> None:
        self._store = context.store
        self._performer = Performer(context)
        self._settings = context.settings
        self._held: dict[int, Lease] = {}
        self._owed: list[tuple[BankId, Lease]] = []
        self._heard = 0
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{new_id()}"

    async def drain(self, bank: BankId) -> RunResult:
        """Do a bank's work until nothing is left that can be done now.

        Reading that failed before is tried again at once; other work is done when it is due. What another worker
        reads is waited for, so that afterwards all that could be read is read. Once the model is found to be gone, the
        rest stays queued without a try.
        """
        tried: set[int] = set()
        patience = CircuitBreaker(self._settings.retry_initial_seconds)

        async def take(room: int) -> list[Job]:
            if patience.resting:
                return []
            jobs = await self._lease(room, bank=bank, kinds=READING, due=False, beside=sorted(tried))
            more = room - len(jobs)
            return [*jobs, *(await self._lease(more, bank=bank, kinds=LATER, beside=sorted(tried)) if more else [])]

        async def idle() -> bool:
            if patience.resting:
                return True
            now = utc_now()
            held = [job for job in await self._store.jobs(bank, READING) if job.until is not None and job.until > now]
            if held:
                await asyncio.sleep(self._settings.poll_seconds)
            return not held

        return await self._pump(take, idle, RunResult(), patience=patience, tried=tried)

    async def follow(self, bank: BankId) -> RunResult:
        """Do what follows from reading, as it becomes due, until none of it waits.

        A database that is away or busy ends it: who reads the bank next begins again.
        """

        async def take(room: int) -> list[Job]:
            with suppress(*AWAY):
                return await self._lease(room, bank=bank, kinds=FOLLOWING)
            return []

        async def idle() -> bool:
            waiting: list[datetime] = []
            with suppress(*AWAY):
                waiting = [job.due for job in await self._store.jobs(bank, FOLLOWING) if job.error is None]
            if waiting:
                pause = (min(waiting) - utc_now()).total_seconds()
                await asyncio.sleep(max(self._settings.poll_seconds, pause))
            return not waiting

        return await self._pump(take, idle, RunResult(keep=False))

    async def serve(
        self,
        stop: asyncio.Event,
        *,
        banks: Sequence[BankId] = (),
        once: bool = False,
        on_done: Done | None = None,
        on_away: Away | None = None,
    ) -> RunResult:
        """Do the due work of all banks, or of some, until told to stop, or with `once` until nothing is due.

        While the database is away or busy it waits; with `once` that is raised.
        """
        patience, away = CircuitBreaker(self._settings.retry_initial_seconds), False

        async def take(room: int) -> list[Job]:
            nonlocal away
            if stop.is_set() or patience.resting:
                return []
            try:
                found = await self._lease_any(room, banks)
            except AWAY as error:
                if once:
                    raise
                if not away and on_away is not None:
                    on_away(error)
                found, away = [], True
            else:
                away = False
            return found

        async def idle() -> bool:
            if once or stop.is_set():
                return True
            await self._rest(stop)
            return False

        return await self._pump(take, idle, RunResult(keep=False), patience=patience, on_done=on_done)

    async def _lease_any(self, room: int, banks: Sequence[BankId]) -> list[Job]:
        if not banks:
            return await self._lease(room)
        found: list[Job] = []
        for bank in banks:
            found += await self._lease(room - len(found), bank=bank) if len(found) < room else []
        return found

    async def _rest(self, stop: asyncio.Event) -> None:
        """Wait until there may be something to do, or until told to stop."""
        waits = [asyncio.create_task(wait) for wait in (stop.wait(), self._news())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            ended = await asyncio.gather(*waits, return_exceptions=True)
        for error in (each for each in ended if isinstance(each, Exception)):
            raise error

    async def _news(self) -> bool:
        if isinstance(self._store, WorkNotifier):
            self._heard = await self._store.wait_for_work(self._settings.poll_seconds, self._heard)
        else:
            await asyncio.sleep(self._settings.poll_seconds)
        return True

    async def _lease(
        self,
        room: int,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        due: bool = True,
        beside: Sequence[int] = (),
    ) -> list[Job]:
        await self._give_back()
        seconds = self._settings.lease_seconds
        jobs = await self._store.lease(self._owner, seconds, bank=bank, kinds=kinds, limit=room, due=due, beside=beside)
        self._held |= {job.id: lease_of(job, seconds) for job in jobs}
        return jobs

    async def _give_back(self) -> None:
        """Free the jobs that could not be ended while the database was away; their leases would run on otherwise."""
        while self._owed:
            bank, lease = self._owed[0]
            await self._store.commit(Changes(bank=bank, released=[lease]))
            self._owed.pop(0)

    async def _pump(
        self,
        take: Callable[[int], Awaitable[list[Job]]],
        idle: Callable[[], Awaitable[bool]],
        outcome: RunResult,
        *,
        patience: CircuitBreaker | None = None,
        tried: set[int] | None = None,
        on_done: Done | None = None,
    ) -> RunResult:
        """Start what can be taken, as far as there is room, until nothing runs and it is said to be over."""
        running, again = Running(), set[int]() if tried is None else tried
        async with self._heartbeat():
            try:
                while True:
                    room = self._settings.extractions_per_bank - len(running)
                    jobs = await take(room) if room > 0 else []
                    running |= {asyncio.create_task(self._run(group, again, on_done)) for group in _grouped(jobs)}
                    if running:
                        done, running = await asyncio.wait(
                            running, timeout=self._settings.poll_seconds, return_when=asyncio.FIRST_COMPLETED
                        )
                        for kind, ended in (task.result() for task in done):
                            outcome.add(kind, ended)
                            if patience is not None:
                                patience.add(ended)
                    elif await idle():
                        return outcome
            finally:
                await _cancelled(running)

    async def _run(self, jobs: Sequence[Job], tried: set[int], on_done: Done | None) -> Ended:
        # A job that fails is free again before its failure is seen here, and must not be taken a second time.
        tried.update(job.id for job in jobs)
        async with self._turn():
            began = time.monotonic()
            done = await self._performer.perform(jobs)
            seconds = time.monotonic() - began
        error = done if isinstance(done, Exception) else None
        for job in jobs:
            lease = self._held.pop(job.id, None)
            if lease is not None and isinstance(error, AWAY):
                self._owed.append((job.bank, lease))
            if on_done is not None:
                on_done(job, error, seconds)
        if error is None:
            tried.difference_update(job.id for job in jobs)
        return jobs[0].kind, done

    def _turn(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        return _everywhere.setdefault(loop, asyncio.Semaphore(self._settings.extractions_per_process))

    @asynccontextmanager
    async def _heartbeat(self) -> AsyncGenerator[None]:
        """Renew what is held, while it is held."""
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 3)
            # A database that is away or busy is asked again with the next beat; three fit into a lease.
            with suppress(*AWAY):
                await self._store.renew(list(self._held.values()), self._settings.lease_seconds)


def _grouped(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs that are done together: entities of one bank are described in one call."""
    entities: dict[BankId, list[Job]] = {}
    for job in jobs:
        if job.kind == "observe":
            entities.setdefault(job.bank, []).append(job)
        else:
            yield [job]
    for group in entities.values():
        yield from (group[i : i + MAX_ENTITIES_PER_CALL] for i in range(0, len(group), MAX_ENTITIES_PER_CALL))


async def _cancelled(running: Running) -> None:
    """Stop what still runs; each gives its job back."""
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
