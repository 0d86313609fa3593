"""Upkeep of every SQL store: the port's methods over the statements of `housekeeping`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from vmemo.models import BankId, Episode, EpisodeId, FactId
from vmemo.models.changes import Lease
from vmemo.ports import RetentionScore
from vmemo.stores.sql import maintenance, queue
from vmemo.stores.sql.base import Running
from vmemo.stores.sql.message_rows import bank_state


class HousekeepingStore(Running):
    """Fulfils the Housekeeping port."""

    @abstractmethod
    async def optimise(self) -> None:
        """Put the indexes in order."""

    async def consecutive(
        self, bank: BankId, *, gap: timedelta, largest: int, after: Episode | None = None, limit: int = 100
    ) -> list[tuple[Episode, Episode]]:
        """Pairs of episodes, the second of which goes on where the first was."""
        find = self._with_bank(maintenance.consecutive)
        return await self._read(find, bank, gap=gap, largest=largest, after=after, limit=limit)

    async def join(
        self, bank: BankId, kept: Episode, absorbed: EpisodeId, *, revision: int, lease: Lease | None = None
    ) -> bool:
        """Let one episode take another's place."""
        return await self._write(self._join, bank, kept, absorbed, revision, lease)

    @staticmethod
    def _join(
        connection: Connection, bank: BankId, kept: Episode, absorbed: EpisodeId, revision: int, lease: Lease | None
    ) -> bool:
        state = bank_state(connection, bank)
        held = lease is None or queue.holds(connection, state.seq, lease)
        return held and state.revision == revision and maintenance.join(connection, state.seq, kept, absorbed)

    async def lengthy(
        self, bank: BankId, *, longer: int, before: datetime, after: Episode | None = None, limit: int = 100
    ) -> list[Episode]:
        """Old episodes with long narratives."""
        find = self._with_bank(maintenance.lengthy)
        return await self._read(find, bank, longer=longer, before=before, after=after, limit=limit)

    async def shorten(self, bank: BankId, shortened: Sequence[tuple[Episode, str]]) -> int:
        """Replace narratives that are still the same."""
        return await self._write(self._with_bank(maintenance.shorten), bank, shortened)

    async def traces(self, bank: BankId, *, after: FactId | None = None, limit: int = 500) -> list[RetentionScore]:
        """What keeps facts in memory."""
        return await self._read(self._with_bank(maintenance.traces), bank, after, limit)
