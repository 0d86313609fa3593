"""Dates combined with a qualifier: the year, the weekday, the weekend, or a part such as "early"."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_units import (
    FRIDAY,
    MONDAY,
    SATURDAY,
    THURSDAY,
    YEAR,
    Bounds,
    add_days,
    expand_year,
    period_bounds,
)
from vmemo.text.temporal.day_range import PERIOD_PARTS, DayRange, in_year, part_of
from vmemo.text.temporal.grammar import DateList, Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.rules.dates import on_weekday

_RESOLVED_YEAR = tags_of("YEAR")
_JUST_PAST = timedelta(days=30)


def _with_year(match: RuleMatch) -> DayRange | None:
    if match.tag("year") not in _RESOLVED_YEAR:
        return in_year(match.days("base"), match.value("year"))
    year = match.days("year")
    return year.start and in_year(match.days("base"), year.start.year, relative=year.relative)


def _with_relative_year(match: RuleMatch) -> DayRange | None:
    return _with_year(match) if match.days("year").relative else None


def _with_explicit_year(match: RuleMatch) -> DayRange | None:
    """Resolve "2018 H2"; other periods name the year after them."""
    base = match.days("base")
    months = base.bounds and (base.bounds[1].month - base.bounds[0].month) % 12
    return _with_year(match) if months == 6 else None


def _with_year_of_offset(match: RuleMatch) -> DayRange | None:
    """Resolve "two years ago in May"; "two weeks ago in May" names no year."""
    year = match.days("year").displayed
    is_year = year is not None and year == period_bounds(year[0], YEAR)
    return in_year(match.days("base"), year[0].year, relative=True) if year and is_year else None


def _with_two_digit_year(match: RuleMatch) -> DayRange | None:
    year = match.token("year")
    if year.end - year.start != 2:
        return None
    return in_year(match.days("base"), expand_year(year.value, match.today))


def _with_touching_year(match: RuleMatch) -> DayRange | None:
    """Resolve "2H18"."""
    return _with_two_digit_year(match) if match.token("base").end == match.token("year").start else None


def _with_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Tue May 9" in the nearest year in which the weekday is right."""
    named, day = match.days("weekday"), match.days("base")
    if named.start is None or day.start is None or day.yearly is None:
        return day
    if named.kind == "day":
        placed = in_year(day, named.start.year, relative=True)
        return placed and replace(placed, certain=placed.start == named.start)
    return on_weekday(day, named.start.weekday(), match.today)


def _with_weekday_in_parentheses(match: RuleMatch) -> DayRange | None:
    text, token = match.context.text, match.last_token
    return _with_weekday(match) if text[token.end - 1] == ")" else None


def _modified_date(match: RuleMatch) -> DayRange | None:
    """Resolve "last Christmas", "next Easter", "this Halloween"; the nearest one may be meant or not."""
    step, today, base = match.value("modifier"), match.today, match.days("base")
    years = [today.year] if step == 0 else range(today.year - 2, today.year + 3)
    placed = [found for year in years if (found := in_year(base, year, relative=True)) and found.start]
    if step < 0:
        found = next((found for found in reversed(placed) if found.start and found.start < today), None)
        return found and replace(found, certain=found.end is not None and today - found.end > _JUST_PAST)
    found = next((found for found in placed if step == 0 or (found.start and found.start > today)), None)
    return found and replace(found, certain=step == 0 or (found.start is not None and found.start.year > today.year))


def _occurrences_ago(match: RuleMatch) -> DayRange | None:
    """Resolve "two Christmases ago" and "the Easter before last"."""
    base, today, count = match.days("base"), match.today, match.value("count", 2)
    if not 0 < count < 100:
        return None
    placed = (in_year(base, year, relative=True) for year in range(today.year, today.year - count - 2, -1))
    past = [found for found in placed if found and found.start and found.start < today]
    return past[count - 1] if len(past) >= count else None


