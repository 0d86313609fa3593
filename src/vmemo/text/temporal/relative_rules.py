"""Rules for times relative to the reference or to another date."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_days import (
    CENTURY,
    DAY,
    DECADE,
    FORTNIGHT,
    FRIDAY,
    PERIOD_PARTS,
    QUARTER,
    SATURDAY,
    SUNDAY,
    WEEK,
    WEEKEND,
    AnchorOffset,
    CalendarLength,
    DayRange,
    RangeKind,
    add_days,
    add_units,
    display_last_day,
    nearest_yearly,
    next_weekday,
    part_of,
    period_bounds,
    period_start,
    previous_weekday,
    single_day,
    weekday_on_or_after,
    whole_period,
)
from vmemo.text.temporal.grammar import Rule, RuleMatch, tags_of

# Distances from the reference: "two weeks ago", "in three days", "the last 10 days".

_SOME, _MORE = tags_of("SOME"), tags_of("more")
_CALENDAR_WINDOWS = (FORTNIGHT, QUARTER, DECADE, CENTURY)
"""Units that are counted in whole calendar periods: "the last two quarters"."""
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


def _days_of_window(today: date, length: CalendarLength, sign: int) -> DayRange | None:
    single = length.single
    if single and single[1] == WEEKEND:
        return None
    if single and single[1] in _CALENDAR_WINDOWS:
        count, unit = single
        bounds = period_bounds(today, unit, 1 if sign > 0 else -count, count)
        return bounds and DayRange(*bounds, certain=False)
    return _counted_days(today, length, sign)


def _counted_days(today: date, length: CalendarLength, sign: int) -> DayRange | None:
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
    return _compared_offset(match, match.today, 1 if match.has("forward") else -1, relative=True)


def _compared_offset(match: RuleMatch, origin: date, sign: int, *, relative: bool) -> DayRange | None:
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


def _weekdays_away(match: RuleMatch) -> DayRange | None:
    """Resolve "two Fridays ago" and "two Fridays from now"; the nearest one is the first."""
    sign = 1 if match.has("forward") else -1
    latest = previous_weekday(match.today, match.value("weekday"))
    nearest = add_days(latest, 7) if sign > 0 else latest
    if nearest == match.today:
        nearest = add_days(nearest, 7)
    return single_day(add_units(nearest, sign * (match.value("count") - 1), WEEK))


_WINDOW = "(last|previous|past|next|coming|following)"

COUNTED_RULES = (
    Rule(f"(the|these)? (for the)? modifier={_WINDOW} length=LENGTH (?!of)(?!ago)", _window),
    Rule("(the|these) count=(COUNT|SOME) modifier=(previous|past|next|coming) unit=UNIT", _reversed_window),
    Rule("within the? modifier=MOD? length=LENGTH (?!of)", _within),
    Rule("the? modifier=MOD count=COUNT? (business|working) day (?!of)", _business_days),
    Rule("length=LENGTH (ago|back)", _ago),
    Rule("length=LENGTH (from now|hence)", _from_now),
    Rule("(?<!time) in length=LENGTH (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _in_length),
    Rule("length=LENGTH (forward=later|earlier) (?!this)(?!than)(?!in)(?!on)(?!WORD than)", _later),
    Rule("comparison=(more|less) than length=LENGTH (ago|forward=(from now|hence))", _compared_to_now),
    Rule("length=LENGTH ago day=RELDAY", _ago_to_the_day),
    Rule("count=COUNT weekday=WPLURAL (ago|forward=(from now))", _weekdays_away),
)


# Days and periods relative to the reference: "yesterday", "last week", "the rest of the month".

_PAST, _LAST, _COMING = tags_of("past"), tags_of("last"), tags_of("coming")
_HABITUAL = tags_of("on") | tags_of("at")
_INEXACT = tags_of("previous") | tags_of("following") | tags_of("coming")
"""Modifiers that count from a date named before, if there is one, or from today."""


def _relative_day(match: RuleMatch) -> DayRange | None:
    offset = match.value("day")
    day = add_units(match.today, offset, DAY)
    return day and DayRange(day, add_days(day, 1), kind="day", unannotated=offset == 0)


def _last_night(match: RuleMatch) -> DayRange | None:
    return single_day(add_units(match.today, -1, DAY))


def _today(match: RuleMatch) -> DayRange:
    today = match.today
    return DayRange(today, add_days(today, 1), kind="day", unannotated=True)


def _period(match: RuleMatch) -> DayRange | None:
    """Resolve "last week", "this month", "next year"; "the past week" is the last seven days."""
    unit, step, today = match.value("unit"), match.value("modifier"), match.today
    if match.is_plural("unit") or (unit == DAY and (step == 0 or match.tag("modifier") in _LAST)):
        return None
    if match.tag("modifier") in _PAST and unit not in _CALENDAR_WINDOWS and unit != WEEKEND:
        return _counted_days(today, CalendarLength.of(1, unit), -1)
    if unit == WEEKEND:
        return _weekend(match)
    if unit == FORTNIGHT and step > 0:
        return whole_period(period_bounds(today, WEEK, 2, 2), unit, certain=False)
    # "The last year" may end and "the next year" may start today, and on a Sunday the week may have ended or begun.
    is_open = match.has("article") or (unit == WEEK and today.weekday() == SUNDAY) or unit >= DECADE
    certain = match.tag("modifier") not in _INEXACT and not is_open
    return whole_period(period_bounds(today, unit, step), unit, certain=certain)


def _weekend(match: RuleMatch) -> DayRange | None:
    """Resolve "last weekend"; "next weekend" may be the coming one, and on a Sunday each of them is in doubt."""
    today, step, tag = match.today, match.value("modifier"), match.tag("modifier")
    is_sunday = today.weekday() == SUNDAY
    if tag in _COMING:
        step = int(today.weekday() > FRIDAY)
    is_clear = step <= 0 or (today.weekday() == SATURDAY and not match.has("article"))
    certain = not is_sunday and tag not in _INEXACT and is_clear
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=step == 0)


def _rolling_period(match: RuleMatch) -> DayRange | None:
    """Resolve "in the last year" to the year up to today; "last year" alone is the calendar year."""
    if match.is_plural("unit") or match.value("unit") in _CALENDAR_WINDOWS:
        return None
    return _counted_days(match.today, CalendarLength.of(1, match.value("unit")), -1)


def _following(match: RuleMatch) -> DayRange | None:
    unit = match.value("unit", DAY)
    found = whole_period(period_bounds(match.today, unit, 1), unit)
    return found and replace(found, certain=False, anchor_offset=AnchorOffset(unit, 1, to_the_day=False))


def _over_the_weekend(match: RuleMatch) -> DayRange | None:
    """Resolve "over the weekend": up to Thursday it is the one just past. "On the weekends" is a habit."""
    if match.is_plural("unit"):
        return None
    today = match.today
    step = -1 if match.context.prefer == "past" and today.weekday() < FRIDAY else 0
    # "On the weekend" may be any weekend.
    certain = today.weekday() < SATURDAY and match.previous_tag not in _HABITUAL
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=True)


def _this_period(match: RuleMatch) -> DayRange | None:
    if match.is_plural("unit"):
        return None
    bounds = period_bounds(match.today, match.value("unit"))
    return bounds and DayRange(*bounds, kind="span", unannotated=True)


def _second_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before last" and "the week after next"."""
    step = 2 if match.has("forward") else -2
    return whole_period(period_bounds(match.today, match.value("unit"), step), match.value("unit"))


