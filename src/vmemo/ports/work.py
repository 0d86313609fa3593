"""The protocols of a store's job queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from vmemo.models import BankId, JobKind
from vmemo.models.changes import Lease
from vmemo.models.results import Job


class Queue(Protocol):
    """Durable jobs: queued in the commit that causes them, leased by one worker at a time, done once."""

    async def lease(  # noqa: PLR0913 - each narrows the selection
        self,
        owner: str,
        seconds: float,
        *,
        bank: BankId | None = None,
        kinds: Sequence[JobKind] = (),
        limit: int = 1,
        due: bool = True,
        beside: Sequence[int] = (),
        except_banks: Sequence[BankId] = (),
    ) -> list[Job]:
        """Lease the oldest jobs without a valid lease, of one bank or of all, of some kinds or of all.

        `due=False` also takes jobs that wait for a retry; jobs in `beside` and of `except_banks` are excluded. Jobs of
        a hidden bank are leased only if the bank is named.
        """
        ...

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Extend leases by some seconds; return those that are still valid."""
        ...

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        """Hold the whole bank; return None if another process holds it.

        Commits that change its memories wait, unless they name this lease, until it is finished or has expired.
        """
        ...

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        """Return the queued jobs of a bank, oldest first."""
        ...


@runtime_checkable
class WorkNotifier(Protocol):
    """A queue that signals new jobs. Other queues are polled."""

    async def wait_for_work(self, seconds: float, heard: int) -> int:
        """Wait until any process queues a job that is due, or for some seconds; return the number of signals so far.

        It returns at once if that number is greater than `heard`, so that no signal is missed between two calls. A
        queue that never misses a signal may wait longer than `seconds`.
        """
        ...


@runtime_checkable
class Scrubber(Protocol):
    """A store that removes the bytes of deleted text from files of its own."""

    async def scrub(self, *, patient: bool = False) -> bool:
        """Remove what is left of deleted text; return False if something prevents it for now.

        The store tries again by itself. Only if `patient` may it take long, or make others wait.
        """
        ...
