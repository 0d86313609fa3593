"""Transactions on one Neo4j database: connections, errors, and retries.

The driver lives on a loop of its own, in a thread of its own. In a cluster, a transaction sees what earlier ones of the
same process have written, on whichever server it runs.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from time import monotonic
from typing import Any, Final, LiteralString, TypeAlias, TypeVar, cast

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
from neo4j.exceptions import DriverError, Neo4jError

from vmemo.errors import InvalidInput, VmemoError
from vmemo.stores.transactions import LoopThread, Passing, Step, persistent
from vmemo_neo4j.errors import named_error
from vmemo_neo4j.url import parse

R = TypeVar("R")
Row: TypeAlias = Mapping[str, Any]
"""One record of a result."""
ALL = -1
"""The fetch size that asks for a whole result at once."""


VALUES: Final = "values"
"""The one parameter of a statement as the server gets it: a map of all others."""
_PARAMETER: Final = re.compile(r"\$(\w+)")


@lru_cache(maxsize=1024)
def _of_one_map(statement: LiteralString) -> LiteralString:
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

    async def rows(self, statement: LiteralString, **parameters: object) -> list[Row]:
        """Run a statement and return its records."""
        return [record async for record in await self._start(statement, parameters)]

    async def table(self, statement: LiteralString, columns: LiteralString, **parameters: object) -> list[list[Any]]:
        """Run a statement and return the columns of its rows.

        They come as one record, because the driver spends more time on each record than on its values.
        """
        row = await self.one(f"{statement} RETURN collect([{columns}]) AS rows", **parameters)
        return [] if row is None else row["rows"]

    async def one(self, statement: LiteralString, **parameters: object) -> Row | None:
        """Run a statement and return its first record, or None."""
        found = await self.rows(statement, **parameters)
        return found[0] if found else None

    async def run(self, statement: LiteralString, **parameters: object) -> None:
        """Run a statement that returns nothing."""
        await (await self._start(statement, parameters)).consume()

    async def _start(self, statement: LiteralString, parameters: dict[str, object]) -> AsyncResult:
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
        return await self._thread.run(lambda: self._persistent(run, writes=False))

    async def write(
        self, run: Callable[[Transaction], Awaitable[R]], *, patient: bool = False, repeatable: bool = False
    ) -> R:
        """Run in one transaction and commit it; `patient` lets it take as long as it needs.

        `run` may be run several times, each time after the one before was rolled back. A repeatable one is also
        run again, for as long as a call may wait, if the outcome of its commit is not known; otherwise that is raised.
        """
        work = partial(self._persistent, run, writes=True, patient=patient, repeatable=repeatable)
        return await self._thread.run(work)

    async def alone(self, statement: LiteralString, **parameters: object) -> None:
        """Run a statement that has its own transactions: a change of the schema, or of many nodes in batches.

        It is run again after a transient error, such as a deadlock of two processes that create the same index.
        """
        await self._thread.run(lambda: self._repeat_alone(statement, parameters))

    async def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        if not await self._thread.close(self._dispose):
            # The connections are those of the parent process.
            self._driver = None

    async def _dispose(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    async def _persistent(
        self,
        run: Callable[[Transaction], Awaitable[R]],
        *,
        writes: bool,
        patient: bool = False,
        repeatable: bool = False,
    ) -> R:
        once = partial(self._once, run, writes=writes, patient=patient)
        return await persistent(once, repeatable=repeatable, seconds=self._busy_seconds)

    async def _once(self, run: Callable[[Transaction], Awaitable[R]], *, writes: bool, patient: bool) -> R:
        step: Step = "connect"
        try:
            async with self._session(writes=writes) as session:
                transaction = await session.begin_transaction(timeout=None if patient else self._busy_seconds)
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

    async def _repeat_alone(self, statement: LiteralString, parameters: Mapping[str, object]) -> None:
        once = partial(self._alone, statement, parameters)
        until = monotonic() + self._busy_seconds
        while True:
            try:
                return await persistent(once, repeatable=True, seconds=self._busy_seconds)
            except Passing:
                # Each of several processes may lose more often than a transaction is tried.
                if monotonic() > until:
                    raise

    async def _alone(self, statement: LiteralString, parameters: Mapping[str, object]) -> None:
        try:
            async with self._session(writes=True) as session:
                result = await session.run(statement, dict(parameters), namespace=self.address.namespace)
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
