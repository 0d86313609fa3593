"""SQL conditions for the times and tags of a scope; the in-memory index of SQLite applies the same rules to times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlalchemy import BindParameter, Column, ColumnElement, Select, and_, literal_column, or_, select, true

from vmemo.models import Interval
from vmemo.models.search import Scope, TagsMatch
from vmemo.stores.sql.schema import MESSAGE, facts, messages, sources
from vmemo.stores.sql.selects import unexpired
from vmemo.stores.values import micros

Number = int | BindParameter[int]
"""A number that is given now, or as a parameter when the statement runs."""
_f = facts.c


def visible(scope: Scope, now: Number) -> ColumnElement[bool]:
    """Return the condition that a fact was true at one time and believed at another, and has not expired."""
    return _in_time(scope, now) if scope.past_expiry else and_(_in_time(scope, now), unexpired(facts, now))


def _in_time(scope: Scope, now: Number) -> ColumnElement[bool]:
    """Return the condition that a fact was true at one time and believed at another; now, without times."""
    if scope.at_time is None and scope.known_at is None:
        current = and_(_f.expired_at.is_(None), or_(_f.invalid_at.is_(None), _f.invalid_at > now))
        return true() if scope.include_expired else or_(current, *_former(scope.former))
    if scope.known_at is None:
        # The current belief decides: a fact that expired without an end was never true.
        believed, ended = or_(_f.expired_at.is_(None), _f.invalid_at.is_not(None)), true()
    else:
        known = micros(scope.known_at)
        believed = and_(_f.recorded_at <= known, or_(_f.expired_at.is_(None), _f.expired_at > known))
        # A fact closed later was, at that time, believed to be still true.
        ended = _f.expired_at.is_(None)
    if scope.at_time is None:
        return believed
    at = micros(scope.at_time)
    began = or_(_f.valid_at.is_(None), _f.valid_at <= at)
    over = and_(ended, _f.invalid_at.is_not(None), _f.invalid_at <= at)
    return and_(believed, began, ~over)


def _former(during: Interval | None) -> list[ColumnElement[bool]]:
    """Return the condition that a fact is not true any more, and was at some time of an interval."""
    if during is None:
        return []
    # A fact that ended at its start was never true.
    found = [_f.invalid_at.is_not(None), or_(_f.valid_at.is_(None), _f.valid_at < _f.invalid_at)]
    if during.end is not None:
        found.append(or_(_f.valid_at.is_(None), _f.valid_at < micros(during.end)))
    if during.start is not None:
        found.append(_f.invalid_at > micros(during.start))
    return [and_(*found)]


def instructions(conditions: Sequence[ColumnElement[bool]], *, limit: int) -> Select[str]:
    """Return the statement for the ids of standing instructions that meet conditions, newest first."""
    marked = _f.instruction == literal_column("1")
    return select(_f.id).where(marked, *conditions).order_by(_f.mentioned_at.desc(), _f.seq.desc()).limit(limit)


def shown_verbatim(bank: Number, scope: Scope, now: Number) -> ColumnElement[bool]:
    """Return the condition that a message may be shown verbatim: it has no facts, or a visible one.

    Otherwise a superseded fact would come back in the words of its message.
    """
    stating = sources.c.bank == bank, sources.c.kind == MESSAGE, sources.c.source == messages.c.seq
    stated = select(1).where(*stating)
    seen = select(1).join_from(sources, facts, _f.seq == sources.c.fact)
    seen = seen.where(*stating, _f.bank == bank, visible(scope, now))
    return or_(~stated.exists(), seen.exists())


def written_within(scope: Scope, now: Number) -> list[ColumnElement[bool]]:
    """Return the conditions for messages within the scope's times that have not expired."""
    found = [unexpired(messages, now)]
    if scope.occurred is not None and scope.occurred.start is not None:
        found.append(messages.c.timestamp >= micros(scope.occurred.start))
    if scope.occurred is not None and scope.occurred.end is not None:
        found.append(messages.c.timestamp < micros(scope.occurred.end))
    if scope.at_time is not None:
        found.append(messages.c.timestamp <= micros(scope.at_time))
    if scope.known_at is not None:
        found.append(messages.c.recorded_at <= micros(scope.known_at))
    return found


def tagged(
    rule: TagsMatch, held: Sequence[ColumnElement[bool]], *, none: ColumnElement[bool], count: ColumnElement[int]
) -> list[ColumnElement[bool]]:
    """Return the condition for a scope's tags; `held` are conditions for each tag, `none` the one for untagged rows."""
    if not held:
        return []
    match rule:
        case "all":
            return list(held)
        case "any":
            return [or_(*held)]
        case "exact":
            return [*held, count == len(held)]
        case "all_or_none":
            return [or_(and_(*held), none)]
        case "any_or_none":
            return [or_(*held, none)]
        case _:
            assert_never(rule)


def untagged(tags: Column[str], network: Column[str] | None = None) -> ColumnElement[bool]:
    """Return the condition of rows without tags, beliefs excepted: those have none, whatever their basis has."""
    bare = tags == "[]"
    return bare if network is None else bare & network.in_(("world", "experience"))
