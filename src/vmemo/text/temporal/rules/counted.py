"""Counted distances and windows: two weeks ago, in three days, the last 10 days, the next two quarters."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date

from vmemo.text.temporal.day_range import (
    CENTURY,
    DAY,
    DECADE,
    FORTNIGHT,
    ONE_DAY,
    QUARTER,
    WEEK,
    WEEKEND,
    Stretch,
    of_period,
    offset_day,
    period,
    shift,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading

_FEW, _SOME = tags_of("FEWER"), tags_of("SOME")
A_FEW, _SEVERAL = (2, 5), (3, 8)
"""The least and the most that people mean."""
ALIGNED = (FORTNIGHT, QUARTER, DECADE, CENTURY)
"""Units whose windows follow the calendar: the last two quarters are whole quarters."""
_NOT_AHEAD = re.compile(
    r"(?:n['’]t|\bnot|\bnever|\bfirst \w+|\bbest \w+|\bonce|\btwice|\btimes)\b[^.!?]{0,30}$", re.IGNORECASE
)


def _windows(reading: Reading) -> Stretch | None:
    """the last 10 days, the next two quarters: whole calendar periods for long units, days otherwise."""
    step = 1 if reading.value("z") > 0 else -1
    count, unit, today = reading.value("n"), reading.value("u"), reading.scene.today
    if unit == WEEKEND:
        return None
    if unit in ALIGNED:
        days = period(today, unit, 1 if step > 0 else -count, count)
        return days and Stretch(*days)
    return window(today, step * count, unit)


def window(today: date, count: int, unit: int) -> Stretch | None:
    """Days up to today, today excluded, or from tomorrow on."""
    first = today if count < 0 else today + ONE_DAY
    other = shift(first, count, unit)
    if other is None or count == 0:
        return None
    start, end = min(first, other), max(first, other)
    return Stretch(start, end, shown=(start, end + ONE_DAY) if count < 0 else None)


def _within(reading: Reading) -> Stretch | None:
    today = reading.scene.today
    if reading.has("z") and reading.value("z") < 0:
        return _windows(reading)
    end = shift(today, reading.value("n"), reading.value("u"))
    return end and Stretch(today, end) if end != today else None


def _business_days(reading: Reading) -> Stretch | None:
    day, left = reading.scene.today, min(reading.value("n"), 1000)
    step = ONE_DAY if reading.value("z") > 0 else -ONE_DAY
    first = day + step
    while first.weekday() > 4:
        first += step
    day = first
    while left > 1:
        day += step
        left -= day.weekday() < 5
    return Stretch(min(first, day), max(first, day) + ONE_DAY)


def _away(reading: Reading, sign: int) -> Stretch | None:
    """N units before or after the reference: a day, or a range when the number is vague."""
    today, unit, count = reading.scene.today, reading.value("u"), reading.value("n")
    if unit == WEEKEND:
        return of_period(period(today, WEEKEND, sign * count), WEEKEND)
    return vaguely(reading, today, sign) or offset_day(today, sign * count, unit)


def vaguely(reading: Reading, origin: date, sign: int) -> Stretch | None:
    """A few or several units from a day, or None when the number is exact."""
    if reading.tag("n") not in _SOME:
        return None
    near, far = A_FEW if reading.tag("n") in _FEW else _SEVERAL
    unit = reading.value("u")
    return roughly(shift(origin, sign * near, unit), shift(origin, sign * far, unit), unit)


def roughly(near: date | None, far: date | None, unit: int) -> Stretch | None:
    """Between two days, shown in whole months or years when these were counted."""
    if near is None or far is None:
        return None
    start, end = min(near, far), max(near, far)
    first, last = period(start, unit), period(end, unit)
    shown = (first[0], last[1]) if first and last and unit not in (DAY, WEEK, FORTNIGHT) else None
    return Stretch(start, end + ONE_DAY, shown=shown)


def _ago(reading: Reading) -> Stretch | None:
    return _away(reading, -1)


def _ahead(reading: Reading) -> Stretch | None:
    return _away(reading, 1)


def _in_time(reading: Reading) -> Stretch | None:
    """in two weeks; but "haven't talked in two weeks" and "twice in a week" look at no future day."""
    begin = reading.tokens[reading.match.start()].start
    return None if _NOT_AHEAD.search(reading.scene.text, max(0, begin - 60), begin) else _away(reading, 1)


def _later(reading: Reading) -> Stretch | None:
    """Counted from the date named before, if there is one."""
    found = _away(reading, 1 if reading.has("f") else -1)
    count = reading.value("n") * (1 if reading.has("f") else -1)
    return found and replace(found, follows=(reading.value("u"), count, True))


_COUNTED = "(COUNT|A|SOME)"
_TIMES = "(UNIT|weekend)"

RULES = (
    rule("(the|these)? (for the)? z=MOD n=(COUNT|SOME) u=UNIT (?!of)", _windows),
    rule("(the|these) n=(COUNT|SOME) z=(previous|past|next|coming) u=UNIT", _windows),
    rule("within the? z=MOD? n=(COUNT|A|SOME) u=UNIT (?!of)", _within),
    rule("the? z=MOD n=COUNT (business|working) day", _business_days),
    rule(f"n={_COUNTED} u={_TIMES} (ago|back)", _ago),
    rule(f"n={_COUNTED} u={_TIMES} (from now|hence)", _ahead),
    rule(f"(?<!time) in n={_COUNTED} u=UNIT (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _in_time),
    rule(f"n={_COUNTED} u={_TIMES} (f=later|earlier) (?!this)(?!than)(?!in)(?!on)(?!WORD than)", _later),
)
