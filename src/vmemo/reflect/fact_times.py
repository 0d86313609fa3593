"""Which days a fact tells of, and on which calendar they are counted.

Two calendars meet here. What is an instant (when something was told, when it stopped being true) falls on a day of the
question's own time zone. When something happened was cut into whole days of UTC by retain, whatever the zone of the
question, and is taken as it was cut: those are the dates that the fact's own text gives. "Today" alone, which is
written without a date, means the day on which it was told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Literal

from vmemo.models import Fact
from vmemo.text.temporal import TimeExpression, annotate, find_times
from vmemo.text.temporal.calendar_units import ONE_DAY
from vmemo.text.temporal.durations import DateSpan, month_span, year_span

MOST_NAMED = 4
"""Times of a text that are reckoned; a long text may be full of them."""
MOST_READ = 4_000
"""Characters of a text in which times are looked for; a message that nobody read may be a whole document."""
_OWN_WORDS = ("local", "verbatim")
"""Engines whose facts are what was said: the first time in it is kept as when it happened, which it may not be."""
_LATEST = date.max - ONE_DAY
"""Later days are taken for this one, so that each day has a next."""
Kind = Literal["on", "since", "up to", "told"]


@dataclass(frozen=True, slots=True)
class Time:
    """A time of a fact: on these days, from one of them on, up to them, or, for want of these, told then."""

    kind: Kind
    period: DateSpan


@dataclass(frozen=True, slots=True)
class Times:
    """When a fact was told, when it happened as far as a model read that, and what its words name besides."""

    told: DateSpan
    happened: Time | None
    named: tuple[Time, ...]

    @property
    def main(self) -> Time | None:
        """What it is about: when it happened, or the first time that it names and that has a beginning."""
        return self.happened or next((when for when in self.named if when.kind == "on"), None) or self._since

    @property
    def place(self) -> Time:
        """Where it stands in time, which may be no more than when it was told."""
        return self.main or Time("told", self.told)

    @property
    def _since(self) -> Time | None:
        return next((when for when in self.named if when.kind == "since"), None)


def times_of(fact: Fact, asked: datetime) -> Times:
    """The times of a fact on the calendar of a question."""
    told = Time("on", _day(_local(fact.mentioned_at, asked)))
    own = fact.engine in _OWN_WORDS
    words = fact.text.partition(": ")[2] if own else fact.text
    found = _found(words[:MOST_READ], fact.mentioned_at)
    known = _known(fact)
    today = Time("on", _day(fact.mentioned_at.astimezone(UTC).date()))
    if (True, today) in found:
        found = [(relative, told if when == today else when) for relative, when in found]
        known = told if known == today else known
    read = [when for _, when in found]
    named = _each_once([known, *read] if own and known else read)
    if own or known is None:
        return Times(told.period, None, named[:MOST_NAMED])
    # A time of the text that overlaps with when it happened is the same time in other words.
    others = tuple(when for when in named if when.period != told.period and not _overlap(when.period, known.period))
    return Times(told.period, known, others[:MOST_NAMED])


def _overlap(one: DateSpan, other: DateSpan) -> bool:
    return one.first <= other.last and other.first <= one.last


def _each_once(times: Sequence[Time]) -> tuple[Time, ...]:
    """A date that stands in parentheses behind "until Friday" or "since Friday" is the same time again."""
    ends = {when.period.last for when in times if when.kind == "on"}
    once = {when.period: when for when in reversed(times) if when.kind != "up to" or when.period.last not in ends}
    return tuple(once[period] for period in dict.fromkeys(when.period for when in times) if period in once)


def true_since(fact: Fact) -> DateSpan | None:
    """From when a state is true, where that was read from what was said; a first day may stand for its month or year.

    A state that nothing was read about is true from the instant it was told, or from when it happened.
    """
    since = fact.valid_at
    if since is None or not _is_midnight(since) or since in (fact.occurred_start, fact.mentioned_at):
        return None
    if since.day != 1:
        return _day(since.date())
    return year_span(since.year) if since.month == 1 else month_span(since.date())


def closed_on(fact: Fact, asked: datetime) -> date | None:
    """The day from which a fact is no longer true: one that was named as it was cut, an instant where one asks."""
    if fact.invalid_at is None or _is_midnight(fact.invalid_at):
        return fact.invalid_at and fact.invalid_at.date()
    return _local(fact.invalid_at, asked)


def _known(fact: Fact) -> Time | None:
    if fact.occurred_start is None and fact.occurred_end is None:
        return None
    return _time(fact.occurred_start, fact.occurred_end)


@lru_cache(maxsize=1024)
def _found(words: str, reference: datetime) -> Sequence[tuple[bool, Time]]:
    """The times of a text, and whether each is a relative one; a question looks at the same facts more than once."""
    return tuple((each.relative, _read(each, reference)) for each in annotate(words, reference).expressions)


def _read(found: TimeExpression, reference: datetime) -> Time:
    """A time of the text; of "since last summer" that it began some time in that summer."""
    when = _time(found.broad_interval.start, found.broad_interval.end)
    if when.kind == "since":
        named = find_times(found.text.partition(" ")[2], reference, prefer="past")[:1]
        began = [
            each.broad_interval
            for each in named
            if each.broad_interval.start == found.broad_interval.start and each.broad_interval.end
        ]
        return Time("since", _time(began[0].start, began[0].end).period) if began else when
    return when


def _time(start: datetime | None, end: datetime | None) -> Time:
    """The days of a half-open interval in UTC, of which one end may be open."""
    last = _last(end) if end is not None else None
    if start is None:
        return Time("up to", _day(last or _LATEST))
    first = min(start.astimezone(UTC).date(), _LATEST)
    return Time("since", _day(first)) if last is None else Time("on", DateSpan(first, max(first, last)))


def _last(end: datetime) -> date:
    """The last day before an interval's end."""
    utc = end.astimezone(UTC)
    return min(utc.date() - ONE_DAY if _is_midnight(utc) and utc.date() > date.min else utc.date(), _LATEST)


def _local(moment: datetime, asked: datetime) -> date:
    try:
        return min(moment.astimezone(asked.tzinfo).date(), _LATEST)
    except OverflowError:
        return min(moment.date(), _LATEST)


def _is_midnight(moment: datetime) -> bool:
    return moment.astimezone(UTC).time() == time.min


def _day(day: date) -> DateSpan:
    return DateSpan(day, day)
