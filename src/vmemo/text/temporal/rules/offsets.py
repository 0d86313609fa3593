"""Distances from another date: "two weeks before May 13", "the Sunday after Easter", "three days from today"."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from vmemo.text.temporal.calendar_units import (
    DAY,
    SATURDAY,
    WEEKEND,
    add_days,
    add_units,
    period_bounds,
    previous_weekday,
    weekday_on_or_after,
)
from vmemo.text.temporal.day_range import DayRange, nearest_yearly, single_day
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.rules.counted import A_FEW, compared_offset, vague_offset

_FROM, _A = tags_of("from"), tags_of("A")
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
        return single_day(add_days(offset, named.weekday() - offset.weekday()))
    return single_day(weekday_on_or_after(offset, named.weekday()))


def _adjacent_to(match: RuleMatch) -> DayRange | None:
    """Resolve "the week before Easter", "the day after", "the weekend before", "the days after"."""
    base, unit, after = match.days("base"), match.value("unit"), match.has("forward")
    if base.start is None or base.end is None:
        return None
    if match.is_plural("unit"):
        return _units_adjacent(base, A_FEW[1] if after else -A_FEW[1], unit)
    if unit == WEEKEND:
        return _weekend_adjacent(base.start, base.end, relative=base.relative, after=after)
    if unit == DAY or base.kind in ("day", "weekday", "offset"):
        other = add_units(base.end, 1, unit) if after else add_units(base.start, -1, unit)
        bounds = other and ((base.end, other) if after else (other, base.start))
    else:
        bounds = period_bounds(base.end if after else add_days(base.start, -1), unit)
    return bounds and DayRange(*bounds, kind="day" if unit == DAY else "span", relative=base.relative)


def _counted_units_adjacent(match: RuleMatch) -> DayRange | None:
    """Resolve "the two weeks before Christmas" to all these days; "two weeks before Christmas" is one day."""
    count = match.value("count")
    return _units_adjacent(match.days("base"), count if match.has("forward") else -count, match.value("unit"))


def _units_adjacent(base: DayRange, count: int, unit: int) -> DayRange | None:
    origin = base.end if count > 0 else base.start
    other = origin and add_units(origin, count, unit)
    if origin is None or other is None:
        return None
    return DayRange(min(origin, other), max(origin, other), relative=base.relative)


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
    return single_day(day, relative=base.relative)


def _offset_from(match: RuleMatch) -> DayRange | None:
    """Resolve "two weeks before May 13", "a few days after", "more than a year after"."""
    if _is_rate(match):
        return None
    base = match.days("base")
    is_from = match.has("forward") and match.tag("forward") in _FROM
    origin = _next_occurrence(base, match.today) if is_from else base.start
    if origin is None:
        return None
    sign = 1 if match.has("forward") else -1
    if vague := vague_offset(match, origin, sign):
        return replace(vague, relative=base.relative)
    return compared_offset(match, origin, match.value("count") * sign, relative=base.relative)


def _is_rate(match: RuleMatch) -> bool:
    """Return True for "four mornings a week from September 10"."""
    if match.tag("count") not in _A:
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
    end = base.start and add_units(base.start, match.value("count"), match.value("unit"))
    return end and DayRange(base.start, end, relative=base.relative)


_COMPARISON = "(comparison=(more|less) than)?"
_COUNT = "count=(COUNT|A|SOME)"

RULES = (
    Rule("the unit=(UNIT|weekend) (before|previous to|forward=after) base=ANY", _adjacent_to),
    Rule("the count=(COUNT|SOME) unit=UNIT (before|previous to|forward=after) base=ANY", _counted_units_adjacent),
    Rule("unit=day (before|previous to|forward=after) base=ANY", _adjacent_to),
    Rule("the weekday=WEEKDAY (before|previous to|forward=after) base=ANY", _weekday_adjacent),
    Rule(
        f"(?<!every) {_COMPARISON} {_COUNT} unit=UNIT (before|previous to|forward=(after|from)) base=(DAY|SPAN)",
        _offset_from,
    ),
    Rule("for count=(COUNT|A) unit=UNIT COMMA? (from|starting) (on|from)? base=DAY", _duration_from),
)
WEEKDAY_RULES = (
    Rule("base=OFFSET (on|COMMA) weekday=WEEKDAY", _weekday_at_offset),
    Rule("weekday=WEEKDAY COMMA? base=OFFSET", _weekday_at_offset),
)
