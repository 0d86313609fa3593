"""Days written out: day, month and year in their many spellings, with the year or without."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.day_range import (
    MONTH,
    Days,
    Stretch,
    between,
    fixed_day,
    make_day,
    one_day,
    shift,
    through_last_day,
    two_digit_year,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading, Scene, float_days
from vmemo.text.temporal.vocabulary import TAGS

_STREET = re.compile(r"\s(?:St|Street|Road|Rd|Ave|Avenue|Lane|Drive|Court|Close|Way)\b")
_AMBIGUOUS = tags_of("MVERB")
_YEARLIKE = tags_of("FULLYEAR")
_PLAIN_NUMBERS = tags_of("DAYNUM")


def _named_day(year: int, month: int, day: int) -> Stretch | None:
    return fixed_day(make_day(year, month, day), relative=False)


def _month_day(month: int, day: int, scene: Scene) -> Stretch | None:
    return float_days(lambda year: one_day(make_day(year, month, day)), scene)


def _year_month_day(reading: Reading) -> Stretch | None:
    return _named_day(reading.value("y"), reading.value("m"), reading.value("d"))


def _month_and_day(reading: Reading) -> tuple[int, int] | None:
    first, second = reading.value("a"), reading.value("b")
    day_first = reading.scene.day_first if first <= 12 and second <= 12 else first > 12
    month, day = (second, first) if day_first else (first, second)
    return (month, day) if month <= 12 else None


def _numeric(reading: Reading) -> Stretch | None:
    pair, year = _month_and_day(reading), reading.token("y")
    if pair is None:
        return None
    if year.end - year.start == 4:
        return _named_day(year.value, *pair)
    if year.end - year.start != 2:
        return None
    return _named_day(two_digit_year(year.value, reading.scene.today), *pair)


def _numeric_without_year(reading: Reading) -> Stretch | None:
    pair = _month_and_day(reading)
    always_open = (reading.value("a"), reading.value("b")) == (24, 7)
    return None if pair is None or always_open else _month_day(*pair, reading.scene)


def _written_day(reading: Reading) -> Stretch | None:
    street = _STREET.match(reading.scene.text, reading.tokens[reading.match.end() - 1].end)
    if street or _is_verb(reading, "d"):
        return None
    return _month_day(reading.value("m"), reading.value("d"), reading.scene)


def _is_verb(reading: Reading, number: str) -> bool:
    """ "may" and "march" in lower case beside a plain number, in the middle of a clause."""
    if reading.tag("m") not in _AMBIGUOUS or reading.written("m")[0].isupper():
        return False
    after = reading.match.end()
    plain = reading.tag(number) in _PLAIN_NUMBERS
    return plain and after < len(reading.tokens) and reading.tokens[after].tag == TAGS["WORD"]


def _glued(reading: Reading) -> Stretch | None:
    """Day, month name and year joined by separators in any order; without a full year the last number is it."""
    first, second = reading.token("a"), reading.token("b")
    year, day = (first, second) if first.tag in _YEARLIKE else (second, first)
    full = year.value if year.tag in _YEARLIKE else two_digit_year(year.value, reading.scene.today)
    return _named_day(full, reading.value("m"), day.value)


def _days_of_month(reading: Reading) -> Stretch | None:
    """Two days of one month: "3 to 12 September"; the second is where the range ends."""
    month, first, last = reading.value("m"), reading.value("a"), reading.value("b")

    def yearly(year: int) -> Days | None:
        start, end = make_day(year, month, first), make_day(year, month, last)
        if start and end and end <= start:
            end = shift(end, 1, MONTH)
        return (start, end) if start and end else None

    found = None if _is_verb(reading, "b") else float_days(yearly, reading.scene, "span")
    return found and through_last_day(found)


def _compact(reading: Reading) -> Stretch | None:
    value = reading.value("d")
    return _named_day(value // 10000, value // 100 % 100, value % 100)


def _day_of_this_month(reading: Reading) -> Stretch | None:
    month = shift(reading.scene.today.replace(day=1), reading.value("z"), MONTH)
    return month and fixed_day(make_day(month.year, month.month, reading.value("o")))


def _days_of_this_month(reading: Reading) -> Stretch | None:
    month = shift(reading.scene.today.replace(day=1), reading.value("z"), MONTH)
    start = month and fixed_day(make_day(month.year, month.month, reading.value("a")))
    end = month and fixed_day(make_day(month.year, month.month, reading.value("b")))
    return between(start, end) if start and end else None


def _nearest_day_number(reading: Reading) -> Stretch | None:
    return _either(fixed_day(_search_months(reading, weekday=None)))


def _day_numbers(reading: Reading) -> Stretch | None:
    """between the 5th and the 10th, of the month that the first of them is found in."""
    start, number = _search_months(reading, weekday=None), reading.value("b")
    month = start and start.replace(day=1)
    if month and start and number <= start.day:
        month = shift(month, 1, MONTH)
    end = month and make_day(month.year, month.month, number)
    return through_last_day(Stretch(start, end, either=True)) if start and end else None


def _weekday_and_number(reading: Reading) -> Stretch | None:
    return _either(fixed_day(_search_months(reading, weekday=reading.value("w"))))


def _week_of_number(reading: Reading) -> Stretch | None:
    day = _search_months(reading, weekday=None)
    start = day and day - timedelta(days=day.weekday())
    return start and Stretch(start, start + timedelta(days=7), kind="week", either=True)


def _either(day: Stretch | None) -> Stretch | None:
    return day and replace(day, either=True)


def _search_months(reading: Reading, weekday: int | None) -> date | None:
    """The nearest month, on the preferred side, whose day of that number falls on the weekday."""
    today, number = reading.scene.today, reading.value("o")
    step = 1 if reading.scene.prefer == "future" else -1
    for distance in range(40):
        month = shift(today.replace(day=1), step * distance, MONTH)
        day = month and make_day(month.year, month.month, number)
        if day and (day - today).days * step >= 0 and weekday in (None, day.weekday()):
            return day
    return None


_CLEAR = "(?!SEP NUMERAL)(?!s)"
_FREE = "(?<!DASH)(?<!SLASH)(?<!DOT)"
_CUE_DATE = "(?<=on|by|from|until|till|til|to|since|before|after|between|through|WFULL|WABBR|DASH|HYPHEN|TILDE)"
_NUMBERS = "(ORD|DAYNUM)"
_ALONE = "(?=$|COMMA|STOP|HYPHEN|at|and|for|with|to|from|we|i)"
_END = "(?!SLASH)(?!DOT)(?!of)(?!MONTH)(?!UNIT)"

RULES = (
    rule("y=Y4 SEP m=D12 SEP d=DD", _year_month_day),
    rule("a=DD SEP b=DD SEP y=Y4", _numeric),
    rule(f"{_FREE} a=DD (SLASH|DASH) b=DD (SLASH|DASH) y=YY {_CLEAR}", _numeric),
    rule(f"{_CUE_DATE} a=DD SLASH b=DD (?!SLASH)", _numeric_without_year),
    rule("(?<=for|of) a=DD SLASH b=DD (?=$|STOP|COMMA)", _numeric_without_year),
    rule("(?<=DD and) a=DD SLASH b=DD (?!SLASH)", _numeric_without_year),
    rule("a=DD SLASH b=DD (?=TO DD SLASH)", _numeric_without_year),
    rule("(?<=WFULL|WABBR) a=DD (DASH|DOT) b=DD (?!SEP)", _numeric_without_year),
    rule("(?<=on) a=DD (DOT|DASH) b=DD (?!SEP)", _numeric_without_year),
    rule("(?<!NUMERAL) d=DATE8", _compact),
    rule("a=(DD|FULLYEAR) SEP m=MONTH SEP b=(YY|FULLYEAR)", _glued),
    rule("m=MONTH SEP a=(DD|FULLYEAR) SEP b=(YY|FULLYEAR)", _glued),
    rule("a=(DD|FULLYEAR) SEP b=(DD|FULLYEAR) SEP m=MONTH", _glued),
    rule(f"the? d={_NUMBERS} (of|COMMA|SEP)? m=MONTH", _written_day),
    rule("the? d=ORD day of m=MONTH", _written_day),
    rule("y=Y4 COMMA? m=MONTH d=(DD|ORD)", _year_month_day),
    rule(f"m=MONTH SEP? COMMA? the? d={_NUMBERS} (?!UNIT) (?!COMMA? UNIT)", _written_day),
    rule(f"(from? the?) a={_NUMBERS} TO the? b={_NUMBERS} of? m=MONTH", _days_of_month),
    rule(f"between the? a={_NUMBERS} and the? b={_NUMBERS} of? m=MONTH", _days_of_month),
    rule(f"(from|between)? m=MONTH the? a={_NUMBERS} TO the? b={_NUMBERS} {_END}", _days_of_month),
    rule(f"between m=MONTH the? a={_NUMBERS} and the? b={_NUMBERS} {_END}", _days_of_month),
    rule("(from|between) a=DAYNUM (TO|and) b=DAYNUM (of|in)? z=MOD month", _days_of_this_month),
    rule("the? o=ORD day? of z=MOD month", _day_of_this_month),
    rule("the o=ORD day? of z=the month", _day_of_this_month),
    rule(f"(?<=on) the? o=ORDNUM {_ALONE}", _nearest_day_number),
    rule(f"(?<=since|until|till|by|for|before|after) the o=ORDNUM {_ALONE}", _nearest_day_number),
    rule(f"(?<=(night|daytime) of) the o=ORDNUM {_ALONE}", _nearest_day_number),
    rule(f"(?<=on the ORDNUM (and|or)) the? o=ORDNUM {_ALONE}", _nearest_day_number),
    rule(f"(from|between) the o=ORDNUM (and|TO) the b=ORDNUM {_ALONE}", _day_numbers),
    rule("w=WDAY COMMA? the? o=ORDNUM (?!of)(?!MONTH)", _weekday_and_number),
    rule("the? week (of|starting|beginning) the o=ORDNUM (?!of)(?!MONTH)", _week_of_number),
)
