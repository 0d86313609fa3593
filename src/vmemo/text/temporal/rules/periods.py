"""Calendar periods by name: months, quarters, years, decades and centuries."""

from __future__ import annotations

import re
from dataclasses import replace

from vmemo.text.temporal.calendar_units import (
    DECADE,
    MONTH,
    QUARTER,
    YEAR,
    Bounds,
    add_units,
    expand_year,
    make_date,
    period_bounds,
)
from vmemo.text.temporal.day_range import DayRange, range_between, whole_period
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.rules.dates import NO_NUMBER_FOLLOWS, NOT_JOINED

_FULL_YEARS, _VERB_MONTHS = tags_of("FULLYEAR"), tags_of("MVERB")
_COUNTED_NOUN_FOLLOWS = re.compile(
    r"\s+(?:dollars|euros|pounds|bucks|people|pieces|units|points|miles|km|words|steps|calories|times|students"
    r"|members|followers|votes|files|items|meters|metres|feet|lbs|kg|ml|mg|hp|rpm|sq)\b",
    re.IGNORECASE,
)
_NUMBERED_NOUN_PRECEDES = re.compile(
    r"\b(?:room|order|page|number|no|model|version|ext|code|pin|suite|apt|flight|route|gate)\.?\s$", re.IGNORECASE
)


def _month_of_year(match: RuleMatch) -> DayRange | None:
    year = match.token("year")
    full = year.value if year.tag in _FULL_YEARS else expand_year(year.value, match.today)
    if year.tag not in _FULL_YEARS and year.end - year.start != 2:
        return None
    return whole_period(_month_bounds(full, match.value("month")), MONTH, relative=False)


def _month(match: RuleMatch) -> DayRange | None:
    number = match.value("month")
    return match.nearest(lambda year: _month_bounds(year, number), "span")


def _capitalised_month(match: RuleMatch) -> DayRange | None:
    """Resolve a capitalised month, as in "March last year"; "it may last years" has none."""
    return _month(match) if match.source_text("month")[0].isupper() else None


def _month_bounds(year: int, month: int) -> Bounds | None:
    first = make_date(year, month, 1)
    return first and period_bounds(first, MONTH)


def _is_verb_after_this(match: RuleMatch) -> bool:
    """Return True for "this may be", unlike "this March"."""
    is_verb_form = match.tag("month") in _VERB_MONTHS and match.source_text("month").islower()
    return is_verb_form and match.value("modifier") == 0


def _modified_month(match: RuleMatch) -> DayRange | None:
    """Resolve "last May", "this May" and "next May"."""
    number, today = match.value("month"), match.today
    if _is_verb_after_this(match):
        return None
    step = match.value("modifier")
    years = {-1: -(number >= today.month), 0: 0, 1: number <= today.month}
    # "Last May" in June, and "next May" in March, may be a year away.
    months_ago = (today.month - number) % 12
    certain = step == 0 or (step < 0 and months_ago > 2) or (step > 0 and number <= today.month)
    return whole_period(_month_bounds(today.year + years[step], number), MONTH, certain=certain)


def _year(match: RuleMatch) -> DayRange | None:
    return _whole_year(match.value("year"))


def _whole_year(year: int) -> DayRange | None:
    first = make_date(year, 1, 1)
    return first and whole_period(period_bounds(first, YEAR), YEAR, relative=False)


def _two_digit_year(match: RuleMatch) -> DayRange | None:
    year = match.token("year")
    if year.end - year.start != 2:
        return None
    return _whole_year(expand_year(match.value("year"), match.today))


def _recent_year(match: RuleMatch) -> DayRange | None:
    """Resolve a year after a preposition that may also precede an amount."""
    return _whole_year(match.value("year")) if 1700 <= match.value("year") < 2100 else None


