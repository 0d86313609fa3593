"""SQL conditions for the times of a scope; the in-memory index applies the same rules."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, or_, select, true

from vmemo.models import utc_now
from vmemo.models.search import Scope
from vmemo.stores.sql.schema import MESSAGE, facts, messages, sources
from vmemo.stores.sql.timestamps import micros

_f = facts.c


def visible(scope: Scope) -> ColumnElement[bool]:
    """Return the condition that a fact was true at one time and believed at another; now, without times."""
    if scope.at_time is None and scope.known_at is None:
        now = and_(_f.expired_at.is_(None), or_(_f.invalid_at.is_(None), _f.invalid_at > micros(utc_now())))
        return true() if scope.include_expired else now
    if scope.known_at is None:
        # What is believed now decides: a fact that expired without an end was never true.
        believed, ended = or_(_f.expired_at.is_(None), _f.invalid_at.is_not(None)), true()
    else:
        known = micros(scope.known_at)
        believed = and_(_f.recorded_at <= known, or_(_f.expired_at.is_(None), _f.expired_at > known))
        # A fact closed later was, at that time, believed to be still true.
        ended = _f.expired_at.is_(None)
    if scope.at_time is None:
        return believed
    moment = micros(scope.at_time)
    began = or_(_f.valid_at.is_(None), _f.valid_at <= moment)
    over = and_(ended, _f.invalid_at.is_not(None), _f.invalid_at <= moment)
    return and_(believed, began, ~over)


def speaks_still(bank: int, scope: Scope) -> ColumnElement[bool]:
    """Return the condition that a message may be shown verbatim: it has no facts, or a visible one.

    Otherwise what was replaced would come back in the words it was told in.
    """
    stating = sources.c.bank == bank, sources.c.kind == MESSAGE, sources.c.source == messages.c.seq
    told = select(1).where(*stating)
    seen = (
        select(1).join_from(sources, facts, _f.seq == sources.c.fact).where(*stating, _f.bank == bank, visible(scope))
    )
    return or_(~told.exists(), seen.exists())


def said_within(scope: Scope) -> list[ColumnElement[bool]]:
    """Return the conditions for messages within the scope's times."""
    found: list[ColumnElement[bool]] = []
    if scope.occurred is not None and scope.occurred.start is not None:
        found.append(messages.c.timestamp >= micros(scope.occurred.start))
    if scope.occurred is not None and scope.occurred.end is not None:
        found.append(messages.c.timestamp < micros(scope.occurred.end))
    if scope.at_time is not None:
        found.append(messages.c.timestamp <= micros(scope.at_time))
    if scope.known_at is not None:
        found.append(messages.c.recorded_at <= micros(scope.known_at))
    return found
