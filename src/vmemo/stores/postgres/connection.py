"""Connections to one PostgreSQL database: its URL, transactions, retries, errors and notifications.

All connections live on an event loop in a thread of the pool. PgBouncer may stand in between in transaction mode: then
no state of a session is used. On a direct connection the driver keeps the statements of searches prepared.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from socket import gaierror
from ssl import SSLError
from typing import Any, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit

import asyncpg
from asyncpg import InterfaceError, InternalClientError, PostgresError
from pydantic import JsonValue
from sqlalchemy import Connection, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, DisconnectionError, TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from vmemo.errors import InvalidInput, OutcomeUnknown, StoreBusy, StoreError, VmemoError
from vmemo.stores.sql.bank_rows import WRITES
from vmemo.stores.sql.queue import CHANNEL
from vmemo.stores.sql.reads import Parameters
from vmemo.stores.transactions import LoopThread, Step, TransientError, with_retries
from vmemo.stores.values import storable

R = TypeVar("R")

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
"""Values of `sslmode`, as in libpq."""
URL_PARAMETERS = frozenset(
    (
        "application_name dbname gsslib host krbsrvname passfile password port service ssl_max_protocol_version "
        "ssl_min_protocol_version sslcert sslcrl sslkey sslmode sslnegotiation sslpassword sslrootcert "
        "target_session_attrs user"
    ).split()
)
"""Supported query parameters, with their meaning in libpq; the driver would send others to the server as settings."""
_URL_SHAPE = (
    "Write postgresql://user:password@host:5432/database, with a password's special characters as %40 and the like"
)


@dataclass(frozen=True)
class DatabaseAddress:
    """The address of a database: the driver's URL, and host and port for error messages, which have no password."""

    url: str = field(repr=False)
    where: str

    @property
    def public(self) -> str:
        """The host and the name of the database, without user, password and parameters."""
        return f"{self.where}{urlsplit(self.url).path}"

    @property
    def requires_ssl(self) -> bool:
        """True if connections must be encrypted."""
        return dict(parse_qsl(urlsplit(self.url).query)).get("sslmode") in SSL_MODES[3:]


def parse(url: str) -> DatabaseAddress:
    """Check a URL; raise InvalidInput for one that the driver would misread."""
    try:
        parts = urlsplit(url)
        where, hosts = "its socket", parts.netloc.rpartition("@")[2]
        if parts.hostname:
            where = hosts if "," in hosts else f"{parts.hostname}:{parts.port or 5432}"
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        # The original message could contain a piece of the password.
        raise InvalidInput(f"This PostgreSQL URL can't be read. {_URL_SHAPE}.") from None
    if parts.scheme != "postgresql" or parts.fragment or parts.netloc.count("@") > 1:
        raise InvalidInput(f"This PostgreSQL URL can't be read. {_URL_SHAPE}.")
    if "\0" in url or "%00" in url:
        raise InvalidInput("A PostgreSQL URL can't hold a null character.")
    for name, value in given:
        _demand_parameter(name, value)
    return DatabaseAddress(url, where)


def _demand_parameter(name: str, value: str) -> None:
    if name not in URL_PARAMETERS:
        raise InvalidInput(
            f"A PostgreSQL URL has no parameter {name!r:.40}; there are {', '.join(sorted(URL_PARAMETERS))}."
        )
    if name == "sslmode" and value not in SSL_MODES:
        raise InvalidInput(f"sslmode is {', '.join(SSL_MODES[:-1])} or {SSL_MODES[-1]}, not {value!r:.40}.")
    if name == "port" and not all(part.isdecimal() for part in value.split(",")):
        raise InvalidInput("port is a number, or numbers with commas between them.")


