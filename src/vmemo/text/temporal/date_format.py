"""Absolute dates written for people: `readable` for an interval, `annotate` for a whole text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, tzinfo

from vmemo.models import Interval
from vmemo.text.temporal.annotate import spoken
from vmemo.text.temporal.day_range import ONE_DAY, Days, Stretch
from vmemo.text.temporal.find import TimeExpression, expression

_ALREADY_DATED = re.compile(r"\s*\([^()]*\d{4}[^()]*\)")


def readable(interval: Interval, zone: tzinfo = UTC) -> str:
    """A short date for people, such as "7 May 2023", "May 2023", "2022" or "5-11 June 2023"."""
    start = _local_day(interval.start, zone)
    end = _local_day(interval.end, zone, up=True)
    if start is None or end is None:
        return _half_open(start, end)
    return _closed((start, max(end, start + ONE_DAY)))


def annotate(text: str, reference: datetime) -> str:
    """The text with each relative expression followed by its absolute date in parentheses."""
    return dated(text, reference)[0]


def dated(text: str, reference: datetime) -> tuple[str, list[TimeExpression]]:
    """The annotated text, and the expressions of the text as it was."""
    found = spoken(text, reference)
    pieces: list[str] = []
    position = 0
    for token, stretch in found:
        written = _note(stretch)
        if written and not _ALREADY_DATED.match(text, token.end):
            pieces += (text[position : token.end], f" ({written})")
            position = token.end
    return "".join(pieces) + text[position:], [expression(text, token, stretch, reference) for token, stretch in found]


def _note(stretch: Stretch) -> str:
    if stretch.quiet or not stretch.relative:
        return ""
    if stretch.edge and stretch.whole and stretch.whole.days:
        return f"{stretch.edge} {_closed(stretch.whole.days)}"
    days = stretch.label or stretch.shown or stretch.days
    return _closed(days) if days else ""


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


def _closed(days: Days) -> str:
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
