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
    Bounds,
    DayRange,
    YearlyBounds,
    add_days,
    add_units,
    day_bounds,
    display_last_day,
    expand_year,
    in_year,
    make_date,
    next_weekday,
    part_of,
    period_bounds,
    period_start,
    range_between,
    single_day,
    weekday_on_or_after,
    weekday_on_or_before,
)
from vmemo.text.temporal.date_rules import on_weekday
from vmemo.text.temporal.grammar import DateList, Rule, RuleMatch, tags_of

# Dates combined with a qualifier: the year, the weekday, the weekend, or a part such as "early".

_RESOLVED_YEAR = tags_of("YEAR")
_JUST_PAST = timedelta(days=30)


def _with_year(match: RuleMatch) -> DayRange | None:
    if match.tag("year") not in _RESOLVED_YEAR:
        return in_year(match.days("base"), match.value("year"))
    year = match.days("year")
    return year.start and in_year(match.days("base"), year.start.year, relative=year.relative)


def _with_two_digit_year(match: RuleMatch) -> DayRange | None:
    year = match.token("year")
    if year.end - year.start != 2:
        return None
    return in_year(match.days("base"), expand_year(year.value, match.today))


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
    Rule("modifier=(last|previous|this|next|coming) base=(DAYF|SPANF)", _modified_date),
    Rule("base=DAY weekend", _weekend_of),
    Rule("base=DAYF weekend year=(YEAR|FULLYEAR)", _weekend_in_year),
)
_AND = "(COMMA|or|and|COMMA (and|or)) (in|on|the)?"
SHARED_YEAR_RULES = (Rule(f"FLOATING ({_AND} FLOATING){{0,8}} {_AND} other=(DAYX|SPANX)", _with_shared_year),)
DATED_WEEKDAY_RULES = (
    Rule("weekday=(WEEKDAY|DAYX) COMMA? the? base=(DAYF|DAYX)", _with_weekday),
    Rule("weekend of base=DAY", _weekend_of),
)
PART_RULES = (
    Rule("the? part=PART (DASH|in|of|SLASH)? the? base=SPAN", _part_of_span),
    Rule("the? very? part=PARTOF of the? base=SPAN", _part_of_span),
)


# Parts of a longer period: "the first week of May", "the second Sunday in June".

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


_NTH = "ordinal=(ORD|last)"

