"""Reads from a streaming replica, and from the primary while the replica lags or is unavailable."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from sqlalchemy import Connection

from vmemo.errors import NotFound, StoreError
from vmemo.stores.postgres.pool import PostgresPool

R = TypeVar("R")
CHECK_SECONDS = 1.0
"""Seconds between two comparisons of the replica with the primary, while there are reads."""
RETRY_SECONDS = 5.0
"""Seconds until a replica that did not answer is tried again."""
MAX_POSITIONS = 1000
"""Noted positions of the primary, at most; the oldest ones are dropped."""
UNUSED = "it has not been used yet"
_WRITTEN = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"
_REPLAYED = "SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn"
_log = logging.getLogger(__name__)


class ReplicaPool(PostgresPool):
    """A pool of connections to a replica, in front of the primary's pool.

    The age of the replica's data is found without its clock: the primary's position in the write-ahead log is noted
    with the time, and the replica is as old as the latest noted position that it has replayed.
    """

    def __init__(self, url: str, primary: PostgresPool, *, size: int, busy_seconds: float, max_lag: float) -> None:
        super().__init__(url, size=size, busy_seconds=min(busy_seconds, RETRY_SECONDS))
        self._primary = primary
        self._max_lag = max_lag
        self._positions: deque[tuple[float, int]] = deque(maxlen=MAX_POSITIONS)
        self._check_at = float("-inf")
        self._checking = False
        self.caught_up_at = float("-inf")
        """The time of the latest state of the primary that the replica is known to have."""
        self.problem: str | None = UNUSED
        """The reason why reads go to the primary; None while they go to the replica."""

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction of the replica, or of the primary."""
        await self.check()
        if self.problem is not None:
            return await self._primary.read(run)
        try:
            return await super().read(run)
        except NotFound:
            # A bank that was just created may not have arrived.
            return await self._primary.read(run)
        except StoreError as error:
            self._use_primary(f"it failed: {error}", RETRY_SECONDS)
            return await self._primary.read(run)

    async def write(self, run: Callable[[Connection], R], *, patient: bool = False, repeatable: bool = False) -> R:
        """Run in one transaction of the primary."""
        return await self._primary.write(run, patient=patient, repeatable=repeatable)

    async def check(self) -> None:
        """Compare the replica with the primary, if the last comparison was a while ago."""
        if self._checking or time.monotonic() < self._check_at:
            return
        self._checking = True
        try:
            await self._compare()
        finally:
            self._checking = False

    async def _compare(self) -> None:
        now = time.monotonic()
        self._check_at = now + CHECK_SECONDS
        # Without the primary, the replica has the latest state that can be read.
        with suppress(StoreError):
            self._positions.append((now, await self._primary.read(lambda c: _position(c, _WRITTEN) or 0)))
        try:
            replayed = await super().read(lambda c: _position(c, _REPLAYED))
        except StoreError as error:
            self._use_primary(f"it does not answer: {error}", RETRY_SECONDS)
            return
        while replayed is not None and self._positions and self._positions[0][1] <= replayed:
            self.caught_up_at, _ = self._positions.popleft()
        if replayed is None:
            self._use_primary("it is no replica", RETRY_SECONDS)
        elif self._positions and now - self.caught_up_at > self._max_lag:
            self._use_primary(f"it lags by more than {self._max_lag:g} seconds", CHECK_SECONDS)
        else:
            self._use_replica()

    def _use_primary(self, reason: str, pause: float) -> None:
        self._check_at = time.monotonic() + pause
        if self.problem in (None, UNUSED):
            _log.warning("Reads go to the primary instead of the replica at %s: %s.", self.address.where, reason)
        self.problem = reason

    def _use_replica(self) -> None:
        if self.problem not in (None, UNUSED):
            _log.warning("Reads go to the replica at %s again.", self.address.where)
        self.problem = None


def _position(connection: Connection, statement: str) -> int | None:
    value = connection.exec_driver_sql(statement).scalar_one()
    return None if value is None else int(value)
