"""Dates with a day of the month, in numbers or words, with or without the year and month."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

from vmemo.text.temporal.calendar_units import (
    MONTH,
    WEEK,
    Bounds,
    add_units,
    day_bounds,
    expand_year,
    make_date,
    period_bounds,
)
from vmemo.text.temporal.day_range import DayRange, display_last_day, in_year, range_between, single_day, whole_period
from vmemo.text.temporal.grammar import DateList, Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.vocabulary import TAGS

_STREET = re.compile(r"\s(?:St|Street|Road|Rd|Ave|Avenue|Lane|Drive|Court|Close|Way)\b")
_VERB_MONTHS = tags_of("MVERB")
_FULL_YEARS = tags_of("FULLYEAR")
_FAR = timedelta(days=300)
"""People name the year of a date that is farther away."""
_CARDINALS = tags_of("DAYNUM")
_DAY_NUMBERS = tags_of("DAYNUM") | tags_of("ORD")


def _full_date(year: int, month: int, day: int) -> DayRange | None:
    return single_day(make_date(year, month, day), relative=False)


def _yearless_day(match: RuleMatch, month: int, day: int) -> DayRange | None:
    return match.nearest(lambda year: day_bounds(make_date(year, month, day)))


def _year_month_day(match: RuleMatch) -> DayRange | None:
    return _full_date(match.value("year"), match.value("month"), match.value("day"))


def _month_and_day(match: RuleMatch) -> tuple[int, int] | None:
    first, second = match.value("first"), match.value("second")
    day_first = match.context.day_first if first <= 12 and second <= 12 else first > 12
    month, day = (second, first) if day_first else (first, second)
    return (month, day) if month <= 12 else None


def _numeric(match: RuleMatch) -> DayRange | None:
    pair, year = _month_and_day(match), match.token("year")
    if pair is None:
        return None
    if year.end - year.start == 4:
        return _full_date(year.value, *pair)
    if year.end - year.start != 2:
        return None
    return _full_date(expand_year(year.value, match.today), *pair)


def _yearless_numeric(match: RuleMatch) -> DayRange | None:
    pair = _month_and_day(match)
    numbers = match.value("first"), match.value("second")
    found = _yearless_day(match, *pair) if pair and numbers != (24, 7) else None
    # Without a year, 5/12 may be 12 May or 5 December.
    return found and replace(found, certain=max(numbers) > 12)


def _september_2001(match: RuleMatch) -> DayRange | None:
    """Resolve "9/11" where it names the attacks."""
    return _full_date(2001, 9, 11) if (match.value("first"), match.value("second")) == (9, 11) else None


def _written_day(match: RuleMatch) -> DayRange | None:
    street = _STREET.match(match.context.text, match.last_token.end)
    if street or _is_verb(match, "day"):
        return None
    return _yearless_day(match, match.value("month"), match.value("day"))


def _is_verb(match: RuleMatch, number: str) -> bool:
    """Return True for a lower-case "may" or "march" next to a cardinal number in the middle of a clause."""
    if match.tag("month") not in _VERB_MONTHS or match.source_text("month")[0].isupper():
        return False
    after = match.groups.end()
    is_cardinal = match.tag(number) in _CARDINALS
    return is_cardinal and after < len(match.tokens) and match.tokens[after].tag == TAGS["WORD"]


def _date_with_month_name(match: RuleMatch) -> DayRange | None:
    """Resolve "07-May-2023" in any order of its parts; if no year has four digits, the last number is the year."""
    first, second = match.token("first"), match.token("second")
    year, day = (first, second) if first.tag in _FULL_YEARS else (second, first)
    if year.end - year.start == 1:
        return None
    full = year.value if year.tag in _FULL_YEARS else expand_year(year.value, match.today)
    return _full_date(full, match.value("month"), day.value)


def _days_of_month(match: RuleMatch) -> DayRange | None:
    """Resolve "3 to 12 September" and "Saturday 26 to Monday 28 October"."""
    month, first, last = match.value("month"), match.value("first"), match.value("second")
    weekday = match.value("weekday") if match.has("weekday") else None

    def yearly(year: int) -> Bounds | None:
        start, end = make_date(year, month, first), make_date(year, month, last)
        if start and end and end <= start:
            end = add_units(end, 1, MONTH)
        return (start, end) if start and end else None

    found = None if _is_verb(match, "second") else match.nearest(yearly, "span")
    return found and display_last_day(found if weekday is None else on_weekday(found, weekday, match.today))


def on_weekday(days: DayRange, weekday: int, today: date) -> DayRange:
    """Return yearless days in the nearest year in which they start on the weekday, certain if that is not far away."""
    years = sorted(range(today.year - 6, today.year + 7), key=lambda year: abs(year - today.year))
    for year in years:
        placed = in_year(days, year, relative=True)
        if placed and placed.start and placed.start.weekday() == weekday:
            return replace(placed, certain=abs(placed.start - today) <= _FAR)
    return replace(days, certain=False)


def _listed_days(match: RuleMatch) -> DateList | None:
    """Resolve "18 and 19 June" and "June 18, 19 and 20" to one date each, of which one contains the month."""
    month, first = match.value("month"), match.groups.start()
    numbers = [place for place, token in enumerate(match.matched_tokens, first) if token.tag in _DAY_NUMBERS]
    found = [_yearless_day(match, month, match.tokens[place].value) for place in numbers]
    if None in found or _is_verb_in_list(match):
        return None
    last = match.groups.end() - 1
    ends = [*numbers[:-1], max(numbers[-1], last)]
    starts = [min(first, numbers[0]), *numbers[1:]]
    return DateList(tuple((start, end, days) for start, end, days in zip(starts, ends, found, strict=True) if days))


def _is_verb_in_list(match: RuleMatch) -> bool:
    return match.tag("month") in _VERB_MONTHS and not match.source_text("month")[0].isupper()


def _eight_digits(match: RuleMatch) -> DayRange | None:
    value = match.value("day")
    return _full_date(value // 10000, value // 100 % 100, value % 100)


def _day_of_this_month(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th of next month"."""
    month = add_units(match.today.replace(day=1), match.value("modifier"), MONTH)
    return month and single_day(make_date(month.year, month.month, match.value("ordinal")))


