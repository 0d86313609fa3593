"""Statements in SQLite's own words for the hot path of a recall, where wrapping their rows costs more than they do."""

from __future__ import annotations

from sqlite3 import Connection as RawConnection
from typing import Any, cast

from sqlalchemy import Connection


def fetch(connection: Connection, statement: str, *parameters: float | str) -> list[tuple[Any, ...]]:
    """All rows as plain tuples, in the connection's transaction."""
    if not connection.in_transaction():
        connection.begin()
    raw = cast("RawConnection", connection.connection.driver_connection)
    return raw.execute(statement, parameters).fetchall()
