"""The protocol of a store's upkeep: episodes that can be joined or shortened, facts that fade, and its indexes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from vmemo.models import BankId, Episode, FactId


@dataclass(frozen=True, kw_only=True)
class RetentionScore:
    """What keeps a fact in memory; `told_at` is when the last message that tells it was recorded."""

    fact: FactId
    importance: float
    access_count: int
    told_at: datetime


class Housekeeping(Protocol):
    """Tidying up. Messages are never touched, and facts never deleted."""

    async def consecutive(
        self, bank: BankId, *, gap: timedelta, largest: int, after: Episode | None = None, limit: int = 100
    ) -> list[tuple[Episode, Episode]]:
        """Pairs of read episodes, the second of which goes on in the document of the first after at most `gap`.

        Together they hold at most `largest` messages. Pairs come in the order in which the second one ended; `after`
        is the second one of the last pair that was seen, and need not be there any more.
        """
        ...

    async def lengthy(
        self, bank: BankId, *, longer: int, before: datetime, after: Episode | None = None, limit: int = 100
    ) -> list[Episode]:
        """Read episodes that ended before a moment, with narratives of more characters, in the order they ended."""
        ...

    async def traces(self, bank: BankId, *, after: FactId | None = None, limit: int = 500) -> list[RetentionScore]:
        """Current world and experience facts in the order they were mentioned.

        Those that a current opinion or observation rests on are left out.
        """
        ...

    async def optimise(self) -> None:
        """Put the indexes of all banks in order; StoreBusy if another process held the database for too long."""
        ...
