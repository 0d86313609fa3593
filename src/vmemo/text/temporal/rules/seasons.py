"""Seasons: three calendar months each; a winter belongs to the year in which it starts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_units import MONTH, Bounds, add_units, make_date
from vmemo.text.temporal.day_range import DayRange
from vmemo.text.temporal.grammar import Rule, RuleMatch

_JUST_ENDED, _HALF_A_YEAR = timedelta(days=30), timedelta(days=183)


def _first_month(match: RuleMatch) -> int:
    month = match.value("season")
    return (month + 5) % 12 + 1 if match.context.southern else month


def _season_bounds(year: int, month: int) -> Bounds | None:
    start = make_date(year, month, 1)
    end = start and add_units(start, 3, MONTH)
    return (start, end) if start and end else None


def _season(match: RuleMatch) -> DayRange | None:
    month = _first_month(match)
    found = match.nearest(lambda year: _season_bounds(year, month), "span")
    return found and replace(found, certain=False)


def _season_of_year(match: RuleMatch) -> DayRange | None:
    """Resolve "the winter of 2014-2015"."""
    bounds = _season_bounds(match.value("year"), _first_month(match))
    return bounds and DayRange(*bounds, relative=False)


def _seasons_ago(match: RuleMatch) -> DayRange | None:
    """Resolve "two summers ago"; a season that has not ended does not count."""
    today, month, count = match.today, _first_month(match), match.value("count")
    ended = (bounds for back in range(3) if (bounds := _season_bounds(today.year - back, month)) and bounds[1] <= today)
    latest = next(ended, None)
    bounds = _season_bounds(latest[0].year + 1 - count, month) if latest else None
    return bounds and DayRange(*bounds)


def _modified_season(match: RuleMatch) -> DayRange | None:
    """Resolve "last summer", "this winter", "the summer before last"; one just ended may be "last" or "this"."""
    today, month, step = match.today, _first_month(match), match.value("modifier")
    seasons = [bounds for year in range(today.year - 3, today.year + 3) if (bounds := _season_bounds(year, month))]
    if step < 0:
        before_last = match.groups.start("modifier") > match.groups.start("season")
        chosen = [bounds for bounds in seasons if bounds[1] <= today][-2:][0 if before_last else -1 :]
    elif step > 0:
        chosen = [bounds for bounds in seasons if bounds[0] > today][:1]
    else:
        chosen = [bounds for bounds in seasons if bounds[0] <= today < bounds[1] or bounds[0].year == today.year][:1]
    return DayRange(*chosen[0], certain=_is_clear(chosen[0], today, step)) if chosen else None


def _is_clear(bounds: Bounds, today: date, step: int) -> bool:
    if step < 0:
        return today - bounds[1] >= _JUST_ENDED
    if step > 0:
        return bounds[0].year > today.year
    return bounds[0] - today <= _HALF_A_YEAR and today - bounds[1] <= _HALF_A_YEAR


RULES = (
    Rule("(?<=in|during|over|since|until|by) the? season=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    Rule("(?<=for) the season=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    Rule("the? season=(SEASON|SEASONX) (?=(of|COMMA)? (FULLYEAR|APOSTROPHE YY))", _season),
    Rule("season=(SEASON|SEASONX) (?=of? MOD year)", _season),
    Rule("the? season=(SEASON|SEASONX) of? year=Y4 (DASH|SLASH) (YY|Y4)", _season_of_year),
    Rule("count=COUNT season=(SEASON|SEASONX|SEASONS) ago", _seasons_ago),
    Rule("the season=(SEASON|SEASONX) before modifier=last", _modified_season),
    Rule("the? modifier=MOD season=(SEASON|SEASONX)", _modified_season),
)
