"""Counted distances from the reference: "two weeks ago", "in three days", "the last 10 days", "an hour ago"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_units import (
    CENTURY,
    DAY,
    DECADE,
    FIRST_YEAR,
    FORTNIGHT,
    FRIDAY,
    QUARTER,
    WEEK,
    WEEKEND,
    add_days,
    add_units,
    period_bounds,
)
from vmemo.text.temporal.day_range import AnchorOffset, DayRange, offset_day, whole_period
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of

_FEW, _SOME, _MORE = tags_of("FEWER"), tags_of("SOME"), tags_of("more")
A_FEW, _SEVERAL = (2, 5), (3, 8)
"""Lowest and highest number that is meant."""
CALENDAR_WINDOWS = (FORTNIGHT, QUARTER, DECADE, CENTURY)
"""Units that are counted in whole calendar periods: "the last two quarters"."""
_MAX_MINUTES = 100_000
"""A larger number of hours or minutes is not a time."""
_NOT_FUTURE = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bfirst \w+|\bbest \w+|\bonce|\btwice|\btimes)\b[^.!?]{0,30}$", re.IGNORECASE
)


def _window(match: RuleMatch) -> DayRange | None:
    """Resolve "the last 10 days" and "the next two quarters"."""
    step = 1 if match.value("modifier") > 0 else -1
    count, unit, today = match.value("count"), match.value("unit"), match.today
    if unit == WEEKEND:
        return None
    if unit in CALENDAR_WINDOWS:
        bounds = period_bounds(today, unit, 1 if step > 0 else -count, count)
        return bounds and DayRange(*bounds)
    return counted_days(today, step * count, unit)


def counted_days(today: date, count: int, unit: int) -> DayRange | None:
    """Return `count` units of days: up to yesterday if the count is negative, or else from tomorrow."""
    first = today if count < 0 else add_days(today, 1)
    other = add_units(first, count, unit)
    if other is None or count == 0:
        return None
    start, end = min(first, other), max(first, other)
    return DayRange(start, end, displayed=(start, add_days(end, 1)) if count < 0 else None)


def _within(match: RuleMatch) -> DayRange | None:
    """Resolve "within two weeks" and "within the last two weeks"."""
    today = match.today
    if match.value("modifier") < 0:
        return _window(match)
    end = add_units(today, match.value("count"), match.value("unit"))
    return end and DayRange(today, end) if end != today else None


def _business_days(match: RuleMatch) -> DayRange | None:
    step = 1 if match.value("modifier") > 0 else -1
    first = _business_day(match.today, step)
    weeks, days = divmod(max(0, min(match.value("count"), 1000) - 1), 5)
    day = add_days(first, 7 * step * weeks)
    for _ in range(days):
        day = _business_day(day, step)
    return DayRange(min(first, day), add_days(max(first, day), 1))


def _business_day(day: date, step: int) -> date:
    """Return the next business day, or the previous one if the step is negative."""
    day = add_days(day, step)
    beyond = day.weekday() - FRIDAY
    if beyond <= 0:
        return day
    return add_days(day, 3 - beyond if step > 0 else -beyond)


def _offset(match: RuleMatch, sign: int) -> DayRange | None:
    """Return the day some units before or after the reference, or a range if the number is vague."""
    today, unit, count = match.today, match.value("unit"), match.value("count")
    if unit == WEEKEND:
        return whole_period(period_bounds(today, WEEKEND, sign * count), WEEKEND)
    return vague_offset(match, today, sign) or offset_day(today, sign * count, unit)


def vague_offset(match: RuleMatch, origin: date, sign: int) -> DayRange | None:
    """Return the range of "a few days" or "several weeks" from a day, or None if the number is exact."""
    if match.tag("count") not in _SOME:
        return None
    near, far = A_FEW if match.tag("count") in _FEW else _SEVERAL
    unit = match.value("unit")
    return approximate_range(add_units(origin, sign * near, unit), add_units(origin, sign * far, unit), unit)


def approximate_range(near: date | None, far: date | None, unit: int) -> DayRange | None:
    """Return the days from one to the other, displayed in whole months or years if these were counted."""
    if near is None or far is None:
        return None
    start, end = min(near, far), max(near, far)
    first, last = period_bounds(start, unit), period_bounds(end, unit)
    displayed = (first[0], last[1]) if first and last and unit not in (DAY, WEEK, FORTNIGHT) else None
    return DayRange(start, add_days(end, 1), displayed=displayed)


def _units_ago(match: RuleMatch) -> DayRange | None:
    return _offset(match, -1)


def _units_ahead(match: RuleMatch) -> DayRange | None:
    return _offset(match, 1)


def _in_units(match: RuleMatch) -> DayRange | None:
    """Resolve "in two weeks"; "haven't talked in two weeks" and "twice in a week" name no day."""
    is_negated = _NOT_FUTURE.search(match.context.text, max(0, match.offset - 60), match.offset)
    return None if is_negated else _offset(match, 1)


def _later(match: RuleMatch) -> DayRange | None:
    """Resolve "two days later", from the previous date of the text if there is one."""
    sign = 1 if match.has("forward") else -1
    found = _offset(match, sign)
    offset = AnchorOffset(match.value("unit"), sign * match.value("count"), to_the_day=True)
    return found and replace(found, anchor_offset=offset)


def _compared_to_now(match: RuleMatch) -> DayRange | None:
    """Resolve "more than two weeks ago"."""
    sign = 1 if match.has("forward") else -1
    return compared_offset(match, match.today, sign * match.value("count"), relative=True)


def compared_offset(match: RuleMatch, origin: date, count: int, *, relative: bool) -> DayRange | None:
    """Return the day at the offset; "more than" gives all days beyond it, "less than" the days up to it."""
    day = offset_day(origin, count, match.value("unit"))
    if day is None or day.start is None or not match.has("comparison"):
        return day and replace(day, relative=relative)
    if match.tag("comparison") in _MORE:
        return DayRange(None, day.start) if count < 0 else DayRange(day.start, None)
    start, end = sorted((origin, day.start))
    return DayRange(start, end) if start < end else None


def _hours_ago(match: RuleMatch) -> DayRange | None:
    return _days_of_hours(match, up_to_now=False)


def _last_hours(match: RuleMatch) -> DayRange | None:
    return _days_of_hours(match, up_to_now=True)


def _days_of_hours(match: RuleMatch, *, up_to_now: bool) -> DayRange | None:
    """Return the day that some hours or minutes ago fall on, or all days from it to today."""
    minutes = match.value("count", 1) * match.value("unit")
    if not 0 < minutes <= _MAX_MINUTES or match.today.year <= FIRST_YEAR:
        return None
    start = (match.context.now - timedelta(minutes=minutes)).date()
    end = match.today if up_to_now else start
    return DayRange(start, add_days(end, 1), kind="span" if up_to_now else "day", unannotated=True)


_COUNT = "count=(COUNT|A|SOME)"
_UNIT = "unit=(UNIT|weekend)"

RULES = (
    Rule("(the|these)? (for the)? modifier=MOD count=(COUNT|SOME) unit=UNIT (?!of)", _window),
    Rule("(the|these) count=(COUNT|SOME) modifier=(previous|past|next|coming) unit=UNIT", _window),
    Rule(f"within the? modifier=MOD? {_COUNT} unit=UNIT (?!of)", _within),
    Rule("the? modifier=MOD count=COUNT (business|working) day", _business_days),
    Rule(f"{_COUNT} {_UNIT} (ago|back)", _units_ago),
    Rule(f"{_COUNT} {_UNIT} (from now|hence)", _units_ahead),
    Rule(f"(?<!time) in {_COUNT} unit=UNIT (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _in_units),
    Rule(f"{_COUNT} {_UNIT} (forward=later|earlier) (?!this)(?!than)(?!in)(?!on)(?!WORD than)", _later),
    Rule("comparison=(more|less) than count=(COUNT|A) unit=UNIT (ago|forward=(from now|hence))", _compared_to_now),
    Rule(f"{_COUNT} unit=HOUR (ago|back)", _hours_ago),
    Rule("half A unit=HOUR (ago|back)", _hours_ago),
    Rule("the? (last|past|previous) count=(COUNT|SOME)? unit=HOUR (?!of)", _last_hours),
)
