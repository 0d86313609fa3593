"""Distances from the reference: "two weeks ago", "in three days", "the last 10 days", "a month ago today"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_length import CalendarLength
from vmemo.text.temporal.calendar_units import (
    CENTURY,
    DAY,
    DECADE,
    FIRST_YEAR,
    FORTNIGHT,
    FRIDAY,
    MONTH,
    QUARTER,
    SATURDAY,
    WEEK,
    WEEKEND,
    YEAR,
    add_days,
    add_units,
    period_bounds,
    previous_weekday,
)
from vmemo.text.temporal.day_range import AnchorOffset, DayRange, single_day, whole_period
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of

_SOME, _MORE = tags_of("SOME"), tags_of("more")
CALENDAR_WINDOWS = (FORTNIGHT, QUARTER, DECADE, CENTURY)
"""Units that are counted in whole calendar periods: "the last two quarters"."""
_MAX_MINUTES = 100_000
"""A larger number of hours or minutes is not a time."""
_NOT_FUTURE = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bfirst \w+|\bbest \w+|\bonce|\btwice|\btimes)\b[^.!?]{0,30}$", re.IGNORECASE
)


def _window(match: RuleMatch) -> DayRange | None:
    """Resolve "the last 10 days" and "the next two quarters"."""
    return _days_of_window(match.today, match.length("length"), 1 if match.value("modifier") > 0 else -1)


def _reversed_window(match: RuleMatch) -> DayRange | None:
    """Resolve "the 2 next days"."""
    length = CalendarLength.of(match.value("count"), match.value("unit"), exact=match.tag("count") not in _SOME)
    return _days_of_window(match.today, length, 1 if match.value("modifier") > 0 else -1)


def _unit_and_a_half(match: RuleMatch) -> DayRange | None:
    """Resolve "the last year and a half"."""
    length = CalendarLength.of(1, match.value("unit")).plus_half()
    return length and _days_of_window(match.today, length, -1)


def _unit_or_more(match: RuleMatch) -> DayRange | None:
    """Resolve "the past week or two" to the longer window."""
    return counted_days(match.today, CalendarLength.of(match.value("count"), match.value("unit"), exact=False), -1)


def _days_of_window(today: date, length: CalendarLength, sign: int) -> DayRange | None:
    single = length.single
    if single and single[1] == WEEKEND:
        return None
    if single and single[1] in CALENDAR_WINDOWS:
        count, unit = single
        bounds = period_bounds(today, unit, 1 if sign > 0 else -count, count)
        return bounds and DayRange(*bounds, certain=False)
    return counted_days(today, length, sign)


def counted_days(today: date, length: CalendarLength, sign: int) -> DayRange | None:
    """Return the days of a length: up to yesterday if the sign is negative, or else from tomorrow."""
    first = today if sign < 0 else add_days(today, 1)
    other = length.move(first, sign)
    if other is None or other == first:
        return None
    start, end = min(first, other), max(first, other)
    displayed = (start, add_days(end, 1)) if sign < 0 else None
    return DayRange(start, end, certain=length.exact and sign < 0, displayed=displayed)


def _within(match: RuleMatch) -> DayRange | None:
    """Resolve "within two weeks", which is rarely counted from now, and "within the last two weeks"."""
    if match.value("modifier") < 0:
        return _window(match)
    end = match.length("length").move(match.today, 1)
    return DayRange(match.today, end, certain=False) if end and end != match.today else None


def _business_days(match: RuleMatch) -> DayRange | None:
    """Resolve "the next 4 business days" and "the next working day"."""
    step = 1 if match.value("modifier") > 0 else -1
    first, last = _business_day(match.today, step), _business_day_away(match, step)
    return DayRange(min(first, last), add_days(max(first, last), 1), certain=False)


def _business_day_ahead(match: RuleMatch) -> DayRange | None:
    return single_day(_business_day_away(match, 1), certain=False)


def _business_day_ago(match: RuleMatch) -> DayRange | None:
    return single_day(_business_day_away(match, -1), certain=False)


def _business_day_away(match: RuleMatch, step: int) -> date:
    weeks, days = divmod(max(0, min(match.value("count", 1), 1000) - 1), 5)
    day = add_days(_business_day(match.today, step), 7 * step * weeks)
    for _ in range(days):
        day = _business_day(day, step)
    return day


def _business_day(day: date, step: int) -> date:
    """Return the next business day, or the previous one if the step is negative."""
    day = add_days(day, step)
    beyond = day.weekday() - FRIDAY
    if beyond <= 0:
        return day
    return add_days(day, 3 - beyond if step > 0 else -beyond)


def _offset(match: RuleMatch, sign: int) -> DayRange | None:
    """Return the day at a distance from the reference, the weekend, or a range if the length is vague."""
    length = match.length("length")
    if length.single and length.single[1] == WEEKEND:
        bounds = period_bounds(match.today, WEEKEND, sign * length.single[0])
        return whole_period(bounds, WEEKEND, certain=length.exact and match.today.weekday() < SATURDAY)
    found = length.offset_from(match.today, sign)
    return found and replace(found, certain=length.exact)


def _ago(match: RuleMatch) -> DayRange | None:
    return _offset(match, -1)


def _from_now(match: RuleMatch) -> DayRange | None:
    return _offset(match, 1)


def _in_length(match: RuleMatch) -> DayRange | None:
    """Resolve "in two weeks", which may be a duration; "not in two weeks" and "twice in a week" are none of both."""
    if _NOT_FUTURE.search(match.context.text, max(0, match.offset - 60), match.offset):
        return None
    found = _offset(match, 1)
    return found and replace(found, certain=False)


def _later(match: RuleMatch) -> DayRange | None:
    """Resolve "two days later", from the previous date of the text if there is one."""
    sign, length = 1 if match.has("forward") else -1, match.length("length")
    found = _offset(match, sign)
    count, unit = length.single or (0, DAY)
    offset = AnchorOffset(unit, sign * count, to_the_day=True) if count else None
    return found and replace(found, certain=False, anchor_offset=offset)


def _compared_to_now(match: RuleMatch) -> DayRange | None:
    """Resolve "more than two weeks ago"."""
    return compared_offset(match, match.today, 1 if match.has("forward") else -1, relative=True)


def compared_offset(match: RuleMatch, origin: date, sign: int, *, relative: bool) -> DayRange | None:
    """Return the day at the distance; "more than" gives all days beyond it, "less than" the days up to it."""
    length = match.length("length")
    day = length.offset_from(origin, sign)
    if day is None or day.start is None or not match.has("comparison"):
        return day and replace(day, relative=relative, certain=length.exact)
    if match.tag("comparison") in _MORE:
        return DayRange(None, day.start) if sign < 0 else DayRange(day.start, None)
    start, end = sorted((origin, day.start))
    return DayRange(start, end, certain=False) if start < end else None


def _ago_to_the_day(match: RuleMatch) -> DayRange | None:
    """Resolve "a month ago today" and "two weeks ago yesterday" to one day."""
    origin = add_units(match.today, match.value("day"), DAY)
    day = origin and match.length("length").offset_from(origin, -1)
    return day and replace(day, displayed=None)


def _ago_in_period(match: RuleMatch) -> DayRange | None:
    """Resolve "a year ago this month"."""
    moved = match.length("length").move(match.today, -1)
    return moved and whole_period(period_bounds(moved, match.value("period")), match.value("period"))


def _weeks_before_latest_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "a week ago Monday": a week before the latest Monday."""
    latest = previous_weekday(match.today, match.value("weekday"))
    return single_day(match.length("length").move(latest, -1), certain=False)


