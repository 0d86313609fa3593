"""Days, weeks, months and years between dates, counted by the calendar and put in words.

A month is whole once its day of the month comes round again, and a year with its twelfth month: 31 January to 28
February is 4 weeks, and on 1 March it is 1 month and 1 day, the day being counted from February's last. So nothing is
called a month that is shorter than one, and months, then days, added to the earlier date give the later.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from vmemo.models import Interval
from vmemo.text.temporal.date_format import format_interval

ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DateSpan:
    """Days from the first to the last, both inside: a stretch, or a moment somewhere in it."""

    first: date
    last: date

    @property
    def is_day(self) -> bool:
        """Whether it is one day, so that all is known to the day."""
        return self.first == self.last

    @property
    def months(self) -> int | None:
        """How many calendar months it fills exactly; None if it begins or ends within one."""
        if self.first.day != 1 or self.last.day != calendar.monthrange(self.last.year, self.last.month)[1]:
            return None
        return _month_of(self.last) - _month_of(self.first) + 1

    @property
    def is_year(self) -> bool:
        """Whether it is one calendar year."""
        return self.months == 12 and self.first.month == 1


def month_span(day: date) -> DateSpan:
    """The month that a day lies in."""
    return DateSpan(day.replace(day=1), day.replace(day=calendar.monthrange(day.year, day.month)[1]))


def year_span(year: int) -> DateSpan:
    """A calendar year."""
    return DateSpan(date(year, 1, 1), date(year, 12, 31))


def format_weekday_date(day: date) -> str:
    """Such as "Sunday, 7 May 2023"."""
    return f"{day:%A}, {format_date(day)}"


def format_date(day: date) -> str:
    """Such as "7 May 2023"."""
    return f"{day.day} {day:%B} {day.year}"


def describe_span(period: DateSpan, *, weekday: bool = True, moment: bool = False) -> str:
    """A day with its weekday; of longer periods that more is not known, least of all where a moment in it is meant."""
    if period.is_day:
        return format_weekday_date(period.first) if weekday else format_date(period.first)
    loose = moment or period.months == 1 or period.is_year
    interval = Interval(start=_midnight(period.first), end=_midnight(period.last + ONE_DAY))
    return f"{'some time in' if loose else 'within'} {format_interval(interval)}"


def months_and_days(earlier: date, later: date) -> tuple[int, int]:
    """The whole months between two dates, and the days that are left over."""
    months = _month_of(later) - _month_of(earlier) - (later.day < earlier.day)
    return months, (later - add_months(earlier, months)).days


def add_months(day: date, months: int) -> date:
    """The same day of the month some months on, or the last day of a month that is too short for it."""
    year, month = divmod(_month_of(day) + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def count_noun(number: int, unit: str) -> str:
    """Such as "1 day" and "2 days"."""
    return f"{number} {unit}{'' if number == 1 else 's'}"


def exact_lengths(earlier: date, later: date) -> list[str]:
    """A length to the day in all units that it fills: days, weeks, months, years."""
    days = (later - earlier).days
    months, left = months_and_days(earlier, later)
    ways = [
        (True, [(days, "day")]),
        (days >= 7, [(days // 7, "week"), (days % 7, "day")]),
        (months >= 1, [(months, "month"), (left, "day")]),
        (months >= 12, [(months // 12, "year"), (months % 12, "month"), (left, "day")]),
    ]
    return [_sum(parts) for fills, parts in ways if fills]


def length_ranges(near: tuple[date, date], far: tuple[date, date]) -> list[str]:
    """A length that is not known to the day, from the shortest to the longest that it can be, in whole units."""
    least, most = _wholes(*near), _wholes(*far)
    units = ("day", "whole week", "whole month", "whole year")
    return [_reach(low, high, unit) for low, high, unit in zip(least, most, units, strict=True) if high]


def calendar_difference(one: DateSpan, other: DateSpan) -> str:
    """How people count what is known to the month or the year only: by the month's or the year's number alone."""
    if one.is_year or other.is_year:
        return _alone(one.last.year - other.last.year, "year") if _in_one(one, 12) and _in_one(other, 12) else ""
    if one.months == 1 or other.months == 1:
        apart = _month_of(one.last) - _month_of(other.last)
        return _alone(apart, "month") if _in_one(one, 1) and _in_one(other, 1) else ""
    return ""


def next_anniversary(day: date, today: date) -> tuple[date, int] | None:
    """When a day comes round next, today included, and for which time; 29 February does on 1 March of other years."""
    for year in (today.year, today.year + 1):
        if day.year < year <= date.max.year:
            missing = (day.month, day.day) == (2, 29) and not calendar.isleap(year)
            again = date(year, 3, 1) if missing else day.replace(year=year)
            if again >= today:
                return again, year - day.year
    return None


def _month_of(day: date) -> int:
    return day.year * 12 + day.month - 1


def _in_one(period: DateSpan, months: int) -> bool:
    """Whether the whole period lies in one month, or in one year."""
    return _month_of(period.first) // months == _month_of(period.last) // months


def _alone(apart: int, unit: str) -> str:
    return f"counting {unit}s alone: {count_noun(abs(apart), unit)}" if apart else f"in the same {unit}"


def _wholes(earlier: date, later: date) -> tuple[int, int, int, int]:
    days, months = (later - earlier).days, months_and_days(earlier, later)[0]
    return days, days // 7, months, months // 12


def _reach(low: int, high: int, unit: str) -> str:
    return count_noun(high, unit) if low == high else f"{low} to {count_noun(high, unit)}"


def _sum(parts: Iterable[tuple[int, str]]) -> str:
    """Such as "2 years, 3 months and 5 days"."""
    *others, last = [count_noun(number, unit) for number, unit in parts if number] or ["0 days"]
    return f"{', '.join(others)} and {last}" if others else last


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