SUBPERIOD_RULES = (
    Rule(f"the? {_NTH} week (of|in) whole=SPAN", _nth_week),
    Rule("the? ordinal=(ORDONE|last) length=LENGTH (of|in) whole=SPAN", _first_or_last_weeks),
    Rule("the? ordinal=(ORDONE|last) length=LENGTH (of|in) whole=SPAN", _first_or_last_units),
    Rule(f"the? {_NTH} unit=UNIT (of|in) whole=SPAN", _nth_unit),
    Rule(f"the? {_NTH} half (of|in) whole=SPAN", _half),
    Rule(f"the? {_NTH} weekday=WEEKDAY (of|in) whole=SPAN", _nth_weekday_of_period),
    Rule(f"the? {_NTH} weekend (of|in) whole=SPAN", _nth_weekend),
    Rule("the? week (of|starting|beginning) (on|with)? whole=DAY", _week_of_day),
    Rule("w SLASH c whole=DAY", _week_of_day),
)
WEEKDAY_OF_WEEK_RULES = (
    Rule("whole=WEEK (on|COMMA)? weekday=WEEKDAY", _weekday_of_week),
    Rule("on? weekday=WEEKDAY (of|COMMA|in)? whole=WEEK", _weekday_of_week),
    Rule("WEEKDAY (COMMA WEEKDAY){0,4} COMMA? (and|or) WEEKDAY (of|COMMA|in)? whole=WEEK", _listed_weekdays),
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
    if first.yearly and last.yearly is None and last.start:
        return _placed_before(first, last, last.start.year), last
    if last.yearly and first.start:
        return first, _placed_after(first, last, first.start.year)
    return first, last


def _placed_before(first: DayRange, last: DayRange, year: int) -> DayRange:
    placed = (in_year(first, each, relative=first.relative and last.relative) for each in (year, year - 1))
    return next(
        (each for each in placed if each and each.boundary and last.boundary and each.boundary < last.boundary), first
    )


def _placed_after(first: DayRange, last: DayRange, year: int) -> DayRange:
    placed = (in_year(last, each, relative=first.relative) for each in (year, year + 1))
    return next(
        (
            each
            for each in placed
            if each and each.boundary and first.boundary and each.boundary >= first.boundary and each != first
        ),
        last,
    )


def _to_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "April ninth through the 17th"."""
    first, ordinal = match.days("first"), match.value("ordinal")
    if first.start is None:
        return None
    end = make_date(first.start.year, first.start.month, ordinal)
    if end is None or end <= first.start:
        next_month = add_units(first.start.replace(day=1), 1, MONTH)
        end = next_month and make_date(next_month.year, next_month.month, ordinal)
    last = single_day(end, relative=first.relative)
    return last and range_between(first, last)


def _from_now(match: RuleMatch) -> DayRange | None:
    last, today = match.days("last"), match.today
    end = last.boundary
    if last.kind == "weekday" and last.start:
        end = next_weekday(today, last.start.weekday())
    if last.yearly and end and end <= today:
        later = in_year(last, today.year, relative=True), in_year(last, today.year + 1, relative=True)
        end = next((each.boundary for each in later if each and each.boundary and each.boundary > today), None)
    return DayRange(today, end) if end and end > today else None


def _until_now(match: RuleMatch) -> DayRange | None:
    start = match.days("first").boundary
    found = DayRange(start, match.today) if start and start < match.today else None
    return found and display_last_day(found)


def _open(base: DayRange, start: date | None, end: date | None) -> DayRange:
    """Return a range with an open side that is annotated with the date it is bounded by."""
    annotated_as = base.displayed or base.bounds
    return DayRange(
        start,
        end,
        relative=base.relative,
        certain=base.certain,
        unannotated=base.unannotated,
        annotated_as=annotated_as,
        part=base.part,
        whole=base.whole,
        either_direction=base.either_direction or base.kind == "weekday",
    )


def _before(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return base.boundary and _open(base, None, base.boundary)


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
    start = base.start if base.kind in _DAY_KINDS else base.end
    return start and _open(base, start, None)


def _since(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return base.boundary and _open(base, base.boundary, None)


_NOT_AFTER_VERB = "(?<!is|are|was|be|am|m|re|we|i|they|it)"
_CLAUSE_ENDS = "(?=$|STOP|COMMA|or|and|HYPHEN)"

RANGE_RULES = (
    Rule("(from|between|in|during|on)? first=ANY TO (the|from)? last=ANY", _range),
    Rule("between first=ANY and last=ANY", _range),
    Rule("(from|between) first=ANY (TO|and) last=ANY", _range),
    Rule("(from|between)? first=(DAYF|DAYX) TO the? ordinal=(ORDNUM|ORDINAL|ORDONE|ORDTEEN) (?!WORD)", _to_ordinal),
    Rule("(from|between) now (and|TO) last=ANY", _from_now),
    Rule("(from|between)? first=ANY (and|TO) now", _until_now),
)
OPEN_RANGE_RULES = (
    Rule("(before|previous to) (the|at|on)? base=ANY", _before),
    Rule("(until|till|til|up to|up until) (the|at|on)? base=ANY", _until),
    Rule("by the? base=ANY", _until),
    Rule("(no later|no more|earlier|sooner) than base=ANY", _before),
    Rule("as LATE as base=ANY", _before),
    Rule("after the? base=ANY", _after),
    Rule("later than base=ANY", _after),
    Rule("since (on|from|in|the)? base=ANY", _since),
    Rule(f"{_NOT_AFTER_VERB} (starting|beginning) (on|from|in|the)? base=ANY", _since),
    Rule("as of base=ANY", _as_of),
    Rule("from base=ANY (on|onward|onwards|forward)", _since),
    Rule(f"base=ANY (and|or) (later|after|greater|onward|onwards|beyond) {_CLAUSE_ENDS}", _since),
)
