"""Resolvers of times relative to the reference or to another date; `rules.txt` names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from itertools import islice

from vmemo.text.temporal.calendar_days import (
    DAY,
    DECADE,
    FORTNIGHT,
    FRIDAY,
    MONDAY,
    MONTH,
    PERIOD_PARTS,
    QUARTER,
    SATURDAY,
    SUNDAY,
    THURSDAY,
    WEEK,
    WEEKEND,
    YEAR,
    Anchored,
    Bounds,
    CalendarLength,
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
    previous_weekday,
    range_between,
    single_day,
    weekday_on_or_after,
    whole_period,
)
from vmemo.text.temporal.date_rules import on_weekday
from vmemo.text.temporal.grammar import TAGS, RuleMatch

# Distances from the reference: "two weeks ago", "in three days", "the last 10 days".

_CALENDAR_WINDOWS = (FORTNIGHT, QUARTER, DECADE)
"""Units that are counted in whole calendar periods: "the last two quarters"."""
_NOT_FUTURE = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bfirst \w+|\bbest \w+|\bonce|\btwice|\btimes)\b[^.!?]{0,30}$", re.IGNORECASE
)


def window(match: RuleMatch) -> DayRange | None:
    """Resolve "the last 10 days", "the next two quarters" and "the 2 next days"."""
    sign = 1 if match.value("modifier") > 0 else -1
    counted = None if match.has("length") else CalendarLength(match.value("count"), match.value("unit"), exact=False)
    length = counted or match.length("length")
    if length.unit == WEEKEND:
        return None
    if length.unit in _CALENDAR_WINDOWS:
        bounds = period_bounds(match.today, length.unit, 1 if sign > 0 else -length.count, length.count)
        return bounds and DayRange(*bounds, certain=False)
    return _counted_days(match.today, length, sign)


def _counted_days(today: date, length: CalendarLength, sign: int) -> DayRange | None:
    """Return the days of a length: up to yesterday if the sign is negative, or else from tomorrow."""
    first = today if sign < 0 else add_days(today, 1)
    other = length.move(first, sign)
    if other is None or other == first:
        return None
    start, end = min(first, other), max(first, other)
    displayed = (start, add_days(end, 1)) if sign < 0 else None
    return DayRange(start, end, certain=length.exact and sign < 0, displayed=displayed)


def within(match: RuleMatch) -> DayRange | None:
    """Resolve "within two weeks", which is rarely counted from now, and "within the last two weeks"."""
    if match.value("modifier") < 0:
        return window(match)
    end = match.length("length").move(match.today, 1)
    return DayRange(match.today, end, certain=False) if end and end != match.today else None


def business_days(match: RuleMatch) -> DayRange | None:
    """Resolve "the next 4 business days" and "the last working day"."""
    step = 1 if match.value("modifier") > 0 else -1
    days = (add_days(match.today, step * away) for away in range(1, 1000))
    found = list(islice((day for day in days if day.weekday() <= FRIDAY), match.value("count", 1)))
    return DayRange(min(found), add_days(max(found), 1), certain=False) if found else None


def offset(match: RuleMatch) -> DayRange | None:
    """Return the day at a distance from the reference, the weekend, or a range if the length is vague or compared."""
    length, sign = match.length("length"), match.step()
    if length.unit == WEEKEND:
        bounds = period_bounds(match.today, WEEKEND, sign * length.count)
        return whole_period(bounds, WEEKEND, certain=length.exact and match.today.weekday() < SATURDAY)
    found = length.offset_from(match.today, sign)
    if found and match.has("comparison"):
        return _compared(match, match.today, found.start)
    return found and replace(found, certain=length.exact)


def _compared(match: RuleMatch, origin: date, day: date | None) -> DayRange | None:
    """Return all days beyond a day for "more than", and those up to it for "less than"."""
    if day is None or day == origin:
        return None
    if match.tag("comparison") == TAGS["more"]:
        return DayRange(None, day) if match.step() < 0 else DayRange(day, None)
    return DayRange(min(origin, day), max(origin, day), certain=False)


def in_length(match: RuleMatch) -> DayRange | None:
    """Resolve "in two weeks", which may be a duration; "not in two weeks" and "twice in a week" are none of both."""
    if _NOT_FUTURE.search(match.context.text, max(0, match.offset - 60), match.offset):
        return None
    found = offset(match)
    return found and replace(found, certain=False)


_LONGEST_ANCHOR = {DAY: 1, WEEK: 7, MONTH: 31, YEAR: 366}
"""Days that an earlier date may span for a unit to be counted from it."""


def _anchored(unit: int, count: Callable[[date], DayRange | None]) -> Anchored:
    def counted(anchor: Bounds) -> DayRange | None:
        is_short = (anchor[1] - anchor[0]).days <= _LONGEST_ANCHOR.get(unit, 1)
        found = count(anchor[0]) if is_short else None
        return found and replace(found, certain=False)

    return counted


def later(match: RuleMatch) -> DayRange | None:
    """Resolve "two days later", from the previous date of the text if there is one."""
    found, length, step = offset(match), match.length("length"), match.step()
    anchored = _anchored(length.unit, lambda anchor: length.offset_from(anchor, step))
    return found and replace(found, certain=False, anchored=anchored)


def ago_to_the_day(match: RuleMatch) -> DayRange | None:
    """Resolve "a month ago today" and "two weeks ago yesterday" to one day."""
    day = match.length("length").offset_from(add_days(match.today, match.value("day")), -1)
    return day and replace(day, displayed=None)


def weekdays_away(match: RuleMatch) -> DayRange | None:
    """Resolve "two Fridays ago" and "two Fridays from now"; the nearest one is the first."""
    nearest = (next_weekday if match.has("forward") else previous_weekday)(match.today, match.value("weekday"))
    return single_day(add_units(nearest, match.step() * (match.value("count") - 1), WEEK))


# Days and periods relative to the reference: "yesterday", "last week", "the rest of the month".

_PAST, _LAST, _COMING = TAGS["past"], TAGS["last"], TAGS["coming"]
_INEXACT = (TAGS["previous"], TAGS["following"], _COMING)
"""Modifiers that count from a date named before, if there is one, or from today."""


def relative_day(match: RuleMatch) -> DayRange | None:
    day = add_units(match.today, match.value("day"), DAY)
    return day and DayRange(day, add_days(day, 1), kind="day", unannotated=match.value("day") == 0)


def period(match: RuleMatch) -> DayRange | None:
    """Resolve "last week", "this month", "next year"; "the past week" is the last seven days."""
    unit, step, today, tag = match.value("unit"), match.value("modifier"), match.today, match.tag("modifier")
    if match.is_plural("unit") or (unit == DAY and (step == 0 or tag == _LAST)):
        return None
    if tag == _PAST and unit not in _CALENDAR_WINDOWS and unit != WEEKEND:
        return _counted_days(today, CalendarLength(1, unit), -1)
    if unit == FORTNIGHT and step > 0:
        return whole_period(period_bounds(today, WEEK, 2, 2), unit, certain=False)
    is_sunday = today.weekday() == SUNDAY
    if unit != WEEKEND:
        # "The last year" may end and "the next year" may start today, on a Sunday the week may have ended, and
        # "they pay next day" is any day.
        is_open = match.has("article") or (unit == WEEK and is_sunday) or unit in (DAY, DECADE)
        return whole_period(period_bounds(today, unit, step), unit, certain=tag not in _INEXACT and not is_open)
    if tag == _COMING:
        step = int(today.weekday() > FRIDAY)
    # "Next weekend" may be the coming one.
    is_clear = step <= 0 or (today.weekday() == SATURDAY and not match.has("article"))
    certain = not is_sunday and tag not in _INEXACT and is_clear
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=step == 0)


def rolling_period(match: RuleMatch) -> DayRange | None:
    """Resolve "in the last year" to the year up to today; "last year" alone is the calendar year."""
    unit = match.value("unit")
    is_period = match.is_plural("unit") or unit in _CALENDAR_WINDOWS
    return None if is_period else _counted_days(match.today, CalendarLength(1, unit), -1)


def over_the_weekend(match: RuleMatch) -> DayRange | None:
    """Resolve "over the weekend": up to Thursday it is the one just past. "On the weekends" is a habit."""
    today = match.today
    step = -1 if match.context.prefer == "past" and today.weekday() < FRIDAY else 0
    # "On the weekend" may be any weekend.
    certain = today.weekday() < SATURDAY and match.previous_tag in (TAGS["over"], TAGS["during"])
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=True) if not match.is_plural("unit") else None


def this_period(match: RuleMatch) -> DayRange | None:
    """Resolve "for the week" and "the fortnight"."""
    bounds = period_bounds(match.today, match.value("unit"))
    return bounds and DayRange(*bounds, unannotated=True) if not match.is_plural("unit") else None


def second_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before last" and "the week after next"."""
    return whole_period(period_bounds(match.today, match.value("unit"), 2 * match.step()), match.value("unit"))