def _adjacent_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the weekend before" and "the day after": relative to the previous date, or else to the reference."""
    step, unit = (1 if match.has("forward") else -1), match.value("unit")
    found = whole_period(period_bounds(match.today, unit, step), unit)
    return found and replace(found, certain=False, anchor_offset=AnchorOffset(unit, step, to_the_day=False))


def _earlier_or_later(match: RuleMatch) -> DayRange | None:
    """Resolve "earlier this year": the half of the current period, cut off at the reference."""
    today = match.today
    whole = whole_period(period_bounds(today, match.value("unit")), match.value("unit"))
    later = match.has("forward")
    half = whole and part_of(whole, "late" if later else "early")
    if half is None or half.start is None or half.end is None:
        return None
    start, end = (max(half.start, today), half.end) if later else (half.start, min(half.end, today))
    certain = not match.has("article") and (match.value("unit") != WEEK or today.weekday() != SUNDAY)
    return DayRange(start, end, certain=certain) if start < end else None


def _so_far(match: RuleMatch) -> DayRange | None:
    """Resolve "this year so far"; on its first day that is the day itself."""
    start, today = period_start(match.today, match.value("unit")), match.today
    return display_last_day(DayRange(start, today)) if start < today else single_day(today)


def _current_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the month" in "the second week of the month"."""
    return whole_period(period_bounds(match.today, match.value("unit")), match.value("unit"))


