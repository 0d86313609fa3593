"""Rules for numbers, lengths, dates, periods, holidays, seasons and weekdays."""

from __future__ import annotations

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
from vmemo.text.temporal.grammar import TAGS, PlainToken, Resolver, Rule, RuleMatch, rules_of, tags_of

# First stage: merges numbers in words, and hides phrases that later rules would mistake for dates.


def _number(family: str) -> Resolver:
    return lambda match: PlainToken(family, match.value("tens") + match.value("ones"))


def _plain(family: str, value: int = 0) -> Resolver:
    return lambda _: PlainToken(family, value)


def _year_in_words(match: RuleMatch) -> PlainToken | None:
    year = match.value("century") * 100 + match.value("tens") + match.value("ones")
    return PlainToken("Y4", year) if 1500 <= year < 2100 else None


def _year_from_2000(match: RuleMatch) -> PlainToken | None:
    return PlainToken("Y4", 2000 + match.value("tens") + match.value("ones")) if match.value("thousands") == 2 else None


NUMBER_RULES = rules_of(
    "number",
    year_in_words=_year_in_words,
    year_from_2000=_year_from_2000,
    number=_number("NUMBER"),
    ordinal=_number("ORDINAL"),
    hundreds=lambda match: PlainToken("NUMBER", match.value("count") * 100),
    couple=_plain("NUMBER", 2),
    few=_plain("FEWER", 3),
    month=lambda match: PlainToken("MABBR", match.value("month")),
    no_date=_plain("WORD"),
)


# Second stage: merges lengths of time, such as "two weeks and three days", into one token each.

_VAGUE_COUNTS = dict.fromkeys(tags_of("FEWER"), (2, 5)) | dict.fromkeys(tags_of("several"), (3, 8))
"""Lowest and highest number that is meant."""


def _counted(match: RuleMatch) -> CalendarLength | None:
    """Merge "two weeks", "a day", "a few months"; "2018 quarter" is no count of quarters."""
    unit, tag, count = match.value("unit"), match.tag("count"), match.value("count")
    if tag == TAGS["Y4"] and not match.is_plural("unit"):
        return None
    if tag in _VAGUE_COUNTS:
        low, high = _VAGUE_COUNTS[tag]
        return CalendarLength(count, unit, exact=False, low=low, high=high)
    return CalendarLength(count, unit, exact="couple" not in match.source_text("count").lower())


def _and_a_half(match: RuleMatch) -> CalendarLength | None:
    half = half_of(match.value("unit"))
    return half and CalendarLength(match.value("count"), match.value("unit")).plus(half)


def _alternative_counts(match: RuleMatch) -> CalendarLength | None:
    """Merge "2 or 3 weeks" and "a day or two"."""
    low, high, unit = match.value("low"), match.value("count"), match.value("unit")
    return CalendarLength(high, unit, exact=False, low=low, high=high) if low < high else None


LENGTH_RULES = rules_of(
    "length",
    counted=_counted,
    and_a_half=_and_a_half,
    half=lambda match: half_of(match.value("unit")),
    alternative_counts=_alternative_counts,
)
LENGTH_SUM_RULES = rules_of("length sum", length_sum=lambda match: match.length("first").plus(match.length("last")))


# Dates with a day of the month, in numbers or words, with or without the year and month.

_STREET = re.compile(r"\s(?:St|Street|Road|Rd|Ave|Avenue|Lane|Drive|Court|Close|Way)\b")
_VERB_MONTHS = tags_of("MVERB")
_CARDINALS = tags_of("DAYNUM")
_FAR = timedelta(days=300)
"""People name the year of a date that is farther away."""


def _numeric(match: RuleMatch) -> DayRange | None:
    """Resolve "2023-05-07", "7.5.2023" and "5/12", which may be 12 May or 5 December."""
    first, second = match.value("first"), match.value("second")
    month, day = (second, first) if first > 12 else (first, second)
    if match.has("year"):
        return single_day(make_date(match.year(), month, day), relative=False)
    found = match.nearest(lambda year: day_bounds(make_date(year, month, day))) if (first, second) != (24, 7) else None
    return found and replace(found, certain=max(first, second) > 12)


