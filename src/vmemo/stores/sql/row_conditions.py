"""Conditions that find rows by number. All name the bank too: it leads every key, and PostgreSQL's parts by bank.

SQLite finds a row by its number alone, and would read the whole bank if it took the bank for the better way in.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, FromClause, and_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from vmemo.stores.sql.in_list import Values, among


class _Bank(FunctionElement[int]):
    """The column of the bank, by which SQLite does not search."""

    name = "bank"
    type = BigInteger()
    inherit_cache = True


@compiles(_Bank)
def _plainly(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return compiler.process(element.clauses, **more)


@compiles(_Bank, "sqlite")
def _in_sqlite(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return f"+{compiler.process(element.clauses, **more)}"


def bank_of(table: FromClause) -> ColumnElement[int]:
    """The bank of rows that are found by their numbers."""
    return _Bank(table.c.bank)


def row(table: FromClause, bank: int, seq: int) -> ColumnElement[bool]:
    """Return the condition for the row of a bank with this number."""
    return and_(bank_of(table) == bank, table.c.seq == seq)


def rows(table: FromClause, bank: int, seqs: Values) -> ColumnElement[bool]:
    """Return the condition for rows of a bank with these numbers."""
    return and_(bank_of(table) == bank, among(table.c.seq, seqs))


def points(table: FromClause, column: str, to: FromClause) -> ColumnElement[bool]:
    """Return the condition that a column refers to another row of the same bank."""
    return and_(bank_of(to) == table.c.bank, to.c.seq == table.c[column])