def _days_of_this_month(match: RuleMatch) -> DayRange | None:
    """Resolve "from 5 to 10 of next month"."""
    month = add_units(match.today.replace(day=1), match.value("modifier"), MONTH)
    start = month and single_day(make_date(month.year, month.month, match.value("first")))
    end = month and single_day(make_date(month.year, month.month, match.value("second")))
    return range_between(start, end) if start and end else None


def _nearest_ordinal(match: RuleMatch) -> DayRange | None:
    return _in_either_direction(single_day(_nearest_day(match)))


def _ordinal_range(match: RuleMatch) -> DayRange | None:
    """Resolve "between the 5th and the 10th"."""
    start, number = _nearest_day(match), match.value("second")
    month = start and start.replace(day=1)
    if month and start and number <= start.day:
        month = add_units(month, 1, MONTH)
    end = month and make_date(month.year, month.month, number)
    return display_last_day(DayRange(start, end, either_direction=True)) if start and end else None


def _weekday_and_ordinal(match: RuleMatch) -> DayRange | None:
    return _in_either_direction(single_day(_nearest_day(match, weekday=match.value("weekday"))))


def _week_of_ordinal(match: RuleMatch) -> DayRange | None:
    day = _nearest_day(match)
    return _in_either_direction(day and whole_period(period_bounds(day, WEEK), WEEK))


def _in_either_direction(day: DayRange | None) -> DayRange | None:
    return day and replace(day, either_direction=True)


def _nearest_day(match: RuleMatch, weekday: int | None = None) -> date | None:
    """Return the nearest day, on the preferred side, with the ordinal as its day of the month and that weekday."""
    today, number = match.today, match.value("ordinal")
    step = 1 if match.context.prefer == "future" else -1
    for distance in range(40):
        month = add_units(today.replace(day=1), step * distance, MONTH)
        day = month and make_date(month.year, month.month, number)
        if day and (day - today).days * step >= 0 and weekday in (None, day.weekday()):
            return day
    return None


NO_NUMBER_FOLLOWS = "(?!SEP NUMERAL)(?!s)"
NOT_JOINED = "(?<!DASH)(?<!SLASH)(?<!DOT)"
_AFTER_DATE_CUE = (
    "(?<=on|by|from|until|till|til|to|since|before|after|between|through|WFULL|WABBR|DASH|HYPHEN|TILDE"
    "|last|this|next|coming|previous)"
)
_NUMBER = "(ORD|DAYNUM)"
_WEEKDAY = "(WDAY COMMA?)?"
_NO_NOUN_FOLLOWS = "(?=$|COMMA|STOP|HYPHEN|at|and|for|with|to|from|we|i)"
_NOT_CONTINUED = "(?!SLASH)(?!DOT)(?!of)(?!MONTH)(?!UNIT)"

