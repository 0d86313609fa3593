"""Statements that are built once and run often.

SQLAlchemy's own work for a small statement takes ten times as long as SQLite's, so on SQLite the text of a statement
goes to the driver. Other databases get it from SQLAlchemy, which prepares it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from sqlite3 import Connection as RawConnection, Cursor
from typing import Any, cast

from sqlalchemy import Connection, Delete, Insert, Select, Update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.dml import ReturningInsert

from vmemo.stores.sql.rows import AnyRow, Cells

Cell = str | int | float | bytes | None
Statement = Select[*tuple[Any, ...]] | ReturningInsert[*tuple[Any, ...]] | Insert | Update | Delete
_Parameters = Callable[[Mapping[str, Cell]], tuple[Cell, ...]]


class Prepared:
    """A statement whose parameters are named. Columns that an update or insertion sets are parameters too."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._rendered: dict[tuple[str, ...], tuple[str, _Parameters]] = {}
        self._row_type: Any = None

    def rows(self, connection: Connection, parameters: Mapping[str, Cell]) -> list[AnyRow]:
        """Return all rows, whose columns have names."""
        if connection.dialect.name != "sqlite":
            return list(connection.execute(self._statement, dict(parameters)).all())
        cursor = self._run(connection, parameters)
        # Rows of SQLAlchemy are named tuples as well.
        return cast("list[AnyRow]", list(map(self._row(cursor), cursor.fetchall())))

    def cells(self, connection: Connection, parameters: Mapping[str, Cell]) -> Sequence[Cells]:
        """Return all rows as their values in order, which on SQLite takes half the time."""
        if connection.dialect.name != "sqlite":
            return self.rows(connection, parameters)
        return self._run(connection, parameters).fetchall()

    def first(self, connection: Connection, parameters: Mapping[str, Cell]) -> AnyRow | None:
        """Return the first row, or None."""
        found = self.rows(connection, parameters)
        return found[0] if found else None

    def execute(self, connection: Connection, parameters: Mapping[str, Cell]) -> int:
        """Run a statement that writes, and return the number of rows that it changed."""
        if connection.dialect.name != "sqlite":
            return connection.execute(self._statement, dict(parameters)).rowcount
        return self._run(connection, parameters).rowcount

    def _run(self, connection: Connection, parameters: Mapping[str, Cell]) -> Cursor:
        names = tuple(parameters)
        if names not in self._rendered:
            self._rendered[names] = _rendered(self._statement, names)
        text, ordered = self._rendered[names]
        return run_in_driver(connection, text, ordered(parameters))

    def _row(self, cursor: Cursor) -> Callable[[tuple[Any, ...]], Any]:
        if self._row_type is None:
            names = [str(column[0]) for column in cursor.description]
            # The columns are known when the statement has run.
            self._row_type = namedtuple("Row", names, rename=True)  # pyright: ignore[reportUntypedNamedTuple]
        return self._row_type._make


def run_in_driver(connection: Connection, statement: str, parameters: tuple[Cell, ...]) -> Cursor:
    """Run a statement of SQLite's own in the connection's transaction."""
    if not connection.in_transaction():
        connection.begin()
    return driver_of(connection).execute(statement, parameters)


def driver_of(connection: Connection) -> RawConnection:
    """Return the connection of SQLite's driver."""
    return cast("RawConnection", connection.connection.driver_connection)


def _rendered(statement: Statement, names: tuple[str, ...]) -> tuple[str, _Parameters]:
    """Return a statement for SQLite's driver, and the function that returns its parameters in order."""
    compiled = statement.compile(dialect=sqlite.dialect(), column_keys=list(names))
    order = compiled.positiontup or []
    fixed = {name: value for name, value in compiled.params.items() if name not in names}
    return str(compiled), lambda given: tuple([given[name] if name in given else fixed[name] for name in order])
