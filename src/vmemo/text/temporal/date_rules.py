"""Rules for numbers, lengths, dates, periods, holidays, seasons and weekdays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from dateutil.easter import easter

from vmemo.text.temporal.calendar_days import (
    DECADE,
    FRIDAY,
    MONDAY,
    MONTH,
    QUARTER,
    SUNDAY,
    THURSDAY,
    WEEK,
    YEAR,
    Bounds,
    CalendarLength,
    DayRange,
    add_days,
    add_units,
    day_bounds,
    display_last_day,
    expand_year,
    half_of,
    in_year,
    make_date,
    next_weekday,
    nth_weekday,
    period_bounds,
    period_start,
    previous_weekday,
    range_between,
    single_day,
    weekday_on_or_after,
    whole_period,
)
from vmemo.text.temporal.grammar import DateList, PlainToken, Rule, RuleMatch, tags_of
from vmemo.text.temporal.vocabulary import TAGS

# First stage: merges numbers in words, and hides phrases that later rules would mistake for dates.


def _cardinal(match: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", match.value("tens") + match.value("ones"))


def _hundreds(match: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", match.value("count") * 100)


def _ordinal(match: RuleMatch) -> PlainToken:
    return PlainToken("ORDINAL", match.value("tens") + match.value("ones"))


def _below_hundred(match: RuleMatch) -> int:
    return match.value("tens") + match.value("ones") + match.value("teens")


def _year_in_words(match: RuleMatch) -> PlainToken | None:
    year = match.value("century") * 100 + _below_hundred(match)
    return PlainToken("YEARWORD", year) if 1500 <= year < 2100 else None


def _year_from_2000(match: RuleMatch) -> PlainToken | None:
    return PlainToken("YEARWORD", 2000 + _below_hundred(match)) if match.value("thousands") == 2 else None


def _couple(_: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", 2)


def _few(_: RuleMatch) -> PlainToken:
    return PlainToken("FEWER", 3)


def _short_month(match: RuleMatch) -> PlainToken:
    return PlainToken("MABBR", match.value("month"))


def _hidden(_: RuleMatch) -> PlainToken:
    return PlainToken("WORD")


_BELOW_HUNDRED = "(tens=TENS DASH? ones=ONES?|teens=(TEEN|ONES))"

NUMBER_RULES = (
    Rule("century=(TEEN|TENS) DASH? (tens=TENS DASH? ones=ONES?|teens=TEEN)", _year_in_words),
    Rule(f"century=(TEEN|TENS) hundred (and? {_BELOW_HUNDRED})?", _year_in_words),
    Rule(f"thousands=ONES thousand (and? {_BELOW_HUNDRED})?", _year_from_2000),
    Rule("tens=TENS DASH? ones=ONES", _cardinal),
    Rule("tens=TENS DASH? ones=ORDONE", _ordinal),
    Rule("count=(ONES|A) hundred", _hundreds),
    Rule("A? couple of?", _couple),
    Rule("A? few", _few),
    Rule("month=MABBR STOP (?!$)", _short_month),
    Rule("NUMERAL DOT NUMERAL (?=UNIT)", _hidden),
    Rule("half A UNIT (?!ago)(?!back)", _hidden),
    Rule("(POSS|her) PART? DASH? (DECADENUM|DECADEWORD)", _hidden),
    Rule("(day (after|by|to|DASH) DASH? day|week (after|by) week)", _hidden),
    Rule("up DASH? to DASH? date", _hidden),
    Rule("end of the day (?!before|after)", _hidden),
)


# Second stage: merges lengths of time, such as "two weeks and three days", into one token each.

_FEW, _SEVERAL, _YEAR_NUMBERS = tags_of("FEWER"), tags_of("several"), tags_of("Y4")
_VAGUE_COUNTS = dict.fromkeys(_FEW, (2, 5)) | dict.fromkeys(_SEVERAL, (3, 8))
"""Lowest and highest number that is meant."""


def _counted(match: RuleMatch) -> CalendarLength | None:
    """Merge "two weeks", "a day", "a few months"; "2018 quarter" is no count of quarters."""
    unit, tag = match.value("unit"), match.tag("count")
    if tag in _YEAR_NUMBERS and not match.is_plural("unit"):
        return None
    if tag in _VAGUE_COUNTS:
        low, high = _VAGUE_COUNTS[tag]
        return CalendarLength.between(low, high, unit, usual=match.value("count"))
    return CalendarLength.of(match.value("count"), unit, exact="couple" not in match.source_text("count").lower())


def _and_a_half(match: RuleMatch) -> CalendarLength | None:
    return CalendarLength.of(match.value("count"), match.value("unit")).plus_half()


def _half(match: RuleMatch) -> CalendarLength | None:
    return half_of(match.value("unit"))


def _alternative_counts(match: RuleMatch) -> CalendarLength | None:
    """Merge "2 or 3 weeks" and "a day or two"."""
    low, high, unit = match.value("low"), match.value("count"), match.value("unit")
    return CalendarLength.between(low, high, unit, usual=high) if low < high else None


def _sum(match: RuleMatch) -> CalendarLength | None:
    first, *others = (token.length for token in match.matched_tokens if token.length)
    for other in others:
        first = first.plus(other)
    units = [unit for _, unit in first.counts]
    return first if len(set(units)) == len(units) else None


_UNIT = "unit=(UNIT|weekend)"
_ALTERNATIVE = "(or|to|DASH|HYPHEN)"

LENGTH_RULES = (
    Rule(f"(?<!MFULL|MNAME|MABBR) count=(COUNT|A|SOME) {_UNIT}", _counted),
    Rule("count=(COUNT|A) unit=UNIT and A half", _and_a_half),
    Rule("count=COUNT and A half unit=UNIT", _and_a_half),
    Rule("half A unit=UNIT", _half),
    Rule(f"low=COUNT {_ALTERNATIVE} count=COUNT unit=UNIT", _alternative_counts),
    Rule("low=A unit=UNIT or count=COUNT (?!UNIT)", _alternative_counts),
)
LENGTH_SUM_RULES = (Rule("(?<!for|MOD) LENGTH (COMMA LENGTH)? COMMA? and LENGTH", _sum),)


# Dates with a day of the month, in numbers or words, with or without the year and month.

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
    month, day = (second, first) if first > 12 else (first, second)
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


_NO_NUMBER_FOLLOWS = "(?!SEP NUMERAL)(?!s)"
_NOT_JOINED = "(?<!DASH)(?<!SLASH)(?<!DOT)"
_AFTER_DATE_CUE = (
    "(?<=on|by|from|until|till|til|to|since|before|after|between|through|WFULL|WABBR|DASH|HYPHEN|TILDE"
    "|last|this|next|coming|previous)"
)
_NUMBER = "(ORD|DAYNUM)"
_WEEKDAY = "(WDAY COMMA?)?"
_NO_NOUN_FOLLOWS = "(?=$|COMMA|STOP|HYPHEN|at|and|for|with|to|from|we|i)"
_NOT_CONTINUED = "(?!SLASH)(?!DOT)(?!of)(?!MONTH)(?!UNIT)"

DATE_RULES = (
    Rule("year=Y4 SEP month=D12 SEP day=DD", _year_month_day),
    Rule("first=DD SEP second=DD SEP year=Y4", _numeric),
    Rule(f"{_NOT_JOINED} first=DD SLASH second=DD SLASH year=YY {_NO_NUMBER_FOLLOWS}", _numeric),
    Rule(f"{_AFTER_DATE_CUE} first=DD SLASH second=DD (?!SLASH)", _yearless_numeric),
    Rule("first=DD SLASH second=DD (?=TO DD SLASH)", _yearless_numeric),
    Rule("(?<=WFULL|WABBR) first=DD (DASH|DOT) second=DD (?!SEP)", _yearless_numeric),
    Rule("(?<=on) first=DD (DOT|DASH) second=DD (?!SEP)", _yearless_numeric),
    Rule("(?<!NUMERAL) day=DATE8", _eight_digits),
    Rule("first=(DD|ORDNUM|FULLYEAR) SEP month=MONTH SEP second=(YY|FULLYEAR)", _date_with_month_name),
    Rule("month=MONTH SEP first=(DD|FULLYEAR) SEP second=(YY|FULLYEAR)", _date_with_month_name),
    Rule("first=(DD|FULLYEAR) SEP second=(DD|FULLYEAR) SEP month=MONTH", _date_with_month_name),
    Rule(f"the? day={_NUMBER} (of|COMMA|SEP)? month=MONTH", _written_day),
    Rule("the? day=ORD day of month=MONTH", _written_day),
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
    Rule("the? ordinal=ORD day? of? modifier=MOD month", _day_of_this_month),
    Rule("the ordinal=ORD day? of modifier=the month", _day_of_this_month),
    Rule(f"(?<=on) the? ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(?<=since|until|till|by|for|before|after) the ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(?<=on the ORDNUM (and|or)) the? ordinal=ORDNUM {_NO_NOUN_FOLLOWS}", _nearest_ordinal),
    Rule(f"(from|between) the ordinal=ORDNUM (and|TO) the second=ORDNUM {_NO_NOUN_FOLLOWS}", _ordinal_range),
    Rule("weekday=WDAY COMMA? the? ordinal=ORD (?!of)(?!MONTH)", _weekday_and_ordinal),
    Rule("weekday=WDAY ordinal=DD (?=$|STOP|COMMA|HYPHEN|at|from|in|with|for|we|i)", _weekday_and_ordinal),
    Rule("the? week (of|starting|beginning) the ordinal=ORDNUM (?!of)(?!MONTH)", _week_of_ordinal),
)


# Calendar periods by name: months, quarters, years, decades and centuries.

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


def _quarter_bounds(year: int, number: int) -> Bounds | None:
    first = make_date(year, number * 3 - 2, 1)
    return first and period_bounds(first, QUARTER)


_PREPOSITIONS = "in|since|of|until|till|by|during|before|after|from|through|between|EARLY|MID|LATE"
_AFTER_YEAR_CUE = f"(?<={_PREPOSITIONS}|than|APOSTROPHE)"
_AFTER_MONTH_CUE = f"(?<={_PREPOSITIONS})"

PERIOD_RULES = (
    Rule("month=MONTH (of|in|COMMA|SEP|APOSTROPHE)? year=FULLYEAR (?!DASH D12)", _month_of_year),
    Rule("month=MONTH (of|APOSTROPHE|of APOSTROPHE) year=YY", _month_of_year),
    Rule(f"{_NOT_JOINED} year=Y4 (DASH|SLASH) month=D12 (?!MONTH) {_NO_NUMBER_FOLLOWS}", _month_of_year),
    Rule(f"{_NOT_JOINED} month=D12 (DASH|SLASH) year=Y4 {_NO_NUMBER_FOLLOWS}", _month_of_year),
    Rule("modifier=MOD month=(MFULL|MNAME|MABBR|MVERB) (?!DAYNUM)(?!ORD)", _modified_month),
    Rule("month=MFULL", _month),
    Rule(f"{_AFTER_MONTH_CUE} month=(MABBR|MVERB|MNAME)", _month),
    Rule("month=(MABBR|MVERB|MNAME) (?=TO from? the? (MONTH|PARTOF))", _month),
    Rule("(?<=(MONTH|DD|ORDNUM|FULLYEAR) (to|and|or|COMMA|DASH|HYPHEN)) month=(MABBR|MNAME)", _month),
    Rule("(?<=to|DASH|HYPHEN) month=MVERB (?=$|STOP|COMMA|FULLYEAR)", _month),
    Rule("(?<=between MONTH and) month=MVERB", _month),
    Rule("month=(MABBR|MVERB|MNAME) (?=(and|or|COMMA) MONTH)", _capitalised_month),
    Rule("month=MNAME (?=$|STOP|COMMA|and|or)", _month),
    Rule("the? calendar? year of? year=FULLYEAR", _year),
    Rule("(calendar year)? year=Y4 (DASH|SLASH) last=YY (?!SEP)", _school_year),
    Rule(f"{_AFTER_YEAR_CUE} year=FULLYEAR {_NO_NUMBER_FOLLOWS}", _recent_year),
    Rule(f"(?<=in|since|until|during) year=FULLYEAR {_NO_NUMBER_FOLLOWS}", _year),
    Rule("(?<=PART DASH) year=FULLYEAR", _year),
    Rule(f"{_NOT_JOINED} year=FULLYEAR (?=TO FULLYEAR) (?!SEP)", _year),
    Rule(f"{_NOT_JOINED} year=Y4 DASH last=Y4 {_NO_NUMBER_FOLLOWS}", _year_range),
    Rule(f"{_NOT_JOINED} (?<!NUMERAL)(?<!NUMERAL HYPHEN) year=Y4 {_NO_NUMBER_FOLLOWS} (?!UNIT)", _likely_year),
    Rule("the? decade=DECADENUM", _full_decade),
    Rule("the APOSTROPHE? decade=DECADENUM", _decade),
    Rule("(?<=in|EARLY|MID|LATE|DASH|of|since|APOSTROPHE) decade=DECADENUM", _decade),
    Rule("(?<=in|of|since|until|from|by|before|after) APOSTROPHE year=YY (?!COUNT)(?!UNIT)", _two_digit_year),
    Rule("decade=Y4 s", _decade),
    Rule("(?<=in|the) decade=D99 s", _decade),
    Rule("(?<=in|the|EARLY|MID|LATE|DASH|of|since) decade=DECADEWORD", _decade),
    Rule("the? ordinal=ORD century", _century),
    Rule("q number=D12 ((of|SEP|COMMA)? year=FULLYEAR)?", _quarter),
    Rule("year=FULLYEAR SEP? q number=D12", _quarter),
)


# Holidays: the date of each as a function of the year.

_HolidayDate = Callable[[int], date | None]


def _fixed(month: int, day: int) -> _HolidayDate:
    return lambda year: make_date(year, month, day)


def _nth_weekday(month: int, weekday: int, nth: int, days_later: int = 0) -> _HolidayDate:
    def holiday(year: int) -> date | None:
        day = nth_weekday(year, month, weekday, nth)
        return day and add_days(day, days_later)

    return holiday


def _from_easter(offset: int) -> _HolidayDate:
    return lambda year: add_days(easter(year), offset) if 1583 <= year <= 4099 else None


def _hijri(month: int, day: int) -> _HolidayDate:
    """Return a holiday of the tabular Islamic calendar; sightings of the moon may differ by a day."""

    def holiday(year: int) -> date | None:
        if not 700 <= year <= 4099:
            return None
        first = math.floor((year - 622) * 33 / 32)
        ordinals = (
            day + math.ceil(29.5 * (month - 1)) + (hijri - 1) * 354 + (3 + 11 * hijri) // 30 + 227013
            for hijri in range(first, first + 3)
        )
        days = (date.fromordinal(ordinal) for ordinal in ordinals)
        return next((day for day in days if day.year == year), None)

    return holiday


_HOLIDAYS: dict[str, _HolidayDate] = {
    "christmas day?": _fixed(12, 25),
    "christmas eve": _fixed(12, 24),
    "boxing day": _fixed(12, 26),
    "new year eve": _fixed(12, 31),
    "new year day?": _fixed(1, 1),
    "halloween": _fixed(10, 31),
    "valentine day?": _fixed(2, 14),
    "saint STOP? patrick day?": _fixed(3, 17),
    "earth day": _fixed(4, 22),
    "(international workers|workers|MVERB) day": _fixed(5, 1),
    "canada day": _fixed(7, 1),
    "independence day": _fixed(7, 4),
    "thanksgiving day?": _nth_weekday(11, THURSDAY, 4),
    "black WFULL": _nth_weekday(11, THURSDAY, 4, days_later=1),
    "labor day": _nth_weekday(9, MONDAY, 1),
    "memorial day": _nth_weekday(5, MONDAY, -1),
    "mothers day": _nth_weekday(5, SUNDAY, 2),
    "fathers day": _nth_weekday(6, SUNDAY, 3),
    "easter (?!WFULL)": _from_easter(0),
    "good WFULL": _from_easter(-2),
    "pentecost": _from_easter(49),
    "eid DASH? (al|ul) DASH? fitr": _hijri(10, 1),
    "ramadan": _hijri(9, 1),
}
"""Date by pattern."""

_WEEKDAY_AFTER = {"black": FRIDAY, "good": FRIDAY}
"""The weekday that must follow the first word of a holiday."""
_QUALIFIED_NOUN = re.compile(
    r"\s+(?:songs?|music|carols?|movies?|films?|trees?|cookies?|eggs?|bunn(?:y|ies)|costumes?|cand(?:y|ies)"
    r"|sweaters?|jumpers?|decorations?|lights|recipes?|deals?|resolutions?)\b",
    re.IGNORECASE,
)
"""Nouns that a holiday's name qualifies: a Christmas song has no date."""
_BEFORE_HOLIDAY = frozenset(
    TAGS[word] for word in ("on", "at", "over", "for", "since", "until", "before", "after", "by")
)
_MODIFIERS = tags_of("MOD")


