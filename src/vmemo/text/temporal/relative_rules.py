"""Rules for times relative to the reference or to another date."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from itertools import islice

from vmemo.text.temporal.calendar_days import (
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
    add_days,
    add_units,
    nearest_yearly,
    next_weekday,
    part_of,
    period_bounds,
    previous_weekday,
    single_day,
    weekday_on_or_after,
    whole_period,
)
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.vocabulary import TAGS

# Distances from the reference: "two weeks ago", "in three days", "the last 10 days".

_CALENDAR_WINDOWS = (FORTNIGHT, QUARTER, DECADE)
"""Units that are counted in whole calendar periods: "the last two quarters"."""
_NOT_FUTURE = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bfirst \w+|\bbest \w+|\bonce|\btwice|\btimes)\b[^.!?]{0,30}$", re.IGNORECASE
)


def _window(match: RuleMatch) -> DayRange | None:
    """Resolve "the last 10 days", "the next two quarters" and "the 2 next days"."""
    sign = 1 if match.value("modifier") > 0 else -1
    length = (
        match.length("length")
        if match.has("length")
        else CalendarLength.of(match.value("count"), match.value("unit"), exact=False)
    )
    if length.single and length.single[1] == WEEKEND:
        return None
    if length.single and length.single[1] in _CALENDAR_WINDOWS:
        count, unit = length.single
        bounds = period_bounds(match.today, unit, 1 if sign > 0 else -count, count)
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


def _within(match: RuleMatch) -> DayRange | None:
    """Resolve "within two weeks", which is rarely counted from now, and "within the last two weeks"."""
    if match.value("modifier") < 0:
        return _window(match)
    end = match.length("length").move(match.today, 1)
    return DayRange(match.today, end, certain=False) if end and end != match.today else None


def _business_days(match: RuleMatch) -> DayRange | None:
    """Resolve "the next 4 business days" and "the last working day"."""
    step = 1 if match.value("modifier") > 0 else -1
    days = (add_days(match.today, step * away) for away in range(1, 1000))
    found = list(islice((day for day in days if day.weekday() <= FRIDAY), match.value("count", 1)))
    return DayRange(min(found), add_days(max(found), 1), certain=False) if found else None


def _offset(match: RuleMatch) -> DayRange | None:
    """Return the day at a distance from the reference, the weekend, or a range if the length is vague or compared."""
    length, sign = match.length("length"), match.step()
    if length.single and length.single[1] == WEEKEND:
        bounds = period_bounds(match.today, WEEKEND, sign * length.single[0])
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


def _in_length(match: RuleMatch) -> DayRange | None:
    """Resolve "in two weeks", which may be a duration; "not in two weeks" and "twice in a week" are none of both."""
    if _NOT_FUTURE.search(match.context.text, max(0, match.offset - 60), match.offset):
        return None
    found = _offset(match)
    return found and replace(found, certain=False)


def _later(match: RuleMatch) -> DayRange | None:
    """Resolve "two days later", from the previous date of the text if there is one."""
    found, (count, unit) = _offset(match), match.length("length").single or (0, DAY)
    offset = AnchorOffset(unit, match.step() * count, to_the_day=True) if count else None
    return found and replace(found, certain=False, anchor_offset=offset)


def _ago_to_the_day(match: RuleMatch) -> DayRange | None:
    """Resolve "a month ago today" and "two weeks ago yesterday" to one day."""
    day = match.length("length").offset_from(add_days(match.today, match.value("day")), -1)
    return day and replace(day, displayed=None)


def _weekdays_away(match: RuleMatch) -> DayRange | None:
    """Resolve "two Fridays ago" and "two Fridays from now"; the nearest one is the first."""
    nearest = (next_weekday if match.has("forward") else previous_weekday)(match.today, match.value("weekday"))
    return single_day(add_units(nearest, match.step() * (match.value("count") - 1), WEEK))


COUNTED_RULES = (
    Rule(
        "(the|these)? (for the)? modifier=(last|previous|past|next|coming|following) length=LENGTH (?!of)(?!ago)",
        _window,
    ),
    Rule("(the|these) count=(COUNT|SOME) modifier=(previous|past|next|coming) unit=UNIT", _window),
    Rule("the? modifier=MOD count=COUNT? (business|working) day (?!of)", _business_days),
    Rule("within the? modifier=MOD? length=LENGTH (?!of)", _within),
    Rule("(comparison=(more|less) than)? length=LENGTH (ago|back|forward=(from now|hence))", _offset),
    Rule("(?<!time) forward=in length=LENGTH (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _in_length),
    Rule("length=LENGTH (forward=later|earlier) (?!this)(?!than)(?!in)(?!on)(?!WORD than)", _later),
    Rule("length=LENGTH ago day=RELDAY", _ago_to_the_day),
    Rule("count=COUNT weekday=WPLURAL (ago|forward=(from now))", _weekdays_away),
)


# Days and periods relative to the reference: "yesterday", "last week", "the rest of the month".

_PAST, _LAST, _COMING = TAGS["past"], TAGS["last"], TAGS["coming"]
_INEXACT = (TAGS["previous"], TAGS["following"], _COMING)
"""Modifiers that count from a date named before, if there is one, or from today."""


def _relative_day(match: RuleMatch) -> DayRange | None:
    day = add_units(match.today, match.value("day"), DAY)
    return day and DayRange(day, add_days(day, 1), kind="day", unannotated=match.value("day") == 0)


def _period(match: RuleMatch) -> DayRange | None:
    """Resolve "last week", "this month", "next year"; "the past week" is the last seven days."""
    unit, step, today, tag = match.value("unit"), match.value("modifier"), match.today, match.tag("modifier")
    if match.is_plural("unit") or (unit == DAY and (step == 0 or tag == _LAST)):
        return None
    if tag == _PAST and unit not in _CALENDAR_WINDOWS and unit != WEEKEND:
        return _counted_days(today, CalendarLength.of(1, unit), -1)
    if unit == FORTNIGHT and step > 0:
        return whole_period(period_bounds(today, WEEK, 2, 2), unit, certain=False)
    is_sunday = today.weekday() == SUNDAY
    if unit != WEEKEND:
        # "The last year" may end and "the next year" may start today, and on a Sunday the week may have ended.
        is_open = match.has("article") or (unit == WEEK and is_sunday) or unit >= DECADE
        return whole_period(period_bounds(today, unit, step), unit, certain=tag not in _INEXACT and not is_open)
    if tag == _COMING:
        step = int(today.weekday() > FRIDAY)
    # "Next weekend" may be the coming one.
    is_clear = step <= 0 or (today.weekday() == SATURDAY and not match.has("article"))
    certain = not is_sunday and tag not in _INEXACT and is_clear
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=step == 0)


def _rolling_period(match: RuleMatch) -> DayRange | None:
    """Resolve "in the last year" to the year up to today; "last year" alone is the calendar year."""
    unit = match.value("unit")
    is_period = match.is_plural("unit") or unit in _CALENDAR_WINDOWS
    return None if is_period else _counted_days(match.today, CalendarLength.of(1, unit), -1)


def _over_the_weekend(match: RuleMatch) -> DayRange | None:
    """Resolve "over the weekend": up to Thursday it is the one just past. "On the weekends" is a habit."""
    today = match.today
    step = -1 if match.context.prefer == "past" and today.weekday() < FRIDAY else 0
    # "On the weekend" may be any weekend.
    certain = today.weekday() < SATURDAY and match.previous_tag not in (TAGS["on"], TAGS["at"])
    found = whole_period(period_bounds(today, WEEKEND, step), WEEKEND, certain=certain)
    return found and replace(found, either_direction=True) if not match.is_plural("unit") else None


def _this_period(match: RuleMatch) -> DayRange | None:
    bounds = period_bounds(match.today, match.value("unit"))
    return bounds and DayRange(*bounds, unannotated=True) if not match.is_plural("unit") else None


def _second_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before last" and "the week after next"."""
    return whole_period(period_bounds(match.today, match.value("unit"), 2 * match.step()), match.value("unit"))