def adjacent_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the weekend before" and "the next day": relative to the previous date, or else to the reference."""
    step, unit = match.step(), match.value("unit", DAY)

    def count(anchor: date) -> DayRange | None:
        return whole_period(period_bounds(anchor, unit, step), unit)

    found = count(match.today)
    return found and replace(found, certain=False, anchored=_anchored(unit, count))


def earlier_or_later(match: RuleMatch) -> DayRange | None:
    """Resolve "earlier this year": the half of the current period, cut off at the reference."""
    unit, today, is_later = match.value("unit"), match.today, match.has("forward")
    whole = whole_period(period_bounds(today, unit), unit)
    half = whole and part_of(whole, "late" if is_later else "early")
    if half is None or half.start is None or half.end is None:
        return None
    start, end = (max(half.start, today), half.end) if is_later else (half.start, min(half.end, today))
    certain = not match.has("article") and (unit != WEEK or today.weekday() != SUNDAY)
    return DayRange(start, end, certain=certain) if start < end else None


def current_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the month" in "the second week of the month"."""
    return whole_period(period_bounds(match.today, match.value("unit")), match.value("unit"), certain=False)


def part_of_current_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the end of the month", which may be that of any month."""
    whole = current_period(match) if match.value("unit") != DAY and not match.is_plural("unit") else None
    return whole and part_of(replace(whole, certain=False), PERIOD_PARTS[match.value("part")])


