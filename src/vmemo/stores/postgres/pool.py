"""Connections to one PostgreSQL database: transactions, errors, and retries.

A connection works only on the event loop where it began, so all of them live on a loop of the pool's own, in a thread
of its own: callers come from any number of loops, and nothing that runs on a connection holds up theirs. Nothing is
kept in a session between two transactions, and statements are prepared without names, so that PgBouncer may stand in
between in transaction mode.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from threading import Lock, Thread
from typing import Protocol, TypeVar, cast

from asyncpg import InterfaceError, PostgresError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from vmemo.errors import OutcomeUnknown, StoreError, VmemoError
from vmemo.fork import ProcessGuard
from vmemo.stores.postgres.dialect import DRIVER
from vmemo.stores.postgres.errors import Passing, Step, named_error
from vmemo.stores.postgres.listen import Listener
from vmemo.stores.postgres.url import parse
from vmemo.stores.sql.compiled import STATEMENTS
from vmemo.stores.sql.message_rows import WRITES

R = TypeVar("R")
TRIES = 4
"""Attempts of a transaction that fails with a transient error."""
FIRST_PAUSE = 0.05
"""Seconds before the second try, more or less; each further pause is twice as long."""
LONGEST_PAUSE = 1.0
"""The most seconds between two tries, more or less."""
STALLED = "120s"
"""Idle time in a transaction after which the server ends it and releases its locks."""
_LIMITS = (
    # Compiling a statement takes longer than to run it: many rows are expected, few are read.
    "SELECT set_config('jit', 'off', true), "
    "set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true), "
    f"set_config('idle_in_transaction_session_timeout', '{STALLED}', true)"
)
_READING = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
_WRITING = {"isolation_level": "READ COMMITTED", WRITES: True}
_UNNAMED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}


class _Driver(Protocol):
    async def execute(self, query: str) -> str: ...


class PostgresPool:
    """At most `size` connections, opened when they are needed."""

    def __init__(self, url: str, *, size: int = 10, busy_seconds: float = 60.0) -> None:
        self.address = parse(url)
        self._size = size
        self._busy_seconds = busy_seconds
        self._starting = Lock()
        self._guard = ProcessGuard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._engines: tuple[AsyncEngine, AsyncEngine] | None = None
        self._listener: Listener | None = None

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
        return await self._here(lambda: self._persistent(run, writes=False))

    async def write(self, run: Callable[[Connection], R], *, patient: bool = False, repeatable: bool = False) -> R:
        """Run in one transaction and commit it; `patient` lets a statement take as long as it needs.

        `run` may be run several times, each time after the one before was rolled back. A repeatable one is also
        run again, for as long as a call may wait, if the outcome of its commit is not known; otherwise that is raised.
        """
        return await self._here(lambda: self._persistent(run, writes=True, patient=patient, repeatable=repeatable))

    async def alone(self, statement: str) -> None:
        """Run a statement that PostgreSQL takes outside transactions only, for as long as it needs."""
        await self._here(lambda: self._alone(statement))

    async def notified(self, seconds: float, heard: int) -> int:
        """Wait as `Listener.wait` does, on a connection besides those of the pool."""
        return await self._here(lambda: self._notified(seconds, heard))

    async def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        if self._guard.forked:
            # The loop, its thread and the connections are those of the parent process.
            self._starting, self._loop, self._thread, self._engines, self._listener = Lock(), None, None, None, None
        self._guard.reset()
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._dispose(), loop))
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        loop.close()

    async def _here(self, work: Callable[[], Coroutine[object, object, R]]) -> R:
        """Run a coroutine on the pool's loop."""
        self._guard.enter()
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="vmemo-postgres", daemon=True)
                self._thread.start()
            done = asyncio.run_coroutine_threadsafe(work(), self._loop)
        return await asyncio.wrap_future(done)

    async def _dispose(self) -> None:
        engines, self._engines, self._listener = self._engines, None, None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if engines is not None:
            await engines[0].dispose()

    async def _notified(self, seconds: float, heard: int) -> int:
        if self._listener is None:
            self._listener = Listener(self.address.url, self._busy_seconds)
        return await self._listener.wait(seconds, heard)

    async def _persistent(
        self, run: Callable[[Connection], R], *, writes: bool, patient: bool = False, repeatable: bool = False
    ) -> R:
        """Retry a transaction that was rolled back by a transient error: a deadlock, a lost or a refused connection."""
        unsure, until, turn = None, 0.0, 0
        while True:
            try:
                return await self._once(run, writes=writes, patient=patient)
            except OutcomeUnknown as error:
                if not repeatable:
                    raise
                if unsure is None:
                    unsure, until = error, time.monotonic() + self._busy_seconds
            except StoreError as error:
                if unsure is not None and (not isinstance(error, Passing) or time.monotonic() > until):
                    raise unsure from error
                if unsure is None and (not isinstance(error, Passing) or turn == TRIES - 1):
                    raise
            await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(turn, 10)) * random.uniform(0.5, 1.5))
            turn += 1

    async def _once(self, run: Callable[[Connection], R], *, writes: bool, patient: bool) -> R:
        step: Step = "connect"
        try:
            async with self._connect(writes=writes) as connection:
                # Nothing else ends the wait if PgBouncer waits for a server, or a host vanished.
                async with asyncio.timeout(self._busy_seconds):
                    await connection.run_sync(self._limit, patient)
                step = "run"
                result = await connection.run_sync(run)
                if writes:
                    step = "commit"
                    await connection.commit()
                return result
        except VmemoError:
            raise
        except (DBAPIError, OSError, NoneFree, PostgresError, InterfaceError) as error:
            raise named_error(error, step, self.address.where, self._busy_seconds) from error

    async def _alone(self, statement: str) -> None:
        step: Step = "connect"
        try:
            async with self._connect(writes=True) as connection:
                driver = cast("_Driver", (await connection.get_raw_connection()).driver_connection)
                # A statement that is not prepared passes PgBouncer whole, and needs no transaction.
                step = "run"
                await driver.execute(statement)
        except (DBAPIError, OSError, NoneFree, PostgresError, InterfaceError) as error:
            raise named_error(error, step, self.address.where, self._busy_seconds) from error

    def _connect(self, *, writes: bool) -> AsyncConnection:
        if self._engines is None:
            engine = self._create()
            # Both take their connections from one pool.
            self._engines = engine.execution_options(**_READING), engine.execution_options(**_WRITING)
        return self._engines[writes].connect()

    def _limit(self, connection: Connection, patient: bool) -> None:
        busy = str(int(self._busy_seconds * 1000))
        connection.exec_driver_sql(_LIMITS, (busy, "0" if patient else busy))

    def _create(self) -> AsyncEngine:
        return create_async_engine(
            f"{DRIVER}://",
            connect_args={"dsn": self.address.url, "timeout": self._busy_seconds, **_UNNAMED},
            pool_size=self._size,
            max_overflow=0,
            pool_timeout=self._busy_seconds,
            # The connection used last is used next, so that the fewest are in use.
            pool_use_lifo=True,
            # Errors must not contain the text of users.
            hide_parameters=True,
            execution_options={"compiled_cache": STATEMENTS},
        )
