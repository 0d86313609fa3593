"""SQL conditions of a scope on PostgreSQL; those of its times and tags are in `sql.scope_conditions`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pydantic import JsonValue
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    Text,
    any_,
    cast,
    false,
    func,
    literal,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from vmemo.models import Interval, Network
from vmemo.models.search import Scope
from vmemo.stores.sql.conditions import storable
from vmemo.stores.sql.rows import micros, names_of
from vmemo.stores.sql.schema import facts, mentions
from vmemo.stores.sql.scope_conditions import tagged, untagged, visible
from vmemo.text.names.fold import fold_name

_f = facts.c
began: ColumnElement[int] = func.coalesce(
    _f.occurred_start, func.least(_f.mentioned_at, _f.occurred_end - 1), _f.mentioned_at
)
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""
ended: ColumnElement[int] = func.greatest(func.coalesce(_f.occurred_end, _f.mentioned_at + 1), began + 1)


_COMMON: frozenset[Network] = frozenset({"world", "experience"})


def wide(scope: Scope) -> bool:
    """Return True if a scope admits most facts: it filters by times or common networks at most."""
    narrow = scope.tags or scope.entities or scope.metadata or scope.occurred is not None
    return not narrow and not (scope.networks and scope.networks.isdisjoint(_COMMON))


def conditions(connection: Connection, bank: int, scope: Scope) -> list[ColumnElement[bool]]:
    """Return the conditions of a scope for the facts of a bank; entities that it names are looked up."""
    found = [_f.bank == bank, visible(scope)]
    if scope.networks:
        found.append(one_of(_f.network, sorted(scope.networks)))
    if scope.occurred is not None:
        found += inside(scope.occurred)
    if scope.entities:
        mentioning = select(mentions.c.fact).where(
            mentions.c.bank == bank, one_of(mentions.c.entity, _named(connection, bank, scope.entities))
        )
        found.append(_f.seq.in_(mentioning))
    return found + labelled(_f.tags, _f.metadata, scope, untagged(_f.tags, _f.network))


def inside(stretch: Interval) -> list[ColumnElement[bool]]:
    """Return the condition for facts that occurred within an interval, at least in part."""
    found: list[ColumnElement[bool]] = []
    if stretch.end is not None:
        found.append(began < micros(stretch.end))
    if stretch.start is not None:
        found.append(ended > micros(stretch.start))
    return found


def labelled(
    tags: Column[str], metadata: Column[str], scope: Scope, none: ColumnElement[bool]
) -> list[ColumnElement[bool]]:
    """Return the condition for the scope's tags and metadata; `none` is the condition for a row without tags."""
    held = [_has_tag(tags, tag) for tag in sorted(scope.tags)]
    found = tagged(scope.tags_match, held, none=none, count=func.jsonb_array_length(cast(tags, JSONB)))
    return found + [_has_value(metadata, key, value) for key, value in sorted(scope.metadata.items())]


def _has_tag(tags: Column[str], tag: str) -> ColumnElement[bool]:
    if not storable(tag):
        return false()
    # Most rows have other tags, and reading their JSON costs more than finding the word in it.
    written = func.strpos(tags, json.dumps(tag, ensure_ascii=False)) > 0
    return written & cast(tags, JSONB).has_key(tag)


def _has_value(metadata: Column[str], key: str, value: JsonValue) -> ColumnElement[bool]:
    """Compared with its JSON type, so that 1, true and "1" stay three values."""
    wanted = json.dumps(value, ensure_ascii=False)
    # A character that PostgreSQL can't keep stands in the text as an escape, which its JSONB does not take either.
    if not (storable(key) and storable(wanted)) or "\\u0000" in wanted:
        return false()
    readable = cast(func.replace(metadata, "\\u0000", "\\ufffd"), JSONB)
    return readable.op("->")(literal(key)) == cast(literal(wanted), JSONB)


def one_of(
    column: ColumnElement[int] | ColumnElement[str], values: Iterable[int] | Iterable[str]
) -> ColumnElement[bool]:
    """Like `among`, with an array: PostgreSQL estimates the number of rows from its length."""
    of = BigInteger() if isinstance(column.type, Integer) else Text()
    return column == any_(literal(list(values), ARRAY(of)))


_NAMED = """
SELECT seq, id, name, aliases FROM entities WHERE bank = $1 AND (
    id = ANY($2::text[]) OR $4 OR seq IN (SELECT entity FROM entity_names WHERE bank = $1 AND name = ANY($3::text[]))
)
"""


def _named(connection: Connection, bank: int, names: Iterable[str]) -> list[int]:
    """Entities that have one of these ids, names or aliases, without regard to case.

    The folded names lead to few of them, whose own names are then compared. A name of signs alone has no folded one.
    """
    ids = [name for name in names if storable(name)]
    wanted = {name.casefold() for name in ids}
    folded = {fold_name(name) for name in ids}
    rows = connection.exec_driver_sql(_NAMED, (bank, ids, list(folded), "" in folded))
    return [
        seq
        for seq, id, name, aliases in rows
        if id in ids or not wanted.isdisjoint(known.casefold() for known in (name, *names_of(aliases)))
    ]
