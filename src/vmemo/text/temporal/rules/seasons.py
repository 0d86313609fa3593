"""Occasions that return every year: holidays and seasons."""

from __future__ import annotations

import re
from dataclasses import replace

from vmemo.text.temporal.day_range import MONTH, Days, Stretch, make_day, one_day, shift
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Build, Number, Reading, float_days
from vmemo.text.temporal.rules.holidays import HOLIDAYS, WEEKDAY_OF, Holiday
from vmemo.text.temporal.vocabulary import TAGS

_KEPT_THINGS = re.compile(
    r"\s+(?:songs?|music|carols?|movies?|films?|trees?|cookies?|eggs?|bunn(?:y|ies)|costumes?|cand(?:y|ies)"
    r"|sweaters?|jumpers?|decorations?|lights|recipes?|deals?|resolutions?)\b",
    re.IGNORECASE,
)
"""What belongs to a holiday in any year: a Christmas song is of no day."""
_DATING = frozenset(TAGS[word] for word in ("on", "at", "over", "for", "since", "until", "before", "after", "by"))
_BESIDE = tags_of("MOD")


def _season_days(year: int, month: int) -> Days | None:
    start = make_day(year, month, 1)
    end = start and shift(start, 3, MONTH)
    return (start, end) if start and end else None


def _season(reading: Reading) -> Stretch | None:
    month = reading.value("s")
    return float_days(lambda year: _season_days(year, month), reading.scene, "span")


def _season_of_year(reading: Reading) -> Stretch | None:
    """the winter of 2014-2015 began in 2014."""
    days = _season_days(reading.value("y"), reading.value("s"))
    return days and Stretch(*days, relative=False)


def _seasons_ago(reading: Reading) -> Stretch | None:
    """two summers ago, the running one not counted."""
    today, month, count = reading.scene.today, reading.value("s"), reading.value("n")
    over = (days for back in range(3) if (days := _season_days(today.year - back, month)) and days[1] <= today)
    latest = next(over, None)
    days = _season_days(latest[0].year + 1 - count, month) if latest else None
    return days and Stretch(*days)


def _season_beside(reading: Reading) -> Stretch | None:
    today, month, step = reading.scene.today, reading.value("s"), reading.value("z")
    seasons = [days for year in range(today.year - 3, today.year + 3) if (days := _season_days(year, month))]
    if step < 0:
        before_last = reading.match.start("z") > reading.match.start("s")
        chosen = [days for days in seasons if days[1] <= today][-2:][0 if before_last else -1 :]
    elif step > 0:
        chosen = [days for days in seasons if days[0] > today][:1]
    else:
        chosen = [days for days in seasons if days[0] <= today < days[1] or days[0].year == today.year][:1]
    return Stretch(*chosen[0]) if chosen else None


def _holiday(pattern: str, holiday: Holiday) -> Build:
    expected = WEEKDAY_OF.get(pattern.split()[0])

    def build(reading: Reading) -> Stretch | Number | None:
        last = reading.tokens[reading.match.end() - 1]
        if _KEPT_THINGS.match(reading.scene.text, last.end) and not _is_beside(reading):
            return Number("WORD")
        if expected is not None and last.value != expected:
            return None
        found = float_days(lambda year: one_day(holiday(year)), reading.scene)
        return found and replace(found, quiet=not _is_dated(reading))

    return build


def _is_beside(reading: Reading) -> bool:
    """last Christmas, this Halloween."""
    first = reading.match.start()
    return first > 0 and reading.tokens[first - 1].tag in _BESIDE


def _is_dated(reading: Reading) -> bool:
    """Whether a preposition makes the holiday a day; "Christmas magic" and "Thanksgiving is fun" mean any year's."""
    first = reading.match.start()
    return first > 0 and reading.tokens[first - 1].tag in _DATING


RULES = (
    *(rule(pattern, _holiday(pattern, holiday)) for pattern, holiday in HOLIDAYS.items()),
    rule("(?<=in|during|over|since|until|by) the? s=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    rule("(?<=for) the s=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    rule("the? s=(SEASON|SEASONX) (?=(of|COMMA)? (FULLYEAR|APOSTROPHE YY))", _season),
    rule("s=(SEASON|SEASONX) (?=of? MOD year)", _season),
    rule("the? s=(SEASON|SEASONX) of? y=Y4 (DASH|SLASH) (YY|Y4)", _season_of_year),
    rule("n=COUNT s=(SEASON|SEASONX|SEASONS) ago", _seasons_ago),
    rule("the s=(SEASON|SEASONX) before z=last", _season_beside),
    rule("the? z=MOD s=(SEASON|SEASONX)", _season_beside),
)