_NOTHING_WRITTEN = "Nothing was written; try again."
_ROLLED_BACK = "The transaction was rolled back."
_TRANSIENT = {
    "40001": "Another transaction changed the same rows",
    "40P01": "Two transactions waited for each other",
    "53300": "The PostgreSQL server has no connection left; raise max_connections, or put PgBouncer before it",
    "57P03": "The PostgreSQL server is starting or stopping",
}
_TIMED_OUT = {
    "55P03": "Another transaction held a row for longer than {seconds:g} seconds",
    "57014": "A statement took longer than {seconds:g} seconds",
}
_UNSTORABLE = {
    "22021": "text can't hold a null character",
    "22P05": "text can't hold a null character",
    "54000": "it is too long for an index",
}
_REFUSED = {
    "28000": "does not let this user in; correct the URL or the server's pg_hba.conf",
    "28P01": "does not accept the user or the password; correct the URL",
    "3D000": "has no such database; create it, or correct the URL",
}
_CONNECTION_ENDED = frozenset({"57P01", "57P02", "25P03"})
"""The server ended the connection: on command, after a crash, or because the transaction was idle."""
_FOREIGN_ERRORS = (DBAPIError, OSError, PoolTimeout, PostgresError, InterfaceError)
_Foreign = DBAPIError | OSError | PoolTimeout | PostgresError | InterfaceError


def named_error(error: _Foreign, step: Step, address: DatabaseAddress, seconds: float) -> VmemoError:
    """Return the error to raise in place of one of PostgreSQL, its driver or SQLAlchemy."""
    where = address.where
    state = str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")
    if state in _TRANSIENT:
        return TransientError(f"{_TRANSIENT[state]}. {_NOTHING_WRITTEN}")
    if state in _TIMED_OUT or isinstance(error, PoolTimeout):
        reason = _TIMED_OUT.get(state, "All connections of this process were in use for {seconds:g} seconds")
        return StoreBusy(f"{reason.format(seconds=seconds)}. {_NOTHING_WRITTEN}")
    if state in _REFUSED:
        return StoreError(f"The PostgreSQL server at {where} {_REFUSED[state]}. Nothing was written.")
    # The driver's message contains the value, which errors must not repeat.
    if state in _UNSTORABLE or "invalid input for query argument" in str(getattr(error, "orig", error)):
        reason = _UNSTORABLE.get(state, "it is no text, or a number too large")
        return InvalidInput(f"PostgreSQL can't hold a value: {reason}. {_ROLLED_BACK}")
    lost = state.startswith("08") or state in _CONNECTION_ENDED or getattr(error, "connection_invalidated", False)
    # An error without a state during a statement does not come from the server.
    if lost or (step != "connect" and isinstance(error, OSError)):
        return _connection_lost(step, where)
    if step == "connect" and not isinstance(error, DBAPIError):
        return _unreachable(error, address, seconds)
    return StoreError(f"PostgreSQL refused: {_server_message(error)}. {_ROLLED_BACK}")


def _connection_lost(step: Step, where: str) -> VmemoError:
    if step == "commit":
        return OutcomeUnknown(
            f"The connection to PostgreSQL at {where} was lost while the transaction was being committed. It was "
            "written whole or not at all, but which of the two is not known; look before you repeat the call."
        )
    return TransientError(f"The connection to PostgreSQL at {where} was lost. {_NOTHING_WRITTEN}")


def _unreachable(error: _Foreign, address: DatabaseAddress, seconds: float) -> VmemoError:
    where = address.where
    if isinstance(error, gaierror):
        return StoreError(f"The PostgreSQL server at {where} can't be found by this name. Correct the URL.")
    # A server that starts or stops rejects connections that need no encryption as well.
    if isinstance(error, SSLError) or (address.requires_ssl and "rejected SSL" in str(error)):
        return StoreError(f"PostgreSQL at {where} can't be reached as its URL says: {error}. Correct the URL.")
    if isinstance(error, TimeoutError):
        return StoreBusy(
            f"The PostgreSQL server at {where} did not answer within {seconds:g} seconds. {_NOTHING_WRITTEN}"
        )
    return TransientError(f"The PostgreSQL server at {where} can't be reached. {_NOTHING_WRITTEN}")


def _server_message(error: _Foreign) -> str:
    """Return the server's message without the statement and its details, which repeat values."""
    orig = getattr(error, "orig", None)
    cause = getattr(orig, "__cause__", None) or orig or error
    return str(cause.args[0] if cause.args else cause).rstrip(".")


class Driver(Protocol):
    """The methods of an asyncpg connection that are used here."""

    async def execute(self, query: str) -> str: ...
    async def fetch(self, query: str, *values: object) -> list[Sequence[Any]]: ...
    async def close(self, *, timeout: float | None = None) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...


