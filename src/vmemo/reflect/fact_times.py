"""The days that a fact refers to, on the calendar of a question.

Instants (when a fact was mentioned, when it became invalid) fall on a day in the question's time zone. Event times were
cut into whole UTC days by retain and are used as they are: those are the dates in the fact's own text. A bare "today",
which is kept without a date, is the day of the mention. Only times that are certain are used: the answer copies them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Literal, NamedTuple

from vmemo.models import Fact
from vmemo.models.records import COMPUTED_DATE
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal import TimeExpression, find_statement_times, find_times
from vmemo.text.temporal.calendar_days import add_days, make_date
from vmemo.text.temporal.format import DateSpan, month_span, year_span

MAX_REFERRED = 4
"""Times of a text that are used."""
MAX_SCANNED = 4_000
"""Characters of a text that are scanned for times; a verbatim message may be a whole document."""
VERBATIM_ENGINES = ("local", "verbatim")
"""Engines whose facts repeat what was said. Their event time is the first time in the text, which may be another's."""
_MONTH_AND_DAY = LazyPattern(
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.? \d{1,2}(?:st|nd|rd|th)?\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)",
    re.IGNORECASE,
)
"""A date without a year, which the time of the message completes."""
_LATEST = add_days(date.max, -1)
"""Later days are replaced with this one, so that each day has a following day."""


@dataclass(frozen=True, slots=True)
class FactTime:
    """A time of a fact: on these days, since one of them, up to them, or merely mentioned then."""

    kind: Literal["on", "since", "up to", "mentioned"]
    period: DateSpan


@dataclass(frozen=True, slots=True)
class FactTimes:
    """The day of a fact's mention, the extracted time of its event, and other times in its text."""

    mentioned: DateSpan
    happened: FactTime | None
    referred: tuple[FactTime, ...]

    @property
    def main(self) -> FactTime | None:
        """The time of the event, or the first time in the text that has a start."""
        on, since = (next((time for time in self.referred if time.kind == kind), None) for kind in ("on", "since"))
        return self.happened or on or since

    @property
    def events(self) -> tuple[FactTime, ...]:
        """All times that the fact may have happened at; without any, that of its mention."""
        named = tuple(time for time in (self.happened, *self.referred) if time is not None)
        return tuple(dict.fromkeys(named)) or (self.position,)

    @property
    def position(self) -> FactTime:
        """The time that orders the fact among others; without any, that of its mention."""
        return self.main or FactTime("mentioned", self.mentioned)


class _TextTime(NamedTuple):
    """A time that a text mentions, as search reads it (`likely`) and as an answer may state it."""

    relative: bool
    certain: bool
    likely: FactTime
    time: FactTime


def times_of(fact: Fact, asked_at: datetime) -> FactTimes:
    """Return the times of a fact on the calendar of a question."""
    mentioned = FactTime("on", _day(_local_date(fact.mentioned_at, asked_at)))
    verbatim = fact.engine in VERBATIM_ENGINES
    text = fact.text.partition(": ")[2] if verbatim else fact.text
    own_words = not (verbatim and fact.network == "experience")
    likely = _times_in(text[:MAX_SCANNED], fact.mentioned_at)
    found = [(each.relative, each.time) for each in likely if not each.relative or (each.certain and own_words)]
    happened = _event_time(fact)
    if verbatim:
        # The event time is one that retain read in the text, in the year that it took to be likely.
        happened = next((each.time for each in likely if each.likely == happened), happened)
        if happened in [each.time for each in likely] and happened not in [time for _, time in found]:
            happened = None
    today = FactTime("on", _day(fact.mentioned_at.astimezone(UTC).date()))
    if (True, today) in found:
        found = [(relative, mentioned if time == today else time) for relative, time in found]
        happened = mentioned if happened == today else happened
    times = [time for _, time in found]
    referred = _distinct([happened, *times] if verbatim and happened else times)
    if verbatim or happened is None:
        return FactTimes(mentioned.period, None, referred[:MAX_REFERRED])
    # A time in the text that overlaps the event's is the same time in other words.
    others = tuple(
        time for time in referred if time.period != mentioned.period and not _overlap(time.period, happened.period)
    )
    return FactTimes(mentioned.period, happened, others[:MAX_REFERRED])


def _overlap(one: DateSpan, other: DateSpan) -> bool:
    return one.first <= other.last and other.first <= one.last


