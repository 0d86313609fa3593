"""Comparing a column with many values in one statement whose text never changes.

An IN list is rendered anew for every number of values, which costs more than the search itself; here all values are
one parameter, so that the statement is compiled once and no limit on parameters applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqlalchemy import BindParameter, ColumnElement, Text, bindparam, func, select

Values = Iterable[int] | Iterable[str]


def among(column: ColumnElement[int] | ColumnElement[str], values: Values | BindParameter[str]) -> ColumnElement[bool]:
    """Whether the column has one of these values, given now or later under a parameter's name."""
    given = values if isinstance(values, BindParameter) else listed(values)
    each = func.json_each(given).table_valued("value")
    return column.in_(select(each.c.value))


def listed(values: Values) -> str:
    """Values as the parameter of `among`."""
    return json.dumps(list(values))


def later(name: str) -> BindParameter[str]:
    """A parameter to be filled with `listed` values when the statement runs."""
    return bindparam(name, type_=Text)