def rest_of_period(match: RuleMatch) -> DayRange | None:
    unit, today = match.value("unit"), match.today
    bounds = period_bounds(today, unit)
    certain = unit != WEEK or today.weekday() != SUNDAY
    return bounds and DayRange(today, bounds[1], certain=certain) if unit != DAY else None


# Distances from another date: "two weeks before May 13", "the Sunday after Easter".


_RATE = re.compile(
    r"(?:\b(?:once|twice|times)|[$€£]\s?[\d.,]+k?|\d"
    r"|\b(?:an?|one|two|three|four|five|six|seven|eight|ten|twelve|few|some|several|many|more|\d+) (?:\w+ )?"
    r"(?:days?|hours?|minutes?|nights?|evenings?|mornings?|afternoons?|\w+s))\s$",
    re.IGNORECASE,
)
"""The beginning of "three shifts a week" or "$500 a month"."""


def _is_rate(match: RuleMatch) -> bool:
    """Return True for "four mornings a week on Friday"."""
    is_one = match.has("length") and match.source_text("length").lower().startswith(("a ", "an "))
    return is_one and _RATE.search(match.context.text, max(0, match.offset - 40), match.offset) is not None


def adjacent_to(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before Easter", "the day after" and "the weekend before"."""
    base, unit, after = match.days("base"), match.value("unit"), match.has("forward")
    if base.start is None or base.end is None or match.is_plural("unit"):
        return None
    if unit == WEEKEND:
        saturday = weekday_on_or_after(base.end, SATURDAY) if after else previous_weekday(base.start, SATURDAY)
        return DayRange(saturday, add_days(saturday, 2), relative=base.relative)
    if unit == DAY or base.kind in ("day", "weekday", "offset"):
        other = add_units(base.end, 1, unit) if after else add_units(base.start, -1, unit)
        bounds = other and ((base.end, other) if after else (other, base.start))
    else:
        bounds = period_bounds(base.end if after else add_days(base.start, -1), unit)
    return bounds and DayRange(
        *bounds, kind="day" if unit == DAY else "span", relative=base.relative, certain=base.certain
    )


def weekday_adjacent(match: RuleMatch) -> DayRange | None:
    """Resolve "the Sunday before 25 May 2023"."""
    base, named = match.days("base"), match.days("weekday").start
    if base.start is None or base.end is None or named is None:
        return None
    weekday = named.weekday()
    day = weekday_on_or_after(base.end, weekday) if match.has("forward") else previous_weekday(base.start, weekday)
    return single_day(day, relative=base.relative, certain=base.certain)


def offset_from(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks before May 13" and "a week from Friday", which counts from the coming one."""
    base, origin, length = match.days("base"), match.days("base").start, match.length("length")
    if origin and base.kind == "weekday" and match.tag("forward") == TAGS["from"]:
        origin = weekday_on_or_after(match.today, origin.weekday())
    day = length.offset_from(origin, match.step()) if origin and not _is_rate(match) else None
    if day and origin and match.has("comparison"):
        return _compared(match, origin, day.start)
    return day and replace(day, relative=base.relative, certain=length.exact and base.certain)


def duration_from(match: RuleMatch) -> DayRange | None:
    """Resolve "for 3 days from today"."""
    base = match.days("base")
    end = base.start and match.length("length").move(base.start, 1)
    return end and DayRange(base.start, end, relative=base.relative, certain=base.certain)


def weekday_at_offset(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks ago on Monday" to the Monday of that week; in the future to the first one from then."""
    offset, named = match.days("base").start, match.days("weekday").start
    if offset is None or named is None:
        return None
    if offset < match.today:
        return single_day(add_days(offset, named.weekday() - offset.weekday()), certain=False)
    return single_day(weekday_on_or_after(offset, named.weekday()), certain=False)


def week_after_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "a week on Friday" and "Friday week": that long after the coming Friday."""
    named = match.days("weekday").start
    length = match.length("length") if match.has("length") else CalendarLength(1, WEEK)
    if named is None or _is_rate(match):
        return None
    return single_day(length.move(next_weekday(match.today, named.weekday()), 1), certain=False)


# Dates combined with a qualifier: the year, the weekday, the weekend, or a part such as "early".

_JUST_PAST = timedelta(days=30)


def with_year(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    if match.tag("year") == TAGS["YEAR"]:
        year = match.days("year")
        return year.start and in_year(base, year.start.year, relative=year.relative)
    number = match.year()
    return in_year(base, number) if number else None


def with_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Tue May 9" in the nearest year in which the weekday is right."""
    named, day = match.days("weekday"), match.days("base")
    if named.start is None or day.start is None or day.yearly is None:
        return day
    if named.kind == "day":
        placed = in_year(day, named.start.year, relative=True)
        return placed and replace(placed, certain=placed.start == named.start)
    return on_weekday(day, named.start.weekday(), match.today)


def modified_date(match: RuleMatch) -> DayRange | None:
    """Resolve "last Christmas", "next Easter", "this Halloween"; the nearest one may be meant or not."""
    step, today, base = match.value("modifier"), match.today, match.days("base")
    years = [today.year] if step == 0 else range(today.year - 2, today.year + 3)
    placed = [found for year in years if (found := in_year(base, year, relative=True)) and found.start]
    if step < 0:
        found = next((found for found in reversed(placed) if found.start and found.start < today), None)
        return found and replace(found, certain=found.end is not None and today - found.end > _JUST_PAST)
    found = next((found for found in placed if step == 0 or (found.start and found.start > today)), None)
    return found and replace(found, certain=step == 0 or (found.start is not None and found.start.year > today.year))


def with_shared_year(match: RuleMatch) -> DayRange | None:
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


def part_of_span(match: RuleMatch) -> DayRange | None:
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


def nth_unit(match: RuleMatch) -> DayRange | None:
    """Resolve "the third month of 2022", "the first week of May", "the last weekend in June"."""
    unit, nth = match.value("unit"), match.value("ordinal")
    return _select(match.days("whole"), lambda bounds: _nth_of_unit(bounds, unit, nth), unit)


def first_or_last_units(match: RuleMatch) -> DayRange | None:
    """Resolve "the first three days of May" and "the last two months of 2022"."""
    length, nth = match.length("length"), match.value("ordinal")

    def select(bounds: Bounds) -> Bounds | None:
        other = length.move(bounds[0], 1) if nth > 0 else length.move(bounds[1], -1)
        selected = other and ((bounds[0], other) if nth > 0 else (other, bounds[1]))
        return selected if selected and bounds[0] <= selected[0] < selected[1] <= bounds[1] else None

    return _select(match.days("whole"), select)


def long_weekend(match: RuleMatch) -> DayRange | None:
    """Resolve "Easter weekend" and "the weekend of 3 May"."""
    return _select(match.days("base"), _long_weekend)


def week_of_day(match: RuleMatch) -> DayRange | None:
    return _select(match.days("whole"), lambda bounds: period_bounds(bounds[0], WEEK), WEEK)


def nth_weekday_of_period(match: RuleMatch) -> DayRange | None:
    named, nth = match.days("weekday").start, match.value("ordinal")
    weekday = named.weekday() if named else MONDAY

    def select(bounds: Bounds) -> Bounds | None:
        day = nth_weekday(bounds, weekday, nth)
        return day_bounds(day) if day and bounds[0] <= day < bounds[1] else None

    return _select(match.days("whole"), select, DAY)


def weekday_of_week(match: RuleMatch) -> DayRange | None:
    """Resolve "Tuesday of next week", and the first days of "Monday and Tuesday next week"."""
    named = match.days("weekday").start
    index = named.weekday() if named else MONDAY
    return _select(match.days("whole"), lambda bounds: day_bounds(add_days(bounds[0], index)), DAY)


# Ranges between two dates, and ranges with an open side: "from May to July", "since 2019", "by Friday".

_DAY_KINDS = ("day", "weekday", "offset")


def between_days(match: RuleMatch) -> DayRange | None:
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
        anchored=None,
        either_direction=base.either_direction or base.kind == "weekday",
    )


def before(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return _open(base, None, base.boundary)


def until(match: RuleMatch) -> DayRange | None:
    """Resolve "by 10 July": it ends where that day starts, but a search includes the day."""
    found = before(match)
    return found and replace(found, searched=(None, match.days("base").end))


def as_of(match: RuleMatch) -> DayRange | None:
    """Resolve "as of June": in a statement from then on, in a question what was known up to then."""
    found = since(match)
    return found and replace(found, searched=(None, match.days("base").end))


def after(match: RuleMatch) -> DayRange | None:
    """Resolve "after 2010" from the end of that year; "after 3 May" starts with the day itself."""
    base = match.days("base")
    return _open(base, base.start if base.kind in _DAY_KINDS else base.end, None)


def since(match: RuleMatch) -> DayRange | None:
    base = match.days("base")
    return _open(base, base.boundary, None)
