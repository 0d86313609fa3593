"""Resolvers of numbers, lengths, dates, periods, holidays, seasons and weekdays; `rules.txt` names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta

from dateutil.easter import easter

from vmemo.text.pattern_files import read_patterns
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
    whole_period,
)
from vmemo.text.temporal.grammar import TAGS, PlainToken, Rule, RuleMatch, tags_of

# First stage: merges numbers in words, and hides phrases that later rules would mistake for dates.


def number(match: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", match.value("hundreds") * 100 + match.value("tens") + match.value("ones"))


def year_in_words(match: RuleMatch) -> PlainToken | None:
    """Merge "nineteen eighty six" and "two thousand and five"."""
    first = match.value("thousands") * 1000 + match.value("century") * 100
    year = first + match.value("tens") + match.value("ones")
    return PlainToken("Y4", year) if 1500 <= year < 2100 else None


def ordinal(match: RuleMatch) -> PlainToken:
    return PlainToken("ORDINAL", match.value("tens") + match.value("ones"))


def abbreviated(match: RuleMatch) -> PlainToken:
    """Merge "Jan." with its full stop."""
    return PlainToken("MCLEAR", match.value("month"))


def no_date(_: RuleMatch) -> PlainToken:
    return PlainToken("WORD")


# Second stage: merges lengths of time, such as "two weeks", into one token each.

_VAGUE_COUNTS = {TAGS["couple"]: (0, 0), TAGS["few"]: (2, 5), TAGS["several"]: (3, 8)}
"""Lowest and highest number that is meant."""


def counted(match: RuleMatch) -> CalendarLength:
    """Merge "two weeks", "a day", "a few months"."""
    tag = match.tag("count")
    low, high = _VAGUE_COUNTS.get(tag, (0, 0))
    return CalendarLength(match.value("count"), match.value("unit"), tag not in _VAGUE_COUNTS, low, high)


def half(match: RuleMatch) -> CalendarLength | None:
    return half_of(match.value("unit"))


def and_a_half(match: RuleMatch) -> CalendarLength | None:
    rest = half(match)
    return rest and CalendarLength(match.value("count"), match.value("unit")).plus(rest)


def alternative_counts(match: RuleMatch) -> CalendarLength | None:
    """Merge "2 or 3 weeks" and "a day or two"."""
    low, high, unit = match.value("low"), match.value("count"), match.value("unit")
    return CalendarLength(high, unit, exact=False, low=low, high=high) if low < high else None


def length_sum(match: RuleMatch) -> CalendarLength | None:
    return match.length("first").plus(match.length("last"))


# Dates with a day of the month, in numbers or words, with or without the year and month.

_STREET = re.compile(r"\s(?:St|Street|Road|Rd|Ave|Avenue|Lane|Drive|Court|Close|Way)\b")
_VERB_MONTHS = tags_of("MVERB")
_CARDINALS = tags_of("DAYNUM")
_NUMBERED = re.compile(
    r"['’]?s?\s+(?:floors?|centur|grade|row|season|percentile|seed|lunar|place|time|street|st\b|ave|birthday|anniv|year)"
)
"""Nouns that are numbered rather than dated: "the 4th floor"."""
_FAR = timedelta(days=300)
"""People name the year of a date that is farther away."""


def numeric(match: RuleMatch) -> DayRange | None:
    """Resolve "2023-05-07", "7.5.2023" and "5/12", which may be 12 May or 5 December."""
    first, second = match.value("first"), match.value("second")
    month, day = (second, first) if first > 12 else (first, second)
    if match.has("year"):
        return single_day(make_date(match.year(), month, day), relative=False)
    found = match.nearest(lambda year: day_bounds(make_date(year, month, day))) if (first, second) != (24, 7) else None
    return found and replace(found, certain=max(first, second) > 12)


def written_day(match: RuleMatch) -> DayRange | None:
    """Resolve "7 May", "May 7th", and the first days of "5, 6 and 7 May"."""
    month, day = match.value("month"), match.value("day")
    if _STREET.match(match.context.text, match.last_token.end) or _is_verb(match, "day"):
        return None
    return match.nearest(lambda year: day_bounds(make_date(year, month, day)))


def _is_verb(match: RuleMatch, number: str) -> bool:
    """Return True for a lower-case "may" or "march" next to a cardinal number in the middle of a clause."""
    if match.tag("month") not in _VERB_MONTHS or match.source_text("month")[0].isupper():
        return False
    after = match.groups.end()
    in_list = match.groups.end("month") > after
    follows = after < len(match.tokens) and match.tokens[after].tag == TAGS["WORD"]
    return match.tag(number) in _CARDINALS and (in_list or follows)


def days_of_month(match: RuleMatch) -> DayRange | None:
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
    for year in sorted(range(today.year - 6, today.year + 7), key=lambda year: abs(year - today.year)):
        placed = in_year(days, year, relative=True)
        if placed and placed.start and placed.start.weekday() == weekday:
            return replace(placed, certain=abs(placed.start - today) <= _FAR)
    return replace(days, certain=False)


def day_of_this_month(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th of next month"."""
    month = add_units(match.today.replace(day=1), match.value("modifier"), MONTH)
    return month and single_day(make_date(month.year, month.month, match.value("ordinal")))


