"""Retries of transactions that fail with a transient error: a deadlock, a lost or a refused connection."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

from vmemo.errors import OutcomeUnknown, StoreBusy, StoreError

R = TypeVar("R")
Step = Literal["connect", "run", "commit"]
"""The progress of a transaction."""
TRIES = 4
"""Attempts of a transaction that fails with a transient error."""
FIRST_PAUSE = 0.05
"""Seconds before the second try, more or less; each further pause is twice as long."""
LONGEST_PAUSE = 1.0
"""The most seconds between two tries, more or less."""


class Passing(StoreBusy):
    """A reason that passes by itself, soon enough to try again at once."""


async def persistent(once: Callable[[], Awaitable[R]], *, repeatable: bool, seconds: float) -> R:
    """Run a transaction, again if it was rolled back by a transient error.

    A repeatable one is also run again, for at most `seconds`, if the outcome of its commit is not known; otherwise that
    is raised.
    """
    unsure, until, turn = None, 0.0, 0
    while True:
        try:
            return await once()
        except OutcomeUnknown as error:
            if not repeatable or (unsure is not None and time.monotonic() > until):
                raise
            if unsure is None:
                unsure, until = error, time.monotonic() + seconds
        except StoreError as error:
            if unsure is not None and (not isinstance(error, Passing) or time.monotonic() > until):
                raise unsure from error
            if unsure is None and (not isinstance(error, Passing) or turn == TRIES - 1):
                raise
        await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(turn, 10)) * random.uniform(0.5, 1.5))
        turn += 1
