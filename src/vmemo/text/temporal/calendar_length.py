"""Lengths of time in calendar units: "two weeks and three days", "a year and a half", "a few months"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from vmemo.text.temporal.calendar_units import (
    CENTURY,
    DAY,
    DECADE,
    MONTH,
    MONTHS_IN_UNIT,
    WEEK,
    YEAR,
    add_days,
    add_units,
    period_bounds,
)
from vmemo.text.temporal.day_range import DayRange, offset_day

UnitCounts = tuple[tuple[int, int], ...]
"""Counts and units, the longest unit first."""
_HALF_UNIT = {WEEK: (3, DAY), MONTH: (15, DAY), YEAR: (6, MONTH), DECADE: (5, YEAR), CENTURY: (5, DECADE)}
"""Half of each unit, as a number of smaller units."""


@dataclass(frozen=True, slots=True)
class CalendarLength:
    """A length of time. Vague words mean anything from the shortest to the longest one."""

    counts: UnitCounts
    shortest: UnitCounts = ()
    longest: UnitCounts = ()
    exact: bool = True
    """The words name one length, unlike "a couple of weeks" and "two or three weeks"."""

    @classmethod
    def of(cls, count: int, unit: int, *, exact: bool = True) -> CalendarLength:
        """Return that many units."""
        return cls(((count, unit),), exact=exact)

    @classmethod
    def between(cls, low: int, high: int, unit: int, *, usual: int) -> CalendarLength:
        """Return a vague length of at least `low` and at most `high` units."""
        return cls(((usual, unit),), ((low, unit),), ((high, unit),), exact=False)

    @property
    def unit(self) -> int:
        """The smallest unit, which is the precision of the length."""
        return min((unit for _, unit in self.counts), key=_days_in_unit)

    @property
    def single(self) -> tuple[int, int] | None:
        """The count and unit if there is only one unit."""
        return self.counts[0] if len(self.counts) == 1 else None

    def plus(self, other: CalendarLength) -> CalendarLength:
        """Return the sum of both."""
        return CalendarLength(self.counts + other.counts, exact=self.exact and other.exact)

    def plus_half(self) -> CalendarLength | None:
        """Return the length and a half of its unit, if that unit has halves."""
        half = half_of(self.unit)
        return half and self.plus(half)

    def move(self, day: date, sign: int) -> date | None:
        """Return the day that much later, or earlier if the sign is negative."""
        return _move(day, self.counts, sign)

    def offset_from(self, day: date, sign: int) -> DayRange | None:
        """Return the day at this distance, displayed no more precisely than its unit, or the range of a vague one."""
        if not self.longest:
            moved = self.move(day, sign)
            return moved and offset_day(moved, 0, self.unit)
        near, far = _move(day, self.shortest, sign), _move(day, self.longest, sign)
        if near is None or far is None:
            return None
        start, end = min(near, far), max(near, far)
        first, last = period_bounds(start, self.unit), period_bounds(end, self.unit)
        displayed = (first[0], last[1]) if first and last and self.unit in MONTHS_IN_UNIT else None
        return DayRange(start, add_days(end, 1), displayed=displayed)


def half_of(unit: int) -> CalendarLength | None:
    """Return half of a unit."""
    half = _HALF_UNIT.get(unit)
    return half and CalendarLength.of(*half)


def _days_in_unit(unit: int) -> int:
    return 30 * MONTHS_IN_UNIT[unit] if unit in MONTHS_IN_UNIT else 1 if unit == DAY else 7


def _move(day: date, counts: UnitCounts, sign: int) -> date | None:
    moved: date | None = day
    for count, unit in counts:
        moved = moved and add_units(moved, sign * count, unit)
    return moved
