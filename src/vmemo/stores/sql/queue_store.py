"""The queue of every SQL store: the port's methods over the statements of `queue`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import BankId, JobKind
from vmemo.models.changes import Lease, NewJob
from vmemo.models.results import Job
from vmemo.stores.sql import message_rows, queue
from vmemo.stores.sql.base import Running


class QueueStore(Running):
    """Fulfils the Queue port, and takes unread messages out of their episodes."""

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
        """Take the oldest jobs that nobody holds."""
        taken: list[Job] = []

        def run(connection: Connection) -> list[Job]:
            # A run before this one may have been committed after all.
            queue.give_back(connection, taken)
            number = None if bank is None else message_rows.bank_state(connection, bank).seq
            wanted = queue.LeaseRequest(bank=number, kinds=kinds, limit=limit, due=due, beside=beside)
            taken[:] = queue.lease(connection, owner, seconds, wanted)
            return taken

        return await self._insist(run)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Hold jobs for some seconds more."""
        return [lease for lease in leases if await self._insist(queue.renew, lease, seconds)]

    async def hold(self, bank: BankId, owner: str, seconds: float) -> Lease | None:
        """Hold a bank, so that the commits of others wait."""
        return await self._write(self._with_bank(queue.hold), bank, owner, seconds)

    async def jobs(self, bank: BankId, kinds: Sequence[JobKind] = ()) -> list[Job]:
        """Everything queued of a bank, oldest first."""
        return await self._read(self._with_bank(queue.listed), bank, kinds)

    async def ungroup(self, bank: BankId) -> int:
        """Take unread messages out of their episodes again, with the jobs that would read them."""
        return await self._write(self._with_bank(self._ungroup), bank)

    @staticmethod
    def _ungroup(connection: Connection, bank: int) -> int:
        count = message_rows.ungroup(connection, bank)
        if count:
            # No grouped message is left, so that no episode is left to read.
            queue.drop(connection, bank, "extract")
            queue.enqueue(connection, bank, [NewJob(kind="process")])
        return count
