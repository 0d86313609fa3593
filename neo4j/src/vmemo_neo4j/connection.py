"""Transactions on one Neo4j database: its URL, connections, errors and retries.

The driver lives on an event loop in a thread of its own. In a cluster, a transaction sees what earlier ones of the
same process have written, on whichever server it runs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final, LiteralString, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from neo4j import (
    READ_ACCESS,
    WRITE_ACCESS,
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncResult,
    AsyncSession,
    AsyncTransaction,
    NotificationMinimumSeverity,
)
from neo4j.exceptions import (
    ConfigurationError,
    ConnectionAcquisitionTimeoutError,
    DriverError,
    IncompleteCommit,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
)

from vmemo.errors import InvalidInput, OutcomeUnknown, StoreBusy, StoreError, VmemoError
from vmemo.models import new_id, utc_now
from vmemo.stores.transactions import LoopThread, Step, TransientError, with_retries

R = TypeVar("R")
SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""`neo4j` finds the servers of a cluster, `bolt` uses one; `+s` encrypts, `+ssc` accepts self-signed certificates."""
_SHAPE = "Write neo4j://user:password@host:7687/database, with a password's special characters as %40 and the like"


@dataclass(frozen=True, kw_only=True)
class GraphAddress:
    """The address of a graph: server, credentials, database, and the namespace of a memory in it.

    Errors never contain the password.
    """

    url: str
    """The URL of the server for the driver, without credentials."""
    where: str
    user: str | None = None
    password: str = field(default="", repr=False)
    database: str | None = None
    """None is the server's default."""
    namespace: str = ""
    """Keeps several memories in one database apart."""

    @property
    def public(self) -> str:
        """The host and the name of the database, without user and password."""
        namespace = f"?namespace={self.namespace}" if self.namespace else ""
        return f"{self.where}/{self.database or ''}{namespace}"

    @property
    def routed(self) -> bool:
        """True if the driver asks the server for the members of its cluster."""
        return self.url.startswith("neo4j")


def parse(url: str) -> GraphAddress:
    """Return the address in a URL; raise InvalidInput if it has another form."""
    try:
        parts = urlsplit(url)
        port = parts.port or 7687
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True)) if parts.query else {}
    except ValueError:
        # The text of the error could contain a part of the password.
        raise InvalidInput(f"This Neo4j URL can't be read. {_SHAPE}.") from None
    nested = parts.path.count("/") > 1 or parts.netloc.count("@") > 1
    if parts.scheme not in SCHEMES or not parts.hostname or parts.fragment or nested:
        raise InvalidInput(f"This Neo4j URL can't be read. {_SHAPE}.")
    if "\0" in url or "%00" in url:
        raise InvalidInput("A Neo4j URL can't hold a null character.")
    for name in given.keys() - {"namespace"}:
        raise InvalidInput(f"A Neo4j URL has no parameter {name!r:.40}; there is namespace.")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return GraphAddress(
        url=f"{parts.scheme}://{host}:{port}",
        where=f"{host}:{port}",
        user=None if parts.username is None else unquote(parts.username),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.removeprefix("/")) or None,
        namespace=given.get("namespace", ""),
    )


_NOTHING = "Nothing was written; try again."
_UNDONE = "The transaction was rolled back."
_REFUSED = {
    "Neo.ClientError.Security.AuthenticationRateLimit": "refuses this user for a while after wrong passwords",
    "Neo.ClientError.Security.CredentialsExpired": "wants a new password for this user",
    "Neo.ClientError.Security.Forbidden": "does not permit this to the user; grant it",
    "Neo.ClientError.Security.Unauthorized": "does not accept the user or the password; correct the URL",
    "Neo.ClientError.Database.DatabaseNotFound": "has no such database; create it, or correct the URL",
}
_LATE = (
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.ClientError.Transaction.LockAcquisitionTimeout",
    "Neo.TransientError.Transaction.LockAcquisitionTimeout",
)
_OVERTAKEN = (
    "Neo.ClientError.Schema.ConstraintAlreadyExists",
    "Neo.ClientError.Schema.ConstraintValidationFailed",
    "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
    "Neo.ClientError.Schema.IndexAlreadyExists",
    "Neo.ClientError.Statement.EntityNotFound",
)
"""Another transaction created or deleted a node or an index meanwhile: run again, a transaction sees that."""
_ENDED = ("Neo.ClientError.Transaction.LockClientStopped", "Neo.ClientError.Transaction.Terminated")
"""The server, which may be shutting down, or an administrator ended the transaction; the driver does not retry it."""
_REFUSED_COMMIT = ("Neo.ClientError.Schema.", "Neo.TransientError.Transaction.DeadlockDetected")
"""Errors of a commit that was surely not accepted.

Others may follow a commit that was: a server that shuts down commits first, then looks for the database to make a
bookmark, and reports it as unavailable.
"""
Foreign = Neo4jError | DriverError | OSError


