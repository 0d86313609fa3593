"""Statements of the hot path in the driver's own words, where SQLAlchemy's share would cost more than they do.

On a direct connection the driver prepares each of them once; through a pooler it prepares them without names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, cast

import asyncpg
from asyncpg import InterfaceError, InternalClientError
from sqlalchemy import Connection
from sqlalchemy.util import await_only


class Driver(Protocol):
    """The methods of an asyncpg connection that are used here."""

    async def execute(self, query: str) -> str: ...
    async def fetch(self, query: str, *values: object) -> list[Sequence[Any]]: ...
    async def close(self) -> None: ...
    def get_server_pid(self) -> int: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...


async def connect(url: str, seconds: float, *, prepared: int) -> Driver:
    """Open a connection that keeps as many statements prepared."""
    return await cast("Any", asyncpg).connect(url, timeout=seconds, statement_cache_size=prepared)


def driver_of(connection: object) -> Driver:
    """Return the driver's connection with its type."""
    return cast("Driver", connection)


@contextmanager
def losses(driver: Driver) -> Generator[None]:
    """Raise ConnectionResetError for each of the errors by which the driver reports that a connection was lost."""
    try:
        yield
    except InternalClientError as error:
        # A message of a server that ends, which nothing waited for, leaves the driver in a state of its own.
        raise ConnectionResetError("the connection was lost") from error
    except InterfaceError as error:
        if driver.is_closed():
            raise ConnectionResetError("the connection was lost") from error
        raise


def fetch(connection: Connection, statement: str, *values: object) -> list[Sequence[Any]]:
    """Return all rows of a statement in the connection's transaction, which has begun."""
    driver = driver_of(connection.connection.driver_connection)
    with losses(driver):
        return await_only(driver.fetch(statement, *values))


def execute(connection: Connection, statement: str) -> None:
    """Run a statement without values in the connection's transaction, which has begun."""
    driver = driver_of(connection.connection.driver_connection)
    with losses(driver):
        await_only(driver.execute(statement))


class Parameters:
    """The values of a statement, numbered as they are added."""

    def __init__(self) -> None:
        self.values: list[object] = []
        self._types: list[str] = []

    def add(self, value: object, type: str) -> str:
        """Add a value, and return how the statement names it; the same value of the same type has one name."""
        for number, known in enumerate(self.values):
            if known is value and self._types[number] == type:
                return f"${number + 1}::{type}"
        self.values.append(value)
        self._types.append(type)
        return f"${len(self.values)}::{type}"


Sql: TypeAlias = Callable[[Parameters], str]
"""A part of a statement, which adds its values to those of the statement."""


def fetch_built(connection: Connection, build: Sql) -> list[Sequence[Any]]:
    """Return all rows of the statement that a function builds."""
    values = Parameters()
    statement = build(values)
    return fetch(connection, statement, *values.values)
