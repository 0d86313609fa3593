"""Stretches of whole days and the calendar arithmetic that makes them."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

from vmemo.text.temporal.vocabulary import UNITS

Kind = Literal["day", "weekday", "offset", "week", "span", "year"]
Edge = Literal["early", "mid", "late"]
EDGES: tuple[Edge, ...] = ("early", "mid", "late")
Prefer = Literal["past", "future"]
Days = tuple[date, date]
Borders = tuple[date | None, date | None]
Follows = tuple[int, int, bool]
"""Unit, number of units, and whether to the day: a place seen from the date that was named before, if one was."""
Yearly = Callable[[int], Days | None]

ONE_DAY = timedelta(days=1)
FIRST_YEAR, LAST_YEAR = 2, 9990
"""Years outside are refused, so that no time zone can push a border out of datetime's range."""
DAY, WEEK, FORTNIGHT, MONTH, QUARTER, YEAR, DECADE, CENTURY, WEEKEND = range(len(UNITS))
_MONTHS_IN = {MONTH: 1, QUARTER: 3, YEAR: 12, DECADE: 120, CENTURY: 1200}
_DAYS_IN = {DAY: 1, WEEK: 7, FORTNIGHT: 14, WEEKEND: 7}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Days from start up to end, end excluded; `yearly` gives the same days in another year when none was named."""

    start: date | None
    end: date | None
    kind: Kind = "span"
    relative: bool = True
    yearly: Yearly | None = None
    quiet: bool = False
    shown: Days | None = None
    label: Days | None = None
    follows: Follows | None = None
    edge: Edge | None = None
    whole: Stretch | None = None
    either: bool = False
    """No weekday and of no certain month: on the 5th, over the weekend."""
    meant: Borders | None = None
    """For searching, where it is neither the stretch nor what is shown: "by 10 July" holds that day."""

    @property
    def days(self) -> Days | None:
        """Both borders, or None when one is open."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def is_open(self) -> bool:
        """Whether it alone could be past or to come, as "yesterday" and "last month" can't."""
        return self.either or self.yearly is not None or self.kind == "weekday"

    @property
    def point(self) -> date | None:
        """Where the stretch stands as the end of a range: "the end of May" is the moment May ends."""
        if self.edge is None or self.whole is None:
            return self.start
        return {"early": self.whole.start, "mid": middle(self.whole), "late": self.whole.end}[self.edge]


