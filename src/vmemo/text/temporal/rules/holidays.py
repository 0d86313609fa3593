"""Holidays: the date of each as a function of the year, and their rules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from dateutil.easter import easter

from vmemo.text.temporal.calendar_units import (
    FRIDAY,
    MONDAY,
    SUNDAY,
    THURSDAY,
    WEDNESDAY,
    add_days,
    day_bounds,
    make_date,
    nth_weekday,
)
from vmemo.text.temporal.day_range import DayRange
from vmemo.text.temporal.grammar import PlainToken, Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of
from vmemo.text.temporal.vocabulary import TAGS

HolidayDate = Callable[[int], date | None]

# Month and day in the years 2000 to 2030; in other years the name is not resolved.
_LUNAR_NEW_YEARS = (
    "0205 0124 0212 0201 0122 0209 0129 0218 0207 0126 0214 0203 0123 0210 0131 0219 0208 0128 0216 0205 "
    "0125 0212 0201 0122 0210 0129 0217 0206 0126 0213 0203"
).split()


def _fixed(month: int, day: int) -> HolidayDate:
    return lambda year: make_date(year, month, day)


def _nth_weekday(month: int, weekday: int, nth: int, days_later: int = 0) -> HolidayDate:
    def holiday(year: int) -> date | None:
        day = nth_weekday(year, month, weekday, nth)
        return day and add_days(day, days_later)

    return holiday


def _from_easter(offset: int) -> HolidayDate:
    return lambda year: add_days(easter(year), offset) if 1583 <= year <= 4099 else None


def _hijri(month: int, day: int) -> HolidayDate:
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


def _lunar_new_year(year: int) -> date | None:
    if not 2000 <= year < 2000 + len(_LUNAR_NEW_YEARS):
        return None
    written = _LUNAR_NEW_YEARS[year - 2000]
    return make_date(year, int(written[:2]), int(written[2:]))


_HOLIDAYS: dict[str, HolidayDate] = {
    "christmas day?": _fixed(12, 25),
    "christmas eve": _fixed(12, 24),
    "boxing day": _fixed(12, 26),
    "new year eve": _fixed(12, 31),
    "new year day?": _fixed(1, 1),
    "halloween": _fixed(10, 31),
    "valentine day?": _fixed(2, 14),
    "saint STOP? patrick day?": _fixed(3, 17),
    "groundhog day": _fixed(2, 2),
    "MNAME fools day?": _fixed(4, 1),
    "earth day": _fixed(4, 22),
    "cinco de mayo": _fixed(5, 5),
    "(international workers|workers|MVERB) day": _fixed(5, 1),
    "international? women day": _fixed(3, 8),
    "juneteenth": _fixed(6, 19),
    "flag day": _fixed(6, 14),
    "canada day": _fixed(7, 1),
    "independence day": _fixed(7, 4),
    "bastille day": _fixed(7, 14),
    "veterans day": _fixed(11, 11),
    "singles day": _fixed(11, 11),
    "(guy fawkes|bonfire) (day|night)": _fixed(11, 5),
    "inauguration day": _fixed(1, 20),
    "australia day": _fixed(1, 26),
    "anzac day": _fixed(4, 25),
    "thanksgiving day?": _nth_weekday(11, THURSDAY, 4),
    "black WFULL": _nth_weekday(11, THURSDAY, 4, days_later=1),
    "cyber WFULL": _nth_weekday(11, THURSDAY, 4, days_later=4),
    "labor day": _nth_weekday(9, MONDAY, 1),
    "memorial day": _nth_weekday(5, MONDAY, -1),
    "(martin luther king|mlk) jr? day": _nth_weekday(1, MONDAY, 3),
    "presidents day": _nth_weekday(2, MONDAY, 3),
    "columbus day": _nth_weekday(10, MONDAY, 2),
    "mothers day": _nth_weekday(5, SUNDAY, 2),
    "fathers day": _nth_weekday(6, SUNDAY, 3),
    "easter (?!WFULL)": _from_easter(0),
    "good WFULL": _from_easter(-2),
    "palm WFULL": _from_easter(-7),
    "ash WFULL": _from_easter(-46),
    "pentecost": _from_easter(49),
    "eid al DASH? fitr": _hijri(10, 1),
    "eid DASH? (al|ul) DASH? fitr": _hijri(10, 1),
    "eid DASH? (al|ul) DASH? adha": _hijri(12, 10),
    "ramadan": _hijri(9, 1),
    "islamic new year": _hijri(1, 1),
    "(chinese|lunar) new year": _lunar_new_year,
}
"""Date by pattern."""

_WEEKDAY_AFTER = {"black": FRIDAY, "cyber": MONDAY, "good": FRIDAY, "palm": SUNDAY, "ash": WEDNESDAY}
"""The weekday that must follow the first word of a holiday."""
_QUALIFIED_NOUN = re.compile(
    r"\s+(?:songs?|music|carols?|movies?|films?|trees?|cookies?|eggs?|bunn(?:y|ies)|costumes?|cand(?:y|ies)"
    r"|sweaters?|jumpers?|decorations?|lights|recipes?|deals?|resolutions?)\b",
    re.IGNORECASE,
)
"""Nouns that a holiday's name qualifies: a Christmas song has no date."""
_PREPOSITIONS = frozenset(TAGS[word] for word in ("on", "at", "over", "for", "since", "until", "before", "after", "by"))
_MODIFIERS = tags_of("MOD")


def _holiday_rule(pattern: str, holiday: HolidayDate) -> Rule:
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
    return replace(days, unannotated=match.previous_tag not in _PREPOSITIONS)


def _easter_weekday(match: RuleMatch) -> DayRange | None:
    """Resolve "Easter Monday", the day after Easter, and the days from Good Friday to Easter Sunday."""
    weekday = match.last_token.value
    offset = 1 if weekday == MONDAY else weekday - SUNDAY
    if offset < FRIDAY - SUNDAY:
        return None
    found = match.nearest(lambda year: day_bounds(_from_easter(offset)(year)))
    return found and _named(match, found)


RULES = (
    *(_holiday_rule(pattern, holiday) for pattern, holiday in _HOLIDAYS.items()),
    Rule("easter WFULL", _easter_weekday),
)
