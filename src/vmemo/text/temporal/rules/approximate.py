"""Distances halved, doubtful or pinned to a day: a year and a half ago, 2 or 3 weeks ago, a month ago today."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.day_range import (
    CENTURY,
    DAY,
    DECADE,
    MONTH,
    ONE_DAY,
    WEEK,
    YEAR,
    Stretch,
    fixed_day,
    of_period,
    offset_day,
    period,
    shift,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.reading import Reading
from vmemo.text.temporal.rules.counted import roughly, window

_HALF = {WEEK: (3, DAY), MONTH: (15, DAY), YEAR: (6, MONTH), DECADE: (5, YEAR), CENTURY: (5, DECADE)}
"""Half of a unit, in a smaller one."""


def _and_a_half(reading: Reading) -> date | None:
    """The day that many units and a half ago; "half a year ago" has no whole ones."""
    unit = reading.value("u")
    count = reading.value("n") if reading.has("n") else 1 if reading.has("z") else 0
    whole = shift(reading.scene.today, -count, unit)
    half = _HALF.get(unit)
    return shift(whole, -half[0], half[1]) if whole and half else None


def _halved_ago(reading: Reading) -> Stretch | None:
    day = _and_a_half(reading)
    if day is None:
        return None
    shown = period(day, _HALF[reading.value("u")][1])
    return Stretch(day, day + ONE_DAY, kind="offset", shown=shown)


def _halved_window(reading: Reading) -> Stretch | None:
    start, today = _and_a_half(reading), reading.scene.today
    return start and Stretch(start, today, shown=(start, today + ONE_DAY))


def _between_counts(reading: Reading) -> Stretch | None:
    """2 or 3 weeks ago, a day or two ago."""
    today, unit = reading.scene.today, reading.value("u")
    return roughly(shift(today, -reading.value("a"), unit), shift(today, -reading.value("n"), unit), unit)


def _widest_window(reading: Reading) -> Stretch | None:
    return window(reading.scene.today, -reading.value("n"), reading.value("u"))


def _to_the_day(reading: Reading) -> Stretch | None:
    """a month ago today is one day, and two weeks ago yesterday the day before that."""
    origin = shift(reading.scene.today, reading.value("r"), DAY)
    away = origin and offset_day(origin, -reading.value("n"), reading.value("u"))
    return away and replace(away, shown=None)


def _to_the_period(reading: Reading) -> Stretch | None:
    """a year ago this month."""
    moved = shift(reading.scene.today, -reading.value("n"), reading.value("u"))
    return moved and of_period(period(moved, reading.value("p")), reading.value("p"))


def _weeks_before_weekday(reading: Reading) -> Stretch | None:
    """a week ago Monday: that long before the latest Monday."""
    today = reading.scene.today
    latest = today - timedelta(days=(today.weekday() - reading.value("w") - 1) % 7 + 1)
    return fixed_day(shift(latest, -reading.value("n"), reading.value("u")))


def _same_time(reading: Reading) -> Stretch | None:
    """this time last year, on this day two years ago; "time" is less exact than "day"."""
    count = reading.value("n") if reading.has("n") else 1
    moved = shift(reading.scene.today, -count, reading.value("u"))
    shown = None if reading.has("d") else moved and period(moved, MONTH if reading.value("u") >= YEAR else WEEK)
    return moved and Stretch(moved, moved + ONE_DAY, kind="day", shown=shown)


_SAME = "(this|the same) (d=day|time)"

RULES = (
    rule("n=(COUNT|A) u=UNIT and A half (ago|back)", _halved_ago),
    rule("n=COUNT and A half u=UNIT (ago|back)", _halved_ago),
    rule("half A u=UNIT (ago|back)", _halved_ago),
    rule("the? z=(last|past) n=COUNT? u=UNIT and A half", _halved_window),
    rule("the? (last|past) n=COUNT and A half u=UNIT", _halved_window),
    rule("a=COUNT (or|to|DASH|HYPHEN) n=COUNT u=UNIT (ago|back)", _between_counts),
    rule("a=A u=UNIT or n=COUNT (ago|back)", _between_counts),
    rule("(the|these)? (last|past) COUNT (or|to|DASH|HYPHEN) n=COUNT u=UNIT", _widest_window),
    rule("the? (last|past) u=UNIT or n=COUNT (?!UNIT)", _widest_window),
    rule("n=(COUNT|A) u=UNIT ago r=RELDAY", _to_the_day),
    rule("n=(COUNT|A) u=(year|decade) ago this p=(week|month)", _to_the_period),
    rule("n=(COUNT|A) u=(week|fortnight) ago w=WFULL", _weeks_before_weekday),
    rule(f"{_SAME} last u=(week|month|year)", _same_time),
    rule(f"{_SAME} n=(COUNT|A) u=(week|month|year) ago", _same_time),
)
