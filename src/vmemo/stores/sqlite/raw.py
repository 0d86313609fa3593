"""Statements in SQLite's own words for the hot path of a recall, where wrapping their rows costs more than they do."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from vmemo.stores.sql.prepared import run_in_driver


def fetch(connection: Connection, statement: str, *parameters: float | str | bytes) -> list[tuple[Any, ...]]:
    """All rows as plain tuples, in the connection's transaction."""
    return run_in_driver(connection, statement, parameters).fetchall()


def execute(connection: Connection, statement: str, *parameters: float | str | bytes) -> int:
    """Run a statement in the connection's transaction, and return the number of the row that it inserted."""
    return run_in_driver(connection, statement, parameters).lastrowid or 0
