"""Comparing a column with many values in one statement whose text never changes.

An IN list is rendered anew for every number of values, which costs more than the search itself; here all values are
one parameter, so that the statement is compiled once and no limit on parameters applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from sqlalchemy import BindParameter, ColumnElement, Integer, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

Values = Iterable[int] | Iterable[str]


class _Numbers(FunctionElement[int]):
    """The numbers of a list in one parameter."""

    name = "numbers"
    inherit_cache = True


class _Texts(FunctionElement[str]):
    """The texts of a list in one parameter."""

    name = "texts"
    inherit_cache = True


@compiles(_Numbers, "sqlite")
@compiles(_Texts, "sqlite")
def _in_sqlite(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.clauses, **more)}))"


@compiles(_Numbers, "postgresql")
def _numbers_in_postgres(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    given = compiler.process(element.clauses, **more)
    return f"(SELECT value::bigint FROM json_array_elements_text(CAST({given} AS json)) AS value)"


@compiles(_Texts, "postgresql")
def _texts_in_postgres(element: FunctionElement[Any], compiler: SQLCompiler, **more: Any) -> str:
    given = compiler.process(element.clauses, **more)
    return f"(SELECT value FROM json_array_elements_text(CAST({given} AS json)) AS value)"


def among(column: ColumnElement[int] | ColumnElement[str], values: Values | BindParameter[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values, given now or later as a parameter."""
    given = values if isinstance(values, BindParameter) else bindparam(None, listed(values), type_=Text)
    each = _Numbers(given) if isinstance(column.type, Integer) else _Texts(given)
    return cast("ColumnElement[bool]", column.bool_op("IN")(each))


def listed(values: Values) -> str:
    """Values as the parameter of `among`, without texts that no store can keep, which are nowhere to be found."""
    given = list(values)
    written = json.dumps(given)
    if "\\u0000" not in written and "\\ud" not in written:
        return written
    return json.dumps([value for value in given if not isinstance(value, str) or storable(value)])


def storable(text: str) -> bool:
    """Return True if every store can hold a text; others cannot match anything."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def later(name: str) -> BindParameter[str]:
    """A parameter to be filled with `listed` values when the statement runs."""
    return bindparam(name, type_=Text)
