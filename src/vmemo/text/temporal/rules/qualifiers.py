"""A date joined with what stands beside it: its year, its weekday, its weekend, or the part that is meant."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.day_range import (
    EDGES,
    ONE_DAY,
    Days,
    Stretch,
    in_year,
    part,
    two_digit_year,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading

_STRETCHED_YEAR = tags_of("YEAR")


def _with_year(reading: Reading) -> Stretch | None:
    if reading.tag("y") not in _STRETCHED_YEAR:
        return in_year(reading.stretch("x"), reading.value("y"))
    year = reading.stretch("y")
    return year.start and in_year(reading.stretch("x"), year.start.year, relative=year.relative)


def _with_relative_year(reading: Reading) -> Stretch | None:
    return _with_year(reading) if reading.stretch("y").relative else None


def _with_short_year(reading: Reading) -> Stretch | None:
    year = reading.token("y")
    if year.end - year.start != 2:
        return None
    return in_year(reading.stretch("x"), two_digit_year(year.value, reading.scene.today))


def _with_weekday(reading: Reading) -> Stretch | None:
    """Tue May 9: of the nearest years, the one where the weekday fits."""
    named, day = reading.stretch("w"), reading.stretch("x")
    if named.start is None or day.start is None or day.yearly is None:
        return day
    if named.kind == "day":
        return in_year(day, named.start.year, relative=True)
    today = reading.scene.today
    for year in (day.start.year, today.year, today.year - 1, today.year + 1):
        placed = in_year(day, year, relative=True)
        if placed and placed.start and placed.start.weekday() == named.start.weekday():
            return placed
    return day


def _beside(reading: Reading) -> Stretch | None:
    """last Christmas, next Easter, this Halloween."""
    step, today, x = reading.value("z"), reading.scene.today, reading.stretch("x")
    years = [today.year] if step == 0 else range(today.year - 2, today.year + 3)
    placed = [found for year in years if (found := in_year(x, year, relative=True)) and found.start]
    if step < 0:
        return next((found for found in reversed(placed) if found.start and found.start < today), None)
    return next((found for found in placed if step == 0 or (found.start and found.start > today)), None)


def _times_ago(reading: Reading) -> Stretch | None:
    """two Christmases ago, the Easter before last: counted back from the latest."""
    x, today = reading.stretch("x"), reading.scene.today
    count = reading.value("n") if reading.has("n") else 2
    years = range(today.year, today.year - count - 2, -1) if 0 < count < 100 else ()
    placed = (in_year(x, year, relative=True) for year in years)
    past = [found for found in placed if found and found.start and found.start < today]
    return past[count - 1] if len(past) >= count else None


def _sharing_year(reading: Reading) -> Stretch | None:
    """October or November 2022: the year that was named once is that of both."""
    x, other = reading.stretch("x"), reading.stretch("y")
    years = (other.start.year, other.start.year - 1) if other.start and not other.relative else ()
    placed = (in_year(x, year) for year in years)
    return next(
        (found for found in placed if found and found.start and other.start and found.start < other.start), None
    )


def _weekend_days(day: date) -> Days:
    """The weekend beside a day, stretched to hold a day that makes it long."""
    if day.weekday() == 0:
        return day - timedelta(days=2), day + ONE_DAY
    saturday = day + timedelta(days=5 - day.weekday())
    return (day if day.weekday() in (3, 4) else saturday), saturday + timedelta(days=2)


def _weekend_of(reading: Reading) -> Stretch | None:
    x = reading.stretch("x")
    yearly, days = x.yearly, x.days
    placed = days and replace(x, start=_weekend_days(days[0])[0], end=_weekend_days(days[0])[1], kind="span")
    if placed is None or yearly is None:
        return placed

    def weekends(year: int) -> Days | None:
        found = yearly(year)
        return found and _weekend_days(found[0])

    return replace(placed, yearly=weekends)


def _weekend_in_year(reading: Reading) -> Stretch | None:
    day = _with_year(reading)
    days = day and day.days
    return days and Stretch(*_weekend_days(days[0]), relative=day.relative if day else True)


def _part(reading: Reading) -> Stretch | None:
    return part(reading.stretch("x"), EDGES[reading.value("p")])


JOINS = (
    rule("x=FLOATING (of|in|COMMA|on)? the? year? y=(YEAR|FULLYEAR)", _with_year),
    rule("x=FLOATING (of|APOSTROPHE|of APOSTROPHE) y=YY (?!COUNT)", _with_short_year),
    rule("y=YEAR (in|on|COMMA|at|SLASH|DASH|around)? x=FLOATING", _with_relative_year),
    rule("z=MOD x=DAYF", _beside),
    rule("the x=FLOATING before last", _times_ago),
    rule("n=COUNT x=DAYF ago", _times_ago),
    rule("x=DAY weekend", _weekend_of),
    rule("x=DAYF weekend y=(YEAR|FULLYEAR)", _weekend_in_year),
)
SHARED = (rule("x=FLOATING (?=(or|and|COMMA) (in|on|the)? y=(DAYX|SPANX))", _sharing_year),)
WEEKDAYS = (
    rule("w=(WEEKDAY|DAYX) COMMA? the? x=(DAYF|DAYX)", _with_weekday),
    rule("weekend of x=DAY", _weekend_of),
)
PARTS = (
    rule("the? p=PART (DASH|in|of|SLASH)? the? x=SPAN", _part),
    rule("the? very? p=PARTOF of the? x=SPAN", _part),
)
