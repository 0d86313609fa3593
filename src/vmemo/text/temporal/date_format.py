"""Short English texts for intervals and date ranges."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, tzinfo

from vmemo.models import Interval
from vmemo.text.temporal.calendar_units import Bounds, add_days


def format_interval(interval: Interval, zone: tzinfo = UTC) -> str:
    """Return a short text for an interval, such as "7 May 2023", "May 2023", "since 7 May 2023" or "any time"."""
    start = _local_date(interval.start, zone)
    end = _local_date(interval.end, zone, round_up=True)
    if start is None or end is None:
        return _format_open(start, end)
    return format_days((start, max(end, add_days(start, 1))))


def _local_date(instant: datetime | None, zone: tzinfo, *, round_up: bool = False) -> date | None:
    if instant is None:
        return None
    with suppress(OverflowError):
        # A local date outside the calendar is replaced with the given one.
        instant = instant.astimezone(zone)
    return add_days(instant.date(), 1) if round_up and instant.time() != time.min else instant.date()


def _format_open(start: date | None, end: date | None) -> str:
    if start is not None:
        return f"since {format_date(start)}"
    return f"before {format_date(end)}" if end is not None else "any time"


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
    if first.month == 1 and last.month == 12:
        return _format_years(first.year, last.year)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first:%B} {first.year}"
    if first.year == last.year:
        return f"{first:%B}-{last:%B} {first.year}"
    return f"{first:%B} {first.year} - {last:%B} {last.year}"


def _format_years(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}s" if first % 10 == 0 and last == first + 9 else f"{first}-{last}"


def format_date(day: date) -> str:
    """Return a date such as "7 May 2023"."""
    return f"{day.day} {day:%B} {day.year}"