def _likely_year(match: RuleMatch) -> DayRange | None:
    """Resolve a number that only its value suggests to be a year."""
    year = match.value("year")
    token, text = match.token("year"), match.context.text
    if not 1900 <= year <= match.today.year + 20 or year % 100 == 0:
        return None
    is_amount = _COUNTED_NOUN_FOLLOWS.match(text, token.end)
    is_label = _NUMBERED_NOUN_PRECEDES.search(text, max(0, token.start - 10), token.start)
    return None if is_amount or is_label else _whole_year(year)


def _school_year(match: RuleMatch) -> DayRange | None:
    """Resolve "2017-18"; other numbers after the dash are no year."""
    year = match.value("year")
    first, last = _whole_year(year), _whole_year(year + 1)
    return range_between(first, last) if first and last and match.value("last") == (year + 1) % 100 else None


def _year_range(match: RuleMatch) -> DayRange | None:
    first, last = _whole_year(match.value("year")), _whole_year(match.value("last"))
    return range_between(first, last) if first and last else None


def _decade(match: RuleMatch) -> DayRange | None:
    value = match.value("decade")
    if value < 100:
        value += 2000 if value <= match.today.year % 100 and value < 20 else 1900
    first = make_date(value, 1, 1)
    return first and whole_period(period_bounds(first, DECADE), DECADE, relative=False)


def _full_decade(match: RuleMatch) -> DayRange | None:
    return _decade(match) if match.value("decade") >= 1000 else None


def _century(match: RuleMatch) -> DayRange | None:
    number = match.value("ordinal")
    start, end = make_date(number * 100 - 100, 1, 1), make_date(number * 100, 1, 1)
    return DayRange(start, end, relative=False) if start and end else None


def _quarter(match: RuleMatch) -> DayRange | None:
    number = match.value("number")
    if not 1 <= number <= 4:
        return None
    if match.has("year"):
        return whole_period(_quarter_bounds(match.value("year"), number), QUARTER, relative=False)
    found = match.nearest(lambda year: _quarter_bounds(year, number), "span")
    return found and replace(found, certain=False)


def _half_year(match: RuleMatch) -> DayRange | None:
    """Resolve the "H1" of "H1 2023"; the year is added by a later stage."""
    number = match.value("number")
    return match.nearest(lambda year: _half_bounds(year, number), "span") if number in (1, 2) else None


def _half_bounds(year: int, number: int) -> Bounds | None:
    first = make_date(year, number * 6 - 5, 1)
    end = first and add_units(first, 6, MONTH)
    return (first, end) if first and end else None


def _quarter_bounds(year: int, number: int) -> Bounds | None:
    first = make_date(year, number * 3 - 2, 1)
    return first and period_bounds(first, QUARTER)


_PREPOSITIONS = "in|since|of|until|till|by|during|before|after|from|through|between|EARLY|MID|LATE"
_AFTER_YEAR_CUE = f"(?<={_PREPOSITIONS}|than|APOSTROPHE)"
_AFTER_MONTH_CUE = f"(?<={_PREPOSITIONS})"
_YEAR_FOLLOWS = "(?=(of|in|COMMA|SEP|APOSTROPHE)? the? (calendar|fy|cy|FULLYEAR|YY|MOD calendar? year))"