def _part_of_current_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the end of the month", which may be that of any month."""
    whole = _current_period(match) if match.value("unit") != DAY and not match.is_plural("unit") else None
    return whole and part_of(replace(whole, certain=False), PERIOD_PARTS[match.value("part")])


def _rest_of_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the rest of the week"."""
    unit, today = match.value("unit"), match.today
    bounds = period_bounds(today, unit)
    certain = unit != WEEK or today.weekday() != SUNDAY
    return bounds and DayRange(today, bounds[1], certain=certain) if unit != DAY else None


def _to_date(match: RuleMatch) -> DayRange:
    return DayRange(None, match.today, unannotated=True)


RELATIVE_RULES = (
    Rule("day=RELDAY", _relative_day),
    Rule("last night", _last_night),
    Rule("this daytime", _today),
    Rule("(?<=in|over|during|within|for) the modifier=last unit=UNIT (?!of)", _rolling_period),
    Rule("the (next day|following unit=UNIT)", _following),
    Rule("the? very? part=PARTOF of the? unit=UNIT (?!of)", _part_of_current_period),
    Rule("(?<=(ORD|last) (UNIT|weekend|WFULL|half|LENGTH) of) the unit=UNIT", _current_period),
    Rule("article=the? modifier=last calendar? unit=UNIT (?!of)(?!in (MONTH|FULLYEAR))", _period),
    Rule("article=the? this? modifier=(previous|past|this|next|coming|following) calendar? unit=UNIT", _period),
    Rule("article=the? this? modifier=MOD unit=weekend (?!of)", _period),
    Rule("(?<=over|during|on|at) the unit=weekend (?!of)(?!before)(?!after)", _over_the_weekend),
    Rule("(?<!every) the unit=weekend (?!of)(?!before)(?!after)", _this_period),
    Rule("the unit=fortnight", _this_period),
    Rule("(?<=for) the unit=UNIT (?=$|STOP|COMMA)", _this_period),
    Rule("the? unit=(UNIT|weekend) (before last|forward=after next) (?!WDAY|UNIT|MONTH|weekend)", _second_period),
    Rule("the unit=(UNIT|weekend) (before|forward=after) (?=$|STOP|COMMA)", _adjacent_period),
    Rule("(earlier|forward=later) in? (this|article=the) unit=UNIT", _earlier_or_later),
    Rule("so far this unit=UNIT", _so_far),
    Rule("the? rest of (the|this) unit=UNIT", _rest_of_period),
    Rule("(?<!DASH) to date (?!DASH)", _to_date),
)


# Distances from another date: "two weeks before May 13", "the Sunday after Easter".

_FROM = tags_of("from")
_RATE = re.compile(
    r"(?:\b(?:once|twice|times)|[$€£]\s?[\d.,]+k?|\d"
    r"|\b(?:an?|one|two|three|four|five|six|seven|eight|ten|twelve|few|some|several|many|more|\d+) (?:\w+ )?"
    r"(?:days?|hours?|minutes?|nights?|evenings?|mornings?|afternoons?|\w+s))\s$",
    re.IGNORECASE,
)
"""The beginning of "three shifts a week" or "$500 a month"."""


