"""The times of a fact on the calendar of a question, in words, and the time between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time as clock_time
from functools import lru_cache
from typing import Literal

from vmemo.models import Fact
from vmemo.models.records import COMPUTED_DATE
from vmemo.text.temporal import TimeExpression, find_statement_times, find_times
from vmemo.text.temporal.calendar_days import add_days
from vmemo.text.temporal.format import (
    DateSpan,
    calendar_difference,
    count_noun,
    describe_span,
    exact_lengths,
    format_date,
    format_weekday_date,
    length_ranges,
)

MAX_TIMES = 4
MAX_SCANNED = 4_000
"""Characters of a text that are scanned for times; a verbatim message may be a whole document."""
VERBATIM_ENGINES = ("local", "verbatim")
"""Engines whose facts repeat a message. Their event time is the first in the text, which may be of another event."""
_LATEST = add_days(date.max, -1)
"""Later days are replaced with this one, so that each day has a following day."""


@dataclass(frozen=True, slots=True)
class FactTime:
    """A time of a fact: on these days, since one of them, up to them, or merely mentioned then."""

    kind: Literal["on", "since", "up to", "mentioned"]
    period: DateSpan


def times_of(fact: Fact, asked_at: datetime) -> tuple[FactTime, ...]:
    """Return the times that a fact may have happened at, the surest first; without any, the day of its mention."""
    verbatim = fact.engine in VERBATIM_ENGINES
    text = fact.text.partition(": ")[2] if verbatim else fact.text
    named, event = _times_in(text[:MAX_SCANNED], fact.mentioned_at), event_time(fact)
    if event is not None:
        # A time in the text that overlaps the event's is the same time in other words.
        span = event.period
        others = (time for time in named if time.period.first > span.last or span.first > time.period.last)
        named = named if verbatim and event in named else (event, *others)
    found = _distinct(named)[:MAX_TIMES]
    return found or (FactTime("mentioned", mentioned_day(fact, asked_at)),)


def mentioned_day(fact: Fact, asked_at: datetime) -> DateSpan:
    """Return the day of a fact's mention on the calendar of a question."""
    return _day(local_date(fact.mentioned_at, asked_at))


def event_time(fact: Fact) -> FactTime | None:
    if fact.occurred_start is None and fact.occurred_end is None:
        return None
    return _from_interval(fact.occurred_start, fact.occurred_end)


def invalid_from(fact: Fact, asked_at: datetime) -> date | None:
    """Return the day from which a fact is no longer true: a UTC date, or an instant in the question's time zone."""
    if fact.invalid_at is None or _is_midnight(fact.invalid_at):
        return fact.invalid_at and fact.invalid_at.date()
    return local_date(fact.invalid_at, asked_at)


@lru_cache(maxsize=1024)
def _times_in(text: str, reference: datetime) -> tuple[FactTime, ...]:
    """Return the times in a text whose reading is certain. Cached: a fact is compared several times."""
    found = ((each, _resolve(each, reference)) for each in find_statement_times(text, reference))
    # A computed date stands for the words before it, unless these name the beginning or the end of a longer time.
    return tuple(
        time
        for each, time in found
        if (each.certain or not each.relative) and not (time.kind == "on" and text.startswith(COMPUTED_DATE, each.end))
    )


def _resolve(expression: TimeExpression, reference: datetime) -> FactTime:
    """Return the time of an expression; "since last summer" began within that summer."""
    resolved = _from_interval(expression.broad_interval.start, expression.broad_interval.end)
    if resolved.kind != "since":
        return resolved
    inner = find_times(expression.text.partition(" ")[2], reference, prefer="past")[:1]
    start = expression.broad_interval.start
    began = [each.broad_interval for each in inner if each.broad_interval.start == start and each.broad_interval.end]
    return FactTime("since", _from_interval(began[0].start, began[0].end).period) if began else resolved


