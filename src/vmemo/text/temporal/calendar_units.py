"""Calendar units and date arithmetic that never raises: a result outside the calendar is its first or last day."""

from __future__ import annotations

import calendar
from datetime import date

from vmemo.text.temporal.vocabulary import UNITS

Bounds = tuple[date, date]
"""The first day, and the day after the last."""

FIRST_YEAR, LAST_YEAR = 2, 9990
"""Supported years. No time zone can move a midnight within them out of datetime's range."""
_LAST_ORDINAL = date.max.toordinal()
_FIRST_DAY, _LAST_BOUND = date(FIRST_YEAR, 1, 1), date(LAST_YEAR + 1, 1, 1)
DAY, WEEK, FORTNIGHT, MONTH, QUARTER, YEAR, DECADE, CENTURY, WEEKEND = range(len(UNITS))
MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = range(7)
MONTHS_IN_UNIT = {MONTH: 1, QUARTER: 3, YEAR: 12, DECADE: 120, CENTURY: 1200}
_DAYS_IN_UNIT = {DAY: 1, WEEK: 7, FORTNIGHT: 14, WEEKEND: 7}


def make_date(year: int, month: int, day: int) -> date | None:
    """Return the date, or None if it does not exist."""
    if not FIRST_YEAR <= year <= LAST_YEAR or not 1 <= month <= 12:
        return None
    return date(year, month, day) if 1 <= day <= calendar.monthrange(year, month)[1] else None


def add_days(day: date, count: int) -> date:
    """Return the date `count` days later, or the first or last one that exists."""
    return date.fromordinal(min(max(day.toordinal() + count, 1), _LAST_ORDINAL))


def is_supported(day: date | None) -> bool:
    """Return True for a bound within the supported years, or a missing one."""
    return day is None or _FIRST_DAY <= day <= _LAST_BOUND


def add_units(day: date, count: int, unit: int) -> date | None:
    """Return the date `count` units later, clipped to the last day of a shorter month; None if it is not supported."""
    if unit in _DAYS_IN_UNIT:
        moved = add_days(day, count * _DAYS_IN_UNIT[unit])
        return moved if FIRST_YEAR <= moved.year <= LAST_YEAR else None
    months = day.year * 12 + day.month - 1 + count * MONTHS_IN_UNIT[unit]
    year, month = months // 12, months % 12 + 1
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def period_start(day: date, unit: int) -> date:
    """Return the first day of the calendar period that contains the day; weeks start on Monday."""
    if unit in (WEEK, FORTNIGHT):
        return add_days(day, -day.weekday())
    if unit == WEEKEND:
        return add_days(day, SATURDAY - day.weekday())
    if unit == DAY:
        return day
    months = day.year * 12 + day.month - 1
    first = months - months % MONTHS_IN_UNIT[unit]
    return date(max(first // 12, 1), first % 12 + 1, 1)


def period_bounds(day: date, unit: int, offset: int = 0, count: int = 1) -> Bounds | None:
    """Return the bounds of `count` calendar periods, starting `offset` periods after the one that contains the day."""
    start = add_units(period_start(day, unit), offset, unit)
    if start is None:
        return None
    end = add_days(start, 2) if unit == WEEKEND else add_units(start, count, unit)
    return end and (start, end)


def day_bounds(day: date | None) -> Bounds | None:
    """Return the bounds of one day."""
    return day and (day, add_days(day, 1))


def previous_weekday(day: date, weekday: int) -> date:
    """Return the last such weekday before the day."""
    return add_days(day, -((day.weekday() - weekday - 1) % 7) - 1)


def next_weekday(day: date, weekday: int) -> date:
    """Return the first such weekday after the day."""
    return add_days(day, (weekday - day.weekday() - 1) % 7 + 1)


def weekday_on_or_before(day: date, weekday: int) -> date:
    """Return the day itself or the last such weekday before it."""
    return add_days(day, -((day.weekday() - weekday) % 7))


def weekday_on_or_after(day: date, weekday: int) -> date:
    """Return the day itself or the first such weekday after it."""
    return add_days(day, (weekday - day.weekday()) % 7)


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> date | None:
    """Return the nth such weekday of a month; -1 is the last."""
    first = make_date(year, month, 1)
    if first is None:
        return None
    if nth < 0:
        return weekday_on_or_before(first.replace(day=calendar.monthrange(year, month)[1]), weekday)
    day = add_days(weekday_on_or_after(first, weekday), 7 * (nth - 1))
    return day if day.month == month else None


def expand_year(two_digits: int, today: date) -> int:
    """Return the full year of a two-digit one, at most twenty years ahead of today."""
    year = today.year - today.year % 100 + two_digits
    return year if year <= today.year + 20 else year - 100
