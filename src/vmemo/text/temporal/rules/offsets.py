"""Distances from another date: "two weeks before May 13", "the Sunday after Easter", "three days from today"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_length import CalendarLength
from vmemo.text.temporal.calendar_units import (
    DAY,
    SATURDAY,
    WEEK,
    WEEKEND,
    add_days,
    add_units,
    next_weekday,
    period_bounds,
    previous_weekday,
    weekday_on_or_after,
)
from vmemo.text.temporal.day_range import DayRange, RangeKind, nearest_yearly, single_day
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.rules.counted import compared_offset
from vmemo.text.temporal.rules.lengths import A_FEW

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
    """Resolve "the week before Easter", "the day after", "the weekend before", "the days after"."""
    base, unit, after = match.days("base"), match.value("unit"), match.has("forward")
    if base.start is None or base.end is None:
        return None
    if match.is_plural("unit"):
        vague = CalendarLength.of(A_FEW, unit, exact=False)
        return _length_adjacent(base, vague, 1 if after else -1)
    if unit == WEEKEND:
        return _weekend_adjacent(base.start, base.end, relative=base.relative, after=after)
    if unit == DAY or base.kind in ("day", "weekday", "offset"):
        other = add_units(base.end, 1, unit) if after else add_units(base.start, -1, unit)
        bounds = other and ((base.end, other) if after else (other, base.start))
    else:
        bounds = period_bounds(base.end if after else add_days(base.start, -1), unit)
    kind: RangeKind = "day" if unit == DAY else "span"
    return bounds and DayRange(*bounds, kind=kind, relative=base.relative, certain=base.certain)


def _all_days_adjacent(match: RuleMatch) -> DayRange | None:
    """Resolve "the two weeks before Christmas" to all these days; "two weeks before Christmas" is one day."""
    return _length_adjacent(match.days("base"), match.length("length"), 1 if match.has("forward") else -1)


def _length_adjacent(base: DayRange, length: CalendarLength, sign: int) -> DayRange | None:
    origin = base.end if sign > 0 else base.start
    other = origin and length.move(origin, sign)
    if origin is None or other is None:
        return None
    start, end = min(origin, other), max(origin, other)
    return DayRange(start, end, relative=base.relative, certain=base.certain and length.exact)


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
    found = compared_offset(match, origin, 1 if match.has("forward") else -1, relative=base.relative)
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

RULES = (
    Rule(f"the unit=(UNIT|weekend) {_DIRECTION} base=ANY", _adjacent_to),
    Rule(f"the length=LENGTH {_DIRECTION} base=ANY", _all_days_adjacent),
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
WEEKDAY_RULES = (
    Rule("base=OFFSET (on|COMMA) weekday=WEEKDAY", _weekday_at_offset),
    Rule("weekday=WEEKDAY COMMA? base=OFFSET", _weekday_at_offset),
)
