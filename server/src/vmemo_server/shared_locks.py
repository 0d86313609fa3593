"""Locks of banks that forked processes share."""

from __future__ import annotations

import asyncio
import fcntl
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from time import monotonic

FIRST_PAUSE, MAX_PAUSE = 0.005, 0.04
"""Seconds between two attempts to take a lock; doubled with each, up to the longer time."""
MAX_SECONDS = 10.0
"""Seconds that a process waits for another one. Then it goes on, and what the first of them commits is kept."""


class SharedBankLocks:
    """Implements `BankLocks` for a process and its forked children."""

    def __init__(self) -> None:
        # An empty file, because the system releases the locks of a process that is killed.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the locks

    def close(self) -> None:
        """Close the locks in this process."""
        self._file.close()

    @asynccontextmanager
    async def held(self, bank: str) -> AsyncGenerator[None]:
        """Wait until no other process holds the lock of a bank, and hold it within the context."""
        place = int.from_bytes(sha256(bank.encode()).digest()[:7], "little")
        until, pause = monotonic() + MAX_SECONDS, FIRST_PAUSE
        while not (taken := self._take(place)) and monotonic() < until:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)
        try:
            yield
        finally:
            if taken:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _take(self, place: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            return False
        return True
