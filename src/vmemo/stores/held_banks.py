"""Commits to a bank that another process holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from vmemo.errors import StoreBusy

HELD_SECONDS = 60.0
"""Seconds that a commit waits for a bank that another process holds."""
HELD_PAUSE = 0.02
"""Seconds between two attempts to commit to a held bank."""


class BankHeld(Exception):
    """Another process holds the bank; the commit is to be tried again."""


async def commit_when_free(bank: str, commit: Callable[[], Awaitable[bool]]) -> bool:
    """Return the result of a commit, once no other process holds the bank; raise StoreBusy if that takes too long."""
    deadline = monotonic() + HELD_SECONDS
    while True:
        try:
            return await commit()
        except BankHeld:
            if monotonic() > deadline:
                raise StoreBusy(f"Another process holds the bank {bank!r}. Nothing was written; try again.") from None
        await asyncio.sleep(HELD_PAUSE)
