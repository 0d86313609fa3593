"""Absolute dates written for people: `format_interval` for an interval, `annotate` for a whole text."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo

from vmemo.models import Interval
from vmemo.text.temporal.day_range import ONE_DAY, Days


def format_interval(interval: Interval, zone: tzinfo = UTC) -> str:
    """A short date for people, such as "7 May 2023", "May 2023", "2022" or "5-11 June 2023"."""
    start = _local_day(interval.start, zone)
    end = _local_day(interval.end, zone, up=True)
    if start is None or end is None:
        return _half_open(start, end)
    return format_days((start, max(end, start + ONE_DAY)))


def _local_day(moment: datetime | None, zone: tzinfo, *, up: bool = False) -> date | None:
    if moment is None:
        return None
    local = moment.astimezone(zone)
    whole = local.date()
    return whole + ONE_DAY if up and local.timetz().replace(tzinfo=None) != datetime.min.time() else whole


def _half_open(start: date | None, end: date | None) -> str:
    if start is not None:
        return f"since {_day(start)}"
    return f"before {_day(end)}" if end is not None else "any time"


def format_days(days: Days) -> str:
    """Return a short text for a range of whole days, such as "5-11 June 2023" or "June-August 2022"."""
    first, last = days[0], days[1] - ONE_DAY
    if first == last:
        return _day(first)
    if first.day == 1 and days[1].day == 1:
        return _months(first, last)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first.day}-{_day(last)}"
    if first.year == last.year:
        return f"{first.day} {first:%B} - {_day(last)}"
    return f"{_day(first)} - {_day(last)}"


def _months(first: date, last: date) -> str:
    """Whole months, whole years."""
    if first.month == 1 and last.month == 12:
        return _years(first.year, last.year)
    if (first.year, first.month) == (last.year, last.month):
        return f"{first:%B} {first.year}"
    if first.year == last.year:
        return f"{first:%B}-{last:%B} {first.year}"
    return f"{first:%B} {first.year} - {last:%B} {last.year}"


def _years(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}s" if first % 10 == 0 and last == first + 9 else f"{first}-{last}"


def _day(day: date) -> str:
    return f"{day.day} {day:%B} {day.year}"