def _distinct(times: Sequence[FactTime]) -> tuple[FactTime, ...]:
    """Drop repeated periods, and an "up to" whose last day is also given: "until Friday (= 12 May 2023)"."""
    ends = {time.period.last for time in times if time.kind == "on"}
    kept = {time.period: time for time in reversed(times) if time.kind != "up to" or time.period.last not in ends}
    return tuple(kept[period] for period in dict.fromkeys(time.period for time in times) if period in kept)


def _from_interval(start: datetime | None, end: datetime | None) -> FactTime:
    """Return the UTC days of a half-open interval with at least one end."""
    last = None
    if end is not None:
        day = end.astimezone(UTC).date()
        last = min(add_days(day, -1) if _is_midnight(end) else day, _LATEST)
    if start is None:
        return FactTime("up to", _day(last or _LATEST))
    first = min(start.astimezone(UTC).date(), _LATEST)
    return FactTime("since", _day(first)) if last is None else FactTime("on", DateSpan(first, max(first, last)))


def _is_midnight(instant: datetime) -> bool:
    return instant.astimezone(UTC).time() == clock_time.min


def _day(day: date) -> DateSpan:
    return DateSpan(day, day)


def describe_day(day: date, asked_at: datetime) -> str:
    """Return a day with its weekday and its distance from the question: "Monday, 8 January 2024, 46 days ago"."""
    return f"{format_weekday_date(day)}, {_distance(day, asked_at.date())}"


def local_date(instant: datetime, asked_at: datetime) -> date:
    """Return the day of an instant in the time zone of a question, unless it is too near to the calendar's end."""
    with suppress(OverflowError):
        instant = instant.astimezone(asked_at.tzinfo)
    return min(instant.date(), _LATEST)


def describe_event(fact: Fact, asked_at: datetime, *, closed: bool = True) -> str:
    """Return when the event of a fact happened and when the fact became invalid, as far as its day does not say it.

    A date that the text names is not repeated. Without `closed`, the end is left out.
    """
    mentioned, today, clauses = mentioned_day(fact, asked_at), asked_at.date(), list[str]()
    happened = None if fact.engine in VERBATIM_ENGINES else event_time(fact)
    words = "" if happened is None else _in_words(happened)
    named = words.removeprefix("within ").removeprefix("some time in ") in fact.text
    if happened is not None and happened.period != mentioned and not named:
        is_plan = happened.period.first > mentioned.last
        distance = f", {_distance(happened.period.first, today)}" if happened.period.is_day else ""
        clauses.append(f"{'planned for' if is_plan else 'happened'} {words}{distance}")
    if closed and (day := invalid_from(fact, asked_at)) is not None:
        clauses.append(f"{'no longer true since' if day <= today else 'true until'} {format_date(day)}")
    return "; ".join(clauses)


def describe_distance(one: FactTime, other: FactTime) -> str:
    """Return the two times in order, and the exact time between them, or its range if one is longer than a day."""
    earlier, later = sorted((one, other), key=lambda time: (time.period.first, time.period.last))
    ends = f"from {_in_words(earlier)} to {_in_words(later)}"
    first, second = earlier.period, later.period
    if second.first <= first.last and not (first.is_day and second.is_day):
        longest = count_noun(max((second.last - first.first).days, (first.last - second.first).days), "day")
        return f"{ends}: they overlap, {longest} apart at most"
    if first.is_day and second.is_day:
        return f"{ends}: {', or '.join(exact_lengths(first.first, second.first))}"
    lengths = length_ranges((first.last, second.first), (first.first, second.last))
    label = calendar_difference(first, second)
    return f"{ends}: {', or '.join(lengths)}" + (f"; {label}" if label else "")


def _in_words(time: FactTime) -> str:
    kind = "" if time.kind == "on" else f"{time.kind} "
    return kind + describe_span(time.period, weekday=False, moment=time.kind == "since")


def _distance(day: date, today: date) -> str:
    days = (today - day).days
    if not days:
        return "the day of the question"
    return f"{count_noun(days, 'day')} ago" if days > 0 else f"in {count_noun(-days, 'day')}"
