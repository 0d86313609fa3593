"""Weekdays and numbered weeks: "last Friday", "this coming Tuesday", "on Monday", "week 12"."""

from __future__ import annotations

from vmemo.text.temporal.calendar_units import (
    SUNDAY,
    WEEK,
    Bounds,
    add_days,
    add_units,
    make_date,
    next_weekday,
    period_bounds,
    period_start,
    previous_weekday,
    weekday_on_or_after,
)
from vmemo.text.temporal.day_range import DayRange, single_day
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of

_LATEST, _COMING, _THIS, _NEXT = (
    tags_of("last") | tags_of("past"),
    tags_of("coming"),
    tags_of("this"),
    tags_of("next"),
)


def _modified_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "last Friday": last and past mean the latest, coming the next, others that of the neighbouring week.

    "Last Friday" on a Saturday may be a week earlier, "next Friday" on a Monday a week later.
    """
    today, weekday, tag = match.today, match.value("weekday"), match.tag("modifier")
    if tag in _LATEST:
        day = previous_weekday(today, weekday)
        return single_day(day, certain=add_days(day, 1) < today)
    if tag in _COMING:
        return single_day(next_weekday(today, weekday))
    day = add_units(add_days(period_start(today, WEEK), weekday), match.value("modifier"), WEEK)
    is_next = tag in _NEXT and weekday <= today.weekday() < SUNDAY
    return single_day(day, certain=is_next or (tag in _THIS and weekday > today.weekday()))


def _second_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "the Friday before last" and "the Monday after next"."""
    today, weekday = match.today, match.value("weekday")
    if match.has("forward"):
        return single_day(add_units(next_weekday(today, weekday), 1, WEEK))
    return single_day(add_units(previous_weekday(today, weekday), -1, WEEK))


def _weekday(match: RuleMatch) -> DayRange | None:
    today, weekday = match.today, match.value("weekday")
    if match.context.prefer == "past":
        return single_day(previous_weekday(today, weekday), kind="weekday")
    return single_day(weekday_on_or_after(today, weekday), kind="weekday")


def _week_number(match: RuleMatch) -> DayRange | None:
    number = match.value("number")

    def yearly(year: int) -> Bounds | None:
        # ISO week 1 is the one with 4 January.
        fourth = make_date(year, 1, 4)
        return fourth and period_bounds(fourth, WEEK, number - 1)

    bounds = yearly(match.today.year) if 1 <= number <= 53 else None
    return bounds and DayRange(*bounds, kind="week", yearly=yearly, certain=False)


_NOT_A_HABIT = "(?!habit|(and|or|COMMA|SLASH|TO) WFULL habit)"

RULES = (
    Rule("(on|this)? modifier=MOD weekday=WDAY (?!of)(?!in (MONTH|FULLYEAR))", _modified_weekday),
    Rule(f"(?<!every|A|POSS) (?<!A WFULL (or|and)) weekday=WFULL {_NOT_A_HABIT}", _weekday),
    Rule("(?<=POSS) weekday=WFULL (?!habit|WORD)", _weekday),
    Rule("(?<=on|by|until) weekday=WABBR", _weekday),
    Rule("weekday=WABBR (?=(or|and|TO|SLASH) WDAY)", _weekday),
    Rule("(?<=WDAY (or|and|TO|SLASH)) weekday=WABBR", _weekday),
    Rule("the? weekday=WDAY (before last|forward=after next)", _second_weekday),
    Rule("weekday=WABBR (?=(COMMA|STOP)? (MONTH|DD|the? ORD))", _weekday),
    Rule("week number=(D12|D31|D99) (?!SEP)", _week_number),
)