def _adjacent_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the weekend before" and "the next day": relative to the previous date, or else to the reference."""
    step, unit = match.step(), match.value("unit", DAY)
    found = whole_period(period_bounds(match.today, unit, step), unit)
    return found and replace(found, certain=False, anchor_offset=AnchorOffset(unit, step, to_the_day=False))


def _earlier_or_later(match: RuleMatch) -> DayRange | None:
    """Resolve "earlier this year": the half of the current period, cut off at the reference."""
    unit, today, is_later = match.value("unit"), match.today, match.has("forward")
    whole = whole_period(period_bounds(today, unit), unit)
    half = whole and part_of(whole, "late" if is_later else "early")
    if half is None or half.start is None or half.end is None:
        return None
    start, end = (max(half.start, today), half.end) if is_later else (half.start, min(half.end, today))
    certain = not match.has("article") and (unit != WEEK or today.weekday() != SUNDAY)
    return DayRange(start, end, certain=certain) if start < end else None


def _so_far(match: RuleMatch) -> DayRange | None:
    """Resolve "this year so far"; on its first day that is the day itself."""
    bounds, today = period_bounds(match.today, match.value("unit")), match.today
    return bounds and (DayRange(bounds[0], today) if bounds[0] < today else single_day(today))


def _current_period(match: RuleMatch) -> DayRange | None:
    """Resolve "the month" in "the second week of the month"."""
    return whole_period(period_bounds(match.today, match.value("unit")), match.value("unit"), certain=False)


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


