"""Calendar periods by name: months, years, decades, centuries and quarters."""

from __future__ import annotations

import re

from vmemo.text.temporal.day_range import (
    DECADE,
    MONTH,
    QUARTER,
    YEAR,
    Days,
    Stretch,
    between,
    make_day,
    of_period,
    period,
    shift,
    two_digit_year,
)
from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.reading import Reading, float_days

_YEARLIKE = tags_of("FULLYEAR")
_COUNTED_THINGS = re.compile(
    r"\s+(?:dollars|euros|pounds|bucks|people|pieces|units|points|miles|km|words|steps|calories|times|students"
    r"|members|followers|votes|files|items|meters|metres|feet|lbs|kg|ml|mg|hp|rpm|sq)\b",
    re.IGNORECASE,
)
_NUMBERED_THINGS = re.compile(
    r"\b(?:room|order|page|number|no|model|version|ext|code|pin|suite|apt|flight|route|gate)\.?\s$", re.IGNORECASE
)


def _month_of_year(reading: Reading) -> Stretch | None:
    year = reading.token("y")
    full = year.value if year.tag in _YEARLIKE else two_digit_year(year.value, reading.scene.today)
    if year.tag not in _YEARLIKE and year.end - year.start != 2:
        return None
    first = make_day(full, reading.value("m"), 1)
    return first and of_period(period(first, MONTH), MONTH, relative=False)


def _month(reading: Reading) -> Stretch | None:
    number = reading.value("m")
    return float_days(lambda year: _month_days(year, number), reading.scene, "span")


def _capital_month(reading: Reading) -> Stretch | None:
    """March last year; but it may last years."""
    return _month(reading) if reading.written("m")[0].isupper() else None


def _month_days(year: int, month: int) -> Days | None:
    first = make_day(year, month, 1)
    return first and period(first, MONTH)


def _is_verb_after_this(reading: Reading) -> bool:
    """This may be; this March is."""
    return reading.tag("m") in tags_of("MVERB") and reading.value("z") == 0 and reading.written("m").islower()


def _month_beside(reading: Reading) -> Stretch | None:
    """last, this or next May."""
    number, today = reading.value("m"), reading.scene.today
    if _is_verb_after_this(reading):
        return None
    years = {-1: -(number >= today.month), 0: 0, 1: number <= today.month}
    return of_period(_month_days(today.year + years[reading.value("z")], number), MONTH)


def _year(reading: Reading) -> Stretch | None:
    return _whole_year(reading.value("y"))


def _whole_year(year: int) -> Stretch | None:
    first = make_day(year, 1, 1)
    return first and of_period(period(first, YEAR), YEAR, relative=False)


def _short_year(reading: Reading) -> Stretch | None:
    return _whole_year(two_digit_year(reading.value("y"), reading.scene.today))


def _recent_year(reading: Reading) -> Stretch | None:
    """After a word that may also stand before an amount."""
    return _whole_year(reading.value("y")) if 1700 <= reading.value("y") < 2100 else None


def _likely_year(reading: Reading) -> Stretch | None:
    """A bare number that nothing else marks as a year."""
    year = reading.value("y")
    token, text = reading.token("y"), reading.scene.text
    if not 1900 <= year <= reading.scene.today.year + 20 or year % 100 == 0:
        return None
    nearby = max(0, token.start - 10)
    amount = _COUNTED_THINGS.match(text, token.end) or _NUMBERED_THINGS.search(text, nearby, token.start)
    return None if amount else _whole_year(year)


def _years(reading: Reading) -> Stretch | None:
    first, last = _whole_year(reading.value("y")), _whole_year(reading.value("z"))
    return between(first, last) if first and last else None


def _decade(reading: Reading) -> Stretch | None:
    value = reading.value("d")
    if value < 100:
        value += 2000 if value <= reading.scene.today.year % 100 and value < 20 else 1900
    first = make_day(value, 1, 1)
    return first and of_period(period(first, DECADE), DECADE, relative=False)


def _full_decade(reading: Reading) -> Stretch | None:
    return _decade(reading) if reading.value("d") >= 1000 else None


def _century(reading: Reading) -> Stretch | None:
    number = reading.value("o")
    start, end = make_day(number * 100 - 100, 1, 1), make_day(number * 100, 1, 1)
    return Stretch(start, end, relative=False) if start and end else None


def _quarter(reading: Reading) -> Stretch | None:
    number = reading.value("n")
    if not 1 <= number <= 4:
        return None
    if reading.has("y"):
        return of_period(_quarter_days(reading.value("y"), number), QUARTER, relative=False)
    return float_days(lambda year: _quarter_days(year, number), reading.scene, "span")