RULES = (
    Rule("year=Y4 SEP month=D12 SEP day=DD", _year_month_day),
    Rule("first=DD SEP second=DD SEP year=Y4", _numeric),
    Rule(f"{NOT_JOINED} first=DD SLASH second=DD SLASH year=YY {NO_NUMBER_FOLLOWS}", _numeric),
    Rule(f"{_AFTER_DATE_CUE} first=DD DASH second=DD DASH year=YY {NO_NUMBER_FOLLOWS}", _numeric),
    Rule(f"{NOT_JOINED} (?<!on|by|until|from|WDAY|MOD) first=D12 SLASH second=D12 (?!SEP)", _september_2001),
    Rule(f"{_AFTER_DATE_CUE} first=DD SLASH second=DD (?!SLASH)", _yearless_numeric),
    Rule("(?<=for|of) first=DD SLASH second=DD (?=$|STOP|COMMA)", _yearless_numeric),
    Rule("(?<=DD and) first=DD SLASH second=DD (?!SLASH)", _yearless_numeric),
    Rule("first=DD SLASH second=DD (?=TO DD SLASH)", _yearless_numeric),
    Rule("(?<=WFULL|WABBR) first=DD (DASH|DOT) second=DD (?!SEP)", _yearless_numeric),
    Rule("(?<=on) first=DD (DOT|DASH) second=DD (?!SEP)", _yearless_numeric),
    Rule("(?<!NUMERAL) day=DATE8", _eight_digits),
    Rule("first=(DD|ORDNUM|FULLYEAR) SEP month=MONTH SEP second=(YY|FULLYEAR)", _date_with_month_name),
    Rule("month=MONTH SEP first=(DD|FULLYEAR) SEP second=(YY|FULLYEAR)", _date_with_month_name),
    Rule("first=(DD|FULLYEAR) SEP second=(DD|FULLYEAR) SEP month=MONTH", _date_with_month_name),
    Rule(f"the? day={_NUMBER} (of|COMMA|SEP)? month=MONTH", _written_day),
    Rule("the? day=ORD day of month=MONTH", _written_day),
    Rule("first=DD month=MONTH second=YY (?=$|STOP|COMMA)", _date_with_month_name),
    Rule("year=Y4 COMMA? month=MONTH day=(DD|ORD)", _year_month_day),
    Rule(f"month=MONTH SEP? COMMA? the? day={_NUMBER} (?!UNIT) (?!COMMA? UNIT)", _written_day),
    Rule(
        f"from? (weekday=WDAY COMMA?)? the? first={_NUMBER} TO {_WEEKDAY} the? second={_NUMBER} of? month=MONTH",
        _days_of_month,
    ),
    Rule(
        f"between (weekday=WDAY COMMA?)? the? first={_NUMBER} and {_WEEKDAY} the? second={_NUMBER} of? month=MONTH",
        _days_of_month,
    ),
    Rule(
        f"(from|between)? month=MONTH the? first={_NUMBER} TO the? second={_NUMBER} {_NOT_CONTINUED}",
        _days_of_month,
    ),
    Rule(f"between month=MONTH the? first={_NUMBER} and the? second={_NUMBER} {_NOT_CONTINUED}", _days_of_month),
    Rule(f"the? {_NUMBER} (COMMA the? {_NUMBER}){{0,8}} COMMA? (and|or) the? {_NUMBER} of? month=MONTH", _listed_days),
    Rule(
        f"month=MONTH the? {_NUMBER} (COMMA the? {_NUMBER}){{0,8}} COMMA? (and|or) the? {_NUMBER} "
        f"{_NOT_CONTINUED} (?!WORD|LENGTH|SEP)",
        _listed_days,
    ),
    Rule("(from|between) first=DAYNUM (TO|and) second=DAYNUM (of|in)? modifier=MOD month", _days_of_this_month),
    Rule("the? ordinal=ORD day? of? modifier=MOD month", _day_of_this_month),
    Rule("modifier=MOD month COMMA? on the ordinal=ORD", _day_of_this_month),
    Rule("the ordinal=ORD day? of modifier=the month", _day_of_this_month),
    Rule(f"(?<=on) the? ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(?<=since|until|till|by|for|before|after) the ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(?<=(night|daytime) of) the ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(?<=on the ORDNUM (and|or)) the? ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(from|between) the ordinal=ORDNUM (and|TO) the second=ORDNUM {_NO_NOUN_FOLLOWS}", _ordinal_range),
    Rule("weekday=WDAY COMMA? the? ordinal=ORD (?!of)(?!MONTH)", _weekday_and_ordinal),
    Rule("weekday=WDAY ordinal=DD (?=$|STOP|COMMA|HYPHEN|at|from|in|with|for|we|i)", _weekday_and_ordinal),
    Rule("the? week (of|starting|beginning) the ordinal=ORDNUM (?!of)(?!MONTH)", _week_of_ordinal),
)
