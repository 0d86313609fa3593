"""Conditions that find rows by a list of values, or by number.

All values of a list are one parameter. A plain IN list is rendered again for every number of values, which costs more
than the search itself; here the statement is compiled once, and no limit on parameters applies.

Numbers that another statement finds are read first, by `within`: PostgreSQL plans a nested IN as a join, and for a bank
that was loaded after the last ANALYZE it expects one row in each table and compares all with all.

Conditions by number name the bank too: it leads every key on PostgreSQL. SQLite finds a row by its
number alone, and must not choose the bank's index, which would read the whole bank.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    literal_column,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from vmemo.stores.values import storable

Values = Iterable[int] | Iterable[str]


class _Listed(FunctionElement[Any]):
    """The numbers or texts of a list in one parameter."""

    name = "listed"
    inherit_cache = True

    def __init__(self, values: BindParameter[str], type: TypeEngine[Any]) -> None:
        super().__init__(values)
        self.type = type


@compiles(_Listed, "sqlite")
def _in_sqlite(element: _Listed, compiler: SQLCompiler, **more: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.clauses, **more)}))"


@compiles(_Listed, "postgresql")
def _in_postgres(element: _Listed, compiler: SQLCompiler, **more: Any) -> str:
    given, type = compiler.process(element.clauses, **more), "bigint" if isinstance(element.type, Integer) else "text"
    return f"(SELECT value::{type} FROM json_array_elements_text(CAST({given} AS json)) AS value)"


def among(column: ColumnElement[int] | ColumnElement[str], values: Values | BindParameter[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values, given now or later as a parameter."""
    given = values if isinstance(values, BindParameter) else bindparam(None, listed(values), type_=Text)
    return cast("ColumnElement[bool]", column.bool_op("IN")(_Listed(given, column.type)))


def listed(values: Values) -> str:
    """Return the parameter of `among` for values, without texts that no store can hold and that match no row."""
    given = list(values)
    written = json.dumps(given)
    if "\\u0000" not in written and "\\ud" not in written:
        return written
    return json.dumps([value for value in given if not isinstance(value, str) or storable(value)])


def later(name: str) -> BindParameter[str]:
    """Return a parameter that takes `listed` values when the statement runs."""
    return bindparam(name, type_=Text)


class _Within(FunctionElement[bool]):
    """The condition that a column has one of the values that a statement returns."""

    name = "within"
    inherit_cache = True


@compiles(_Within)
def _in_select(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    column, found = (compiler.process(each, **more) for each in element.clauses)
    return f"{column} IN {found}"


@compiles(_Within, "postgresql")
def _in_array(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    column, found = (compiler.process(each, **more) for each in element.clauses)
    return f"{column} = ANY (ARRAY{found})"


def within(column: ColumnElement[int], found: Select[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of the numbers that a statement finds."""
    return _Within(column, found.scalar_subquery())


class _Bank(FunctionElement[int]):
    """The column of the bank, without SQLite's use of its index."""

    name = "bank"
    type = BigInteger()
    inherit_cache = True


@compiles(_Bank)
def _bank_column(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return compiler.process(element.clauses, **more)


@compiles(_Bank, "sqlite")
def _bank_in_sqlite(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return f"+{compiler.process(element.clauses, **more)}"


def bank_of(table: FromClause) -> ColumnElement[int]:
    """Return the bank column of rows that are found by their numbers."""
    return _Bank(table.c.bank)


OF_PAGES = "bank > 0"
"""True for every row. SQLite uses the index of pages only for statements that say so."""


def in_pages(table: FromClause) -> ColumnElement[bool]:
    """Return the condition by which SQLite reads the rows of a bank in the order of their numbers.

    Without it, it sorts all of them for each page; with an index for every statement, it would prefer that one to
    those with further columns, in order not to sort a few rows.
    """
    return table.c.bank > literal_column("0")


def row(table: FromClause, bank: int, seq: int) -> ColumnElement[bool]:
    """Return the condition for the row of a bank with this number."""
    return and_(bank_of(table) == bank, table.c.seq == seq)


def rows(table: FromClause, bank: int, seqs: Values) -> ColumnElement[bool]:
    """Return the condition for rows of a bank with these numbers."""
    return and_(bank_of(table) == bank, among(table.c.seq, seqs))


def points(table: FromClause, column: str, to: FromClause) -> ColumnElement[bool]:
    """Return the condition that a column refers to another row of the same bank."""
    return and_(bank_of(to) == table.c.bank, to.c.seq == table.c[column])
