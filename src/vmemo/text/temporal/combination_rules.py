"""Rules that combine dates with their qualifiers, with parts of periods, and with each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_days import (
    DAY,
    FRIDAY,
    MONDAY,
    MONTH,
    PERIOD_PARTS,
    SATURDAY,
    THURSDAY,
    WEEK,
    WEEKEND,
    Bounds,
    DayRange,
    YearlyBounds,
    add_days,
    add_units,
    day_bounds,
    in_year,
    make_date,
    next_weekday,
    nth_weekday,
    part_of,
    period_bounds,
    range_between,
    single_day,
)
from vmemo.text.temporal.date_rules import on_weekday
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.vocabulary import TAGS

# Dates combined with a qualifier: the year, the weekday, the weekend, or a part such as "early".

_JUST_PAST = timedelta(days=30)


def _with_year(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    if match.tag("year") == TAGS["YEAR"]:
        year = match.days("year")
        return year.start and in_year(base, year.start.year, relative=year.relative)
    number = match.year()
    return in_year(base, number) if number else None


def _with_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Tue May 9" in the nearest year in which the weekday is right."""
    named, day = match.days("weekday"), match.days("base")
    if named.start is None or day.start is None or day.yearly is None:
        return day
    if named.kind == "day":
        placed = in_year(day, named.start.year, relative=True)
        return placed and replace(placed, certain=placed.start == named.start)
    return on_weekday(day, named.start.weekday(), match.today)


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


def _with_shared_year(match: RuleMatch) -> DayRange | None:
    """Resolve the first dates of "May, June and July 2022", which share the year of the last."""
    days, last = match.days("base"), match.days("other")
    if last.start is None or last.relative:
        return None
    placed = (in_year(days, year) for year in (last.start.year, last.start.year - 1))
    return next((found for found in placed if found and found.start and found.start < last.start), None)


def _long_weekend(bounds: Bounds) -> Bounds:
    """Return the weekend next to a day, including the day if it is a Thursday, Friday or Monday."""
    day = bounds[0]
    if day.weekday() == MONDAY:
        return add_days(day, -2), add_days(day, 1)
    saturday = add_days(day, SATURDAY - day.weekday())
    return (day if day.weekday() in (THURSDAY, FRIDAY) else saturday), add_days(saturday, 2)


def _part_of_span(match: RuleMatch) -> DayRange | None:
    return part_of(match.days("base"), PERIOD_PARTS[match.value("part")])


# Parts of a longer period: "the first week of May", "the second Sunday in June".

Selection = Callable[[Bounds], Bounds | None]


def _select(whole: DayRange, select: Selection, unit: int = MONTH) -> DayRange | None:
    """Return the selected days of the whole period, yearless if the period is."""
    found = whole_bounds and select(whole_bounds) if (whole_bounds := whole.bounds) else None
    kind = "day" if unit == DAY else "week" if unit == WEEK else "span"
    yearly = whole.yearly and _selected_yearly(whole.yearly, select)
    return found and replace(whole, start=found[0], end=found[1], kind=kind, yearly=yearly, displayed=None)


def _selected_yearly(yearly: YearlyBounds, select: Selection) -> YearlyBounds:
    def selected(year: int) -> Bounds | None:
        bounds = yearly(year)
        return bounds and select(bounds)

    return selected


def _nth_of_unit(bounds: Bounds, unit: int, nth: int) -> Bounds | None:
    """Return the nth unit of a period, or the last one. A week belongs to the period that contains its Thursday."""
    if unit in (WEEK, WEEKEND):
        day = nth_weekday(bounds, THURSDAY if unit == WEEK else SATURDAY, nth)
        return period_bounds(day, unit) if day and bounds[0] <= day < bounds[1] else None
    start = add_units(bounds[0], nth - 1, unit) if nth > 0 else add_units(bounds[1], -1, unit)
    end = start and add_units(start, 1, unit)
    return (start, end) if start and end and end <= bounds[1] else None


def _nth_unit(match: RuleMatch) -> DayRange | None:
    """Resolve "the third month of 2022", "the first week of May", "the last weekend in June"."""
    unit, nth = match.value("unit"), match.value("ordinal")
    return _select(match.days("whole"), lambda bounds: _nth_of_unit(bounds, unit, nth), unit)