def bare_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th" without a preposition, which may be something else than a day."""
    found = nearest_ordinal(match)
    is_number = _NUMBERED.match(match.context.text, match.last_token.end) is not None
    return replace(found, certain=False) if found and not is_number else None


def nearest_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th" and "Friday the 13th" to the nearest such day on the preferred side."""
    today, number = match.today, match.value("ordinal")
    weekday = match.value("weekday") if match.has("weekday") else None
    step = 1 if match.context.prefer == "future" else -1
    for distance in range(40):
        month = add_units(today.replace(day=1), step * distance, MONTH)
        day = month and make_date(month.year, month.month, number)
        if day and (day - today).days * step >= 0 and weekday in (None, day.weekday()):
            return DayRange(day, add_days(day, 1), kind="day", either_direction=True)
    return None


# Calendar periods by name: months, quarters, years and decades.

_COUNTED_NOUN_FOLLOWS = re.compile(
    r"\s+(?:dollars|euros|pounds|bucks|people|pieces|units|points|miles|km|words|steps|calories|times|students"
    r"|members|followers|votes|files|items|meters|metres|feet|lbs|kg|ml|mg|hp|rpm|sq)\b",
    re.IGNORECASE,
)
_NUMBERED_NOUN_PRECEDES = re.compile(
    r"\b(?:room|order|page|number|no|model|version|ext|code|pin|suite|apt|flight|route|gate)\.?\s$", re.IGNORECASE
)


def month_of_year(match: RuleMatch) -> DayRange | None:
    return whole_period(_period_of_year(match.year(), match.value("month"), MONTH), MONTH, relative=False)


def _period_of_year(year: int | None, month: int, unit: int) -> Bounds | None:
    first = make_date(year, month, 1)
    return first and period_bounds(first, unit)


def month(match: RuleMatch) -> DayRange | None:
    number = match.value("month")
    return match.nearest(lambda year: _period_of_year(year, number, MONTH), "span")


def likely_month(match: RuleMatch) -> DayRange | None:
    """Resolve "for March" and "not may", which may be a person or a verb."""
    found = month(match)
    return found and replace(found, certain=False)


def modified_month(match: RuleMatch) -> DayRange | None:
    """Resolve "last May", "this May" and "next May"."""
    number, today, step = match.value("month"), match.today, match.value("modifier")
    years = {-1: -(number >= today.month), 0: 0, 1: number <= today.month}
    # "Last May" in June, and "next May" in March, may be a year away.
    certain = step == 0 or (number <= today.month if step > 0 else (today.month - number) % 12 > 2)
    return whole_period(_period_of_year(today.year + years[step], number, MONTH), MONTH, certain=certain)


def year(match: RuleMatch) -> DayRange | None:
    return _whole_year(match.year())


def _whole_year(year: int | None) -> DayRange | None:
    return whole_period(_period_of_year(year, 1, YEAR), YEAR, relative=False)


def recent_year(match: RuleMatch) -> DayRange | None:
    """Resolve a year after a preposition that may also precede an amount."""
    return year(match) if 1700 <= match.value("year") < 2100 else None