def named_error(error: Foreign, step: Step, where: str, seconds: float) -> VmemoError:
    """Return the error to raise in place of a foreign one; `where` is the server's name, without user and password."""
    if isinstance(error, Neo4jError):
        return _of_server(error, step, where, seconds)
    if isinstance(error, ConnectionAcquisitionTimeoutError):
        return StoreBusy(f"All connections of this process were in use for {seconds:g} seconds. {_NOTHING}")
    if isinstance(error, ConfigurationError):
        return StoreError(f"Neo4j at {where} can't be reached as its URL says: {error}. Correct the URL.")
    if isinstance(error, ServiceUnavailable | SessionExpired | OSError):
        return _cut_off(error, step, where)
    return StoreError(f"The Neo4j driver failed: {type(error).__name__}. {_UNDONE}")


def _of_server(error: Neo4jError, step: Step, where: str, seconds: float) -> VmemoError:
    code = error.code or ""
    if step == "commit" and not code.startswith(_REFUSED_COMMIT):
        return _unknown(where)
    if code in _REFUSED:
        return StoreError(f"The Neo4j server at {where} {_REFUSED[code]}. Nothing was written.")
    if code in _LATE:
        return StoreBusy(
            f"A transaction took longer than {seconds:g} seconds, or waited so long for another. {_NOTHING}"
        )
    if code in _ENDED:
        return TransientError(f"The Neo4j server at {where} ended the transaction. {_NOTHING}")
    if code in _OVERTAKEN:
        return TransientError(f"Another transaction changed the same nodes or indexes. {_NOTHING}")
    if error.is_retryable():
        reason = "Two transactions waited for each other" if "Deadlock" in code else f"Neo4j is busy ({code})"
        return TransientError(f"{reason}. {_NOTHING}")
    # The server's message may repeat values, and errors must not contain the text of users.
    return StoreError(f"Neo4j refused: {code}. {_UNDONE}")


def _cut_off(error: Foreign, step: Step, where: str) -> VmemoError:
    if step == "commit" or isinstance(error, IncompleteCommit):
        return _unknown(where)
    if step == "run":
        return TransientError(f"The connection to Neo4j at {where} was lost. {_NOTHING}")
    return TransientError(f"The Neo4j server at {where} can't be reached. {_NOTHING}")


def _unknown(where: str) -> VmemoError:
    return OutcomeUnknown(
        f"The connection to Neo4j at {where} was lost, or the server failed, while the transaction was being "
        "committed. It was written whole or not at all, but which of the two is not known; look before you repeat "
        "the call."
    )


Row: TypeAlias = Mapping[str, Any]
"""One record of a result."""
COMMITS_KEPT = timedelta(hours=1)
"""Time for which the ids of transactions are kept; no attempt takes as long."""
ALL = -1
"""The fetch size that asks for a whole result at once."""


VALUES: Final = "values"
"""The one parameter of a statement as the server gets it: a map of all others."""
_PARAMETER: Final = re.compile(r"\$(\w+)")


@lru_cache(maxsize=1024)
def _of_one_map(statement: str) -> LiteralString:
    """Return a statement that takes its parameters from one map.

    The server makes a plan for each combination of types of parameters, and of sizes of lists and texts by powers of
    ten, which takes up to a second. It does not look into maps.
    """
    return cast("LiteralString", _PARAMETER.sub(rf"${VALUES}.\1", statement))


class Transaction:
    """A transaction in which statements run; each has the parameter `$namespace`."""

    def __init__(self, transaction: AsyncTransaction, namespace: str) -> None:
        self._transaction = transaction
        self.namespace = namespace

    async def rows(self, statement: str, **parameters: object) -> list[Row]:
        """Run a statement and return its records."""
        return [record async for record in await self._start(statement, parameters)]

    async def table(self, statement: str, columns: str, **parameters: object) -> list[list[Any]]:
        """Run a statement and return the columns of its rows.

        They come as one record, because the driver spends more time on each record than on its values.
        """
        row = await self.one(f"{statement} RETURN collect([{columns}]) AS rows", **parameters)
        return [] if row is None else row["rows"]

    async def one(self, statement: str, **parameters: object) -> Row | None:
        """Run a statement and return its first record, or None."""
        found = await self.rows(statement, **parameters)
        return found[0] if found else None

    async def run(self, statement: str, **parameters: object) -> None:
        """Run a statement that returns nothing."""
        await (await self._start(statement, parameters)).consume()

    async def _start(self, statement: str, parameters: dict[str, object]) -> AsyncResult:
        try:
            given = {**parameters, "namespace": self.namespace}
            return await self._transaction.run(_of_one_map(statement), {VALUES: given})
        except (ValueError, OverflowError) as error:
            # The driver's message contains the value, which errors must not repeat.
            raise InvalidInput(
                "Neo4j can't hold a value: it is no text, or a number too large. The transaction was rolled back."
            ) from error