def _first_or_last_units(match: RuleMatch) -> DayRange | None:
    """Resolve "the first three days of May" and "the last two months of 2022"."""
    length, nth = match.length("length"), match.value("ordinal")

    def select(bounds: Bounds) -> Bounds | None:
        other = length.move(bounds[0], 1) if nth > 0 else length.move(bounds[1], -1)
        selected = other and ((bounds[0], other) if nth > 0 else (other, bounds[1]))
        return selected if selected and bounds[0] <= selected[0] < selected[1] <= bounds[1] else None

    return _select(match.days("whole"), select)


def _half(match: RuleMatch) -> DayRange | None:
    nth = match.value("ordinal")
    return part_of(match.days("whole"), "early" if nth == 1 else "late") if nth in (1, 2, -1) else None


def _nth_weekday_of_period(match: RuleMatch) -> DayRange | None:
    named, nth = match.days("weekday").start, match.value("ordinal")
    weekday = named.weekday() if named else MONDAY

    def select(bounds: Bounds) -> Bounds | None:
        day = nth_weekday(bounds, weekday, nth)
        return day_bounds(day) if day and bounds[0] <= day < bounds[1] else None

    return _select(match.days("whole"), select, DAY)


def _weekday_of_week(match: RuleMatch) -> DayRange | None:
    """Resolve "Tuesday of next week", and the first days of "Monday and Tuesday next week"."""
    named = match.days("weekday").start
    index = named.weekday() if named else MONDAY
    return _select(match.days("whole"), lambda bounds: day_bounds(add_days(bounds[0], index)), DAY)


_NTH = "ordinal=(ORD|last)"
_AND = "(COMMA|or|and|COMMA (and|or)) (in|on|the)?"

YEAR_RULES = (
    Rule("base=FLOATING (of|in|COMMA|on|SEP)? the? year? year=(YEAR|Y4)", _with_year),
    Rule("base=FLOATING (of APOSTROPHE?|APOSTROPHE) year=YY (?!COUNT)", _with_year),
    Rule("modifier=(last|previous|this|next|coming) base=(DAYF|SPANF)", _modified_date),
    Rule("base=DAY weekend", lambda match: _select(match.days("base"), _long_weekend)),
)
SHARED_YEAR_RULES = (
    Rule("(?<=from|between) now (?=(and|TO) ANY)", lambda match: single_day(match.today)),
    Rule("((?<=ANY TO)|(?<=between ANY and)) now", lambda match: single_day(match.today)),
    Rule(f"base=FLOATING (?=({_AND} FLOATING){{0,8}} {_AND} other=(DAYX|SPANX))", _with_shared_year),
)
DATED_WEEKDAY_RULES = (
    Rule("weekday=(WEEKDAY|DAYX) COMMA? the? base=(DAYF|DAYX)", _with_weekday),
    Rule("weekend of base=DAY", lambda match: _select(match.days("base"), _long_weekend)),
)
PART_RULES = (
    Rule("the? part=PART (DASH|in|of|SLASH)? the? base=SPAN", _part_of_span),
    Rule("the? very? part=PARTOF of the? base=SPAN", _part_of_span),
)
SUBPERIOD_RULES = (
    Rule("the? ordinal=(ORDONE|last) length=LENGTH (of|in) whole=SPAN", _first_or_last_units),
    Rule(f"the? {_NTH} unit=(UNIT|weekend) (of|in) whole=SPAN", _nth_unit),
    Rule(f"the? {_NTH} half (of|in) whole=SPAN", _half),
    Rule(f"the? {_NTH} weekday=WEEKDAY (of|in) whole=SPAN", _nth_weekday_of_period),
    Rule(
        "(the? week (of|starting|beginning) (on|with)?|w SLASH c) whole=DAY",
        lambda match: _select(match.days("whole"), lambda bounds: period_bounds(bounds[0], WEEK), WEEK),
    ),
)
WEEKDAY_OF_WEEK_RULES = (
    Rule("whole=WEEK (on|COMMA)? weekday=WEEKDAY", _weekday_of_week),
    Rule("on? weekday=WEEKDAY (of|COMMA|in)? whole=WEEK", _weekday_of_week),
    Rule("weekday=WEEKDAY (?=((COMMA|and|or){1,2} WEEKDAY){1,5} (of|COMMA|in)? whole=WEEK)", _weekday_of_week),
)


# Ranges between two dates, and ranges with an open side: "from May to July", "since 2019", "by Friday".

_DAY_KINDS = ("day", "weekday", "offset")


def _range(match: RuleMatch) -> DayRange | None:
    """Resolve "from 3 May to 5 June 2021"; a year that only one side names applies to both."""
    first, last = match.days("first"), match.days("last")
    found = range_between(*_aligned(first, last))
    # "Monday to Friday" is any week.
    is_timetable = first.kind == "weekday" and last.kind == "weekday"
    return replace(found, certain=False) if found and is_timetable else found