def _holiday_rule(pattern: str, holiday: _HolidayDate) -> Rule:
    expected = _WEEKDAY_AFTER.get(pattern.split()[0])

    def resolve(match: RuleMatch) -> DayRange | PlainToken | None:
        last = match.last_token
        if _QUALIFIED_NOUN.match(match.context.text, last.end) and match.previous_tag not in _MODIFIERS:
            return PlainToken("WORD")
        if expected is not None and last.value != expected:
            return None
        found = match.nearest(lambda year: day_bounds(holiday(year)))
        return found and replace(_named(match, found), certain="eid" not in pattern and "ramadan" not in pattern)

    return Rule(pattern, resolve)


def _named(match: RuleMatch, days: DayRange) -> DayRange:
    """Leave out the date without a preposition: any year may be meant, as in "Thanksgiving is fun"."""
    return replace(days, unannotated=match.previous_tag not in _BEFORE_HOLIDAY)


def _easter_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Easter Monday", the day after Easter, and the days from Good Friday to Easter Sunday."""
    weekday = match.last_token.value
    offset = 1 if weekday == MONDAY else weekday - SUNDAY
    if offset < FRIDAY - SUNDAY:
        return None
    found = match.nearest(lambda year: day_bounds(_from_easter(offset)(year)))
    return found and _named(match, found)