async def _connect(url: str, seconds: float, *, prepared: int = 0) -> Driver:
    """Open a connection that keeps as many statements prepared."""
    return await cast("Any", asyncpg).connect(url, timeout=seconds, statement_cache_size=prepared)


async def _has_session(driver: Driver) -> bool:
    """Return False if a pooler stands before the server: it invents the pid that it reports at connect."""
    [(pid,)] = await driver.fetch("SELECT pg_backend_pid()")
    return pid == driver.get_server_pid()


def _driver_of(connection: object) -> Driver:
    return cast("Driver", connection)


@contextmanager
def _lost_connections(driver: Driver) -> Generator[None]:
    """Raise ConnectionResetError for each of the errors by which the driver reports that a connection was lost."""
    try:
        yield
    except InternalClientError as error:
        # A message of a server that ends, which nothing waited for, leaves the driver in an unknown state.
        raise ConnectionResetError("the connection was lost") from error
    except InterfaceError as error:
        if driver.is_closed():
            raise ConnectionResetError("the connection was lost") from error
        raise


def fetch(connection: Connection, statement: str, *values: object) -> list[Sequence[Any]]:
    """Return all rows of a statement in the connection's transaction, which has begun.

    Searches use the driver directly: SQLAlchemy would take longer than the statement. On a direct connection the driver
    prepares each statement once; through a pooler it prepares them without names.
    """
    driver = _driver_of(connection.connection.driver_connection)
    with _lost_connections(driver):
        return await_only(driver.fetch(statement, *values))


def execute(connection: Connection, statement: str) -> None:
    """Run a statement without values in the connection's transaction, which has begun."""
    driver = _driver_of(connection.connection.driver_connection)
    with _lost_connections(driver):
        await_only(driver.execute(statement))


class PostgresParameters(Parameters):
    """Parameters of PostgreSQL, each with its type."""

    def placeholder(self, number: int, type: str) -> str:
        return f"${number}::{type}"

    def among(self, column: str, values: Iterable[str] | Iterable[int], type: str) -> str:
        known = [value for value in values if not isinstance(value, str) or storable(value)]
        return f"{column} = ANY({self.add(known, f'{type}[]')})"

    def has_tag(self, tags: str, tag: str) -> str:
        # Most rows have other tags, and reading their JSON costs more than finding the word in it.
        written = self.add(json.dumps(tag, ensure_ascii=False), "text")
        return f"(strpos({tags}, {written}) > 0 AND {tags}::jsonb ? {self.add(tag, 'text')})"

    def tag_count(self, tags: str) -> str:
        return f"jsonb_array_length({tags}::jsonb)"

    def has_value(self, metadata: str, key: str, value: JsonValue) -> str:
        wanted = json.dumps(value, ensure_ascii=False)
        # A character that PostgreSQL can't keep stands in the text as an escape, which its JSONB does not take either.
        if not (storable(key) and storable(wanted)) or "\\u0000" in wanted:
            return "false"
        readable = rf"replace({metadata}, '\u0000', '\ufffd')::jsonb"
        return f"({readable} -> {self.add(key, 'text')}) = {self.add(wanted, 'text')}::jsonb"


Sql: TypeAlias = Callable[[Parameters], str]
"""A function that returns the text of a statement and adds its values to the parameters."""


def fetch_built(connection: Connection, build: Sql) -> list[Sequence[Any]]:
    """Return all rows of the statement that a function builds."""
    values = PostgresParameters()
    statement = build(values)
    return fetch(connection, statement, *values.values)


LISTENING_FACTOR = 8.0
"""Factor of the poll interval while notifications arrive: jobs that become due or free later are not notified."""
RECONNECT_SECONDS = 1.0
"""Seconds from one attempt to connect a listener to the next."""