def likely_year(match: RuleMatch) -> DayRange | None:
    """Resolve a number that only its value suggests to be a year."""
    token, text = match.token("year"), match.context.text
    if not 1900 <= token.value <= match.today.year + 20 or token.value % 100 == 0:
        return None
    is_amount = _COUNTED_NOUN_FOLLOWS.match(text, token.end)
    is_label = _NUMBERED_NOUN_PRECEDES.search(text, max(0, token.start - 10), token.start)
    return None if is_amount or is_label else year(match)


def year_range(match: RuleMatch) -> DayRange | None:
    """Resolve "2015-2018" and "2017-18"; other numbers after the dash are no year."""
    year, last = match.value("year"), match.value("last")
    if match.tag("last") != TAGS["Y4"]:
        last = year + 1 if last == (year + 1) % 100 else year
    first, end = _whole_year(year), _whole_year(last)
    return range_between(first, end) if first and end else None


def decade(match: RuleMatch) -> DayRange | None:
    value = match.value("decade")
    if value < 100:
        value += 2000 if value <= match.today.year % 100 and value < 20 else 1900
    return whole_period(_period_of_year(value, 1, DECADE), DECADE, relative=False)


def long_decade(match: RuleMatch) -> DayRange | None:
    return decade(match) if match.value("decade") >= 1000 else None


def century(match: RuleMatch) -> DayRange | None:
    number = match.value("ordinal")
    start, end = make_date(number * 100 - 100, 1, 1), make_date(number * 100, 1, 1)
    return DayRange(start, end, relative=False) if start and end else None


def quarter(match: RuleMatch) -> DayRange | None:
    number = match.value("number")
    if number > 4:
        return None
    if match.has("year"):
        return whole_period(_period_of_year(match.year(), number * 3 - 2, QUARTER), QUARTER, relative=False)
    found = match.nearest(lambda year: _period_of_year(year, number * 3 - 2, QUARTER), "span")
    return found and replace(found, certain=False)


# Holidays: the date of each as a function of the year.

_HolidayDate = Callable[[int], date | None]


def _fixed(month: int, day: int) -> _HolidayDate:
    return lambda year: make_date(year, month, day)


def _nth(month: int, weekday: int, nth: int, days_later: int = 0) -> _HolidayDate:
    def holiday(year: int) -> date | None:
        bounds = _period_of_year(year, month, MONTH)
        day = bounds and nth_weekday(bounds, weekday, nth)
        return day and add_days(day, days_later)

    return holiday


def _from_easter(offset: int) -> _HolidayDate:
    return lambda year: add_days(easter(year), offset) if 1583 <= year <= 4099 else None


_FIXED = (line.split(" ", 2) for line in read_patterns("temporal/holidays.txt")["fixed"])
_HOLIDAYS: dict[str, _HolidayDate] = {
    **{pattern: _fixed(int(month), int(day)) for month, day, pattern in _FIXED},
    "thanksgiving day?": _nth(11, THURSDAY, 4),
    "black day=WFULL": _nth(11, THURSDAY, 4, days_later=1),
    "memorial day": _nth(5, MONDAY, 0),
    "labor day": _nth(9, MONDAY, 1),
    "mothers day": _nth(5, SUNDAY, 2),
    "fathers day": _nth(6, SUNDAY, 3),
    "easter (?!WFULL)": _from_easter(0),
    "good day=WFULL": _from_easter(-2),
}
"""Date by pattern; the `day` is a Friday."""
_QUALIFIED_NOUN = re.compile(
    r"\s+(?:songs?|music|carols?|movies?|films?|trees?|cookies?|eggs?|bunn(?:y|ies)|costumes?|cand(?:y|ies)"
    r"|sweaters?|jumpers?|decorations?|lights|recipes?|deals?|resolutions?)\b",
    re.IGNORECASE,
)
"""Nouns that a holiday's name qualifies: a Christmas song has no date."""
_BEFORE_HOLIDAY = frozenset(TAGS[word] for word in "on at over for since until before after by".split())
_MODIFIERS = tags_of("MOD")


def _holiday_rule(pattern: str, holiday: _HolidayDate) -> Rule:
    def resolve(match: RuleMatch) -> DayRange | PlainToken | None:
        if _QUALIFIED_NOUN.match(match.context.text, match.last_token.end) and match.previous_tag not in _MODIFIERS:
            return PlainToken("WORD")
        return _yearly_holiday(match, holiday) if match.value("day", FRIDAY) == FRIDAY else None

    return Rule(pattern, resolve)


