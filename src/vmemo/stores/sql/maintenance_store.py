"""Upkeep of every SQL store: the port's methods over the statements of `housekeeping`."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta

from vmemo.models import BankId, Episode, FactId
from vmemo.ports import RetentionScore
from vmemo.stores.sql import maintenance
from vmemo.stores.sql.base import Running


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

    async def lengthy(
        self, bank: BankId, *, longer: int, before: datetime, after: Episode | None = None, limit: int = 100
    ) -> list[Episode]:
        """Old episodes with long narratives."""
        find = self._with_bank(maintenance.lengthy)
        return await self._read(find, bank, longer=longer, before=before, after=after, limit=limit)

    async def traces(self, bank: BankId, *, after: FactId | None = None, limit: int = 500) -> list[RetentionScore]:
        """What keeps facts in memory."""
        return await self._read(self._with_bank(maintenance.traces), bank, after, limit)
