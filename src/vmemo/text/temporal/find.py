"""find(): the time expressions of a text, resolved against a reference."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo

from vmemo.errors import InvalidInput
from vmemo.models import Interval
from vmemo.text.temporal.day_range import Prefer, Stretch
from vmemo.text.temporal.parser import stretches
from vmemo.text.temporal.questions import by_tense
from vmemo.text.temporal.tokenizer import Token


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """A piece of text that names a time: where it stands, and the half-open interval it means."""

    start: int
    end: int
    text: str
    interval: Interval
    relative: bool
    broad_interval: Interval
    """As people mean it: the last day named is inside, and "two years ago" is that whole year. For searching."""


def find_times(
    text: str, reference: datetime, *, prefer: Prefer | None = None, day_first: bool = False
) -> list[TimeExpression]:
    """The time expressions in order, without overlap; day borders are those of the reference's time zone.

    A bare weekday, month or day is the one that `prefer` says; without it the past one, unless the sentence
    looks ahead ("What will I do on Friday?").
    """
    _zone(reference)
    found = stretches(text, reference, prefer=prefer or "past", day_first=day_first)
    if prefer is None:
        found = by_tense(text, reference, found, day_first=day_first)
    return [expression(text, token, stretch, reference) for token, stretch in found]


def _zone(reference: datetime) -> tzinfo:
    if reference.tzinfo is None:
        raise InvalidInput("reference needs a time zone (use datetime(..., tzinfo=UTC)); naive datetimes are refused")
    return reference.tzinfo


def expression(text: str, token: Token, stretch: Stretch, reference: datetime) -> TimeExpression:
    """What was found as it is handed out, in the reference's time zone."""
    zone = _zone(reference)
    interval = _interval(stretch.start, stretch.end, zone)
    meant = stretch.meant or stretch.shown
    broad_interval = _interval(*meant, zone) if meant else interval
    return TimeExpression(
        token.start, token.end, text[token.start : token.end], interval, stretch.relative, broad_interval
    )


def _interval(start: date | None, end: date | None, zone: tzinfo) -> Interval:
    return Interval(start=_midnight(start, zone), end=_midnight(end, zone))


def _midnight(day: date | None, zone: tzinfo) -> datetime | None:
    return day and datetime.combine(day, time.min, zone)