def _distinct(times: Sequence[FactTime]) -> tuple[FactTime, ...]:
    """Drop repeated periods, and an "up to" whose last day is also given: "until Friday (= 12 May 2023)"."""
    ends = {time.period.last for time in times if time.kind == "on"}
    kept = {time.period: time for time in reversed(times) if time.kind != "up to" or time.period.last not in ends}
    return tuple(kept[period] for period in dict.fromkeys(time.period for time in times) if period in kept)


def valid_since(fact: Fact) -> DateSpan | None:
    """Return when a state began, if the text gives it; a first of the month may stand for its month or year.

    A state without such a time is valid from its mention or its event, and has no period here.
    """
    since = fact.valid_at
    if since is None or not _is_midnight(since) or since in (fact.occurred_start, fact.mentioned_at):
        return None
    if since.day != 1:
        return _day(since.date())
    return year_span(since.year) if since.month == 1 else month_span(since.date())


def invalid_from(fact: Fact, asked_at: datetime) -> date | None:
    """Return the day from which a fact is no longer true: a UTC date, or an instant in the question's time zone."""
    if fact.invalid_at is None or _is_midnight(fact.invalid_at):
        return fact.invalid_at and fact.invalid_at.date()
    return _local_date(fact.invalid_at, asked_at)


def _event_time(fact: Fact) -> FactTime | None:
    if fact.occurred_start is None and fact.occurred_end is None:
        return None
    return _from_interval(fact.occurred_start, fact.occurred_end)


@lru_cache(maxsize=1024)
def _times_in(text: str, reference: datetime) -> Sequence[_TextTime]:
    """Return the times in a text. Cached: a fact is shown several times."""
    found: list[_TextTime] = []
    for each in find_statement_times(text, reference):
        likely = _resolve(each, reference)
        # A computed date stands for the words before it, unless these name the beginning or the end of a longer time.
        if likely.kind == "on" and text.startswith(COMPUTED_DATE, each.end):
            continue
        without_year = each.relative and bool(_MONTH_AND_DAY.search(each.text))
        # A term ahead of its mention is not that of a past year.
        ahead = likely.kind == "up to" and likely.period.last > reference.date()
        unsure = without_year and not each.certain and not ahead
        time = _nearest_year(likely, reference.date()) if unsure else likely
        found.append(_TextTime(each.relative and not without_year, each.certain, likely, time))
    return tuple(found)


def _nearest_year(time: FactTime, mentioned: date) -> FactTime:
    """Return the time in the year in which it is closest to its mention."""
    length = (time.period.last - time.period.first).days
    starts = [make_date(mentioned.year + n, time.period.first.month, time.period.first.day) for n in (-1, 0, 1)]
    closest = min((start for start in starts if start), key=lambda start: abs((start - mentioned).days), default=None)
    return time if closest is None else FactTime(time.kind, DateSpan(closest, add_days(closest, length)))


def _resolve(expression: TimeExpression, reference: datetime) -> FactTime:
    """Return the time of an expression; "since last summer" began within that summer."""
    resolved = _from_interval(expression.broad_interval.start, expression.broad_interval.end)
    if resolved.kind != "since":
        return resolved
    inner = find_times(expression.text.partition(" ")[2], reference, prefer="past")[:1]
    start = expression.broad_interval.start
    began = [each.broad_interval for each in inner if each.broad_interval.start == start and each.broad_interval.end]
    return FactTime("since", _from_interval(began[0].start, began[0].end).period) if began else resolved


def _from_interval(start: datetime | None, end: datetime | None) -> FactTime:
    """Return the UTC days of a half-open interval with at least one end."""
    last = _last_day(end) if end is not None else None
    if start is None:
        return FactTime("up to", _day(last or _LATEST))
    first = min(start.astimezone(UTC).date(), _LATEST)
    return FactTime("since", _day(first)) if last is None else FactTime("on", DateSpan(first, max(first, last)))


def _last_day(end: datetime) -> date:
    utc = end.astimezone(UTC)
    return min(add_days(utc.date(), -1) if _is_midnight(utc) else utc.date(), _LATEST)


def _local_date(instant: datetime, asked_at: datetime) -> date:
    return min(local_time(instant, asked_at).date(), _LATEST)


def local_time(instant: datetime, asked_at: datetime) -> datetime:
    """Return an instant in the time zone of a question, unless it is too near to the end of the calendar."""
    try:
        return instant.astimezone(asked_at.tzinfo)
    except OverflowError:
        return instant


def _is_midnight(instant: datetime) -> bool:
    return instant.astimezone(UTC).time() == time.min


def _day(day: date) -> DateSpan:
    return DateSpan(day, day)