def _weekdays_away(match: RuleMatch) -> DayRange | None:
    """Resolve "two Fridays ago" and "two Fridays from now"; the nearest one is the first."""
    sign = 1 if match.has("forward") else -1
    latest = previous_weekday(match.today, match.value("weekday"))
    nearest = add_days(latest, 7) if sign > 0 else latest
    if nearest == match.today:
        nearest = add_days(nearest, 7)
    return single_day(add_units(nearest, sign * (match.value("count") - 1), WEEK))


def _same_time(match: RuleMatch) -> DayRange | None:
    """Resolve "this time last year" and "on this day two years ago"; "time" is displayed less precisely."""
    if match.has("length"):
        length, sign = match.length("length"), -1
    else:
        length, sign = CalendarLength.of(1, match.value("unit")), match.value("modifier")
    day = length.move(match.today, sign)
    if day is None:
        return None
    displayed = None if match.has("day") else period_bounds(day, MONTH if length.unit >= YEAR else WEEK)
    return DayRange(day, add_days(day, 1), kind="day", displayed=displayed)


def _hours_ago(match: RuleMatch) -> DayRange | None:
    return _days_of_hours(match, up_to_now=False)


def _last_hours(match: RuleMatch) -> DayRange | None:
    return _days_of_hours(match, up_to_now=True)


