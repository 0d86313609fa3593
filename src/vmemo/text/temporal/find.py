"""Time expressions of questions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time as time_of_day, tzinfo
from functools import partial

from vmemo.errors import InvalidInput
from vmemo.models import Interval
from vmemo.text.temporal.clauses import sentence_bounds
from vmemo.text.temporal.day_range import Preference
from vmemo.text.temporal.parser import ResolvedTime, parse
from vmemo.text.temporal.tense_cues import PARTICIPLE

_FUTURE = re.compile(
    r"\b(?:will|shall|gonna|won't|upcoming|planning|scheduled|let's|can't wait|coming up|supposed to"
    r"|(?:going|plans?|hop(?:e|ing)|wants?|need) to|plans? for|looking forward)\b|['’]ll\b"
    r"|\b(?:should|must|might)\b(?! (?:have|of) (?:\w+ly )?(?:" + PARTICIPLE + r")\b)"
    r"|['’]m (?:leaving|flying|starting)\b",
    re.IGNORECASE,
)
_PRESENT_PROGRESSIVE = re.compile(
    r"(?:\b(?:is|are|am)|['’](?:s|re|m)) (?:(?!(?:the|an?|my|our|your|his|her|their|this|that|there)\b)\w+ ){0,2}"
    r"(?!\w*thing\b|(?:wedding|evening|morning|during|spring|thanksgiving)\b)"
    r"\w+ing\b",
    re.IGNORECASE,
)
"""With a date it means a plan: "are we meeting on Sunday". Nouns in -ing and those with a determiner are excluded."""
_PLANS = re.compile(r"\b(?:planned|booked|calendar|agenda|diary)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """A part of a text that names a time, and the half-open interval that it means."""

    start: int
    end: int
    text: str
    interval: Interval
    relative: bool
    """Depends on the reference date."""
    broad_interval: Interval
    """The interval in its widest sense: the last day named is included, and "two years ago" is that whole year."""
    certain: bool = True
    """The days are beyond doubt, so that they may be written; a search may use likely ones too."""


def find_times(
    text: str,
    reference: datetime,
    *,
    prefer: Preference | None = None,
    day_first: bool = False,
    southern: bool = False,
) -> list[TimeExpression]:
    """Return the time expressions in order and without overlap. Days are those of the reference's time zone.

    `prefer` decides between the past and the future for a bare weekday, month or day. Without it they are past,
    unless the sentence asks about the future ("What will I do on Friday?"). With `southern`, summer is in December.
    """
    _require_time_zone(reference)
    read = partial(parse, text, reference, day_first=day_first, southern=southern)
    found = read(prefer=prefer or "past")
    if prefer is None:
        found = _prefer_by_tense(text, reference, found, lambda: read(prefer="future"))
    return [time_expression(text, each, reference) for each in found]


def time_expression(text: str, resolved: ResolvedTime, reference: datetime) -> TimeExpression:
    """Return the expression as an interval in the reference's time zone."""
    zone = _require_time_zone(reference)
    start, end, days = resolved
    interval = _interval(days.start, days.end, zone)
    broad = days.searched or days.displayed
    broad_interval = _interval(*broad, zone) if broad else interval
    return TimeExpression(start, end, text[start:end], interval, days.relative, broad_interval, days.certain)


def _prefer_by_tense(
    text: str, reference: datetime, past: list[ResolvedTime], read_future: Callable[[], list[ResolvedTime]]
) -> list[ResolvedTime]:
    """Return the future reading of those expressions whose sentence is about the future."""
    today = reference.date()
    starts = {time.start for time in past if _may_be_future(time, today) and _is_about_future(text, time)}
    if not starts:
        return past
    other = {(time.start, time.end): time for time in read_future() if time.start in starts}
    return [other.get((time.start, time.end), time) for time in past]


def _may_be_future(time: ResolvedTime, today: date) -> bool:
    """Return False if the past reading reaches into the future already, as "August to October" does in September."""
    end = time.days.end
    return time.days.relative and not (end is not None and end > today)


def _is_about_future(text: str, time: ResolvedTime) -> bool:
    begin, end = sentence_bounds(text, time.start, time.end)
    if _PAST.search(text, begin, end):
        return False
    if _FUTURE.search(text, begin, time.start) or _PLANS.search(text, begin, time.start):
        return True
    # "How is it going since March" is about the past: its range has no end.
    return time.days.end is not None and _PRESENT_PROGRESSIVE.search(text, begin, end) is not None


def _require_time_zone(reference: datetime) -> tzinfo:
    if reference.tzinfo is None:
        raise InvalidInput(
            f"reference {reference.isoformat()} has no time zone; pass an aware datetime, such as "
            "datetime(..., tzinfo=UTC)"
        )
    return reference.tzinfo


def _interval(start: date | None, end: date | None, zone: tzinfo) -> Interval:
    return Interval(start=_midnight(start, zone), end=_midnight(end, zone))


def _midnight(day: date | None, zone: tzinfo) -> datetime | None:
    return day and datetime.combine(day, time_of_day.min, zone)
