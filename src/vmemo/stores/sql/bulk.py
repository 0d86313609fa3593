"""Writes of many rows at a time.

SQLAlchemy's own work for each row takes longer than the database's. On SQLite rows go to the driver as plain tuples; on
PostgreSQL one statement takes them all as arrays, one for each column (COPY was measured to be no faster).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import cast

from sqlalchemy import BigInteger, Connection, Dialect, Table, Update, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite

from vmemo.stores.sql.conditions import among, later, listed
from vmemo.stores.sql.prepared import Cell, Prepared

Seqs = dict[str, int]


def seqs_of(connection: Connection, table: Table, bank: int, ids: Iterable[str]) -> Seqs:
    """Return the numbers of rows by their ids."""
    wanted = set(ids)
    if not wanted:
        return {}
    rows = _numbers(table).cells(connection, {"of_bank": bank, "ids": listed(wanted)})
    return {row[0]: row[1] for row in rows}


@cache
def _numbers(table: Table) -> Prepared:
    own = table.c.bank == bindparam("of_bank", type_=BigInteger)
    return Prepared(select(table.c.id, table.c.seq).where(own, among(table.c.id, later("ids"))))


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Insert rows, if there are any. All have the columns of the first."""
    if rows:
        columns = tuple(rows[0])
        insert_cells(connection, table, columns, _cells(columns, rows))


def insert_cells(
    connection: Connection, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]
) -> None:
    """Insert rows, if there are any, given as their values in the order of the columns."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(_inserting(table, columns), rows)
    else:
        connection.exec_driver_sql(_inserting_arrays(table, columns), _arrays(rows))


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]]) -> Seqs:
    """Insert rows of one bank, which have ids, and return their numbers by id. Numbers have the order of the rows."""
    if not rows:
        return {}
    if connection.dialect.name == "sqlite":
        insert_all(connection, table, rows)
        return seqs_of(connection, table, int(str(rows[0]["bank"])), (str(row["id"]) for row in rows))
    columns = tuple(rows[0])
    statement = f"{_inserting_arrays(table, columns)} RETURNING id, seq"
    numbered = connection.exec_driver_sql(statement, _arrays(_cells(columns, rows)))
    return {row[0]: row[1] for row in numbered}


def update_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]], known: Seqs) -> None:
    """Update rows of one bank by the numbers of their ids."""
    if rows:
        numbered = [{**row, "known_bank": row["bank"], "known_seq": known[str(row["id"])]} for row in rows]
        if connection.dialect.name == "sqlite":
            statement, parameters = _updating(table, tuple(numbered[0]))
            connection.exec_driver_sql(statement, list(map(parameters, numbered)))
        else:
            connection.execute(_update(table), numbered)


def _update(table: Table) -> Update:
    of, which = bindparam("known_bank", type_=BigInteger), bindparam("known_seq", type_=BigInteger)
    return update(table).where(table.c.bank == of, table.c.seq == which)


_Parameters = Callable[[Mapping[str, Cell]], tuple[Cell, ...]]


def _cells(columns: tuple[str, ...], rows: Sequence[Mapping[str, Cell]]) -> list[tuple[Cell, ...]]:
    return list(map(cast("_Parameters", itemgetter(*columns)), rows))


def _arrays(rows: Sequence[tuple[Cell, ...]]) -> tuple[list[Cell], ...]:
    return tuple(map(list, zip(*rows, strict=True)))


@cache
def _inserting(table: Table, columns: tuple[str, ...]) -> str:
    names = _quoted(columns, sqlite.dialect())
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join('?' * len(columns))})"


@cache
def _inserting_arrays(table: Table, columns: tuple[str, ...]) -> str:
    dialect = postgresql.dialect()
    types = [table.c[name].type.compile(dialect) for name in columns]
    arrays = ", ".join(f"${number}::{type}[]" for number, type in enumerate(types, start=1))
    names = _quoted(columns, dialect)
    return (
        f"INSERT INTO {table.name} ({names}) "
        f"SELECT {names} FROM unnest({arrays}) WITH ORDINALITY AS given({names}, place) ORDER BY place"
    )


def _quoted(columns: Sequence[str], dialect: Dialect) -> str:
    return ", ".join(map(dialect.identifier_preparer.quote, columns))


@cache
def _updating(table: Table, columns: tuple[str, ...]) -> tuple[str, _Parameters]:
    """Return an update for SQLite's driver, and the function that returns a row's parameters in its order."""
    compiled = _update(table).compile(dialect=sqlite.dialect(), column_keys=list(columns))
    return str(compiled), itemgetter(*compiled.positiontup or ())