class Neo4jConnection:
    """At most `size` connections to one database, opened when they are needed."""

    def __init__(self, url: str, *, size: int = 10, busy_seconds: float = 60.0) -> None:
        self.address = parse(url)
        self._size = size
        self._busy_seconds = busy_seconds
        self._thread = LoopThread("vmemo-neo4j")
        self._driver: AsyncDriver | None = None
        # Sessions that share it see each other's writes in a cluster; a single server needs none.
        self._bookmarks = AsyncGraphDatabase.bookmark_manager() if self.address.routed else None

    async def read(self, run: Callable[[Transaction], Awaitable[R]]) -> R:
        """Run in one read transaction, which sees what was committed before each statement."""
        return await self._run(partial(self._once, run, writes=False))

    async def write(self, run: Callable[[Transaction], Awaitable[R]], *, repeatable: bool = False) -> R:
        """Run in one transaction and commit it.

        `run` may be run several times, each time after the one before was rolled back. A repeatable one is also
        run again, for as long as a call may wait, if the outcome of its commit is not known; otherwise that is raised.
        """
        return await self._run(partial(self._once, run, writes=True), repeatable=repeatable)

    async def _run(self, once: Callable[[], Awaitable[R]], *, repeatable: bool = False) -> R:
        return await self._thread.run(lambda: with_retries(once, repeatable=repeatable, seconds=self._busy_seconds))

    async def write_once(self, run: Callable[[Transaction], Awaitable[R]]) -> R:
        """Run in one transaction and commit it once, whatever becomes of the connection.

        The transaction stores its own id. After an attempt whose outcome is not known the next one waits until the
        first has ended, because both need the lock of that id, and returns the first one's result if it was committed.
        """
        id, results = new_id(), dict[str, R]()

        async def guarded(tx: Transaction) -> R:
            attempt = new_id()
            row = await tx.one(
                "MERGE (c:Commit {id: $id}) ON CREATE SET c.attempt = $attempt, c.at = $now "
                "RETURN c.attempt AS attempt",
                id=id,
                attempt=attempt,
                now=utc_now(),
            )
            assert row is not None
            if row["attempt"] != attempt:
                return results[row["attempt"]]
            results[attempt] = await run(tx)
            return results[attempt]

        return await self.write(guarded, repeatable=True)

    async def alone(self, statement: str, **parameters: object) -> None:
        """Run a statement that has its own transactions: a change of the schema, or of many nodes in batches.

        It is run again after a transient error, such as a deadlock of two processes that create the same index.
        """
        until = monotonic() + self._busy_seconds
        while True:
            try:
                return await self._run(partial(self._alone, statement, parameters), repeatable=True)
            except TransientError:
                # Each of several processes may lose more often than a transaction is tried.
                if monotonic() > until:
                    raise

    async def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        if not await self._thread.close(self._dispose):
            # The connections are those of the parent process.
            self._driver = None

    async def _dispose(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    async def _once(self, run: Callable[[Transaction], Awaitable[R]], *, writes: bool) -> R:
        step: Step = "connect"
        try:
            async with self._session(writes=writes) as session:
                transaction = await session.begin_transaction(timeout=self._busy_seconds)
                async with transaction:
                    step = "run"
                    result = await run(Transaction(transaction, self.address.namespace))
                    if writes:
                        step = "commit"
                        await transaction.commit()
                    else:
                        # Otherwise the driver commits, and a connection lost then would be an unknown outcome.
                        await transaction.rollback()
                    return result
        except VmemoError:
            raise
        except (Neo4jError, DriverError, OSError) as error:
            raise self._named(error, step) from error

    async def _alone(self, statement: str, parameters: Mapping[str, object]) -> None:
        try:
            async with self._session(writes=True) as session:
                result = await session.run(
                    cast("LiteralString", statement), dict(parameters), namespace=self.address.namespace
                )
                await result.consume()
        except (Neo4jError, DriverError, OSError) as error:
            raise self._named(error, "run") from error

    def _named(self, error: Neo4jError | DriverError | OSError, step: Step) -> VmemoError:
        return named_error(error, step, self.address.where, self._busy_seconds)

    def _session(self, *, writes: bool) -> AsyncSession:
        if self._driver is None:
            self._driver = self._create()
        return self._driver.session(  # pyright: ignore[reportUnknownMemberType] - options without types
            database=self.address.database,
            default_access_mode=WRITE_ACCESS if writes else READ_ACCESS,
            fetch_size=ALL,
            bookmark_manager=self._bookmarks,
        )

    def _create(self) -> AsyncDriver:
        address = self.address
        return AsyncGraphDatabase.driver(  # pyright: ignore[reportUnknownMemberType] - options without types
            address.url,
            auth=None if address.user is None else (address.user, address.password),
            max_connection_pool_size=self._size,
            connection_acquisition_timeout=self._busy_seconds,
            connection_timeout=self._busy_seconds,
            notifications_min_severity=NotificationMinimumSeverity.OFF,
            telemetry_disabled=True,
            user_agent="vmemo",
        )


async def forget_old_commits(tx: Transaction) -> None:
    """Delete the ids of transactions that ended long ago."""
    await tx.run("MATCH (c:Commit) WHERE c.at < $before DELETE c", before=utc_now() - COMMITS_KEPT)
