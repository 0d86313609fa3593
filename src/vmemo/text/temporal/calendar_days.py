"""Calendar arithmetic that never raises: units, ranges of whole days and lengths of time.

A result outside the calendar is its first or last day.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

# Units and dates.

Bounds = tuple[date, date]
"""The first day, and the day after the last."""

UNITS = ("day", "week", "fortnight", "month", "quarter", "year", "decade", "weekend")
FIRST_YEAR, LAST_YEAR = 2, 9990
"""Supported years. No time zone can move a midnight within them out of datetime's range."""
_LAST_ORDINAL = date.max.toordinal()
_FIRST_DAY, _LAST_BOUND = date(FIRST_YEAR, 1, 1), date(LAST_YEAR + 1, 1, 1)
DAY, WEEK, FORTNIGHT, MONTH, QUARTER, YEAR, DECADE, WEEKEND = range(len(UNITS))
MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY, SUNDAY = range(7)
MONTHS_IN_UNIT = {MONTH: 1, QUARTER: 3, YEAR: 12, DECADE: 120}
_DAYS_IN_UNIT = {DAY: 1, WEEK: 7, FORTNIGHT: 14, WEEKEND: 7}


def make_date(year: int | None, month: int, day: int) -> date | None:
    """Return the date, or None if it does not exist."""
    if year is None or not FIRST_YEAR <= year <= LAST_YEAR or not 1 <= month <= 12:
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
    return day and (day, add_days(day, 1))


def previous_weekday(day: date, weekday: int) -> date:
    """Return the last such weekday before the day."""
    return add_days(day, -((day.weekday() - weekday - 1) % 7) - 1)


def next_weekday(day: date, weekday: int) -> date:
    """Return the first such weekday after the day."""
    return add_days(day, (weekday - day.weekday() - 1) % 7 + 1)


def weekday_on_or_after(day: date, weekday: int) -> date:
    """Return the day itself or the first such weekday after it."""
    return add_days(day, (weekday - day.weekday()) % 7)


def nth_weekday(bounds: Bounds, weekday: int, nth: int) -> date | None:
    """Return the nth such weekday from the first day of a period on; the last one if `nth` is not positive."""
    if nth > 0:
        return add_units(weekday_on_or_after(bounds[0], weekday), nth - 1, WEEK)
    return previous_weekday(bounds[1], weekday)


# Ranges of whole days, which time expressions are resolved to.

RangeKind = Literal["day", "weekday", "offset", "week", "span", "year"]
"""The role of a range in the grammar; "offset" is a day at a counted distance, "span" anything longer than a day."""
PeriodPart = Literal["early", "mid", "late", "end"]
PERIOD_PARTS: tuple[PeriodPart, ...] = ("early", "mid", "late", "end")
Preference = Literal["past", "future"]
_OpenBounds = tuple[date | None, date | None]
YearlyBounds = Callable[[int], Bounds | None]
Anchored = Callable[[Bounds], "DayRange | None"]