RELATIVE_RULES = (
    Rule("day=RELDAY", _relative_day),
    Rule("last night", lambda match: single_day(add_units(match.today, -1, DAY))),
    Rule("this day=daytime", _relative_day),
    Rule("(?<=in|over|during|within|for) the modifier=last unit=UNIT (?!of)", _rolling_period),
    Rule("the forward=(next day|following unit=UNIT)", _adjacent_period),
    Rule("the? very? part=PARTOF of the? unit=UNIT (?!of)", _part_of_current_period),
    Rule("(?<=(ORD|last) (UNIT|weekend|WFULL|half|LENGTH) of) the unit=UNIT", _current_period),
    Rule("article=the? modifier=last calendar? unit=UNIT (?!of)(?!in (MONTH|Y4))", _period),
    Rule("article=the? this? modifier=(previous|past|this|next|coming|following) calendar? unit=UNIT", _period),
    Rule("article=the? this? modifier=MOD unit=weekend (?!of)", _period),
    Rule("(?<=over|during|on|at) the unit=weekend (?!of)(?!before)(?!after)", _over_the_weekend),
    Rule("(?<!every) the unit=weekend (?!of)(?!before)(?!after)", _this_period),
    Rule("(?<=for) the unit=UNIT (?=$|STOP|COMMA)", _this_period),
    Rule("the unit=fortnight", _this_period),
    Rule("the? unit=(UNIT|weekend) (before last|forward=after next) (?!WDAY|UNIT|MONTH|weekend)", _second_period),
    Rule("the unit=(UNIT|weekend) (before|forward=after) (?=$|STOP|COMMA)", _adjacent_period),
    Rule("(earlier|forward=later) in? (this|article=the) unit=UNIT", _earlier_or_later),
    Rule("the? rest of (the|this) unit=UNIT", _rest_of_period),
    Rule("so far this unit=UNIT", _so_far),
    Rule("this unit=UNIT so far", _so_far),
)


# Distances from another date: "two weeks before May 13", "the Sunday after Easter".

_RATE = re.compile(
    r"(?:\b(?:once|twice|times)|[$€£]\s?[\d.,]+k?|\d"
    r"|\b(?:an?|one|two|three|four|five|six|seven|eight|ten|twelve|few|some|several|many|more|\d+) (?:\w+ )?"
    r"(?:days?|hours?|minutes?|nights?|evenings?|mornings?|afternoons?|\w+s))\s$",
    re.IGNORECASE,
)
"""The beginning of "three shifts a week" or "$500 a month"."""


def _adjacent_to(match: RuleMatch) -> DayRange | None:
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


def _weekday_adjacent(match: RuleMatch) -> DayRange | None:
    """Resolve "the Sunday before 25 May 2023"."""
    base, named = match.days("base"), match.days("weekday").start
    if base.start is None or base.end is None or named is None:
        return None
    weekday = named.weekday()
    day = weekday_on_or_after(base.end, weekday) if match.has("forward") else previous_weekday(base.start, weekday)
    return single_day(day, relative=base.relative, certain=base.certain)


def _offset_from(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks before May 13", "a few days after", "more than a year after"."""
    base, sign, length = match.days("base"), match.step(), match.length("length")
    is_from = match.tag("forward") == TAGS["from"]
    origin = _next_occurrence(base, match.today) if is_from else base.start
    day = length.offset_from(origin, sign) if origin and not _is_rate(match) else None
    if day is None or origin is None:
        return None
    if match.has("comparison"):
        return _compared(match, origin, day.start)
    return replace(day, relative=base.relative, certain=length.exact and base.certain)


def _is_rate(match: RuleMatch) -> bool:
    """Return True for "four mornings a week from September 10"."""
    is_one = match.source_text("length").lower().startswith(("a ", "an "))
    return is_one and _RATE.search(match.context.text, max(0, match.offset - 40), match.offset) is not None


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


def _weekday_at_offset(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks ago on Monday" to the Monday of that week; in the future to the first one from then."""
    offset, named = match.days("base").start, match.days("weekday").start
    if offset is None or named is None:
        return None
    if offset < match.today:
        return single_day(add_days(offset, named.weekday() - offset.weekday()), certain=False)
    return single_day(weekday_on_or_after(offset, named.weekday()), certain=False)


_DIRECTION = "(before|previous to|forward=(after|following))"

OFFSET_RULES = (
    Rule(f"the unit=(UNIT|weekend) {_DIRECTION} base=ANY", _adjacent_to),
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