def _yearly_holiday(match: RuleMatch, holiday: _HolidayDate) -> DayRange | None:
    found = match.nearest(lambda year: day_bounds(holiday(year)))
    # Without a preposition any year may be meant, as in "Thanksgiving is fun".
    return found and replace(found, unannotated=match.previous_tag not in _BEFORE_HOLIDAY)


def _easter_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Easter Monday", the day after Easter, and the days from Good Friday to Easter Sunday."""
    offset = 1 if match.value("day") == MONDAY else match.value("day") - SUNDAY
    return _yearly_holiday(match, _from_easter(offset)) if offset >= FRIDAY - SUNDAY else None


HOLIDAY_RULES = (
    *(_holiday_rule(pattern, holiday) for pattern, holiday in _HOLIDAYS.items()),
    Rule("easter day=WFULL", _easter_weekday),
)


# Seasons: three calendar months each; a winter belongs to the year in which it starts.

_JUST_ENDED, _HALF_A_YEAR = timedelta(days=30), timedelta(days=183)


def _season_bounds(match: RuleMatch, year: int) -> Bounds | None:
    month = match.value("season")
    start = make_date(year, (month + 5) % 12 + 1 if match.context.southern else month, 1)
    end = start and add_units(start, 3, MONTH)
    return (start, end) if start and end else None


def season(match: RuleMatch) -> DayRange | None:
    found = match.nearest(lambda year: _season_bounds(match, year), "span")
    return found and replace(found, certain=False)


def modified_season(match: RuleMatch) -> DayRange | None:
    """Resolve "last summer" and "this winter"; one just ended may be "last" or "this"."""
    today, step = match.today, match.value("modifier")
    years = range(today.year - 3, today.year + 3)
    for start, end in filter(None, (_season_bounds(match, year) for year in (reversed(years) if step < 0 else years))):
        if step < 0 and end <= today:
            return DayRange(start, end, certain=today - end >= _JUST_ENDED)
        if step > 0 and start > today:
            return DayRange(start, end, certain=start.year > today.year)
        if step == 0 and (start <= today < end or start.year == today.year):
            return DayRange(start, end, certain=start - today <= _HALF_A_YEAR and today - end <= _HALF_A_YEAR)
    return None


# Weekdays and numbered weeks: "last Friday", "this coming Tuesday", "on Monday", "week 12".

_IS_TODAY = re.compile(
    r"(?:^\W*(?:(?!(?:on|by|from|since|until|till|for|every)\b)\w{1,12} )?|\b(?:it['’]?s|it is|today|today is) )$",
    re.IGNORECASE,
)
_LATEST, _COMING, _NEXT = tags_of("last") | tags_of("past"), tags_of("coming"), tags_of("next")


def modified_weekday(match: RuleMatch) -> DayRange | None:
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
    is_this = match.tag("modifier") == TAGS["this"] and weekday > today.weekday()
    if match.tag("modifier") == TAGS["this"] and today.weekday() == SUNDAY:
        day = next_weekday(today, weekday)
    return single_day(day, certain=is_next or is_this)


def second_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "the Friday before last" and "the Monday after next"."""
    nearest = next_weekday if match.has("forward") else previous_weekday
    return single_day(add_units(nearest(match.today, match.value("weekday")), match.step(), WEEK))


def weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "on Friday", and today's own name at the beginning of a message: "Friday, raining."."""
    is_today = match.value("weekday") == match.today.weekday()
    if is_today and _IS_TODAY.search(match.context.text, max(0, match.offset - 20), match.offset):
        return DayRange(match.today, add_days(match.today, 1), kind="weekday", unannotated=True)
    nearest = previous_weekday if match.context.prefer == "past" else next_weekday
    return single_day(nearest(match.today, match.value("weekday")), kind="weekday")


def week_number(match: RuleMatch) -> DayRange | None:
    number = match.value("number")

    def yearly(year: int) -> Bounds | None:
        # ISO week 1 is the one with 4 January.
        fourth = make_date(year, 1, 4)
        return fourth and period_bounds(fourth, WEEK, number - 1)

    bounds = yearly(match.today.year) if 1 <= number <= 53 else None
    return bounds and DayRange(*bounds, kind="week", yearly=yearly, certain=False)
