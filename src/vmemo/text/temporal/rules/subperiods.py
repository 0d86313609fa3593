"""Pieces of a longer stretch: the first week of May, the last day of the year, the second Sunday in June."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from vmemo.text.temporal.day_range import (
    DAY,
    ONE_DAY,
    WEEK,
    Days,
    Stretch,
    Yearly,
    part,
    period,
    shift,
    through_last_day,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.reading import Reading

Cut = Callable[[Days], Days | None]


def _within(reading: Reading, cut: Cut) -> Stretch | None:
    """A piece of a longer stretch, which floats when the stretch does."""
    x = reading.stretch("x")
    days = x.days and cut(x.days)
    if days is None:
        return None
    yearly: Yearly | None = None
    if x.yearly is not None:
        every_year = x.yearly

        def yearly_cut(year: int) -> Days | None:
            found = every_year(year)
            return found and cut(found)

        yearly = yearly_cut
    return Stretch(*days, relative=x.relative, yearly=yearly)


def _week_in(reading: Reading) -> Stretch | None:
    """Weeks belong where their Thursday is."""
    found = _within(reading, lambda days: _nth_weeks(days, _nth(reading), 1))
    return found and replace(found, kind="week")


def _weeks_in(reading: Reading) -> Stretch | None:
    return _within(reading, lambda days: _nth_weeks(days, _nth(reading), reading.value("n")))


def _nth(reading: Reading) -> int:
    return reading.value("o")


def _nth_weeks(days: Days, nth: int, count: int) -> Days | None:
    start, end = days
    if nth > 0:
        thursday = start + timedelta(days=(3 - start.weekday()) % 7 + 7 * (nth - 1))
        monday = thursday - timedelta(days=3)
        return (monday, monday + timedelta(days=7 * count)) if thursday < end else None
    final = end - ONE_DAY
    last_thursday = final - timedelta(days=(final.weekday() - 3) % 7)
    sunday = last_thursday + timedelta(days=4)
    return sunday - timedelta(days=7 * count), sunday


def _days_in(reading: Reading) -> Stretch | None:
    """the first three days of May, the last two months of 2022."""
    unit, nth, count = reading.value("u"), _nth(reading), reading.value("n")

    def cut(days: Days) -> Days | None:
        other = shift(days[0], count, unit) if nth > 0 else shift(days[1], -count, unit)
        pair = other and ((days[0], other) if nth > 0 else (other, days[1]))
        return pair if pair and days[0] <= pair[0] < pair[1] <= days[1] else None

    return _within(reading, cut)


def _nth_unit_in(reading: Reading) -> Stretch | None:
    """the third month of 2022, the 15th day of next month, the last day of May."""
    unit, nth = reading.value("u"), _nth(reading)

    def cut(days: Days) -> Days | None:
        start = shift(days[0], nth - 1, unit) if nth > 0 else shift(days[1], -1, unit)
        end = start and shift(start, 1, unit)
        return (start, end) if start and end and end <= days[1] else None

    found = _within(reading, cut)
    return found and replace(found, kind="day" if unit == DAY else "span")


def _half(reading: Reading) -> Stretch | None:
    if _nth(reading) not in (1, 2, -1):
        return None
    return part(reading.stretch("x"), "early" if _nth(reading) == 1 else "late")


def _nth_weekday_in(reading: Reading) -> Stretch | None:
    named, nth = reading.stretch("w").start, _nth(reading)
    weekday = named.weekday() if named else 0

    def cut(days: Days) -> Days | None:
        if nth > 0:
            day = days[0] + timedelta(days=(weekday - days[0].weekday()) % 7 + 7 * (nth - 1))
        else:
            final = days[1] - ONE_DAY
            day = final - timedelta(days=(final.weekday() - weekday) % 7)
        return (day, day + ONE_DAY) if days[0] <= day < days[1] else None

    found = _within(reading, cut)
    return found and replace(found, kind="day")


def _nth_weekend_in(reading: Reading) -> Stretch | None:
    nth = _nth(reading)

    def cut(days: Days) -> Days | None:
        final = days[1] - ONE_DAY
        if nth > 0:
            saturday = days[0] + timedelta(days=(5 - days[0].weekday()) % 7 + 7 * (nth - 1))
        else:
            saturday = final - timedelta(days=(final.weekday() - 5) % 7)
        return (saturday, saturday + timedelta(days=2)) if days[0] <= saturday < days[1] else None

    return _within(reading, cut)


def _week_holding(reading: Reading) -> Stretch | None:
    found = _within(reading, lambda days: period(days[0], WEEK))
    return found and replace(found, kind="week")


def _weekday_in_week(reading: Reading) -> Stretch | None:
    week, named = reading.stretch("x"), reading.stretch("w")
    if named.start is None:
        return None
    index = named.start.weekday()
    found = _within(reading, lambda days: (days[0] + timedelta(days=index), days[0] + timedelta(days=index + 1)))
    return found and replace(found, kind="day", relative=week.relative)


def _weekdays_in_week(reading: Reading) -> Stretch | None:
    """from Tuesday to Thursday next week."""
    first, last = reading.stretch("w").start, reading.stretch("b").start
    if first is None or last is None or first.weekday() >= last.weekday():
        return None
    start, end = timedelta(days=first.weekday()), timedelta(days=last.weekday())
    found = _within(reading, lambda days: (days[0] + start, days[0] + end))
    return found and through_last_day(found)


_NTH = "o=(ORD|last)"

RULES = (
    rule(f"the? {_NTH} week (of|in) x=SPAN", _week_in),
    rule("the? o=(ORDONE|last) n=COUNT week (of|in) x=SPAN", _weeks_in),
    rule("the? o=(ORDONE|last) n=COUNT u=UNIT (of|in) x=SPAN", _days_in),
    rule(f"the? {_NTH} u=UNIT (of|in) x=SPAN", _nth_unit_in),
    rule("the? o=ORD u=quarter x=YEAR", _nth_unit_in),
    rule(f"the? {_NTH} half (of|in) x=SPAN", _half),
    rule(f"the? {_NTH} w=WEEKDAY (of|in) x=SPAN", _nth_weekday_in),
    rule(f"the? {_NTH} weekend (of|in) x=SPAN", _nth_weekend_in),
    rule("the? week (of|starting|beginning) (on|with)? x=DAY", _week_holding),
    rule("x=DAYF week", _week_holding),
    rule("w SLASH c x=DAY", _week_holding),
)
WEEKDAYS = (
    rule("x=WEEK (on|COMMA)? w=WEEKDAY", _weekday_in_week),
    rule("on? w=WEEKDAY (of|COMMA|in)? x=WEEK", _weekday_in_week),
    rule("from? w=WEEKDAY TO b=WEEKDAY (of|COMMA|in)? x=WEEK", _weekdays_in_week),
    rule("between w=WEEKDAY and b=WEEKDAY (of|COMMA|in)? x=WEEK", _weekdays_in_week),
)
