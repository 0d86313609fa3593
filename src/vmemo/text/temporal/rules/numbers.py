"""First stage: numbers written in words, and combinations that must not be read as dates."""

from __future__ import annotations

from vmemo.text.temporal.grammar import rule
from vmemo.text.temporal.reading import Number, Reading


def _sum(reading: Reading) -> Number:
    return Number("NUMBER", reading.value("t") + reading.value("o"))


def _hundred(reading: Reading) -> Number:
    return Number("NUMBER", reading.value("n") * 100)


def _ordinal(reading: Reading) -> Number:
    return Number("ORDINAL", reading.value("t") + reading.value("o"))


def _year(reading: Reading) -> Number | None:
    labels = [label for label in ("t", "o", "e") if label in reading.match.groupdict()]
    year = reading.value("c") * 100 + sum(reading.value(label) for label in labels)
    return Number("YEARWORD", year) if 1500 <= year < 2100 else None


def _two_thousand(reading: Reading) -> Number | None:
    if reading.value("c") != 2:
        return None
    return Number("YEARWORD", 2000 + sum(reading.value(label) for label in "toe"))


def _couple(_: Reading) -> Number:
    return Number("NUMBER", 2)


def _few(_: Reading) -> Number:
    return Number("FEWER", 3)


def _short_month(reading: Reading) -> Number:
    return Number("MABBR", reading.value("m"))


def _word(_: Reading) -> Number:
    return Number("WORD")


_SMALL = "(t=TENS DASH? o=ONES?|e=(TEEN|ONES))"

RULES = (
    rule("c=(TEEN|TENS) DASH? (t=TENS DASH? o=ONES?|e=TEEN)", _year),
    rule("c=(TEEN|TENS) oh o=ONES", _year),
    rule(f"c=(TEEN|TENS) hundred (and? {_SMALL})?", _year),
    rule(f"c=ONES thousand (and? {_SMALL})?", _two_thousand),
    rule("t=TENS DASH? o=ONES", _sum),
    rule("t=TENS DASH? o=ORDONE", _ordinal),
    rule("n=(ONES|A) hundred", _hundred),
    rule("A? couple of?", _couple),
    rule("A? few", _few),
    rule("m=MABBR STOP (?!$)", _short_month),
    rule("NUMERAL DOT NUMERAL (?=UNIT)", _word),
    rule("half A UNIT (?!ago)(?!back)", _word),
    rule("(POSS|her) PART? DASH? (DECADENUM|DECADEWORD)", _word),
    rule("day (after|by|to|DASH) DASH? day", _word),
    rule("week (after|by) week", _word),
    rule("year (after|by|on) year", _word),
    rule("up DASH? to DASH? date", _word),
    rule("end of the day (?!before|after)", _word),
)