def _half_year(reading: Reading) -> Stretch | None:
    first = make_day(reading.value("y"), reading.value("n") * 6 - 5, 1) if reading.has("y") else None
    end = first and shift(first, 6, MONTH)
    return end and Stretch(first, end, relative=False)


def _quarter_days(year: int, number: int) -> Days | None:
    first = make_day(year, number * 3 - 2, 1)
    return first and period(first, QUARTER)


_CLEAR = "(?!SEP NUMERAL)(?!s)"
_FREE = "(?<!DASH)(?<!SLASH)(?<!DOT)"
_MARKED = "(?<=in|since|of|until|till|by|during|before|after|from|through|between|than|EARLY|MID|LATE|APOSTROPHE)"
_CUE_MONTH = "(?<=in|since|of|until|till|by|during|before|after|from|through|between|EARLY|MID|LATE)"

RULES = (
    rule("m=MONTH (of|in|COMMA|SEP|APOSTROPHE)? y=FULLYEAR (?!DASH D12)", _month_of_year),
    rule("m=MONTH (of|APOSTROPHE|of APOSTROPHE) y=YY", _month_of_year),
    rule(f"{_FREE} y=Y4 (DASH|SLASH) m=D12 (?!MONTH) {_CLEAR}", _month_of_year),
    rule(f"{_FREE} m=D12 (DASH|SLASH) y=Y4 {_CLEAR}", _month_of_year),
    rule("y=Y4 SEP? m=(MFULL|MNAME|MABBR) (?!DAYNUM)(?!ORD)", _month_of_year),
    rule("z=MOD m=(MFULL|MNAME|MABBR|MVERB) (?!DAYNUM)(?!ORD)", _month_beside),
    rule("m=MFULL", _month),
    rule(f"{_CUE_MONTH} m=(MABBR|MVERB|MNAME)", _month),
    rule("m=(MABBR|MVERB|MNAME) (?=TO from? the? (MONTH|PARTOF))", _month),
    rule("(?<=(MONTH|DD|ORDNUM|FULLYEAR) (to|and|or|COMMA|DASH|HYPHEN)) m=(MABBR|MNAME)", _month),
    rule("(?<=to|DASH|HYPHEN) m=MVERB (?=$|STOP|COMMA|FULLYEAR)", _month),
    rule("m=(MABBR|MVERB|MNAME) (?=of? MOD year|before last)", _capital_month),
    rule("m=MNAME (?=$|STOP|COMMA|and|or)", _month),
    rule("the? calendar? year of? y=FULLYEAR", _year),
    rule("(cy|fy) y=FULLYEAR", _year),
    rule(f"{_MARKED} y=FULLYEAR {_CLEAR}", _recent_year),
    rule(f"(?<=in|since|until|during) y=FULLYEAR {_CLEAR}", _year),
    rule("(?<=PART DASH) y=FULLYEAR", _year),
    rule(f"(?<=EQUALS|MORE|LESS) y=FULLYEAR {_CLEAR}", _year),
    rule(f"{_FREE} y=FULLYEAR (?=TO FULLYEAR) (?!SEP)", _year),
    rule(f"{_FREE} y=Y4 DASH z=Y4 {_CLEAR}", _years),
    rule(f"{_FREE} (?<!NUMERAL)(?<!NUMERAL HYPHEN) y=Y4 {_CLEAR} (?!UNIT)", _likely_year),
    rule("the? d=DECADENUM", _full_decade),
    rule("the APOSTROPHE? d=DECADENUM", _decade),
    rule("(?<=in|EARLY|MID|LATE|DASH|of|since|APOSTROPHE) d=DECADENUM", _decade),
    rule("(?<=DECADENUM and) d=DECADENUM", _decade),
    rule("(?<=in|of|since|until|from|by|before|after) APOSTROPHE y=YY (?!COUNT)(?!UNIT)", _short_year),
    rule("d=Y4 s", _decade),
    rule("(?<=in|the) d=D99 s", _decade),
    rule("(?<=in|the|EARLY|MID|LATE|DASH|of|since) d=DECADEWORD", _decade),
    rule("the? o=ORD DASH? century", _century),
    rule("h n=D12 ((of|SEP|COMMA)? y=FULLYEAR)?", _half_year),
    rule("q n=D12 ((of|SEP|COMMA)? y=FULLYEAR)?", _quarter),
    rule("y=FULLYEAR SEP? q n=D12", _quarter),
    rule("quarter n=D12 of? y=FULLYEAR", _quarter),
)