HOLIDAY_RULES = (
    *(_holiday_rule(pattern, holiday) for pattern, holiday in _HOLIDAYS.items()),
    Rule("easter WFULL", _easter_weekday),
)


# Seasons: three calendar months each; a winter belongs to the year in which it starts.

_JUST_ENDED, _HALF_A_YEAR = timedelta(days=30), timedelta(days=183)


def _first_month(match: RuleMatch) -> int:
    month = match.value("season")
    return (month + 5) % 12 + 1 if match.context.southern else month


def _season_bounds(year: int, month: int) -> Bounds | None:
    start = make_date(year, month, 1)
    end = start and add_units(start, 3, MONTH)
    return (start, end) if start and end else None


def _season(match: RuleMatch) -> DayRange | None:
    month = _first_month(match)
    found = match.nearest(lambda year: _season_bounds(year, month), "span")
    return found and replace(found, certain=False)


def _modified_season(match: RuleMatch) -> DayRange | None:
    """Resolve "last summer" and "this winter"; one just ended may be "last" or "this"."""
    today, month, step = match.today, _first_month(match), match.value("modifier")
    seasons = [bounds for year in range(today.year - 3, today.year + 3) if (bounds := _season_bounds(year, month))]
    if step < 0:
        chosen = [bounds for bounds in seasons if bounds[1] <= today][-1:]
    elif step > 0:
        chosen = [bounds for bounds in seasons if bounds[0] > today][:1]
    else:
        chosen = [bounds for bounds in seasons if bounds[0] <= today < bounds[1] or bounds[0].year == today.year][:1]
    return DayRange(*chosen[0], certain=_is_clear(chosen[0], today, step)) if chosen else None


