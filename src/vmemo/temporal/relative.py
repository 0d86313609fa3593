"""Expressions that lean on the reference day: yesterday, last week, two months ago, the next ten days."""

from __future__ import annotations

from datetime import date

from vmemo.temporal.grammar import rule
from vmemo.temporal.patterns import tags_of
from vmemo.temporal.reading import Reading
from vmemo.temporal.stretch import (
    CENTURY,
    DAY,
    DECADE,
    FORTNIGHT,
    MONTH,
    ONE_DAY,
    QUARTER,
    WEEK,
    WEEKEND,
    YEAR,
    Stretch,
    fixed_day,
    floor,
    of_period,
    part,
    period,
    shift,
)

_PAST, _LAST = tags_of("past"), tags_of("last")
_FEW, _SEVERAL = tags_of("FEWER"), tags_of("several")
_ALIGNED = (FORTNIGHT, QUARTER, DECADE, CENTURY)
"""Units whose windows follow the calendar: the last two quarters are whole quarters."""


def _day(reading: Reading) -> Stretch | None:
    offset = reading.value("r")
    day = shift(reading.scene.today, offset, DAY)
    return day and Stretch(day, day + ONE_DAY, kind="day", quiet=offset == 0)


def _last_night(reading: Reading) -> Stretch | None:
    return fixed_day(shift(reading.scene.today, -1, DAY))


def _today(reading: Reading) -> Stretch:
    today = reading.scene.today
    return Stretch(today, today + ONE_DAY, kind="day", quiet=True)


def _period(reading: Reading) -> Stretch | None:
    """last, this or next week, month, year ..."""
    unit, step, today = reading.value("u"), reading.value("z"), reading.scene.today
    if reading.written("u").endswith("s") and reading.written("u")[-2] not in "'’":
        return None
    if unit == DAY and (step == 0 or reading.tag("z") in _LAST):
        return None
    if reading.tag("z") in _PAST and unit not in _ALIGNED and unit != WEEKEND:
        return _window(today, -1, unit)
    if unit == FORTNIGHT and step > 0:
        return of_period(period(today, WEEK, 2, 2), unit)
    return of_period(period(today, unit, step), unit)


def _this_period(reading: Reading) -> Stretch | None:
    days = period(reading.scene.today, reading.value("u"))
    return days and Stretch(*days, kind="span", quiet=True)


def _two_periods_off(reading: Reading) -> Stretch | None:
    """the week before last, the week after next."""
    step = 2 if reading.has("n") else -2
    return of_period(period(reading.scene.today, reading.value("u"), step), reading.value("u"))


def _neighbour(reading: Reading) -> Stretch | None:
    """the weekend before, the day after: no other date is named, so the reference is meant."""
    step = 1 if reading.has("n") else -1
    return of_period(period(reading.scene.today, reading.value("u"), step), reading.value("u"))


def _count(reading: Reading) -> int:
    return reading.value("n")


def _windows(reading: Reading) -> Stretch | None:
    """the last 10 days, the next two quarters: whole calendar periods for long units, days otherwise."""
    step = 1 if reading.value("z") > 0 else -1
    count, unit, today = _count(reading), reading.value("u"), reading.scene.today
    if unit == WEEKEND:
        return None
    if unit in _ALIGNED:
        days = period(today, unit, 1 if step > 0 else -count, count)
        return days and Stretch(*days)
    return _window(today, step * count, unit)


def _window(today: date, count: int, unit: int) -> Stretch | None:
    first = today if count < 0 else today + ONE_DAY
    other = shift(first, count, unit)
    if other is None or count == 0:
        return None
    return Stretch(min(first, other), max(first, other))


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
    if reading.tag("n") in _FEW | _SEVERAL:
        near, far = (2, 5) if reading.tag("n") in _FEW else (3, 8)
        borders = (shift(today, sign * near, unit), shift(today, sign * far, unit))
        start, end = min(filter(None, borders), default=None), max(filter(None, borders), default=None)
        return start and end and Stretch(start, end + ONE_DAY)
    return offset_day(today, sign * count, unit)


