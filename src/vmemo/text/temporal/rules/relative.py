"""Expressions that lean on the reference day: yesterday, last week, two months ago, the next ten days."""

from __future__ import annotations

from dataclasses import replace

from vmemo.text.temporal.day_range import (
    DAY,
    EDGES,
    FORTNIGHT,
    ONE_DAY,
    WEEK,
    WEEKEND,
    Stretch,
    fixed_day,
    floor,
    of_period,
    part,
    period,
    shift,
    through_last_day,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading
from vmemo.text.temporal.rules.counted import ALIGNED, window

_PAST, _LAST = tags_of("past"), tags_of("last")


def _day(reading: Reading) -> Stretch | None:
    offset = reading.value("r")
    day = shift(reading.scene.today, offset, DAY)
    return day and Stretch(day, day + ONE_DAY, kind="day", quiet=offset == 0)


def _last_night(reading: Reading) -> Stretch | None:
    return fixed_day(shift(reading.scene.today, -1, DAY))


def _night_before_last(reading: Reading) -> Stretch | None:
    return fixed_day(shift(reading.scene.today, -2, DAY))


def _today(reading: Reading) -> Stretch:
    today = reading.scene.today
    return Stretch(today, today + ONE_DAY, kind="day", quiet=True)


def _period(reading: Reading) -> Stretch | None:
    """last, this or next week, month, year ..."""
    unit, step, today = reading.value("u"), reading.value("z"), reading.scene.today
    if reading.plural("u") or (unit == DAY and (step == 0 or reading.tag("z") in _LAST)):
        return None
    if reading.tag("z") in _PAST and unit not in ALIGNED and unit != WEEKEND:
        return window(today, -1, unit)
    if unit == FORTNIGHT and step > 0:
        return of_period(period(today, WEEK, 2, 2), unit)
    return of_period(period(today, unit, step), unit)


def _rolling(reading: Reading) -> Stretch | None:
    """in the last year: up to today, where "last year" alone is the calendar's."""
    if reading.plural("u") or reading.value("u") in ALIGNED:
        return None
    return window(reading.scene.today, -1, reading.value("u"))


def _following(reading: Reading) -> Stretch | None:
    unit = reading.value("u") if reading.has("u") else DAY
    found = of_period(period(reading.scene.today, unit, 1), unit)
    return found and replace(found, follows=(unit, 1, False))


def _over_the_weekend(reading: Reading) -> Stretch | None:
    """On the first days of a week it is the one just past; "on the weekends" is a habit."""
    if reading.plural("u"):
        return None
    today = reading.scene.today
    step = -1 if reading.scene.prefer == "past" and today.weekday() < 4 else 0
    found = of_period(period(today, WEEKEND, step), WEEKEND)
    return found and replace(found, either=True)


def _this_period(reading: Reading) -> Stretch | None:
    if reading.plural("u"):
        return None
    days = period(reading.scene.today, reading.value("u"))
    return days and Stretch(*days, kind="span", quiet=True)


def _two_periods_off(reading: Reading) -> Stretch | None:
    """the week before last, the week after next."""
    step = 2 if reading.has("n") else -2
    return of_period(period(reading.scene.today, reading.value("u"), step), reading.value("u"))


def _neighbour(reading: Reading) -> Stretch | None:
    """the weekend before, the day after: seen from the date named before, or else from the reference."""
    step, unit = (1 if reading.has("n") else -1), reading.value("u")
    found = of_period(period(reading.scene.today, unit, step), unit)
    return found and replace(found, follows=(unit, step, False))


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
    return through_last_day(Stretch(start, today)) if start < today else None


def _so_far(reading: Reading) -> Stretch | None:
    """this year so far: on the first day it is that day."""
    start, today = floor(reading.scene.today, reading.value("u")), reading.scene.today
    return through_last_day(Stretch(start, today)) if start < today else fixed_day(today)


def _running(reading: Reading) -> Stretch | None:
    """the month, of which a part was named."""
    return of_period(period(reading.scene.today, reading.value("u")), reading.value("u"))


def _part_of_running(reading: Reading) -> Stretch | None:
    """the end of the month."""
    whole = _running(reading) if reading.value("u") != DAY and not reading.plural("u") else None
    return whole and part(whole, EDGES[reading.value("p")])


def _rest(reading: Reading) -> Stretch | None:
    """What is left of the running week, month or year."""
    unit, today = reading.value("u"), reading.scene.today
    days = period(today, unit)
    return days and Stretch(today, days[1]) if unit != DAY else None


def _to_date(reading: Reading) -> Stretch:
    return Stretch(None, reading.scene.today, quiet=True)


RULES = (
    rule("r=RELDAY", _day),
    rule("last night", _last_night),
    rule("the (night|daytime) before last", _night_before_last),
    rule("this daytime", _today),
    rule("(?<=in|over|during|within|for) the z=last u=UNIT (?!of)", _rolling),
    rule("the (next day|following u=UNIT)", _following),
    rule("the? very? p=PARTOF of the? u=UNIT (?!of)", _part_of_running),
    rule("(?<=(ORD|last) (UNIT|weekend|WFULL|half) of) the u=UNIT", _running),
    rule("(?<=(ORDONE|last) COUNT UNIT of) the u=UNIT", _running),
    rule("the? z=last calendar? u=UNIT (?!of)(?!in (MONTH|FULLYEAR))", _period),
    rule("the? this? z=(previous|past|this|next|coming|following) calendar? u=UNIT", _period),
    rule("the? z=MOD u=weekend (?!of)", _period),
    rule("(?<=over|during|on|at) the u=weekend (?!of)(?!before)(?!after)", _over_the_weekend),
    rule("(?<!every) the u=weekend (?!of)(?!before)(?!after)", _this_period),
    rule("the u=fortnight", _this_period),
    rule("(?<=for) the u=UNIT (?=$|STOP|COMMA)", _this_period),
    rule("the u=(UNIT|weekend) (before last|n=after next) (?!WDAY|UNIT|MONTH|weekend)", _two_periods_off),
    rule("the u=(UNIT|weekend) (before|n=after) (?=$|STOP|COMMA)", _neighbour),
    rule("(earlier|n=later) in? (this|the) u=UNIT", _earlier_or_later),
    rule("u=(week|month|quarter|year) DASH? to DASH? date", _period_to_date),
    rule("this u=UNIT so far", _so_far),
    rule("so far this u=UNIT", _so_far),
    rule("the? rest of (the|this) u=UNIT", _rest),
    rule("(?<!DASH) to date (?!DASH)", _to_date),
)
