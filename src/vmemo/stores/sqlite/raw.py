"""Statements in SQLite's own words for the hot path of a recall, where wrapping their rows costs more than they do."""

from __future__ import annotations

from sqlite3 import Connection as RawConnection, Cursor
from typing import Any, cast

from sqlalchemy import Connection


def fetch(connection: Connection, statement: str, *parameters: float | str | bytes) -> list[tuple[Any, ...]]:
    """All rows as plain tuples, in the connection's transaction."""
    return _execute(connection, statement, parameters).fetchall()


def execute(connection: Connection, statement: str, *parameters: float | str | bytes) -> int:
    """Run a statement in the connection's transaction, and return the number of the row that it inserted."""
    return _execute(connection, statement, parameters).lastrowid or 0


def _execute(connection: Connection, statement: str, parameters: tuple[float | str | bytes, ...]) -> Cursor:
    if not connection.in_transaction():
        connection.begin()
    return driver_of(connection).execute(statement, parameters)


def driver_of(connection: Connection) -> RawConnection:
    """Return the driver's own connection."""
    return cast("RawConnection", connection.connection.driver_connection)
