"""Conditions by lists of values, writes of many rows, and records as rows.

All values of a list are one parameter, so the statement is compiled once and no limit on parameters applies. Numbers
that another statement finds are read first, by `within`: PostgreSQL plans a nested IN as a join, and compares all rows
with all in a bank that was loaded after the last ANALYZE. Conditions by number name the bank too, which leads every key
on PostgreSQL; SQLite finds a row by its number alone, and must not choose the bank's index.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from sqlite3 import Connection as RawConnection
from typing import Any, TypeVar, cast

import sqlalchemy as sa
from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from vmemo.models.records import Record
from vmemo.stores.values import claims_of, dump, instant, metadata_of, micros, missing_reference, names_of, storable

Cell = str | int | float | bytes | None
Values = dict[str, Cell]
AnyRow = sa.Row[*tuple[Any, ...]]
AnySelect = sa.Select[*tuple[Any, ...]]
Cells = Sequence[Any]
"""A row's values by position."""
Listable = Iterable[int] | Iterable[str]
AnyRecord = TypeVar("AnyRecord", bound=Record)


class _Listed(FunctionElement[Any]):
    name = "listed"
    inherit_cache = True

    def __init__(self, values: sa.BindParameter[str], type: TypeEngine[Any]) -> None:
        super().__init__(values)
        self.type = type


@compiles(_Listed)
def _in_list(element: _Listed, compiler: SQLCompiler, **more: Any) -> str:
    given = compiler.process(element.clauses, **more)
    type = "bigint" if isinstance(element.type, sa.Integer) else "text"
    if compiler.dialect.name == "sqlite":
        return f"(SELECT value FROM json_each({given}))"
    return f"(SELECT value::{type} FROM json_array_elements_text(CAST({given} AS json)) AS value)"


def among(
    column: ColumnElement[int] | ColumnElement[str], values: Listable | sa.BindParameter[str]
) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values, given now or later as a parameter."""
    given = values if isinstance(values, sa.BindParameter) else sa.bindparam(None, listed(values), type_=sa.Text)
    return cast("ColumnElement[bool]", column.bool_op("IN")(_Listed(given, column.type)))


def listed(values: Listable) -> str:
    """Return the parameter of `among` for values, without texts that no store can hold and that match no row."""
    given = list(values)
    written = json.dumps(given)
    if "\\u0000" not in written and "\\ud" not in written:
        return written
    return json.dumps([value for value in given if not isinstance(value, str) or storable(value)])


def later(name: str) -> sa.BindParameter[str]:
    """Return a parameter that takes `listed` values when the statement runs."""
    return sa.bindparam(name, type_=sa.Text)


def of_bank(table: sa.FromClause) -> ColumnElement[bool]:
    """Return the condition for rows of the bank that is bound when the statement runs."""
    return table.c.bank == sa.bindparam("of_bank", type_=sa.BigInteger)


class _Within(FunctionElement[bool]):
    name = "within"
    inherit_cache = True


@compiles(_Within)
def _in_select(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    column, found = (compiler.process(each, **more) for each in element.clauses)
    return f"{column} = ANY (ARRAY{found})" if compiler.dialect.name == "postgresql" else f"{column} IN {found}"


def within(column: ColumnElement[int], found: sa.Select[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of the numbers that a statement finds."""
    return _Within(column, found.scalar_subquery())


class _Bank(FunctionElement[int]):
    name = "bank"
    type = sa.BigInteger()
    inherit_cache = True