@dataclass(frozen=True, slots=True)
class DayRange:
    """Days from `start` up to and excluding `end`; a missing bound leaves that side open."""

    start: date | None
    end: date | None
    kind: RangeKind = "span"
    relative: bool = True
    """Depends on the reference date."""
    yearly: YearlyBounds | None = None
    """The same days of another year, if the text names no year."""
    certain: bool = True
    """The words mean these days alone, unlike "a few weeks ago", "in two weeks", "next Friday" and "week 3"."""
    unannotated: bool = False
    """Gets no date in an annotated text, as "today"."""
    displayed: Bounds | None = None
    """Wider bounds for display and search: "from May 3 to 5" includes the 5th, "two years ago" is that whole year."""
    annotated_as: Bounds | None = None
    """Bounds to print in an annotated text: the March of "since March"."""
    anchored: Anchored | None = None
    """Counts these days from the date that the text names before: "on 5 May ... the next day"."""
    part: PeriodPart | None = None
    whole: DayRange | None = None
    """The period that this is a part of."""
    either_direction: bool = False
    """May be past or future although it is no weekday and has no yearly bounds: "on the 5th", "over the weekend"."""
    searched: _OpenBounds | None = None
    """Bounds for search if they differ from all others: "by 10 July" includes that day."""

    @property
    def bounds(self) -> Bounds | None:
        """Both bounds, or None if a side is open."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def named(self) -> Bounds | None:
        """The days that the words name: the Friday of "by Friday", and the last day of "the end of May"."""
        if self.part == "end" and self.whole and self.whole.end:
            return add_days(self.whole.end, -1), self.whole.end
        return self.annotated_as or self.displayed or self.bounds

    @property
    def is_ambiguous(self) -> bool:
        """Taken alone it may be past or future, unlike "yesterday" or "last month"."""
        return self.either_direction or self.yearly is not None or self.kind == "weekday"

    @property
    def boundary(self) -> date | None:
        """The date that this marks as the end of another range: "until the end of May" is until May ends."""
        if self.part is None or self.whole is None or self.annotated_as is not None:
            return self.start
        bounds = self.whole.bounds
        middle = bounds and add_days(bounds[0], (bounds[1] - bounds[0]).days // 2)
        return {"early": self.whole.start, "mid": middle}.get(self.part, self.whole.end)


def single_day(
    day: date | None, *, relative: bool = True, kind: RangeKind = "day", certain: bool = True
) -> DayRange | None:
    return day and DayRange(day, add_days(day, 1), kind=kind, relative=relative, certain=certain)


def whole_period(bounds: Bounds | None, unit: int, *, relative: bool = True, certain: bool = True) -> DayRange | None:
    """Return the range of one calendar period of the unit."""
    kinds: dict[int, RangeKind] = {DAY: "day", WEEK: "week", YEAR: "year"}
    return bounds and DayRange(*bounds, kind=kinds.get(unit, "span"), relative=relative, certain=certain)


def nearest_yearly(yearly: YearlyBounds, today: date, prefer: Preference, kind: RangeKind = "day") -> DayRange | None:
    """Return the yearly days that are nearest to today on the preferred side."""
    steps = range(-1, 9) if prefer == "future" else range(0, -9, -1)
    for step in steps:
        bounds = yearly(today.year + step)
        if bounds and (bounds[1] > today if prefer == "future" else bounds[0] <= today):
            return DayRange(*bounds, kind=kind, yearly=yearly)
    return None


def in_year(days: DayRange, year: int, *, relative: bool = False) -> DayRange | None:
    """Return the same days of the given year."""
    if days.whole is not None and days.part is not None:
        whole = in_year(days.whole, year, relative=relative)
        return whole and part_of(whole, days.part)
    bounds = days.yearly and days.yearly(year)
    if bounds is None:
        return None
    placed = DayRange(*bounds, kind=days.kind, relative=relative)
    return display_last_day(placed) if days.displayed else placed


def range_between(first: DayRange, last: DayRange) -> DayRange | None:
    """Return the days from the start of the first to the start of the last, displayed with the last one included."""
    start, end = first.boundary, last.boundary
    if start is not None and start == end and first.part and last.part:
        # "Late 2017 to early 2018" is both parts.
        start, end = first.start, last.end
    if start is None or end is None or end <= start:
        return None
    displayed = (start, last.end) if last.end and last.part is None else None
    certain, relative = first.certain and last.certain, first.relative or last.relative
    either = first.either_direction
    return DayRange(start, end, relative=relative, certain=certain, displayed=displayed, either_direction=either)


def display_last_day(days: DayRange) -> DayRange:
    """Return the same range, displayed with the day that it ends on included."""
    bounds = days.bounds
    return replace(days, displayed=(bounds[0], add_days(bounds[1], 1))) if bounds else days


def part_of(whole: DayRange, part: PeriodPart) -> DayRange | None:
    """Return the early half, the late half, or the middle: two quarters of a range, the second third of a month."""
    if whole.start is None or whole.end is None:
        return None
    length = (whole.end - whole.start).days
    months = (whole.end.year - whole.start.year) * 12 + whole.end.month - whole.start.month
    if whole.start.day == whole.end.day == 1 and months % 4 == 0:
        first, half, third = (add_units(whole.start, months * quarter // 4, MONTH) for quarter in (1, 2, 3))
    elif 28 <= length <= 31:
        first, half, third = (add_days(whole.start, days) for days in (9, 15, 20))
    else:
        first, half, third = (add_days(whole.start, days) for days in (length // 4, (length - 1) // 2, length * 3 // 4))
    start, end = {"early": (whole.start, half), "mid": (first, third)}.get(part, (half, whole.end))
    if start is None or end is None or end <= start:
        return None
    return replace(whole, start=start, end=end, kind="span", displayed=None, part=part, whole=whole)


# Lengths of time: "two weeks", "a year and a half", "a few months".

_SMALLER = {WEEK: (7, DAY), MONTH: (30, DAY), YEAR: (12, MONTH), DECADE: (10, YEAR)}
"""The smaller units that a unit consists of."""


@dataclass(frozen=True, slots=True)
class CalendarLength:
    """A length of time. A vague one is at least `low` and at most `high` units, and usually `count`."""

    count: int
    unit: int
    exact: bool = True
    """The words name one length, unlike "a couple of weeks" and "two or three weeks"."""
    low: int = 0
    high: int = 0

    def plus(self, other: CalendarLength) -> CalendarLength | None:
        """Return the sum with a length in the next smaller unit, such as weeks and days; None for other units."""
        number, unit = _SMALLER.get(self.unit, (0, None))
        exact = self.exact and other.exact and self.unit != MONTH
        return CalendarLength(self.count * number + other.count, other.unit, exact) if other.unit == unit else None

    def move(self, day: date, sign: int) -> date | None:
        """Return the day that much later, or earlier if the sign is negative."""
        return add_units(day, sign * self.count, self.unit)

    def offset_from(self, day: date, sign: int) -> DayRange | None:
        """Return the day at this distance, displayed no more precisely than its unit, or the range of a vague one."""
        near, far = (add_units(day, sign * (count or self.count), self.unit) for count in (self.low, self.high))
        if near is None or far is None:
            return None
        start, end = min(near, far), max(near, far)
        first, last = period_bounds(start, self.unit), period_bounds(end, self.unit)
        displayed = (first[0], last[1]) if first and last and self.unit in MONTHS_IN_UNIT else None
        return DayRange(start, add_days(end, 1), kind="span" if self.high else "offset", displayed=displayed)


def half_of(unit: int) -> CalendarLength | None:
    number, smaller = _SMALLER.get(unit, (0, 0))
    return CalendarLength(number // 2, smaller) if number else None