def _ago(reading: Reading) -> Stretch | None:
    return _away(reading, -1)


def _ahead(reading: Reading) -> Stretch | None:
    return _away(reading, 1)


def _earlier_or_later(reading: Reading) -> Stretch | None:
    """The half of the running period that the word names, cut at the reference."""
    today = reading.scene.today
    whole = of_period(period(today, reading.value("u")), reading.value("u"))
    later = reading.has("n")
    half = whole and part(whole, "late" if later else "early")
    if half is None or half.start is None or half.end is None:
        return None
    start, end = (max(half.start, today), half.end) if later else (half.start, min(half.end, today))
    return Stretch(start, end) if start < end else None


def _period_to_date(reading: Reading) -> Stretch | None:
    today = reading.scene.today
    start = floor(today, reading.value("u"))
    return Stretch(start, today) if start < today else None


def _rest(reading: Reading) -> Stretch | None:
    """What is left of the running week, month or year."""
    unit, today = reading.value("u"), reading.scene.today
    days = period(today, unit)
    return days and Stretch(today, days[1]) if unit != DAY else None


def _to_date(reading: Reading) -> Stretch:
    return Stretch(None, reading.scene.today, quiet=True)


def offset_day(day: date, count: int, unit: int) -> Stretch | None:
    """A day some units away, shown no more precisely than its unit."""
    moved = shift(day, count, unit)
    if moved is None:
        return None
    shown = period(moved, unit) if unit in (MONTH, QUARTER, YEAR, DECADE, CENTURY) else None
    return Stretch(moved, moved + ONE_DAY, kind="offset", shown=shown)


_COUNTED = "(COUNT|A|SOME)"
_TIMES = "(UNIT|weekend)"

RULES = (
    rule("r=RELDAY", _day),
    rule("last night", _last_night),
    rule("this daytime", _today),
    rule("the? z=last calendar? u=UNIT (?!of)(?!in (MONTH|FULLYEAR))", _period),
    rule("the? this? z=(previous|past|this|next|coming) calendar? u=UNIT", _period),
    rule("the? z=MOD u=weekend (?!of)", _period),
    rule("(?<!every) the u=weekend (?!of)(?!before)(?!after)", _this_period),
    rule("the u=fortnight", _this_period),
    rule("(?<=for|of|in) the u=UNIT (?=$|STOP|COMMA)", _this_period),
    rule("the u=(UNIT|weekend) (before last|n=after next) (?!WDAY|UNIT|MONTH|weekend)", _two_periods_off),
    rule("the u=(UNIT|weekend) (before|n=after) (?=$|STOP|COMMA)", _neighbour),
    rule("(the|these)? (for the)? z=MOD n=(COUNT|SOME) u=UNIT (?!of)", _windows),
    rule("the? n=(COUNT|SOME) z=(previous|past|next|coming) u=UNIT", _windows),
    rule("within the? z=MOD? n=(COUNT|A|SOME) u=UNIT (?!of)", _within),
    rule("the? z=MOD n=COUNT (business|working) day", _business_days),
    rule(f"n={_COUNTED} u={_TIMES} (ago|back)", _ago),
    rule(f"n={_COUNTED} u={_TIMES} (from now|hence)", _ahead),
    rule(f"(?<!time) in n={_COUNTED} u=UNIT (APOSTROPHE? time)? (?!of)(?!before)(?!after)(?!from)(?!ago)", _ahead),
    rule("(earlier|n=later) in? (this|the) u=UNIT", _earlier_or_later),
    rule("u=(week|month|quarter|year) DASH? to DASH? date", _period_to_date),
    rule("the? rest of (the|this) u=UNIT", _rest),
    rule("(?<!DASH) to date (?!DASH)", _to_date),
)