def _days_of_hours(match: RuleMatch, *, up_to_now: bool) -> DayRange | None:
    """Return the day that some hours or minutes ago fall on, or all days from it to today."""
    minutes = match.value("count", 1) * match.value("unit")
    if not 0 < minutes <= _MAX_MINUTES or match.today.year <= FIRST_YEAR:
        return None
    start = (match.context.now - timedelta(minutes=minutes)).date()
    end = match.today if up_to_now else start
    return DayRange(start, add_days(end, 1), kind="span" if up_to_now else "day", unannotated=True)


_COUNT = "count=(COUNT|A|SOME)"
_WINDOW = "(last|previous|past|next|coming|following)"
_SAME_TIME = "(this|the? same) (day=day|time)"

RULES = (
    Rule(f"(the|these)? (for the)? modifier={_WINDOW} length=LENGTH (?!of)(?!ago)", _window),
    Rule("(the|these) count=(COUNT|SOME) modifier=(previous|past|next|coming) unit=UNIT", _reversed_window),
    Rule("the? (last|past) unit=UNIT and A half", _unit_and_a_half),
    Rule("the? (last|past) unit=UNIT or count=COUNT (?!UNIT)", _unit_or_more),
    Rule("within the? modifier=MOD? length=LENGTH (?!of)", _within),
    Rule("the? modifier=MOD count=COUNT? (business|working) day (?!of)", _business_days),
    Rule("(?<=in) count=COUNT (business|working) day", _business_day_ahead),
    Rule("count=COUNT (business|working) day (from now|hence)", _business_day_ahead),
    Rule("count=COUNT (business|working) day (ago|back)", _business_day_ago),
    Rule("length=LENGTH (ago|back)", _ago),
    Rule("length=LENGTH (from now|hence)", _from_now),
    Rule("(?<!time) in length=LENGTH (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _in_length),
    Rule("length=LENGTH (forward=later|earlier) (?!this)(?!than)(?!in)(?!on)(?!WORD than)", _later),
    Rule("comparison=(more|less) than length=LENGTH (ago|forward=(from now|hence))", _compared_to_now),
    Rule("length=LENGTH ago day=RELDAY", _ago_to_the_day),
    Rule("length=LENGTH ago this period=(week|month)", _ago_in_period),
    Rule("length=LENGTH ago weekday=WFULL", _weeks_before_latest_weekday),
    Rule("count=COUNT weekday=WPLURAL (ago|forward=(from now))", _weekdays_away),
    Rule(f"{_SAME_TIME} modifier=(last|next) unit=(week|month|year)", _same_time),
    Rule(f"{_SAME_TIME} length=LENGTH ago", _same_time),
    Rule(f"{_COUNT} unit=HOUR (ago|back)", _hours_ago),
    Rule("half A unit=HOUR (ago|back)", _hours_ago),
    Rule("the? (last|past|previous) count=(COUNT|SOME)? unit=HOUR (?!of)", _last_hours),
)
