"""Connections to one PostgreSQL database: transactions, errors, and retries.

All connections live on a loop of the pool's own, in a thread of its own. PgBouncer may stand in between in transaction
mode: then no state of a session is used. On a direct connection the driver keeps the statements of searches prepared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from asyncpg import InterfaceError, InternalClientError, PostgresError
from sqlalchemy import Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, DisconnectionError, TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from vmemo.errors import VmemoError
from vmemo.stores.postgres.dialect import DRIVER
from vmemo.stores.postgres.driver import Driver, connect, driver_of, losses
from vmemo.stores.postgres.errors import named_error
from vmemo.stores.postgres.listen import Listener
from vmemo.stores.postgres.url import parse
from vmemo.stores.sql.bank_rows import WRITES
from vmemo.stores.sql.statements import STATEMENTS
from vmemo.stores.transactions import LoopThread, Step, persistent

R = TypeVar("R")
STALLED = "120s"
"""Idle time in a transaction after which the server ends it and releases its locks."""
ENDING_SECONDS = 5.0
"""Seconds that the end of a transaction of reads may take, which changes nothing."""
_LIMITS = (
    # Compiling a statement takes longer than to run it: many rows are expected, few are read.
    "SELECT set_config('jit', 'off', true), "
    "set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true), "
    f"set_config('idle_in_transaction_session_timeout', '{STALLED}', true)"
)
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; SET LOCAL lock_timeout = {busy}; "
    f"SET LOCAL statement_timeout = {{busy}}; SET LOCAL idle_in_transaction_session_timeout = '{STALLED}'"
)
"""A transaction of reads with its limits, in one round trip."""
# The pool begins and ends transactions of reads itself.
_READING = {"isolation_level": "AUTOCOMMIT"}
_WRITING = {"isolation_level": "READ COMMITTED", WRITES: True}
_UNNAMED = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
PREPARED = 200
"""Statements that stay prepared on a direct connection."""


class PostgresPool:
    """At most `size` connections, opened when they are needed."""

    def __init__(self, url: str, *, size: int = 10, busy_seconds: float = 60.0) -> None:
        self.address = parse(url)
        self._size = size
        self._busy_seconds = busy_seconds
        self._thread = LoopThread("vmemo-postgres")
        self._engines: tuple[AsyncEngine, AsyncEngine] | None = None
        self._listener: Listener | None = None
        self._direct: bool | None = None
        """True if no pooler stands before the server; None before the first connection."""

    @property
    def size(self) -> int:
        """The most connections."""
        return self._size

    @property
    def busy_seconds(self) -> float:
        """The seconds that a call may wait."""
        return self._busy_seconds

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
        return await self._thread.run(lambda: self._persistent(run, writes=False))

    async def write(self, run: Callable[[Connection], R], *, patient: bool = False, repeatable: bool = False) -> R:
        """Run in one transaction and commit it; `patient` lets a statement take as long as it needs.

        `run` may be run several times, each time after the one before was rolled back. A repeatable one is also
        run again, for as long as a call may wait, if the outcome of its commit is not known; otherwise that is raised.
        """
        return await self._thread.run(
            lambda: self._persistent(run, writes=True, patient=patient, repeatable=repeatable)
        )

    async def alone(self, statement: str) -> None:
        """Run a statement that PostgreSQL takes outside transactions only, for as long as it needs."""
        await self._thread.run(lambda: self._alone(statement))

    async def notified(self, seconds: float, heard: int) -> int:
        """Wait as `Listener.wait` does, on a connection besides those of the pool."""
        return await self._thread.run(lambda: self._notified(seconds, heard))

    async def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        if not await self._thread.close(self._dispose):
            # The connections are those of the parent process.
            self._engines, self._listener = None, None

    async def _dispose(self) -> None:
        engines, self._engines, self._listener = self._engines, None, None
        if engines is not None:
            await engines[0].dispose()

    async def _notified(self, seconds: float, heard: int) -> int:
        if self._listener is None:
            self._listener = Listener(self.address.url, self._busy_seconds)
            self._thread.begin(self._listener.listen())
        return await self._listener.wait(seconds, heard)

    async def _persistent(
        self, run: Callable[[Connection], R], *, writes: bool, patient: bool = False, repeatable: bool = False
    ) -> R:
        once = partial(self._write_once, run, patient) if writes else partial(self._read_once, run)
        return await persistent(once, repeatable=repeatable, seconds=self._busy_seconds)

    async def _read_once(self, run: Callable[[Connection], R]) -> R:
        step: Step = "connect"
        try:
            async with self._connect(writes=False) as connection:
                driver = driver_of((await connection.get_raw_connection()).driver_connection)
                try:
                    with losses(driver):
                        async with asyncio.timeout(self._busy_seconds):
                            await driver.execute(_BEGIN.format(busy=int(self._busy_seconds * 1000)))
                    step = "run"
                    return await connection.run_sync(run)
                finally:
                    await _end(connection, driver)
        except VmemoError:
            raise
        except (DBAPIError, OSError, NoneFree, PostgresError, InterfaceError) as error:
            raise named_error(error, step, self.address, self._busy_seconds) from error

    async def _write_once(self, run: Callable[[Connection], R], patient: bool) -> R:
        step: Step = "connect"
        try:
            async with self._connect(writes=True) as connection:
                # Nothing else ends the wait if PgBouncer waits for a server, or a host vanished.
                async with asyncio.timeout(self._busy_seconds):
                    await connection.run_sync(self._limit, patient)
                step = "run"
                result = await connection.run_sync(run)
                step = "commit"
                await connection.commit()
                return result
        except VmemoError:
            raise
        except (DBAPIError, OSError, NoneFree, PostgresError, InterfaceError) as error:
            raise named_error(error, step, self.address, self._busy_seconds) from error

    async def _alone(self, statement: str) -> None:
        step: Step = "connect"
        try:
            async with self._connect(writes=True) as connection:
                driver = driver_of((await connection.get_raw_connection()).driver_connection)
                # A statement that is not prepared passes PgBouncer whole, and needs no transaction.
                step = "run"
                await driver.execute(statement)
        except (DBAPIError, OSError, NoneFree, PostgresError, InterfaceError) as error:
            raise named_error(error, step, self.address, self._busy_seconds) from error

    def _connect(self, *, writes: bool) -> AsyncConnection:
        if self._engines is None:
            engine = self._create()
            # Both take their connections from one pool.
            self._engines = engine.execution_options(**_READING), engine.execution_options(**_WRITING)
        return self._engines[writes].connect()

    def _limit(self, connection: Connection, patient: bool) -> None:
        busy = str(int(self._busy_seconds * 1000))
        connection.exec_driver_sql(_LIMITS, (busy, "0" if patient else busy))

    async def _open(self) -> Driver:
        """Open a connection. The first one finds out if it reaches the server itself."""
        if self._direct is None:
            driver = await connect(self.address.url, self._busy_seconds, prepared=0)
            try:
                [(number,)] = await driver.fetch("SELECT pg_backend_pid()")
            except BaseException:
                driver.terminate()
                raise
            # A pooler invents the number that it gives a client to cancel statements with.
            self._direct = number == driver.get_server_pid()
            if not self._direct:
                return driver
            await driver.close()
        return await connect(self.address.url, self._busy_seconds, prepared=PREPARED if self._direct else 0)

    def _create(self) -> AsyncEngine:
        engine = create_async_engine(
            f"{DRIVER}://",
            connect_args={"async_creator_fn": self._open, **_UNNAMED},
            pool_size=self._size,
            max_overflow=0,
            pool_timeout=self._busy_seconds,
            # The connection used last is used next, so that the fewest are in use.
            pool_use_lifo=True,
            # Errors must not contain the text of users.
            hide_parameters=True,
            execution_options={"compiled_cache": STATEMENTS},
        )
        event.listen(engine.sync_engine, "checkout", _demand_open)
        return engine


def _demand_open(connection: DBAPIConnection, *_: object) -> None:
    """Let the pool open another connection in place of one that the server closed."""
    if driver_of(connection.driver_connection).is_closed():
        raise DisconnectionError


async def _end(connection: AsyncConnection, driver: Driver) -> None:
    """End a transaction of reads; a connection on which that fails is not used again."""
    if connection.invalidated:
        return
    try:
        # A pooler that waits for its server would answer minutes later.
        async with asyncio.timeout(ENDING_SECONDS):
            await driver.execute("ROLLBACK")
    except (OSError, PostgresError, InterfaceError, InternalClientError):
        await connection.invalidate()
    except BaseException:
        driver.terminate()
        raise