RULES = (
    Rule("month=MONTH (of|in|COMMA|SEP|APOSTROPHE)? year=FULLYEAR (?!DASH D12)", _month_of_year),
    Rule("month=MONTH (of|APOSTROPHE|of APOSTROPHE) year=YY", _month_of_year),
    Rule(f"{NOT_JOINED} year=Y4 (DASH|SLASH) month=D12 (?!MONTH) {NO_NUMBER_FOLLOWS}", _month_of_year),
    Rule(f"{NOT_JOINED} month=D12 (DASH|SLASH) year=Y4 {NO_NUMBER_FOLLOWS}", _month_of_year),
    Rule("year=Y4 SEP? month=(MFULL|MNAME|MABBR) (?!DAYNUM)(?!ORD)", _month_of_year),
    Rule("modifier=MOD month=(MFULL|MNAME|MABBR|MVERB) (?!DAYNUM)(?!ORD)", _modified_month),
    Rule("month=MFULL", _month),
    Rule(f"{_AFTER_MONTH_CUE} month=(MABBR|MVERB|MNAME)", _month),
    Rule("month=(MABBR|MVERB|MNAME) (?=TO from? the? (MONTH|PARTOF))", _month),
    Rule("(?<=(MONTH|DD|ORDNUM|FULLYEAR) (to|and|or|COMMA|DASH|HYPHEN)) month=(MABBR|MNAME)", _month),
    Rule("(?<=to|DASH|HYPHEN) month=MVERB (?=$|STOP|COMMA|FULLYEAR)", _month),
    Rule("(?<=between MONTH and) month=MVERB", _month),
    Rule("(?<=MONTH (and|or|COMMA)) month=MVERB", _capitalised_month),
    Rule("(?<=MONTH COMMA (and|or)) month=MVERB", _capitalised_month),
    Rule("month=(MABBR|MVERB|MNAME) (?=(and|or|COMMA) MONTH)", _capitalised_month),
    Rule("month=(MABBR|MVERB|MNAME) (?=of? MOD year|before last)", _capitalised_month),
    Rule("month=MNAME (?=$|STOP|COMMA|and|or)", _month),
    Rule("the? calendar? year of? year=FULLYEAR", _year),
    Rule("(cy|fy|calendar) year=FULLYEAR", _year),
    Rule("(cy|fy) APOSTROPHE? year=YY", _two_digit_year),
    Rule("(calendar year|fy|cy)? year=Y4 (DASH|SLASH) last=YY (?!SEP)", _school_year),
    Rule("(fy|cy|calendar year) year=Y4 (DASH|SLASH) last=Y4 (?!SEP)", _year_range),
    Rule(f"{_AFTER_YEAR_CUE} year=FULLYEAR {NO_NUMBER_FOLLOWS}", _recent_year),
    Rule(f"(?<=in|since|until|during) year=FULLYEAR {NO_NUMBER_FOLLOWS}", _year),
    Rule("(?<=PART DASH) year=FULLYEAR", _year),
    Rule(f"(?<=EQUALS|MORE|LESS) year=FULLYEAR {NO_NUMBER_FOLLOWS}", _year),
    Rule(f"{NOT_JOINED} year=FULLYEAR (?=TO FULLYEAR) (?!SEP)", _year),
    Rule(f"{NOT_JOINED} year=Y4 DASH last=Y4 {NO_NUMBER_FOLLOWS}", _year_range),
    Rule(f"{NOT_JOINED} (?<!NUMERAL)(?<!NUMERAL HYPHEN) year=Y4 {NO_NUMBER_FOLLOWS} (?!UNIT)", _likely_year),
    Rule("the? decade=DECADENUM", _full_decade),
    Rule("the APOSTROPHE? decade=DECADENUM", _decade),
    Rule("(?<=in|EARLY|MID|LATE|DASH|of|since|APOSTROPHE) decade=DECADENUM", _decade),
    Rule("(?<=DECADENUM and) decade=DECADENUM", _decade),
    Rule("(?<=in|of|since|until|from|by|before|after) APOSTROPHE year=YY (?!COUNT)(?!UNIT)", _two_digit_year),
    Rule("decade=Y4 s", _decade),
    Rule("(?<=in|the) decade=D99 s", _decade),
    Rule("(?<=in|the|EARLY|MID|LATE|DASH|of|since) decade=DECADEWORD", _decade),
    Rule("the? ordinal=ORD century", _century),
    Rule(f"h number=D12 {_YEAR_FOLLOWS}", _half_year),
    Rule(f"number=D12 h {_YEAR_FOLLOWS}", _half_year),
    Rule("(?<=FULLYEAR) h number=D12", _half_year),
    Rule("(?<=Y4 SEP) h number=D12", _half_year),
    Rule("q number=D12 ((of|SEP|COMMA)? year=FULLYEAR)?", _quarter),
    Rule("year=FULLYEAR SEP? q number=D12", _quarter),
    Rule("quarter number=D12 of? year=FULLYEAR", _quarter),
)
