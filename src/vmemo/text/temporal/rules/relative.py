"""Days and periods relative to the reference date: "yesterday", "last week", "the rest of the month"."""

from __future__ import annotations

from dataclasses import replace

from vmemo.text.temporal.calendar_length import CalendarLength
from vmemo.text.temporal.calendar_units import (
    DAY,
    DECADE,
    FORTNIGHT,
    FRIDAY,
    SATURDAY,
    SUNDAY,
    WEEK,
    WEEKEND,
    add_days,
    add_units,
    period_bounds,
    period_start,
)
from vmemo.text.temporal.day_range import (
    PERIOD_PARTS,
    AnchorOffset,
    DayRange,
    display_last_day,
    part_of,
    single_day,
    whole_period,
)
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.rules.counted import CALENDAR_WINDOWS, counted_days

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


def _night_before_last(match: RuleMatch) -> DayRange | None:
    return single_day(add_units(match.today, -2, DAY))


def _today(match: RuleMatch) -> DayRange:
    today = match.today
    return DayRange(today, add_days(today, 1), kind="day", unannotated=True)


def _period(match: RuleMatch) -> DayRange | None:
    """Resolve "last week", "this month", "next year"; "the past week" is the last seven days."""
    unit, step, today = match.value("unit"), match.value("modifier"), match.today
    if match.is_plural("unit") or (unit == DAY and (step == 0 or match.tag("modifier") in _LAST)):
        return None
    if match.tag("modifier") in _PAST and unit not in CALENDAR_WINDOWS and unit != WEEKEND:
        return counted_days(today, CalendarLength.of(1, unit), -1)
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
    if match.is_plural("unit") or match.value("unit") in CALENDAR_WINDOWS:
        return None
    return counted_days(match.today, CalendarLength.of(1, match.value("unit")), -1)


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


def _period_to_date(match: RuleMatch) -> DayRange | None:
    today = match.today
    start = period_start(today, match.value("unit"))
    return display_last_day(DayRange(start, today)) if start < today else None


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


RULES = (
    Rule("day=RELDAY", _relative_day),
    Rule("last night", _last_night),
    Rule("the (night|daytime) before last", _night_before_last),
    Rule("this daytime", _today),
    Rule("(?<=in|over|during|within|for) the modifier=last unit=UNIT (?!of)", _rolling_period),
    Rule("the (next day|following unit=UNIT)", _following),
    Rule("the? very? part=PARTOF of the? unit=UNIT (?!of)", _part_of_current_period),
    Rule("(?<=(ORD|last) (UNIT|weekend|WFULL|half) of) the unit=UNIT", _current_period),
    Rule("(?<=(ORDONE|last) LENGTH of) the unit=UNIT", _current_period),
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
    Rule("unit=(week|month|quarter|year) DASH? to DASH? date", _period_to_date),
    Rule("this unit=UNIT so far", _so_far),
    Rule("so far this unit=UNIT", _so_far),
    Rule("the? rest of (the|this) unit=UNIT", _rest_of_period),
    Rule("(?<!DASH) to date (?!DASH)", _to_date),
)
