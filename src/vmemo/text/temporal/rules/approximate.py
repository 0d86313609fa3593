"""Inexact and aligned distances: "a year and a half ago", "2 or 3 weeks ago", "a month ago today"."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_units import (
    CENTURY,
    DAY,
    DECADE,
    MONTH,
    WEEK,
    YEAR,
    add_days,
    add_units,
    period_bounds,
    previous_weekday,
)
from vmemo.text.temporal.day_range import DayRange, offset_day, single_day, whole_period
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.rules.counted import approximate_range, counted_days

_HALF_UNIT = {WEEK: (3, DAY), MONTH: (15, DAY), YEAR: (6, MONTH), DECADE: (5, YEAR), CENTURY: (5, DECADE)}
"""Half of each unit, as a number of smaller units."""


def _half_units_ago(match: RuleMatch) -> date | None:
    """Return the day that many units and a half ago; "half a year ago" has no whole units."""
    unit = match.value("unit")
    count = match.value("count", 1 if match.has("window") else 0)
    whole = add_units(match.today, -count, unit)
    half = _HALF_UNIT.get(unit)
    return add_units(whole, -half[0], half[1]) if whole and half else None


def _units_and_a_half_ago(match: RuleMatch) -> DayRange | None:
    day = _half_units_ago(match)
    if day is None:
        return None
    displayed = period_bounds(day, _HALF_UNIT[match.value("unit")][1])
    return DayRange(day, add_days(day, 1), kind="offset", displayed=displayed)


def _last_units_and_a_half(match: RuleMatch) -> DayRange | None:
    start, today = _half_units_ago(match), match.today
    return start and DayRange(start, today, displayed=(start, add_days(today, 1)))


def _alternative_counts_ago(match: RuleMatch) -> DayRange | None:
    """Resolve "2 or 3 weeks ago" and "a day or two ago"."""
    today, unit = match.today, match.value("unit")
    near, far = add_units(today, -match.value("low"), unit), add_units(today, -match.value("count"), unit)
    return approximate_range(near, far, unit)


def _last_alternative_counts(match: RuleMatch) -> DayRange | None:
    """Resolve "the past 2-3 weeks" to the longer window."""
    return counted_days(match.today, -match.value("count"), match.value("unit"))


def _units_ago_to_the_day(match: RuleMatch) -> DayRange | None:
    """Resolve "a month ago today" and "two weeks ago yesterday" to one day."""
    origin = add_units(match.today, match.value("day"), DAY)
    day = origin and offset_day(origin, -match.value("count"), match.value("unit"))
    return day and replace(day, displayed=None)


def _units_ago_to_the_period(match: RuleMatch) -> DayRange | None:
    """Resolve "a year ago this month"."""
    moved = add_units(match.today, -match.value("count"), match.value("unit"))
    return moved and whole_period(period_bounds(moved, match.value("period")), match.value("period"))


def _weeks_before_latest_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "a week ago Monday": a week before the latest Monday."""
    latest = previous_weekday(match.today, match.value("weekday"))
    return single_day(add_units(latest, -match.value("count"), match.value("unit")))


def _same_time(match: RuleMatch) -> DayRange | None:
    """Resolve "this time last year" and "on this day two years ago"; "time" is displayed less precisely."""
    unit = match.value("unit")
    day = add_units(match.today, -match.value("count", 1), unit)
    if day is None:
        return None
    displayed = None if match.has("day") else period_bounds(day, MONTH if unit >= YEAR else WEEK)
    return DayRange(day, add_days(day, 1), kind="day", displayed=displayed)


_SAME_TIME = "(this|the same) (day=day|time)"

RULES = (
    Rule("count=(COUNT|A) unit=UNIT and A half (ago|back)", _units_and_a_half_ago),
    Rule("count=COUNT and A half unit=UNIT (ago|back)", _units_and_a_half_ago),
    Rule("half A unit=UNIT (ago|back)", _units_and_a_half_ago),
    Rule("the? window=(last|past) count=COUNT? unit=UNIT and A half", _last_units_and_a_half),
    Rule("the? (last|past) count=COUNT and A half unit=UNIT", _last_units_and_a_half),
    Rule("low=COUNT (or|to|DASH|HYPHEN) count=COUNT unit=UNIT (ago|back)", _alternative_counts_ago),
    Rule("low=A unit=UNIT or count=COUNT (ago|back)", _alternative_counts_ago),
    Rule("(the|these)? (last|past) COUNT (or|to|DASH|HYPHEN) count=COUNT unit=UNIT", _last_alternative_counts),
    Rule("the? (last|past) unit=UNIT or count=COUNT (?!UNIT)", _last_alternative_counts),
    Rule("count=(COUNT|A) unit=UNIT ago day=RELDAY", _units_ago_to_the_day),
    Rule("count=(COUNT|A) unit=(year|decade) ago this period=(week|month)", _units_ago_to_the_period),
    Rule("count=(COUNT|A) unit=(week|fortnight) ago weekday=WFULL", _weeks_before_latest_weekday),
    Rule(f"{_SAME_TIME} last unit=(week|month|year)", _same_time),
    Rule(f"{_SAME_TIME} count=(COUNT|A) unit=(week|month|year) ago", _same_time),
)