def _aligned(first: DayRange, last: DayRange) -> tuple[DayRange, DayRange]:
    """Return both with a weekday or yearless date placed before or after the other side."""
    if last.kind == "weekday" and first.start and last.start:
        start = next_weekday(first.start, last.start.weekday())
        return first, replace(last, start=start, end=add_days(start, 1))
    if last.kind == "day" and last.either_direction and first.start and last.start:
        return first, single_day(_next_ordinal(first.start, last.start.day), relative=first.relative) or last
    if first.yearly and last.yearly is None and last.start:
        placed = [in_year(first, year, relative=first.relative and last.relative) for year in _years(last.start, -1)]
        return next((each for each in placed if _is_before(each, last)), None) or first, last
    if last.yearly and first.start:
        placed = [in_year(last, year, relative=first.relative) for year in _years(first.start, 1)]
        return first, next((each for each in placed if each != first and not _is_before(each, first)), None) or last
    return first, last


def _years(day: date, step: int) -> tuple[int, int]:
    return day.year, day.year + step


def _is_before(days: DayRange | None, other: DayRange) -> bool:
    return bool(days and days.boundary and other.boundary and days.boundary < other.boundary)


def _next_ordinal(day: date, number: int) -> date | None:
    """Return the first day after another one with this day of the month."""
    months = (add_units(day.replace(day=1), count, MONTH) for count in range(3))
    found = (month and make_date(month.year, month.month, number) for month in months)
    return next((each for each in found if each and each > day), None)


def _to_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "April ninth through the 17th"."""
    first = match.days("first")
    end = _next_ordinal(first.start, match.value("ordinal")) if first.start else None
    last = single_day(end, relative=first.relative)
    return last and range_between(first, last)


def _open(base: DayRange, start: date | None, end: date | None) -> DayRange | None:
    """Return a range with an open side that is annotated with the date it is bounded by."""
    if start is None and end is None:
        return None
    return replace(
        base,
        start=start,
        end=end,
        kind="span",
        yearly=None,
        displayed=None,
        annotated_as=base.displayed or base.bounds,
        anchor_offset=None,
        either_direction=base.either_direction or base.kind == "weekday",
    )


def _before(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return _open(base, None, base.boundary)


def _until(match: RuleMatch) -> DayRange | None:
    """Resolve "by 10 July": it ends where that day starts, but a search includes the day."""
    found = _before(match)
    return found and replace(found, searched=(None, match.days("base").end))


def _as_of(match: RuleMatch) -> DayRange | None:
    """Resolve "as of June": in a statement from then on, in a question what was known up to then."""
    found = _since(match)
    return found and replace(found, searched=(None, match.days("base").end))


def _after(match: RuleMatch) -> DayRange | None:
    """Resolve "after 2010" from the end of that year; "after 3 May" starts with the day itself."""
    base = match.days("base")
    return _open(base, base.start if base.kind in _DAY_KINDS else base.end, None)


def _since(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return _open(base, base.boundary, None)


_NOT_AFTER_VERB = "(?<!is|are|was|be|am|m|re|we|i|they|it)"

RANGE_RULES = (
    Rule("(from|between|in|during|on)? first=ANY TO (the|from)? last=ANY", _range),
    Rule("(from|between) first=ANY and last=ANY", _range),
    Rule("(from|between)? first=(DAYF|DAYX) TO the? ordinal=(ORDNUM|ORDINAL|ORDONE|ORDTEEN) (?!WORD)", _to_ordinal),
)
OPEN_RANGE_RULES = (
    Rule("(before|previous to|(no later|no more|earlier|sooner) than|as LATE as) (the|at|on)? base=ANY", _before),
    Rule("(until|till|til|up to|up until) (the|at|on)? base=ANY", _until),
    Rule("by the? base=ANY", _until),
    Rule("(after the?|later than) base=ANY", _after),
    Rule("since (on|from|in|the)? base=ANY", _since),
    Rule(f"{_NOT_AFTER_VERB} (starting|beginning) (on|from|in|the)? base=ANY", _since),
    Rule("as of base=ANY", _as_of),
    Rule("from base=ANY (on|onward|onwards|forward)", _since),
    Rule("base=ANY (and|or) (later|after|greater|onward|onwards|beyond) (?=$|STOP|COMMA|or|and|HYPHEN)", _since),
)