class Listener:
    """Counts the notifications of queued jobs, on a connection besides those of the pool.

    After the connection was lost, waits last their full time until there is another. Poolers deliver no notifications.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._count = 0
        self._listening = False
        self._arrived = asyncio.Event()

    async def wait(self, seconds: float, heard: int) -> int:
        """Wait until the count exceeds `heard`, or for some seconds; return the count."""
        if self._count == heard:
            with suppress(TimeoutError):
                limit = seconds * LISTENING_FACTOR if self._listening else seconds
                await asyncio.wait_for(self._arrived.wait(), limit)
        return self._count

    async def listen(self) -> None:
        """Listen on one connection after another, until one delivers no notifications."""
        while True:
            with suppress(OSError, PostgresError, InterfaceError):
                if not await self._listen_once():
                    return
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen_once(self) -> bool:
        """Listen until the connection is lost; return False if it belongs to a pooler."""
        connection = await _connect(self._url, self._timeout)
        try:
            if not await _has_session(connection):
                return False
            lost = asyncio.Event()
            connection.add_termination_listener(lambda *_: lost.set())
            await connection.add_listener(CHANNEL, lambda *_: self._notify())
            self._listening = True
            # Jobs may have been queued before the connection was made.
            self._notify()
            await lost.wait()
            return True
        finally:
            self._listening = False
            with suppress(OSError, PostgresError, InterfaceError):
                await connection.close(timeout=RECONNECT_SECONDS)

    def _notify(self) -> None:
        self._count += 1
        self._arrived.set()
        self._arrived = asyncio.Event()


IDLE_LIMIT = "120s"
"""Idle time in a transaction after which the server ends it and releases its locks."""
ROLLBACK_SECONDS = 5.0
"""Seconds that the end of a read transaction may take."""
PREPARED = 200
"""Statements that stay prepared on a direct connection."""
_WRITE_LIMITS = (
    # Compiling a statement takes longer than to run it: many rows are expected, few are read.
    "SELECT set_config('jit', 'off', true), "
    "set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true), "
    f"set_config('idle_in_transaction_session_timeout', '{IDLE_LIMIT}', true)"
)
_BEGIN_READ = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; SET LOCAL lock_timeout = {busy}; "
    f"SET LOCAL statement_timeout = {{busy}}; SET LOCAL idle_in_transaction_session_timeout = '{IDLE_LIMIT}'"
)
"""A read transaction with its limits, in one round trip."""
# The pool begins and ends read transactions itself.
_READ_OPTIONS = {"isolation_level": "AUTOCOMMIT"}
_WRITE_OPTIONS = {"isolation_level": "READ COMMITTED", WRITES: True}
_UNNAMED_STATEMENTS = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}


@dataclass
class _Attempt:
    """One attempt of a transaction: its connection and its progress."""

    connection: AsyncConnection
    driver: Driver
    step: Step


class PostgresPool:
    """At most `size` connections, opened when they are needed."""

    def __init__(self, url: str, *, size: int = 10, busy_seconds: float = 60.0) -> None:
        self.address = parse(url)
        self.size = size
        self.busy_seconds = busy_seconds
        self._thread = LoopThread("vmemo-postgres")
        self._engines: tuple[AsyncEngine, AsyncEngine] | None = None
        self._listener: Listener | None = None
        self._direct: bool | None = None
        """True if no pooler stands before the server; None before the first connection."""

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run in one read transaction, which sees one state of the database."""
        return await self._run(partial(self._read_once, run))

    async def write(self, run: Callable[[Connection], R], *, patient: bool = False, repeatable: bool = False) -> R:
        """Run in one transaction and commit it; `patient` lets a statement take as long as it needs.

        `run` may be run several times, each time after the one before was rolled back. A repeatable one is also
        run again, for as long as a call may wait, if the outcome of its commit is not known; otherwise that is raised.
        """
        return await self._run(partial(self._write_once, run, patient), repeatable=repeatable)

    async def _run(self, once: Callable[[], Awaitable[R]], *, repeatable: bool = False) -> R:
        return await self._thread.run(lambda: with_retries(once, repeatable=repeatable, seconds=self.busy_seconds))

    async def run_outside_transactions(self, statement: str) -> None:
        """Run a statement that PostgreSQL takes outside transactions only, for as long as it needs."""
        await self._thread.run(lambda: self._run_alone(statement))

    async def notified(self, seconds: float, heard: int) -> int:
        """Wait as `Listener.wait` does."""
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
            self._listener = Listener(self.address.url, self.busy_seconds)
            self._thread.begin(self._listener.listen())
        return await self._listener.wait(seconds, heard)

    async def _read_once(self, run: Callable[[Connection], R]) -> R:
        async with self._attempt(writes=False) as attempt:
            try:
                with _lost_connections(attempt.driver):
                    async with asyncio.timeout(self.busy_seconds):
                        await attempt.driver.execute(_BEGIN_READ.format(busy=int(self.busy_seconds * 1000)))
                attempt.step = "run"
                return await attempt.connection.run_sync(run)
            finally:
                await _roll_back(attempt)

    async def _write_once(self, run: Callable[[Connection], R], patient: bool) -> R:
        async with self._attempt(writes=True) as attempt:
            # Nothing else ends the wait if PgBouncer waits for a server, or a host vanished.
            async with asyncio.timeout(self.busy_seconds):
                busy = str(int(self.busy_seconds * 1000))
                limits = (busy, "0" if patient else busy)
                await attempt.connection.run_sync(lambda c: c.exec_driver_sql(_WRITE_LIMITS, limits))
            attempt.step = "run"
            result = await attempt.connection.run_sync(run)
            attempt.step = "commit"
            await attempt.connection.commit()
            return result

    async def _run_alone(self, statement: str) -> None:
        async with self._attempt(writes=True) as attempt:
            # A statement that is not prepared passes PgBouncer whole, and needs no transaction.
            attempt.step = "run"
            await attempt.driver.execute(statement)

    @asynccontextmanager
    async def _attempt(self, *, writes: bool) -> AsyncGenerator[_Attempt]:
        """Take a connection of the pool, and raise our errors in place of foreign ones."""
        attempt: _Attempt | None = None
        try:
            async with self._engine(writes=writes).connect() as connection:
                raw = await connection.get_raw_connection()
                attempt = _Attempt(connection, _driver_of(raw.driver_connection), "connect")
                yield attempt
        except VmemoError:
            raise
        except _FOREIGN_ERRORS as error:
            step = "connect" if attempt is None else attempt.step
            raise named_error(error, step, self.address, self.busy_seconds) from error

    def _engine(self, *, writes: bool) -> AsyncEngine:
        if self._engines is None:
            engine = self._create()
            # Both take their connections from one pool.
            self._engines = engine.execution_options(**_READ_OPTIONS), engine.execution_options(**_WRITE_OPTIONS)
        return self._engines[writes]

    async def _open(self) -> Driver:
        """Open a connection. The first one finds out if it reaches the server itself."""
        if self._direct is None:
            driver = await _connect(self.address.url, self.busy_seconds)
            try:
                self._direct = await _has_session(driver)
            except BaseException:
                driver.terminate()
                raise
            if not self._direct:
                return driver
            await driver.close()
        return await _connect(self.address.url, self.busy_seconds, prepared=PREPARED if self._direct else 0)

    def _create(self) -> AsyncEngine:
        engine = create_async_engine(
            "postgresql+asyncpg://",
            connect_args={"async_creator_fn": self._open, **_UNNAMED_STATEMENTS},
            pool_size=self.size,
            max_overflow=0,
            pool_timeout=self.busy_seconds,
            # The connection used last is used next, so that the fewest are in use.
            pool_use_lifo=True,
            # Errors must not contain the text of users.
            hide_parameters=True,
        )
        event.listen(engine.sync_engine, "checkout", _demand_open)
        return engine


def _demand_open(connection: DBAPIConnection, *_: object) -> None:
    """Let the pool open another connection in place of one that the server closed."""
    if _driver_of(connection.driver_connection).is_closed():
        raise DisconnectionError


async def _roll_back(attempt: _Attempt) -> None:
    """End a read transaction; a connection on which that fails is not used again."""
    if attempt.connection.invalidated:
        return
    try:
        # A pooler that waits for its server would answer minutes later.
        async with asyncio.timeout(ROLLBACK_SECONDS):
            await attempt.driver.execute("ROLLBACK")
    except (OSError, PostgresError, InterfaceError, InternalClientError):
        await attempt.connection.invalidate()
    except BaseException:
        attempt.driver.terminate()
        raise