def _weekday_at_offset(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks ago on Monday" to the Monday of that week; in the future to the first one from then."""
    offset, named = match.days("base").start, match.days("weekday").start
    if offset is None or named is None:
        return None
    if offset < match.today:
        return single_day(add_days(offset, named.weekday() - offset.weekday()), certain=False)
    return single_day(weekday_on_or_after(offset, named.weekday()), certain=False)


def _adjacent_to(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before Easter", "the day after" and "the weekend before"."""
    base, unit, after = match.days("base"), match.value("unit"), match.has("forward")
    if base.start is None or base.end is None:
        return None
    if match.is_plural("unit"):
        return None
    if unit == WEEKEND:
        return _weekend_adjacent(base.start, base.end, relative=base.relative, after=after)
    if unit == DAY or base.kind in ("day", "weekday", "offset"):
        other = add_units(base.end, 1, unit) if after else add_units(base.start, -1, unit)
        bounds = other and ((base.end, other) if after else (other, base.start))
    else:
        bounds = period_bounds(base.end if after else add_days(base.start, -1), unit)
    kind: RangeKind = "day" if unit == DAY else "span"
    return bounds and DayRange(*bounds, kind=kind, relative=base.relative, certain=base.certain)


def _weekend_adjacent(start: date, end: date, *, relative: bool, after: bool) -> DayRange:
    saturday = weekday_on_or_after(end, SATURDAY) if after else previous_weekday(start, SATURDAY)
    return DayRange(saturday, add_days(saturday, 2), relative=relative)


def _weekday_adjacent(match: RuleMatch) -> DayRange | None:
    """Resolve "the Sunday before 25 May 2023"."""
    base, named = match.days("base"), match.days("weekday").start
    if base.start is None or base.end is None or named is None:
        return None
    weekday = named.weekday()
    after = match.has("forward")
    day = weekday_on_or_after(base.end, weekday) if after else previous_weekday(base.start, weekday)
    return single_day(day, relative=base.relative, certain=base.certain)


def _offset_from(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks before May 13", "a few days after", "more than a year after"."""
    if _is_rate(match):
        return None
    base = match.days("base")
    is_from = match.has("forward") and match.tag("forward") in _FROM
    origin = _next_occurrence(base, match.today) if is_from else base.start
    if origin is None:
        return None
    found = _compared_offset(match, origin, 1 if match.has("forward") else -1, relative=base.relative)
    return found and replace(found, certain=found.certain and base.certain)


def _is_rate(match: RuleMatch) -> bool:
    """Return True for "four mornings a week from September 10"."""
    if not match.source_text("length").lower().startswith(("a ", "an ")):
        return False
    return _RATE.search(match.context.text, max(0, match.offset - 40), match.offset) is not None


def _next_occurrence(base: DayRange, today: date) -> date | None:
    """Return the start of a weekday or yearless date in the future, as "a week from Friday" counts."""
    if base.kind == "weekday" and base.start:
        return weekday_on_or_after(today, base.start.weekday())
    placed = nearest_yearly(base.yearly, today, "future") if base.yearly else base
    return placed and placed.start


def _duration_from(match: RuleMatch) -> DayRange | None:
    """Resolve "for 3 days from today"."""
    base = match.days("base")
    end = base.start and match.length("length").move(base.start, 1)
    return end and DayRange(base.start, end, relative=base.relative, certain=base.certain)


def _week_after_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "a week on Friday" and "Friday week": that long after the coming Friday."""
    named = match.days("weekday").start
    if named is None or (match.has("length") and _is_rate(match)):
        return None
    length = match.length("length") if match.has("length") else CalendarLength.of(1, WEEK)
    return single_day(length.move(next_weekday(match.today, named.weekday()), 1), certain=False)


_DIRECTION = "(before|previous to|forward=(after|following))"

OFFSET_RULES = (
    Rule(f"the unit=(UNIT|weekend) {_DIRECTION} base=ANY", _adjacent_to),
    Rule(f"unit=day {_DIRECTION} base=ANY", _adjacent_to),
    Rule(f"the weekday=WEEKDAY {_DIRECTION} base=ANY", _weekday_adjacent),
    Rule(
        "(?<!every) (comparison=(more|less) than)? length=LENGTH (before|previous to|forward=(after|from|following)) "
        "base=(DAY|SPAN)",
        _offset_from,
    ),
    Rule("for length=LENGTH COMMA? (from|starting) (on|from)? base=DAY", _duration_from),
    Rule("length=LENGTH on weekday=WEEKDAY", _week_after_weekday),
    Rule("weekday=WEEKDAY week (?=$|STOP|COMMA)", _week_after_weekday),
)
OFFSET_WEEKDAY_RULES = (
    Rule("base=OFFSET (on|COMMA) weekday=WEEKDAY", _weekday_at_offset),
    Rule("weekday=WEEKDAY COMMA? base=OFFSET", _weekday_at_offset),
)
