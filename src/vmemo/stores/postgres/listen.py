"""Notifications of queued jobs from PostgreSQL, on a dedicated connection.

A listener belongs to one event loop. It connects when it begins to listen, and again after the connection was lost;
until then a wait lasts its full time. Poolers such as PgBouncer deliver no notifications, because each transaction may
run in another session: they are recognised by a backend pid that differs from the one reported at connect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol, cast

import asyncpg

from vmemo.stores.sql.queue import CHANNEL

HEARING = 8.0
"""Factor of the poll interval while notifications arrive: jobs that become due or free later are not notified."""
PAUSE = 1.0
"""Seconds from one try to connect to the next."""


class _Session(Protocol):
    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    async def fetchval(self, query: str) -> object: ...
    def get_server_pid(self) -> int: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...
    async def close(self, *, timeout: float) -> None: ...


class Listener:
    """Counts the notifications of queued jobs."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._heard = 0
        self._hearing = False
        self._news = asyncio.Event()

    async def wait(self, seconds: float, heard: int) -> int:
        """Wait until the count exceeds `heard`, or for some seconds; return the count."""
        if self._heard == heard:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds * HEARING if self._hearing else seconds)
        return self._heard

    async def listen(self) -> None:
        """Listen on one connection after another, until one delivers no notifications."""
        while True:
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                if not await self._listen_once():
                    return
            await asyncio.sleep(PAUSE)

    async def _listen_once(self) -> bool:
        """Listen until the connection is lost; return False if it has no session of its own."""
        connect = cast("Callable[..., Awaitable[_Session]]", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
        connection = await connect(self._url, timeout=self._timeout, statement_cache_size=0)
        try:
            async with connection.transaction():
                session = await connection.fetchval("SELECT pg_backend_pid()")
            if session != connection.get_server_pid():
                return False
            lost = asyncio.Event()
            connection.add_termination_listener(_ignoring(lost.set))
            await connection.add_listener(CHANNEL, _ignoring(self._notified))
            self._hearing = True
            # Jobs may have been queued before the connection was made.
            self._notified()
            await lost.wait()
            return True
        finally:
            self._hearing = False
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=PAUSE)

    def _notified(self) -> None:
        self._heard += 1
        self._news.set()
        self._news = asyncio.Event()


def _ignoring(call: Callable[[], None]) -> Callable[..., None]:
    """Return a callback that ignores its arguments."""
    return lambda *_: call()
