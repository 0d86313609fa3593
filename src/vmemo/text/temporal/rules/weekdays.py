"""Weekdays and numbered weeks: last Friday, this coming Tuesday, on Monday, week 12."""

from __future__ import annotations

from datetime import date, timedelta

from vmemo.text.temporal.day_range import WEEK, Days, Stretch, fixed_day, make_day, period, shift
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading

_LATEST, _COMING = tags_of("last") | tags_of("past"), tags_of("coming")


def _weekdays_ago(reading: Reading) -> Stretch | None:
    latest = _weekday_before(reading.scene.today, reading.value("w"))
    return fixed_day(shift(latest, 1 - reading.value("n"), WEEK))


def _weekday_before(today: date, weekday: int) -> date:
    return today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1)


def _weekday_after(today: date, weekday: int) -> date:
    return today + timedelta(days=(weekday - today.weekday() - 1) % 7 + 1)


def _weekday_beside(reading: Reading) -> Stretch | None:
    """last is the latest one, previous and next are those of the neighbouring weeks, coming is the very next."""
    today, weekday, tag = reading.scene.today, reading.value("w"), reading.tag("z")
    if tag in _LATEST:
        return fixed_day(_weekday_before(today, weekday))
    if tag in _COMING:
        return fixed_day(_weekday_after(today, weekday))
    monday = today - timedelta(days=today.weekday())
    return fixed_day(shift(monday + timedelta(days=weekday), reading.value("z"), WEEK))


def _weekday_two_off(reading: Reading) -> Stretch | None:
    """the Friday before last, the Monday after next."""
    today, weekday = reading.scene.today, reading.value("w")
    if reading.has("n"):
        return fixed_day(shift(_weekday_after(today, weekday), 1, WEEK))
    return fixed_day(shift(_weekday_before(today, weekday), -1, WEEK))


def _weekday(reading: Reading) -> Stretch | None:
    today, weekday = reading.scene.today, reading.value("w")
    if reading.scene.prefer == "past":
        return fixed_day(_weekday_before(today, weekday), kind="weekday")
    return fixed_day(today + timedelta(days=(weekday - today.weekday()) % 7), kind="weekday")


def _week_number(reading: Reading) -> Stretch | None:
    number = reading.value("n")

    def yearly(year: int) -> Days | None:
        fourth = make_day(year, 1, 4)
        return fourth and period(fourth, WEEK, number - 1)

    days = yearly(reading.scene.today.year) if 1 <= number <= 53 else None
    return days and Stretch(*days, kind="week", yearly=yearly)


_NO_HABIT = "(?!habit|(and|or|COMMA|SLASH|TO) WFULL habit)"

RULES = (
    rule("n=COUNT w=WPLURAL ago", _weekdays_ago),
    rule("(on|this)? z=MOD w=WDAY (?!of)(?!in (MONTH|FULLYEAR))", _weekday_beside),
    rule(f"(?<!every|A|POSS) (?<!A WFULL (or|and)) w=WFULL {_NO_HABIT}", _weekday),
    rule("(?<=POSS) w=WFULL (?!habit|WORD)", _weekday),
    rule("(?<=on|by|until) w=WABBR", _weekday),
    rule("w=WABBR (?=(or|and|TO|SLASH) WDAY)", _weekday),
    rule("(?<=WDAY (or|and|TO|SLASH)) w=WABBR", _weekday),
    rule("the? w=WDAY (before last|n=after next)", _weekday_two_off),
    rule("w=WABBR (?=(COMMA|STOP)? (MONTH|DD|the? ORD))", _weekday),
    rule("week n=(D12|D31|D99) (?!SEP)", _week_number),
)
