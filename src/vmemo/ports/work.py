"""The protocols of a store beyond reading and writing facts: queued work, who is who, and deriving a bank anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from vmemo.models import BankId, JobKind
from vmemo.models.changes import Lease
from vmemo.models.results import Job


class Queue(Protocol):
    """Durable work: queued with its cause, leased by one worker at a time, done once."""

    async def lease(
        self,
        owner: str,
        seconds: float,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        limit: int = 1,
        due: bool = True,
        beside: Sequence[int] = (),
    ) -> list[Job]:
        """Take the oldest jobs that nobody holds, of one bank or of all, of some kinds or of all.

        `due=False` takes those that wait for a later try as well; jobs in `beside` are left alone. A lease that ran
        out is free to take. Jobs of a shadow are given out only when their bank is named.
        """
        ...

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Hold jobs for some seconds more; those that are still held are returned."""
        ...

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        """Hold the whole bank; return None if another process holds it.

        Commits that change its memories wait, unless they name this lease, until it is finished or has expired.
        """
        ...

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        """Everything queued of a bank, oldest first."""
        ...


@runtime_checkable
class WorkNotifier(Protocol):
    """A queue that signals new jobs. Other queues are polled."""

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        """Wait until any process queues work that is due, or for some seconds; how often that was heard of by now.

        It returns at once if that is more often than `heard`, so that nothing is missed between two calls. Where
        nothing is ever missed it may take some times longer.
        """
        ...