@compiles(_Bank)
def _bank(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return f"{'+' if compiler.dialect.name == 'sqlite' else ''}{compiler.process(element.clauses, **more)}"


def bank_column(table: sa.FromClause) -> ColumnElement[int]:
    """Return the bank column of rows that are found by their numbers; SQLite does not use its index."""
    return _Bank(table.c.bank)


OF_PAGES = "bank > 0"
"""True for every row. SQLite uses the index of pages only for statements that say so."""


def in_pages(table: sa.FromClause) -> ColumnElement[bool]:
    """Return the condition by which SQLite reads the rows of a bank in the order of their numbers.

    Without it, it sorts all of them for each page; with an index for every statement, it would prefer that one to
    those with further columns, in order not to sort a few rows.
    """
    return table.c.bank > sa.literal_column("0")


def by_number(table: sa.FromClause, bank: int, seq: int) -> ColumnElement[bool]:
    """Return the condition for the row of a bank with this number."""
    return sa.and_(bank_column(table) == bank, table.c.seq == seq)


def by_numbers(table: sa.FromClause, bank: int, seqs: Listable) -> ColumnElement[bool]:
    """Return the condition for rows of a bank with these numbers."""
    return sa.and_(bank_column(table) == bank, among(table.c.seq, seqs))


def of_numbers(table: sa.FromClause) -> ColumnElement[bool]:
    """Return the condition for rows of the bank and with the numbers that are bound when the statement runs."""
    bank = bank_column(table) == sa.bindparam("of_bank", type_=sa.BigInteger)
    return sa.and_(bank, among(table.c.seq, later("seqs")))


def refers_to(table: sa.FromClause, column: str, to: sa.FromClause) -> ColumnElement[bool]:
    """Return the condition that a column refers to another row of the same bank."""
    return sa.and_(bank_column(to) == table.c.bank, to.c.seq == table.c[column])


Seqs = dict[str, int]


def row_values(table: Table, bank: int, record: Record, /, **more: Cell) -> Values:
    """Return a record of a bank as a row: its fields that are columns of the table, and more columns."""
    return {
        "bank": bank,
        **{name: _stored(getattr(record, name)) for name in _fields(table) if name not in more},
        **more,
    }


@cache
def _fields(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.name not in ("seq", "bank"))


def _stored(value: object) -> Cell:
    """Return a field as it is stored: a time in microseconds, lists and mappings as JSON."""
    if value is None or isinstance(value, bool):
        return value and int(value)
    if isinstance(value, str | int | float):
        return value
    return micros(value) if isinstance(value, datetime) else dump(cast("Sequence[JsonValue]", value))


_READ: dict[str, Callable[[Any], object]] = {
    "time": instant,
    "list": names_of,
    "claims": claims_of,
    "mapping": metadata_of,
    "flag": bool,
}


def fields_of(kind: type[Record], table: Table, rows: Sequence[Cells]) -> list[dict[str, object]]:
    """Return the fields of records that are columns of a table, from its rows; the inverse of `row_values`."""
    names, columns = _columns(kind, table)
    cells: list[Cells] = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    # By column, because most cells of one need no conversion.
    values = [
        cells[place] if read is None else [None if cell is None else read(cell) for cell in cells[place]]
        for place, read in columns
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


@cache
def _columns(
    kind: type[Record], table: Table
) -> tuple[Sequence[str], Sequence[tuple[int, Callable[[Any], object] | None]]]:
    """Return the columns that are fields of a record, and the place and the conversion of each."""
    named = [each for each in table.columns if each.name in kind.model_fields and each.name != "bank"]
    places = table.columns.keys()
    columns = [(places.index(each.name), _READ.get(each.info.get("stores", ""))) for each in named]
    return [each.name for each in named], columns


def record_of(kind: type[AnyRecord], table: Table, row: Cells, **more: object) -> AnyRecord:
    """Return the record of a row, which begins with the columns of a table; `more` are its other fields."""
    [fields] = fields_of(kind, table, [row])
    return kind.trusted(fields | more)


def seqs_of(connection: Connection, table: Table, bank: int, ids: Iterable[str]) -> Seqs:
    """Return the numbers of rows by their ids."""
    wanted = set(ids)
    if not wanted:
        return {}
    return dict(rows_of(connection, _numbers(table), {"of_bank": bank, "ids": listed(wanted)}))


@cache
def _numbers(table: Table) -> sa.Select[str, int]:
    return sa.select(table.c.id, table.c.seq).where(of_bank(table), among(table.c.id, later("ids")))


def insert_all(connection: Connection, table: Table, rows: Sequence[tuple[Cell, ...]]) -> None:
    """Insert rows, if there are any, given as the values of all columns in their order."""
    if rows:
        names = table.columns.keys()
        connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]]) -> Seqs:
    """Insert rows, which have ids, and return their numbers by id. Numbers have the order of the rows."""
    if not rows:
        return {}
    new = table.insert().returning(table.c.id, table.c.seq, sort_by_parameter_order=True)
    return dict(connection.execute(new, rows).all())


def save_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Cell]], known: Seqs) -> Seqs:
    """Update rows whose ids are known, insert the others, and return the numbers of all."""
    changed = [{**row, "of_bank": row["bank"], "of_seq": known[str(row["id"])]} for row in rows if row["id"] in known]
    if changed:
        connection.execute(_update(table), changed)
    return {**known, **insert_rows(connection, table, [row for row in rows if row["id"] not in known])}


def update_row(connection: Connection, table: Table, values: Mapping[str, Cell], *, bank: int, seq: int) -> None:
    connection.execute(_update(table), {**values, "of_bank": bank, "of_seq": seq})


@cache
def _update(table: Table) -> sa.Update:
    return sa.update(table).where(of_bank(table), table.c.seq == sa.bindparam("of_seq", type_=sa.BigInteger))


def number_of(known: Seqs, what: str, id: str) -> int:
    """Return the number of a record that a batch refers to; raise InvalidInput if it does not exist."""
    if id not in known:
        raise missing_reference(what, id)
    return known[id]


def insert_missing(connection: Connection, table: Table, values: Mapping[str, Cell]) -> bool:
    """Insert a row unless its key exists or is being inserted by another transaction; return True if inserted."""
    return connection.execute(_insert_missing(table, connection.dialect.name), values).rowcount == 1


@cache
def _insert_missing(table: Table, dialect: str) -> sa.Insert:
    new = postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)
    return new.on_conflict_do_nothing().inline()


def fetch(connection: Connection, statement: str, *parameters: Cell) -> list[tuple[Any, ...]]:
    """Return all rows of a statement of SQLite's own as plain tuples, read in the connection's transaction."""
    if not connection.in_transaction():
        connection.begin()
    return cast("RawConnection", connection.connection.driver_connection).execute(statement, parameters).fetchall()


def rows_of(connection: Connection, statement: AnySelect, parameters: Mapping[str, Cell]) -> Sequence[Any]:
    """Return all rows of a constant statement. On SQLite its text is kept, which saves half of a short statement."""
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, parameters).all()
    text, names, constants = _text_of(statement)
    return fetch(connection, text, *[parameters[name] if name in parameters else constants[name] for name in names])


@cache
def _text_of(statement: AnySelect) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    compiled = statement.compile(dialect=sqlite.dialect())
    return str(compiled), compiled.positiontup or (), compiled.params
