"""Dates, intervals and lengths of time in words.

A month is complete on the same day of the next month, and a year after twelve months: 31 January to 28 February is 4
weeks, and 31 January to 1 March is 1 month and 1 day, counted from the last day of February. Adding the months and
then the days to the earlier date always gives the later one.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo

from vmemo.models import Interval
from vmemo.text.temporal.calendar_days import Bounds, add_days

# Intervals and ranges of days.


def format_interval(interval: Interval, zone: tzinfo = UTC) -> str:
    """Return a short text for an interval, such as "7 May 2023", "May 2023", "since 7 May 2023" or "any time"."""
    start = _local_date(interval.start, zone)
    end = _local_date(interval.end, zone, round_up=True)
    if start is None or end is None:
        return f"since {format_date(start)}" if start else f"before {format_date(end)}" if end else "any time"
    return format_days((start, max(end, add_days(start, 1))))


def _local_date(instant: datetime | None, zone: tzinfo, *, round_up: bool = False) -> date | None:
    if instant is None:
        return None
    with suppress(OverflowError):
        # A local date outside the calendar is replaced with the given one.
        instant = instant.astimezone(zone)
    return add_days(instant.date(), 1) if round_up and instant.time() != time.min else instant.date()


def format_days(bounds: Bounds) -> str:
    """Return a short text for a range of whole days, such as "5-11 June 2023" or "June-August 2022"."""
    first = bounds[0]
    last = max(first, add_days(bounds[1], -1))
    if first == last:
        return format_date(first)
    if first.day == 1 and bounds[1].day == 1:
        return _format_months(first, last)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}-{format_date(last)}"
    if first.year == last.year:
        return f"{first.day} {first:%B} - {format_date(last)}"
    return f"{format_date(first)} - {format_date(last)}"


def _format_months(first: date, last: date) -> str:
    if first.month == 1 and last.month == 12 and first.year < last.year:
        decade = first.year % 10 == 0 and last.year == first.year + 9
        return f"{first.year}s" if decade else f"{first.year}-{last.year}"
    if first.year == last.year:
        if (first.month, last.month) == (1, 12):
            return str(first.year)
        return f"{first:%B} {first.year}" if first.month == last.month else f"{first:%B}-{last:%B} {first.year}"
    return f"{first:%B} {first.year} - {last:%B} {last.year}"


def format_date(day: date) -> str:
    """Return a date such as "7 May 2023"."""
    return f"{day.day} {day:%B} {day.year}"


# Lengths of time between dates, counted by the calendar.


@dataclass(frozen=True, slots=True)
class DateSpan:
    """Days from the first to the last, both included: a whole period, or an unknown day within it."""

    first: date
    last: date

    @property
    def is_day(self) -> bool:
        return self.first == self.last

    @property
    def months(self) -> int | None:
        """The number of whole calendar months, or None if the span starts or ends within one."""
        if self.first.day != 1 or self.last.day != calendar.monthrange(self.last.year, self.last.month)[1]:
            return None
        return _month_of(self.last) - _month_of(self.first) + 1

    @property
    def is_year(self) -> bool:
        return self.months == 12 and self.first.month == 1


def format_weekday_date(day: date) -> str:
    """Return a date such as "Sunday, 7 May 2023"."""
    return f"{day:%A}, {format_date(day)}"


def describe_span(span: DateSpan, *, weekday: bool = True, moment: bool = False) -> str:
    """Return a day with its weekday, or "within" a longer span; `moment` means an unknown time within the span."""
    if span.is_day:
        return format_weekday_date(span.first) if weekday else format_date(span.first)
    preposition = "some time in" if moment or span.months == 1 or span.is_year else "within"
    return f"{preposition} {format_days((span.first, add_days(span.last, 1)))}"


def months_and_days(earlier: date, later: date) -> tuple[int, int]:
    """Return the complete months between two dates, and the remaining days."""
    months = _month_of(later) - _month_of(earlier) - (later.day < earlier.day)
    return months, (later - add_months(earlier, months)).days


def add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of a shorter month."""
    year, month = divmod(_month_of(day) + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def count_noun(number: int, unit: str) -> str:
    """Return a number with its noun, such as "1 day" or "2 days"."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def exact_lengths(earlier: date, later: date) -> list[str]:
    """Return an exact length in every unit that it fills: days, weeks, months, years."""
    days = (later - earlier).days
    months, left = months_and_days(earlier, later)
    ways = [
        (True, [(days, "day")]),
        (days >= 7, [(days // 7, "week"), (days % 7, "day")]),
        (months >= 1, [(months, "month"), (left, "day")]),
        (months >= 12, [(months // 12, "year"), (months % 12, "month"), (left, "day")]),
    ]
    return [_enumerate(parts) for fills, parts in ways if fills]


def length_ranges(near: tuple[date, date], far: tuple[date, date]) -> list[str]:
    """Return the range of an inexact length in whole units, from the shortest to the longest possible one."""
    least, most = _complete_units(*near), _complete_units(*far)
    units = ("day", "whole week", "whole month", "whole year")
    return [
        count_noun(high, unit) if low == high else f"{low} to {count_noun(high, unit)}"
        for low, high, unit in zip(least, most, units, strict=True)
        if high
    ]


def calendar_difference(one: DateSpan, other: DateSpan) -> str:
    """Return the difference in calendar months or years, as counted if only these are known."""
    if one.is_year or other.is_year:
        return (
            _difference(one.last.year - other.last.year, "year")
            if _is_within(one, 12) and _is_within(other, 12)
            else ""
        )
    if one.months == 1 or other.months == 1:
        apart = _month_of(one.last) - _month_of(other.last)
        return _difference(apart, "month") if _is_within(one, 1) and _is_within(other, 1) else ""
    return ""


def _month_of(day: date) -> int:
    return day.year * 12 + day.month - 1


def _is_within(span: DateSpan, months: int) -> bool:
    """Return True if the span lies within one month, or within one year for 12 months."""
    return _month_of(span.first) // months == _month_of(span.last) // months


def _difference(apart: int, unit: str) -> str:
    return f"counting {unit}s alone: {count_noun(abs(apart), unit)}" if apart else f"in the same {unit}"


def _complete_units(earlier: date, later: date) -> tuple[int, int, int, int]:
    days, months = (later - earlier).days, months_and_days(earlier, later)[0]
    return days, days // 7, months, months // 12


def _enumerate(parts: Iterable[tuple[int, str]]) -> str:
    """Return a list such as "2 years, 3 months and 5 days"."""
    *others, last = [count_noun(number, unit) for number, unit in parts if number] or ["0 days"]
    return f"{', '.join(others)} and {last}" if others else last
