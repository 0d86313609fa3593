"""Writes of many rows at a time.

On SQLite rows go to the driver as plain tuples: SQLAlchemy's own work for each row takes longer than SQLite's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter

from sqlalchemy import BigInteger, Connection, Insert, Table, Update, bindparam, insert, select, update
from sqlalchemy.dialects import sqlite

from vmemo.stores.sql.conditions import among, later, listed
from vmemo.stores.sql.prepared import Cell, Prepared

Seqs = dict[str, int]


def seqs_of(connection: Connection, table: Table, bank: int, ids: Iterable[str]) -> Seqs:
    """Return the numbers of rows by their ids."""
    wanted = set(ids)
    if not wanted:
        return {}
    rows = _numbers(table).rows(connection, {"of_bank": bank, "ids": listed(wanted)})
    return {row.id: row.seq for row in rows}


@cache
def _numbers(table: Table) -> Prepared:
    own = table.c.bank == bindparam("of_bank", type_=BigInteger)
    return Prepared(select(table.c.id, table.c.seq).where(own, among(table.c.id, later("ids"))))


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Insert rows, if there are any. All have the columns of the first."""
    if rows:
        _execute(connection, insert(table), _inserting(table, tuple(rows[0])), rows)


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]]) -> Seqs:
    """Insert rows of one bank, which have ids, and return their numbers by id."""
    if not rows:
        return {}
    if connection.dialect.name == "sqlite":
        insert_all(connection, table, rows)
        return seqs_of(connection, table, int(str(rows[0]["bank"])), (str(row["id"]) for row in rows))
    statement = insert(table).returning(table.c.seq, sort_by_parameter_order=True)
    seqs = connection.execute(statement, list(rows)).scalars().all()
    return {str(row["id"]): seq for row, seq in zip(rows, seqs, strict=True)}


def update_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]], known: Seqs) -> None:
    """Update rows of one bank by the numbers of their ids."""
    if rows:
        numbered = [{**row, "known_bank": row["bank"], "known_seq": known[str(row["id"])]} for row in rows]
        _execute(connection, _update(table), _updating(table, tuple(numbered[0])), numbered)


def _update(table: Table) -> Update:
    of, which = bindparam("known_bank", type_=BigInteger), bindparam("known_seq", type_=BigInteger)
    return update(table).where(table.c.bank == of, table.c.seq == which)


_Rendered = tuple[str, Callable[[Mapping[str, Cell]], tuple[Cell, ...]]]
"""A statement for SQLite's driver, and the function that returns a row's parameters in its order."""


def _execute(
    connection: Connection, statement: Insert | Update, rendered: _Rendered, rows: Sequence[Mapping[str, Cell]]
) -> None:
    if connection.dialect.name == "sqlite":
        sql, parameters = rendered
        connection.exec_driver_sql(sql, [parameters(row) for row in rows])
    else:
        connection.execute(statement, list(rows))


@cache
def _inserting(table: Table, columns: tuple[str, ...]) -> _Rendered:
    return _rendered(insert(table), columns)


@cache
def _updating(table: Table, columns: tuple[str, ...]) -> _Rendered:
    return _rendered(_update(table), columns)


def _rendered(statement: Insert | Update, columns: tuple[str, ...]) -> _Rendered:
    compiled = statement.compile(dialect=sqlite.dialect(), column_keys=list(columns))
    return str(compiled), itemgetter(*compiled.positiontup or ())
