"""Ranges of whole days, which time expressions are resolved to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal, NamedTuple

from vmemo.text.temporal.calendar_units import (
    DAY,
    MONTH,
    MONTHS_IN_UNIT,
    WEEK,
    YEAR,
    Bounds,
    add_days,
    add_units,
    period_bounds,
)

RangeKind = Literal["day", "weekday", "offset", "week", "span", "year"]
"""The role of a range in the grammar; "offset" is a day at a counted distance, "span" anything longer than a day."""
PeriodPart = Literal["early", "mid", "late"]
PERIOD_PARTS: tuple[PeriodPart, ...] = ("early", "mid", "late")
Preference = Literal["past", "future"]
OpenBounds = tuple[date | None, date | None]
YearlyBounds = Callable[[int], Bounds | None]


class AnchorOffset(NamedTuple):
    """A distance from the date that the text names before: "on 5 May ... the next day"."""

    unit: int
    amount: int
    to_the_day: bool
    """Count from the day itself, not from the calendar period that contains it."""


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
    anchor_offset: AnchorOffset | None = None
    part: PeriodPart | None = None
    whole: DayRange | None = None
    """The period that this is a part of."""
    either_direction: bool = False
    """May be past or future although it is no weekday and has no yearly bounds: "on the 5th", "over the weekend"."""
    searched: OpenBounds | None = None
    """Bounds for search if they differ from all others: "by 10 July" includes that day."""

    @property
    def bounds(self) -> Bounds | None:
        """Both bounds, or None if a side is open."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def is_ambiguous(self) -> bool:
        """Taken alone it may be past or future, unlike "yesterday" or "last month"."""
        return self.either_direction or self.yearly is not None or self.kind == "weekday"

    @property
    def boundary(self) -> date | None:
        """The date that this marks as the end of another range: "until the end of May" is until May ends."""
        if self.part is None or self.whole is None or self.annotated_as is not None:
            return self.start
        return {"early": self.whole.start, "mid": _midpoint(self.whole), "late": self.whole.end}[self.part]


def _midpoint(days: DayRange) -> date | None:
    bounds = days.bounds
    return bounds and add_days(bounds[0], (bounds[1] - bounds[0]).days // 2)


def single_day(
    day: date | None, *, relative: bool = True, kind: RangeKind = "day", certain: bool = True
) -> DayRange | None:
    """Return the range of one day."""
    return day and DayRange(day, add_days(day, 1), kind=kind, relative=relative, certain=certain)


def whole_period(bounds: Bounds | None, unit: int, *, relative: bool = True, certain: bool = True) -> DayRange | None:
    """Return the range of one calendar period of the unit."""
    kinds: dict[int, RangeKind] = {DAY: "day", WEEK: "week", YEAR: "year"}
    return bounds and DayRange(*bounds, kind=kinds.get(unit, "span"), relative=relative, certain=certain)


def offset_day(day: date, count: int, unit: int) -> DayRange | None:
    """Return the day `count` units later, displayed no more precisely than its unit."""
    moved = add_units(day, count, unit)
    if moved is None:
        return None
    displayed = period_bounds(moved, unit) if unit in MONTHS_IN_UNIT else None
    return DayRange(moved, add_days(moved, 1), kind="offset", displayed=displayed)


def offset_from_anchor(anchor: date, offset: AnchorOffset) -> DayRange | None:
    """Return the day or the calendar period at the offset from the anchor."""
    if offset.to_the_day:
        day = offset_day(anchor, offset.amount, offset.unit)
        return day and replace(day, certain=False)
    return whole_period(period_bounds(anchor, offset.unit, offset.amount), offset.unit, certain=False)


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
    placed = replace(
        days,
        start=bounds[0],
        end=bounds[1],
        yearly=None,
        relative=relative,
        certain=True,
        unannotated=False,
        displayed=None,
    )
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
    return DayRange(
        start,
        end,
        relative=first.relative or last.relative,
        certain=first.certain and last.certain,
        displayed=displayed,
    )


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
    start, end = {"early": (whole.start, half), "mid": (first, third), "late": (half, whole.end)}[part]
    if start is None or end is None or end <= start:
        return None
    return DayRange(
        start,
        end,
        relative=whole.relative,
        yearly=whole.yearly,
        certain=whole.certain,
        unannotated=whole.unannotated,
        part=part,
        whole=whole,
    )
