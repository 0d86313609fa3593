"""Days at a distance from another date: two weeks before May 13, the Sunday after Easter, three days from today."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.day_range import DAY, ONE_DAY, WEEKEND, Stretch, fixed_day, floating, offset_day, period, shift
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading
from vmemo.text.temporal.rules.counted import A_FEW, vaguely

_MORE, _FROM, _A = tags_of("more"), tags_of("from"), tags_of("A")
_OFTEN = re.compile(
    r"(?:\b(?:once|twice|times)|[$€£]\s?[\d.,]+k?|\d"
    r"|\b(?:an?|one|two|three|four|five|six|seven|eight|ten|twelve|few|some|several|many|more|\d+) (?:\w+ )?"
    r"(?:days?|hours?|minutes?|nights?|evenings?|mornings?|afternoons?|\w+s))\s$",
    re.IGNORECASE,
)
"""What is so often: "three shifts a week", "$500 a month"."""


def _weekday_from_offset(reading: Reading) -> Stretch | None:
    """Looking back it is the weekday of that week, as in "two weeks ago on Monday"; ahead it is the next one."""
    offset, named = reading.stretch("x").start, reading.stretch("w").start
    if offset is None or named is None:
        return None
    if offset < reading.scene.today:
        return fixed_day(offset + timedelta(days=named.weekday() - offset.weekday()))
    return fixed_day(offset + timedelta(days=(named.weekday() - offset.weekday()) % 7))


def _neighbour_of(reading: Reading) -> Stretch | None:
    """the week before X, the day after X, the weekend before X."""
    x, unit, after = reading.stretch("x"), reading.value("u"), reading.has("n")
    if x.start is None or x.end is None:
        return None
    if reading.plural("u"):
        return _span_beside(x, A_FEW[1] if after else -A_FEW[1], unit)
    if unit == WEEKEND:
        return _weekend_beside(x, after=after)
    if unit == DAY or x.kind in ("day", "weekday", "offset"):
        other = shift(x.end, 1, unit) if after else shift(x.start, -1, unit)
        pair = other and ((x.end, other) if after else (other, x.start))
    else:
        pair = period(x.end if after else x.start - ONE_DAY, unit)
    return pair and Stretch(*pair, kind="day" if unit == DAY else "span", relative=x.relative)


def _units_beside(reading: Reading) -> Stretch | None:
    """the two weeks before Christmas: all of them, where "two weeks before Christmas" is a day."""
    count = reading.value("n")
    return _span_beside(reading.stretch("x"), count if reading.has("f") else -count, reading.value("u"))


def _span_beside(x: Stretch, count: int, unit: int) -> Stretch | None:
    origin = x.end if count > 0 else x.start
    other = origin and shift(origin, count, unit)
    if origin is None or other is None:
        return None
    return Stretch(min(origin, other), max(origin, other), relative=x.relative)


def _weekend_beside(x: Stretch, *, after: bool) -> Stretch | None:
    if x.start is None or x.end is None:
        return None
    if after:
        saturday = x.end + timedelta(days=(5 - x.end.weekday()) % 7)
    else:
        saturday = x.start - timedelta(days=(x.start.weekday() - 5 - 1) % 7 + 1)
    return Stretch(saturday, saturday + timedelta(days=2), relative=x.relative)


def _weekday_beside(reading: Reading) -> Stretch | None:
    """the Sunday before 25 May 2023."""
    x, named = reading.stretch("x"), reading.stretch("w").start
    if x.start is None or x.end is None or named is None:
        return None
    weekday = named.weekday()
    if reading.has("n"):
        day = x.end + timedelta(days=(weekday - x.end.weekday()) % 7)
    else:
        day = x.start - timedelta(days=(x.start.weekday() - weekday - 1) % 7 + 1)
    return fixed_day(day, relative=x.relative)


def _ahead(x: Stretch, reading: Reading) -> date | None:
    """A distance counted "from" a bare weekday or date looks forward."""
    today = reading.scene.today
    if x.kind == "weekday" and x.start:
        return today + timedelta(days=(x.start.weekday() - today.weekday()) % 7)
    placed = floating(x.yearly, today, "future") if x.yearly else x
    return placed and placed.start


def _distance(reading: Reading) -> Stretch | None:
    """N units before or after X; "more than" opens the far side and "less than" closes it at X."""
    if _is_rate(reading):
        return None
    x = reading.stretch("x")
    origin = _ahead(x, reading) if reading.has("f") and reading.tag("f") in _FROM else x.start
    sign = 1 if reading.has("f") else -1
    vague = origin and vaguely(reading, origin, sign)
    if vague:
        return replace(vague, relative=x.relative)
    return origin and _measured(reading, origin, reading.value("n") * sign, relative=x.relative)


def _is_rate(reading: Reading) -> bool:
    """four mornings a week from September 10."""
    begin = reading.tokens[reading.match.start()].start
    return reading.tag("n") in _A and _OFTEN.search(reading.scene.text, max(0, begin - 40), begin) is not None


def _distance_from_now(reading: Reading) -> Stretch | None:
    return _measured(reading, reading.scene.today, reading.value("n") * (1 if reading.has("f") else -1), relative=True)


def _measured(reading: Reading, origin: date, count: int, *, relative: bool) -> Stretch | None:
    away = offset_day(origin, count, reading.value("u"))
    if away is None or away.start is None or not reading.has("m"):
        return away and replace(away, relative=relative)
    if reading.tag("m") in _MORE:
        return Stretch(None, away.start) if count < 0 else Stretch(away.start, None)
    start, end = sorted((origin, away.start))
    return Stretch(start, end) if start < end else None


def _lasting(reading: Reading) -> Stretch | None:
    """for 3 days from today."""
    x = reading.stretch("x")
    end = x.start and shift(x.start, reading.value("n"), reading.value("u"))
    return end and Stretch(x.start, end, relative=x.relative)


_COMPARED = "(m=(more|less) than)?"
_COUNTED = "n=(COUNT|A|SOME)"

NOW = (rule("m=(more|less) than n=(COUNT|A) u=UNIT (ago|f=(from now|hence))", _distance_from_now),)
RULES = (
    rule("the u=(UNIT|weekend) (before|previous to|n=after) x=ANY", _neighbour_of),
    rule("the n=(COUNT|SOME) u=UNIT (before|previous to|f=after) x=ANY", _units_beside),
    rule("u=day (before|previous to|n=after) x=ANY", _neighbour_of),
    rule("the w=WEEKDAY (before|previous to|n=after) x=ANY", _weekday_beside),
    rule(f"(?<!every) {_COMPARED} {_COUNTED} u=UNIT (before|previous to|f=(after|from)) x=(DAY|SPAN)", _distance),
    rule("for n=(COUNT|A) u=UNIT COMMA? (from|starting) (on|from)? x=DAY", _lasting),
)
WEEKDAYS = (
    rule("x=OFFSET (on|COMMA) w=WEEKDAY", _weekday_from_offset),
    rule("w=WEEKDAY COMMA? x=OFFSET", _weekday_from_offset),
)
