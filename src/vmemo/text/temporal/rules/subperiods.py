"""Parts of a longer period: "the first week of May", "the last day of the year", "the second Sunday in June"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_units import (
    DAY,
    MONDAY,
    SATURDAY,
    THURSDAY,
    WEEK,
    Bounds,
    add_days,
    add_units,
    day_bounds,
    period_bounds,
    period_start,
    weekday_on_or_after,
    weekday_on_or_before,
)
from vmemo.text.temporal.day_range import DayRange, YearlyBounds, display_last_day, part_of, single_day
from vmemo.text.temporal.grammar import DateList, Rule, RuleMatch

Selection = Callable[[Bounds], Bounds | None]


def _select(match: RuleMatch, select: Selection) -> DayRange | None:
    """Return the selected days of the whole period, yearless if the period is."""
    whole = match.days("whole")
    bounds = whole.bounds and select(whole.bounds)
    if bounds is None:
        return None
    yearly = whole.yearly and _selected_yearly(whole.yearly, select)
    return DayRange(*bounds, relative=whole.relative, yearly=yearly, certain=whole.certain)


def _selected_yearly(yearly: YearlyBounds, select: Selection) -> YearlyBounds:
    def selected(year: int) -> Bounds | None:
        bounds = yearly(year)
        return bounds and select(bounds)

    return selected


def _nth_weekday(bounds: Bounds, weekday: int, nth: int) -> date | None:
    """Return the nth such weekday from the first day on; the last one if `nth` is not positive."""
    if nth > 0:
        return add_units(weekday_on_or_after(bounds[0], weekday), nth - 1, WEEK)
    return weekday_on_or_before(add_days(bounds[1], -1), weekday)


def _nth_weeks(bounds: Bounds, nth: int, count: int) -> Bounds | None:
    """Return `count` weeks; a week belongs to the period that contains its Thursday."""
    thursday = _nth_weekday(bounds, THURSDAY, nth)
    if thursday is None or thursday >= bounds[1]:
        return None
    monday = period_start(thursday, WEEK)
    first = monday if nth > 0 else add_units(monday, 1 - count, WEEK)
    end = first and add_units(first, count, WEEK)
    return (first, end) if first and end else None


def _nth_week(match: RuleMatch) -> DayRange | None:
    nth = match.value("ordinal")
    found = _select(match, lambda bounds: _nth_weeks(bounds, nth, 1))
    return found and replace(found, kind="week")


def _first_or_last_weeks(match: RuleMatch) -> DayRange | None:
    nth, single = match.value("ordinal"), match.length("length").single
    count, unit = single or (0, DAY)
    return _select(match, lambda bounds: _nth_weeks(bounds, nth, count)) if unit == WEEK else None


def _first_or_last_units(match: RuleMatch) -> DayRange | None:
    """Resolve "the first three days of May" and "the last two months of 2022"."""
    length, nth = match.length("length"), match.value("ordinal")

    def select(bounds: Bounds) -> Bounds | None:
        other = length.move(bounds[0], 1) if nth > 0 else length.move(bounds[1], -1)
        selected = other and ((bounds[0], other) if nth > 0 else (other, bounds[1]))
        return selected if selected and bounds[0] <= selected[0] < selected[1] <= bounds[1] else None

    return _select(match, select)


def _nth_unit(match: RuleMatch) -> DayRange | None:
    """Resolve "the third month of 2022", "the 15th day of next month", "the last day of May"."""
    unit, nth = match.value("unit"), match.value("ordinal")

    def select(bounds: Bounds) -> Bounds | None:
        start = add_units(bounds[0], nth - 1, unit) if nth > 0 else add_units(bounds[1], -1, unit)
        end = start and add_units(start, 1, unit)
        return (start, end) if start and end and end <= bounds[1] else None

    found = _select(match, select)
    return found and replace(found, kind="day" if unit == DAY else "span")


def _half(match: RuleMatch) -> DayRange | None:
    nth = match.value("ordinal")
    return part_of(match.days("whole"), "early" if nth == 1 else "late") if nth in (1, 2, -1) else None


def _nth_weekday_of_period(match: RuleMatch) -> DayRange | None:
    named, nth = match.days("weekday").start, match.value("ordinal")
    weekday = named.weekday() if named else MONDAY

    def select(bounds: Bounds) -> Bounds | None:
        day = _nth_weekday(bounds, weekday, nth)
        return day_bounds(day) if day and bounds[0] <= day < bounds[1] else None

    found = _select(match, select)
    return found and replace(found, kind="day")


def _nth_weekend(match: RuleMatch) -> DayRange | None:
    nth = match.value("ordinal")

    def select(bounds: Bounds) -> Bounds | None:
        saturday = _nth_weekday(bounds, SATURDAY, nth)
        return (saturday, add_days(saturday, 2)) if saturday and bounds[0] <= saturday < bounds[1] else None

    return _select(match, select)


def _week_of_day(match: RuleMatch) -> DayRange | None:
    """Resolve "the week of May 8"."""
    found = _select(match, lambda bounds: period_bounds(bounds[0], WEEK))
    return found and replace(found, kind="week")


def _weekday_of_week(match: RuleMatch) -> DayRange | None:
    """Resolve "Tuesday of next week"."""
    named = match.days("weekday").start
    if named is None:
        return None
    index = named.weekday()
    found = _select(match, lambda bounds: day_bounds(add_days(bounds[0], index)))
    return found and replace(found, kind="day")


def _listed_weekdays(match: RuleMatch) -> DateList | None:
    """Resolve "Monday and Tuesday next week" to both days of that week."""
    whole, end = match.days("whole"), match.groups.start("whole")
    tokens = enumerate(match.tokens[match.groups.start() : end], match.groups.start())
    named = [(place, token.days.start.weekday()) for place, token in tokens if token.days and token.days.start]
    found = [
        (place, single_day(add_days(whole.start, weekday), certain=whole.certain) if whole.start else None)
        for place, weekday in named
    ]
    last = (named[-1][0], match.groups.end() - 1)
    spans = [*((place, place) for place, _ in named[:-1]), last]
    return DateList(tuple((*span, days) for span, (_, days) in zip(spans, found, strict=True) if days))


def _weekdays_of_week(match: RuleMatch) -> DayRange | None:
    """Resolve "from Tuesday to Thursday next week"."""
    first, last = match.days("weekday").start, match.days("until").start
    if first is None or last is None or first.weekday() >= last.weekday():
        return None
    start, end = first.weekday(), last.weekday()
    found = _select(match, lambda bounds: (add_days(bounds[0], start), add_days(bounds[0], end)))
    return found and display_last_day(found)


_NTH = "ordinal=(ORD|last)"

RULES = (
    Rule(f"the? {_NTH} week (of|in) whole=SPAN", _nth_week),
    Rule("the? ordinal=(ORDONE|last) length=LENGTH (of|in) whole=SPAN", _first_or_last_weeks),
    Rule("the? ordinal=(ORDONE|last) length=LENGTH (of|in) whole=SPAN", _first_or_last_units),
    Rule(f"the? {_NTH} unit=UNIT (of|in) whole=SPAN", _nth_unit),
    Rule("the? ordinal=ORD unit=quarter whole=YEAR", _nth_unit),
    Rule(f"the? {_NTH} half (of|in) whole=SPAN", _half),
    Rule(f"the? {_NTH} weekday=WEEKDAY (of|in) whole=SPAN", _nth_weekday_of_period),
    Rule(f"the? {_NTH} weekend (of|in) whole=SPAN", _nth_weekend),
    Rule("the? week (of|starting|beginning) (on|with)? whole=DAY", _week_of_day),
    Rule("whole=DAYF week", _week_of_day),
    Rule("w SLASH c whole=DAY", _week_of_day),
)
WEEKDAY_RULES = (
    Rule("whole=WEEK (on|COMMA)? weekday=WEEKDAY", _weekday_of_week),
    Rule("on? weekday=WEEKDAY (of|COMMA|in)? whole=WEEK", _weekday_of_week),
    Rule("WEEKDAY (COMMA WEEKDAY){0,4} COMMA? (and|or) WEEKDAY (of|COMMA|in)? whole=WEEK", _listed_weekdays),
    Rule("from? weekday=WEEKDAY TO until=WEEKDAY (of|COMMA|in)? whole=WEEK", _weekdays_of_week),
    Rule("between weekday=WEEKDAY and until=WEEKDAY (of|COMMA|in)? whole=WEEK", _weekdays_of_week),
)
