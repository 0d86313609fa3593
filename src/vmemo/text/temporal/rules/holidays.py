"""Holidays that a sentence may name, as functions from a year to a day."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta

from dateutil.easter import easter

from vmemo.text.temporal.day_range import make_day, nth_weekday

Holiday = Callable[[int], date | None]
MONDAY, THURSDAY, SUNDAY = 0, 3, 6

# 2000 to 2030; outside these years the name alone resolves to nothing.
_LUNAR_NEW_YEARS = (
    "0205 0124 0212 0201 0122 0209 0129 0218 0207 0126 0214 0203 0123 0210 0131 0219 0208 0128 0216 0205 "
    "0125 0212 0201 0122 0210 0129 0217 0206 0126 0213 0203"
).split()


def _on(month: int, day: int) -> Holiday:
    return lambda year: make_day(year, month, day)


def _nth(month: int, weekday: int, nth: int, later: int = 0) -> Holiday:
    def holiday(year: int) -> date | None:
        day = nth_weekday(year, month, weekday, nth)
        return day and day + timedelta(days=later)

    return holiday


def _from_easter(offset: int) -> Holiday:
    return lambda year: easter(year) + timedelta(days=offset) if 1583 <= year <= 4099 else None


def _hijri(month: int, day: int) -> Holiday:
    """By the tabular Islamic calendar; sightings may differ by a day."""

    def holiday(year: int) -> date | None:
        if not 700 <= year <= 4099:
            return None
        first = math.floor((year - 622) * 33 / 32)
        ordinals = (
            day + math.ceil(29.5 * (month - 1)) + (hijri - 1) * 354 + (3 + 11 * hijri) // 30 + 227013
            for hijri in range(first, first + 3)
        )
        days = (date.fromordinal(ordinal) for ordinal in ordinals)
        return next((found for found in days if found.year == year), None)

    return holiday


def _lunar_new_year(year: int) -> date | None:
    if not 2000 <= year < 2000 + len(_LUNAR_NEW_YEARS):
        return None
    written = _LUNAR_NEW_YEARS[year - 2000]
    return make_day(year, int(written[:2]), int(written[2:]))


HOLIDAYS: dict[str, Holiday] = {
    "christmas day?": _on(12, 25),
    "christmas eve": _on(12, 24),
    "boxing day": _on(12, 26),
    "new year eve": _on(12, 31),
    "new year day?": _on(1, 1),
    "halloween": _on(10, 31),
    "valentine day?": _on(2, 14),
    "saint STOP? patrick day?": _on(3, 17),
    "groundhog day": _on(2, 2),
    "MNAME fools day?": _on(4, 1),
    "earth day": _on(4, 22),
    "cinco de mayo": _on(5, 5),
    "(international workers|workers|MVERB) day": _on(5, 1),
    "international? women day": _on(3, 8),
    "juneteenth": _on(6, 19),
    "flag day": _on(6, 14),
    "canada day": _on(7, 1),
    "independence day": _on(7, 4),
    "bastille day": _on(7, 14),
    "veterans day": _on(11, 11),
    "singles day": _on(11, 11),
    "(guy fawkes|bonfire) (day|night)": _on(11, 5),
    "inauguration day": _on(1, 20),
    "australia day": _on(1, 26),
    "anzac day": _on(4, 25),
    "thanksgiving day?": _nth(11, THURSDAY, 4),
    "black WFULL": _nth(11, THURSDAY, 4, later=1),
    "cyber WFULL": _nth(11, THURSDAY, 4, later=4),
    "labor day": _nth(9, MONDAY, 1),
    "memorial day": _nth(5, MONDAY, -1),
    "(martin luther king|mlk) jr? day": _nth(1, MONDAY, 3),
    "presidents day": _nth(2, MONDAY, 3),
    "columbus day": _nth(10, MONDAY, 2),
    "mothers day": _nth(5, SUNDAY, 2),
    "fathers day": _nth(6, SUNDAY, 3),
    "easter (?!WFULL)": _from_easter(0),
    "easter WFULL": _from_easter(0),
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
"""Grammar pattern to holiday."""

WEEKDAY_OF = {"black": 4, "cyber": 0, "good": 4, "palm": 6, "ash": 2}
"""The weekday that must follow a holiday's first word."""