def middle(stretch: Stretch) -> date | None:
    """The day halfway through."""
    days = stretch.days
    return days and days[0] + timedelta(days=(days[1] - days[0]).days // 2)


def shift(day: date, count: int, unit: int) -> date | None:
    """The day `count` units away, at the month's last day when the same number is missing; None if off the calendar."""
    try:
        if unit in _DAYS_IN:
            moved = day + timedelta(days=count * _DAYS_IN[unit])
            return moved if FIRST_YEAR <= moved.year <= LAST_YEAR else None
    except OverflowError:
        return None
    months = day.year * 12 + day.month - 1 + count * _MONTHS_IN[unit]
    year, month = months // 12, months % 12 + 1
    if not FIRST_YEAR <= year <= LAST_YEAR:
        return None
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def make_day(year: int, month: int, day: int) -> date | None:
    """The date, or None when the calendar has no such day."""
    if not FIRST_YEAR <= year <= LAST_YEAR or not 1 <= month <= 12:
        return None
    return date(year, month, day) if 1 <= day <= calendar.monthrange(year, month)[1] else None


def following(anchor: date, follows: Follows) -> Stretch | None:
    """What follows an earlier date: the same day some units on, or the whole neighbouring period."""
    unit, count, exact = follows
    if exact:
        return offset_day(anchor, count, unit)
    return of_period(period(anchor, unit, count), unit)


def offset_day(day: date, count: int, unit: int) -> Stretch | None:
    """A day some units away, shown no more precisely than its unit."""
    moved = shift(day, count, unit)
    if moved is None:
        return None
    shown = period(moved, unit) if unit in _MONTHS_IN else None
    return Stretch(moved, moved + ONE_DAY, kind="offset", shown=shown)


def one_day(day: date | None) -> Days | None:
    """The day as a half-open pair."""
    return day and (day, day + ONE_DAY)


def floor(day: date, unit: int) -> date:
    """The first day of the unit's period that holds the day; weeks begin on Monday."""
    if unit in (WEEK, FORTNIGHT):
        return day - timedelta(days=day.weekday())
    if unit == WEEKEND:
        return day + timedelta(days=5 - day.weekday())
    if unit == DAY:
        return day
    months = day.year * 12 + day.month - 1
    size = _MONTHS_IN[unit]
    first = months - months % size
    return date(max(first // 12, 1), first % 12 + 1, 1)


def period(day: date, unit: int, offset: int = 0, count: int = 1) -> Days | None:
    """`count` calendar periods, the first one `offset` periods away from the one that holds the day."""
    start = shift(floor(day, unit), offset, unit)
    if start is None:
        return None
    end = start + timedelta(days=2) if unit == WEEKEND else shift(start, count, unit)
    return end and (start, end)


def kind_of(unit: int) -> Kind:
    """How a period of the unit behaves in the grammar."""
    kinds: dict[int, Kind] = {DAY: "day", WEEK: "week", YEAR: "year"}
    return kinds.get(unit, "span")


def of_period(days: Days | None, unit: int, *, relative: bool = True) -> Stretch | None:
    """A fixed stretch that is a period of the unit."""
    return days and Stretch(*days, kind=kind_of(unit), relative=relative)


def fixed_day(day: date | None, *, relative: bool = True, kind: Kind = "day") -> Stretch | None:
    """A fixed stretch of one day."""
    return day and Stretch(day, day + ONE_DAY, kind=kind, relative=relative)


def floating(yearly: Yearly, today: date, prefer: Prefer, kind: Kind = "day") -> Stretch | None:
    """Days that come every year, placed in the nearest year on the preferred side of today."""
    steps = range(-1, 9) if prefer == "future" else range(0, -9, -1)
    for step in steps:
        days = yearly(today.year + step)
        if days and (days[1] > today if prefer == "future" else days[0] <= today):
            return Stretch(*days, kind=kind, yearly=yearly)
    return None


def in_year(stretch: Stretch, year: int, *, relative: bool = False) -> Stretch | None:
    """The same days in a given year."""
    if stretch.whole is not None and stretch.edge is not None:
        whole = in_year(stretch.whole, year, relative=relative)
        return whole and part(whole, stretch.edge)
    days = stretch.yearly and stretch.yearly(year)
    if days is None:
        return None
    placed = replace(stretch, start=days[0], end=days[1], yearly=None, relative=relative, quiet=False, shown=None)
    return through_last_day(placed) if stretch.shown else placed


def between(first: Stretch, last: Stretch) -> Stretch | None:
    """From where the first begins to where the last begins, and shown with the last inside."""
    start, end = first.point, last.point
    if start is None or end is None or end <= start:
        return None
    shown = (start, last.end) if last.end and last.edge is None else None
    return Stretch(start, end, relative=first.relative or last.relative, shown=shown)


def through_last_day(stretch: Stretch) -> Stretch:
    """The same range, shown with the day on which it ends."""
    days = stretch.days
    return replace(stretch, shown=(days[0], days[1] + ONE_DAY)) if days else stretch


def part(whole: Stretch, edge: Edge) -> Stretch | None:
    """The early, middle or late part: halves of a stretch, and its middle two quarters (or a month's second third)."""
    if whole.start is None or whole.end is None:
        return None
    length = (whole.end - whole.start).days
    months = (whole.end.year - whole.start.year) * 12 + whole.end.month - whole.start.month
    if whole.start.day == whole.end.day == 1 and months % 4 == 0:
        first, half, third = (shift(whole.start, months * quarter // 4, MONTH) for quarter in (1, 2, 3))
    elif 28 <= length <= 31:
        first, half, third = (whole.start + timedelta(days=days) for days in (9, 15, 20))
    else:
        first, half, third = (
            whole.start + timedelta(days=days) for days in (length // 4, (length - 1) // 2, length * 3 // 4)
        )
    borders = {"early": (whole.start, half), "mid": (first, third), "late": (half, whole.end)}
    start, end = borders[edge]
    if start is None or end is None or end <= start:
        return None
    return Stretch(start, end, relative=whole.relative, yearly=whole.yearly, quiet=whole.quiet, edge=edge, whole=whole)


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> date | None:
    """The nth such weekday of a month; -1 is the last."""
    first = make_day(year, month, 1)
    if first is None:
        return None
    if nth < 0:
        last = first.replace(day=calendar.monthrange(year, month)[1])
        return last - timedelta(days=(last.weekday() - weekday) % 7)
    day = first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1))
    return day if day.month == month else None


def two_digit_year(value: int, today: date) -> int:
    """A short year as the full one that is at most twenty years ahead."""
    year = today.year - today.year % 100 + value
    return year if year <= today.year + 20 else year - 100