def _written_day(match: RuleMatch) -> DayRange | None:
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
    for year in sorted(range(today.year - 6, today.year + 7), key=lambda year: abs(year - today.year)):
        placed = in_year(days, year, relative=True)
        if placed and placed.start and placed.start.weekday() == weekday:
            return replace(placed, certain=abs(placed.start - today) <= _FAR)
    return replace(days, certain=False)


def _day_of_this_month(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th of next month"."""
    month = add_units(match.today.replace(day=1), match.value("modifier"), MONTH)
    return month and single_day(make_date(month.year, month.month, match.value("ordinal")))


def _bare_ordinal(match: RuleMatch) -> DayRange | None:
    """Resolve "the 5th" without a preposition, which may be something else than a day."""
    found = _nearest_ordinal(match)
    return found and replace(found, certain=False)


def _nearest_ordinal(match: RuleMatch) -> DayRange | None:
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


DATE_RULES = rules_of(
    "date",
    numeric=_numeric,
    written_day=_written_day,
    days_of_month=_days_of_month,
    day_of_this_month=_day_of_this_month,
    nearest_ordinal=_nearest_ordinal,
    bare_ordinal=_bare_ordinal,
)


# Calendar periods by name: months, quarters, years and decades.

_COUNTED_NOUN_FOLLOWS = re.compile(
    r"\s+(?:dollars|euros|pounds|bucks|people|pieces|units|points|miles|km|words|steps|calories|times|students"
    r"|members|followers|votes|files|items|meters|metres|feet|lbs|kg|ml|mg|hp|rpm|sq)\b",
    re.IGNORECASE,
)
_NUMBERED_NOUN_PRECEDES = re.compile(
    r"\b(?:room|order|page|number|no|model|version|ext|code|pin|suite|apt|flight|route|gate)\.?\s$", re.IGNORECASE
)


def _month_of_year(match: RuleMatch) -> DayRange | None:
    return whole_period(_period_of_year(match.year(), match.value("month"), MONTH), MONTH, relative=False)


def _period_of_year(year: int | None, month: int, unit: int) -> Bounds | None:
    first = make_date(year, month, 1)
    return first and period_bounds(first, unit)


def _month(match: RuleMatch) -> DayRange | None:
    number = match.value("month")
    return match.nearest(lambda year: _period_of_year(year, number, MONTH), "span")


def _capitalised_month(match: RuleMatch) -> DayRange | None:
    """Resolve a capitalised month, as in "March last year"; "it may last years" has none."""
    return _month(match) if match.source_text("month")[0].isupper() else None


def _modified_month(match: RuleMatch) -> DayRange | None:
    """Resolve "last May", "this May" and "next May"."""
    number, today, step = match.value("month"), match.today, match.value("modifier")
    years = {-1: -(number >= today.month), 0: 0, 1: number <= today.month}
    # "Last May" in June, and "next May" in March, may be a year away.
    certain = step == 0 or (number <= today.month if step > 0 else (today.month - number) % 12 > 2)
    return whole_period(_period_of_year(today.year + years[step], number, MONTH), MONTH, certain=certain)


def _year(match: RuleMatch) -> DayRange | None:
    return _whole_year(match.year())


def _whole_year(year: int | None) -> DayRange | None:
    return whole_period(_period_of_year(year, 1, YEAR), YEAR, relative=False)


def _recent_year(match: RuleMatch) -> DayRange | None:
    """Resolve a year after a preposition that may also precede an amount."""
    return _year(match) if 1700 <= match.value("year") < 2100 else None


def _likely_year(match: RuleMatch) -> DayRange | None:
    """Resolve a number that only its value suggests to be a year."""
    token, text = match.token("year"), match.context.text
    if not 1900 <= token.value <= match.today.year + 20 or token.value % 100 == 0:
        return None
    is_amount = _COUNTED_NOUN_FOLLOWS.match(text, token.end)
    is_label = _NUMBERED_NOUN_PRECEDES.search(text, max(0, token.start - 10), token.start)
    return None if is_amount or is_label else _year(match)


def _year_range(match: RuleMatch) -> DayRange | None:
    """Resolve "2015-2018" and "2017-18"; other numbers after the dash are no year."""
    year, last = match.value("year"), match.value("last")
    if match.tag("last") != TAGS["Y4"]:
        last = year + 1 if last == (year + 1) % 100 else year
    first, end = _whole_year(year), _whole_year(last)
    return range_between(first, end) if first and end else None


def _decade(match: RuleMatch) -> DayRange | None:
    value = match.value("decade")
    if value < 100:
        value += 2000 if value <= match.today.year % 100 and value < 20 else 1900
    return whole_period(_period_of_year(value, 1, DECADE), DECADE, relative=False)


def _century(match: RuleMatch) -> DayRange | None:
    number = match.value("ordinal")
    start, end = make_date(number * 100 - 100, 1, 1), make_date(number * 100, 1, 1)
    return DayRange(start, end, relative=False) if start and end else None


def _quarter(match: RuleMatch) -> DayRange | None:
    number = match.value("number")
    if number > 4:
        return None
    if match.has("year"):
        return whole_period(_period_of_year(match.year(), number * 3 - 2, QUARTER), QUARTER, relative=False)
    found = match.nearest(lambda year: _period_of_year(year, number * 3 - 2, QUARTER), "span")
    return found and replace(found, certain=False)


_CLEAR_MONTHS = frozenset("feb apr aug sept oct nov".split())
_CLEAR_DAYS = frozenset("tue tues thu thur thurs fri".split())
"""Abbreviations that are nothing else."""

PERIOD_RULES = rules_of(
    "period",
    month_of_year=_month_of_year,
    modified_month=_modified_month,
    month=_month,
    capitalised_month=_capitalised_month,
    clear_month=lambda match: _month(match) if match.source_text("month").lower() in _CLEAR_MONTHS else None,
    year=_year,
    century=_century,
    recent_year=_recent_year,
    year_range=_year_range,
    likely_year=_likely_year,
    decade=_decade,
    long_decade=lambda match: _decade(match) if match.value("decade") >= 1000 else None,
    quarter=_quarter,
)


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
    "international? workers day": _fixed(5, 1),
    "canada day": _fixed(7, 1),
    "independence day": _fixed(7, 4),
    "thanksgiving day?": _nth(11, THURSDAY, 4),
    "black day=WFULL": _nth(11, THURSDAY, 4, days_later=1),
    "labor day": _nth(9, MONDAY, 1),
    "memorial day": _nth(5, MONDAY, 0),
    "mothers day": _nth(5, SUNDAY, 2),
    "fathers day": _nth(6, SUNDAY, 3),
    "easter (?!WFULL)": _from_easter(0),
    "good day=WFULL": _from_easter(-2),
    "pentecost": _from_easter(49),
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


def _season(match: RuleMatch) -> DayRange | None:
    found = match.nearest(lambda year: _season_bounds(match, year), "span")
    return found and replace(found, certain=False)


def _modified_season(match: RuleMatch) -> DayRange | None:
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


SEASON_RULES = rules_of("season", season=_season, modified_season=_modified_season)


# Weekdays and numbered weeks: "last Friday", "this coming Tuesday", "on Monday", "week 12".

_LATEST, _COMING, _NEXT = tags_of("last") | tags_of("past"), tags_of("coming"), tags_of("next")


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
    is_this = match.tag("modifier") == TAGS["this"] and weekday > today.weekday()
    return single_day(day, certain=is_next or is_this)


def _second_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "the Friday before last" and "the Monday after next"."""
    nearest = next_weekday if match.has("forward") else previous_weekday
    return single_day(add_units(nearest(match.today, match.value("weekday")), match.step(), WEEK))


def _weekday(match: RuleMatch) -> DayRange | None:
    nearest = previous_weekday if match.context.prefer == "past" else weekday_on_or_after
    return single_day(nearest(match.today, match.value("weekday")), kind="weekday")


def _week_number(match: RuleMatch) -> DayRange | None:
    number = match.value("number")

    def yearly(year: int) -> Bounds | None:
        # ISO week 1 is the one with 4 January.
        fourth = make_date(year, 1, 4)
        return fourth and period_bounds(fourth, WEEK, number - 1)

    bounds = yearly(match.today.year) if 1 <= number <= 53 else None
    return bounds and DayRange(*bounds, kind="week", yearly=yearly, certain=False)


WEEKDAY_RULES = rules_of(
    "weekday",
    modified_weekday=_modified_weekday,
    weekday=_weekday,
    clear_weekday=lambda match: _weekday(match) if match.source_text("weekday").lower() in _CLEAR_DAYS else None,
    second_weekday=_second_weekday,
    week_number=_week_number,
)