def _is_clear(bounds: Bounds, today: date, step: int) -> bool:
    if step < 0:
        return today - bounds[1] >= _JUST_ENDED
    if step > 0:
        return bounds[0].year > today.year
    return bounds[0] - today <= _HALF_A_YEAR and today - bounds[1] <= _HALF_A_YEAR


SEASON_RULES = (
    Rule("(?<=in|during|over|since|until|by) the? season=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    Rule("(?<=for) the season=(SEASON|SEASONX) (?!of|WORD|so)", _season),
    Rule("the? season=(SEASON|SEASONX) (?=(of|COMMA)? (FULLYEAR|APOSTROPHE YY))", _season),
    Rule("the? modifier=MOD season=(SEASON|SEASONX)", _modified_season),
)


# Weekdays and numbered weeks: "last Friday", "this coming Tuesday", "on Monday", "week 12".

_LATEST, _COMING, _THIS, _NEXT = (
    tags_of("last") | tags_of("past"),
    tags_of("coming"),
    tags_of("this"),
    tags_of("next"),
)


def _modified_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "last Friday": last and past mean the latest, coming the next, others that of the neighbouring week.

    "Last Friday" on a Saturday may be a week earlier, "next Friday" on a Monday a week later.
    """
    today, weekday, tag = match.today, match.value("weekday"), match.tag("modifier")
    if tag in _LATEST:
        day = previous_weekday(today, weekday)
        return single_day(day, certain=add_days(day, 1) < today)
    if tag in _COMING:
        return single_day(next_weekday(today, weekday))
    day = add_units(add_days(period_start(today, WEEK), weekday), match.value("modifier"), WEEK)
    is_next = tag in _NEXT and weekday <= today.weekday() < SUNDAY
    return single_day(day, certain=is_next or (tag in _THIS and weekday > today.weekday()))


def _second_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "the Friday before last" and "the Monday after next"."""
    today, weekday = match.today, match.value("weekday")
    if match.has("forward"):
        return single_day(add_units(next_weekday(today, weekday), 1, WEEK))
    return single_day(add_units(previous_weekday(today, weekday), -1, WEEK))


def _weekday(match: RuleMatch) -> DayRange | None:
    today, weekday = match.today, match.value("weekday")
    if match.context.prefer == "past":
        return single_day(previous_weekday(today, weekday), kind="weekday")
    return single_day(weekday_on_or_after(today, weekday), kind="weekday")


def _week_number(match: RuleMatch) -> DayRange | None:
    number = match.value("number")

    def yearly(year: int) -> Bounds | None:
        # ISO week 1 is the one with 4 January.
        fourth = make_date(year, 1, 4)
        return fourth and period_bounds(fourth, WEEK, number - 1)

    bounds = yearly(match.today.year) if 1 <= number <= 53 else None
    return bounds and DayRange(*bounds, kind="week", yearly=yearly, certain=False)


_NOT_A_HABIT = "(?!habit|(and|or|COMMA|SLASH|TO) WFULL habit)"

WEEKDAY_RULES = (
    Rule("(on|this)? modifier=MOD weekday=WDAY (?!of)(?!in (MONTH|FULLYEAR))", _modified_weekday),
    Rule(f"(?<!every|A|POSS) (?<!A WFULL (or|and)) weekday=WFULL {_NOT_A_HABIT}", _weekday),
    Rule("(?<=POSS) weekday=WFULL (?!habit|WORD)", _weekday),
    Rule("(?<=on|by|until) weekday=WABBR", _weekday),
    Rule("weekday=WABBR (?=(or|and|TO|SLASH) WDAY)", _weekday),
    Rule("(?<=WDAY (or|and|TO|SLASH)) weekday=WABBR", _weekday),
    Rule("the? weekday=WDAY (before last|forward=after next)", _second_weekday),
    Rule("weekday=WABBR (?=(COMMA|STOP)? (MONTH|DD|the? ORD))", _weekday),
    Rule("week number=(D12|D31|D99) (?!SEP)", _week_number),
)