def _with_shared_year(match: RuleMatch) -> DateList | None:
    """Resolve the dates of "May, June and July 2022", which share the year of the last."""
    other = match.days("other")
    limit = other.start
    if limit is None or other.relative:
        return None
    first, end = match.groups.start(), match.groups.start("other")
    dates: list[tuple[int, int, DayRange]] = []
    for place in reversed(range(first, end)):
        if (days := match.tokens[place].days) is None:
            continue
        placed = _latest_before(days, limit)
        if placed is None or placed.start is None:
            return None
        dates.insert(0, (place, place, placed))
        limit = placed.start
    last = match.groups.end() - 1
    return DateList((*dates, (end, last, other)))


def _latest_before(days: DayRange, limit: date) -> DayRange | None:
    placed = (in_year(days, year) for year in (limit.year, limit.year - 1))
    return next((found for found in placed if found and found.start and found.start < limit), None)


def _long_weekend(day: date) -> Bounds:
    """Return the weekend next to a day, including the day if it is a Thursday, Friday or Monday."""
    if day.weekday() == MONDAY:
        return add_days(day, -2), add_days(day, 1)
    saturday = add_days(day, SATURDAY - day.weekday())
    return (day if day.weekday() in (THURSDAY, FRIDAY) else saturday), add_days(saturday, 2)


def _weekend_of(match: RuleMatch) -> DayRange | None:
    """Resolve "Labor Day weekend" and "the weekend of May 6"."""
    base = match.days("base")
    if base.bounds is None:
        return None
    start, end = _long_weekend(base.bounds[0])
    placed, yearly = replace(base, start=start, end=end, kind="span"), base.yearly
    if yearly is None:
        return placed

    def weekends(year: int) -> Bounds | None:
        found = yearly(year)
        return found and _long_weekend(found[0])

    return replace(placed, yearly=weekends)


def _weekend_in_year(match: RuleMatch) -> DayRange | None:
    day = _with_year(match)
    if day is None or day.bounds is None:
        return None
    return DayRange(*_long_weekend(day.bounds[0]), relative=day.relative)


def _part_of_span(match: RuleMatch) -> DayRange | None:
    return part_of(match.days("base"), PERIOD_PARTS[match.value("part")])


YEAR_RULES = (
    Rule("base=FLOATING (of|in|COMMA|on)? the? year? year=(YEAR|FULLYEAR)", _with_year),
    Rule("base=FLOATING (of|APOSTROPHE|of APOSTROPHE) year=YY (?!COUNT)", _with_two_digit_year),
    Rule("base=SPANF year=YY (?!SEP)", _with_touching_year),
    Rule("year=YEAR (in|on|COMMA|at|SLASH|DASH|around)? base=FLOATING", _with_relative_year),
    Rule("year=YEAR SEP? base=SPANF", _with_explicit_year),
    Rule("modifier=(last|previous|this|next|coming) base=(DAYF|SPANF)", _modified_date),
    Rule("year=OFFSET (in|COMMA)? base=SPANF", _with_year_of_offset),
    Rule("the base=FLOATING before last", _occurrences_ago),
    Rule("count=COUNT base=DAYF ago", _occurrences_ago),
    Rule("base=DAY weekend", _weekend_of),
    Rule("base=DAYF weekend year=(YEAR|FULLYEAR)", _weekend_in_year),
)
_AND = "(COMMA|or|and|COMMA (and|or)) (in|on|the)?"
SHARED_YEAR_RULES = (Rule(f"FLOATING ({_AND} FLOATING){{0,8}} {_AND} other=(DAYX|SPANX)", _with_shared_year),)
WEEKDAY_RULES = (
    Rule("weekday=(WEEKDAY|DAYX) COMMA? the? base=(DAYF|DAYX)", _with_weekday),
    Rule("base=DAYF COMMA weekday=WEEKDAY (?=$|STOP|COMMA)", _with_weekday),
    Rule("base=DAYF STOP weekday=WEEKDAY STOP", _with_weekday_in_parentheses),
    Rule("weekday=WEEKDAY STOP base=DAYF STOP", _with_weekday_in_parentheses),
    Rule("weekend of base=DAY", _weekend_of),
)
PART_RULES = (
    Rule("the? part=PART (DASH|in|of|SLASH)? the? base=SPAN", _part_of_span),
    Rule("the? very? part=PARTOF of the? base=SPAN", _part_of_span),
)
