"""The times of facts, their distance from the question, and the lengths of time between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time as clock_time
from functools import lru_cache
from itertools import chain, combinations, pairwise, product, zip_longest
from typing import Literal, NamedTuple

from vmemo.models import Fact
from vmemo.models.records import COMPUTED_DATE
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.split import sentence_spans
from vmemo.text.temporal import TimeExpression, find_statement_times, find_times
from vmemo.text.temporal.calendar_days import add_days, make_date
from vmemo.text.temporal.format import (
    DateSpan,
    calendar_difference,
    count_noun,
    describe_span,
    exact_lengths,
    format_date,
    format_weekday_date,
    length_ranges,
    month_span,
    months_and_days,
    next_anniversary,
    year_span,
)
from vmemo.text.tokens import STOP_WORDS, terms

MAX_REFERRED = 4
"""Times of a text that are shown."""
MAX_SCANNED = 4_000
"""Characters of a text that are scanned for times; a verbatim message may be a whole document."""
VERBATIM_ENGINES = ("local", "verbatim")
"""Engines whose facts repeat a message. Their event time is the first in the text, which may be of another event."""
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
    return instant.astimezone(UTC).time() == clock_time.min


def _day(day: date) -> DateSpan:
    return DateSpan(day, day)


_UNITS = "days|weeks|months|years|hours|minutes|nights|weekends"
_ASKED_LENGTH = LazyPattern(
    r"\bhow (?:long|old|soon|recently|far apart|much (?:time|longer|later|earlier))\b"
    rf"|\b(?:many|number of) (?:\w+ )?(?:{_UNITS})\b|\bdifference between\b|\bsince when\b"
    r"|\b(?:apart|elapsed|duration|gap|interval|anniversary|age|ago)\b"
)
_ASKED_ORDER = LazyPattern(
    r"\b(?:first|earliest|sooner|earlier|later|older|younger|longer|shorter|order)\b"
    r"|^(?!.*\bhow long\b).*\blast\s?[,:?]|\bbefore or after\b"
)
_FROM_NOW = LazyPattern(
    r"\b(?:ago|left|remain(?:s|ing)?|to go|so far|anniversary|age|today|now|next)\b|\bhow (?:old|soon|recently)\b"
    r"|\bhow long (?:has|have|is|am|are|will|do|does|until|till|since)\b|\bsince when\b"
    rf"|\bmany (?:\w+ )?(?:{_UNITS}) (?:\w+ ){{0,2}}?(?:has|have|until|till|since|is|are|am|away|will)\b"
)
_WORD = LazyPattern(r"\w+")
_LENGTH = LazyPattern(r"\b(\d{1,6})(?: |-)(day|week|month|year)s?\b", re.IGNORECASE)
MIN_IMPRECISE_DAYS = 31
"""Length from which a period is too imprecise to be ordered among others."""
ANNIVERSARY_FROM = 10
"""Months after an event from which its next anniversary is shown."""
MAX_ORDERED = 8
"""Facts that are listed in order of time."""
MAX_COMPARED = 3
"""Facts whose times are paired, unless the question names two events."""
MAX_PAIRED = 4
"""Times that are paired with each other, unless the question names two events."""
MAX_OF_EVENT = 2
"""Facts about each of two events that the question names."""
MIN_SHARED = 0.6
"""Share of the best fact's common terms with an event that another fact needs to be about the event."""
MAX_EVENT_TIMES = 2
"""Times that each of two events named in the question may have."""


def question_date(asked_at: datetime) -> str:
    """Return the question's date in its own time zone, such as "Thursday, 22 June 2023"."""
    return format_weekday_date(asked_at.date())


def needs_durations(question: str) -> bool:
    """Return True if a question asks for a length of time or which of several came first, or is not in English."""
    return asks_for_length(question) or asks_for_order(question)


def asks_for_order(question: str) -> bool:
    """Return True if a question asks which of several came first, or is not in English."""
    return _may_match(_ASKED_ORDER, question)


def asks_for_length(question: str) -> bool:
    """Return True if a question asks for a length of time, or is not in English."""
    return _may_match(_ASKED_LENGTH, question)


def asks_from_now(question: str) -> bool:
    """Return True if a length of time may begin or end with the question, or the question is not in English."""
    return _may_match(_FROM_NOW, question)


def _may_match(pattern: LazyPattern, question: str) -> bool:
    """Return True if the pattern matches, or cannot because the question has no English stop word."""
    lowered = question.casefold()
    return pattern.search(lowered) is not None or STOP_WORDS.isdisjoint(_WORD.findall(lowered))


def describe_times(fact: Fact, asked_at: datetime) -> str:
    """Return when a fact was mentioned and when it happened, each with its distance from the question.

    The times in a speaker's own words are not known to be the event's, so such a fact only "refers to" them.
    """
    times, today = times_of(fact, asked_at), asked_at.date()
    clauses = [
        _mentioned(times, today),
        *_happened(times, today),
        *_referred(times, today),
        *_anniversary(times, today),
        *_validity(fact, times, asked_at),
    ]
    return "; ".join(clauses)


def describe_dates(fact: Fact, asked_at: datetime, *, brief: bool = False, closed: bool = True) -> str:
    """Return when a fact was mentioned, happened and became invalid, without distances.

    `brief` omits weekdays, and the day of an event that the text names. Without `closed`, the end is omitted.
    """
    times = times_of(fact, asked_at)
    mentioned = times.mentioned.first
    clauses = [format_date(mentioned) if brief else f"mentioned {format_weekday_date(mentioned)}"]
    happened = times.happened
    if happened is not None and happened.period != times.mentioned and not (brief and _is_named(happened, fact.text)):
        is_plan = happened.period.first > times.mentioned.last
        clauses.append(f"{'planned for' if is_plan else 'happened'} {_in_words(happened, weekday=not brief)}")
    if closed and (day := invalid_from(fact, asked_at)) is not None:
        clauses.append(f"{_invalid_words(day, asked_at.date())} {format_date(day)}")
    return "; ".join(clauses)


def _is_named(time: FactTime, text: str) -> bool:
    return _in_words(time, weekday=False).removeprefix("within ").removeprefix("some time in ") in text


def describe_differences(
    facts: Sequence[tuple[str, Fact]],
    asked_at: datetime,
    *,
    question: str = "",
    events: Sequence[str] = (),
    most: int = MAX_COMPARED,
) -> list[str]:
    """Return the times between facts that a question asks for, and their order in time if it asks for one.

    The facts come most relevant first. If the question names two `events`, each date of a fact about the one is paired
    with each of a fact about the other, and there is no order. A length up to now needs no pair. Otherwise the dates of
    the `most` relevant facts are paired, those of one fact only if there is no other. Facts of one time are grouped.
    """
    if pairs := _event_pairs(facts, asked_at, events):
        return [_difference(earlier, later) for earlier, later in pairs]
    times = [(mark, times_of(fact, asked_at)) for mark, fact in facts[: max(most, MAX_ORDERED)]]
    ordered = len(facts) > 1 and (not question or asks_for_order(question))
    order = [_order(_by_time([(mark, each.position) for mark, each in times]))] if ordered else []
    if question and (asks_from_now(question) or not asks_for_length(question)):
        return order
    by_fact = [_all_times([each]) for each in times[:most]]
    in_turn = [each for each in chain.from_iterable(zip_longest(*by_fact)) if each is not None]
    first = list(dict.fromkeys(time for _, time in in_turn))[:MAX_PAIRED]
    named = combinations(_by_time([each for each in in_turn if each[1] in first]), 2)
    pairs = [(one, other) for one, other in named if len(by_fact) == 1 or one[0] != other[0]]
    return [*order, *(_difference(earlier, later) for earlier, later in pairs)]


def _event_pairs(
    facts: Sequence[tuple[str, Fact]], asked_at: datetime, events: Sequence[str]
) -> list[tuple[tuple[str, FactTime], tuple[str, FactTime]]]:
    """Return each time of the first event with each of the second, the earlier one first."""
    if len(events) != 2:
        return []
    named = [set(terms(event)) for event in events]
    sides = [
        _by_time(_surest(_all_times([(mark, _times_about(fact, own, asked_at)) for mark, fact in about])))
        for own, other in (named, reversed(named))
        if (about := _about(own, other, facts))
    ]
    if len(sides) != 2:
        return []
    found = [
        (one, other) if one[1].period.first <= other[1].period.first else (other, one)
        for one, other in product(*sides)
        if one[1].period != other[1].period
    ]
    return list({(one[1], other[1]): (one, other) for one, other in found}.values())


def _surest(times: Sequence[tuple[str, FactTime]]) -> list[tuple[str, FactTime]]:
    """Return the exact days of events, or else their other times, or else the days of the mentions."""
    named = [each for each in times if each[1].kind != "mentioned"]
    exact = [each for each in named if each[1].period.is_day]
    return list(exact or named or times)[:MAX_EVENT_TIMES]


def _about(named: set[str], other: set[str], facts: Sequence[tuple[str, Fact]]) -> list[tuple[str, Fact]]:
    """Return the facts that share the most terms with the name of an event, or nearly so many.

    Terms that the other event has too do not distinguish them, and count less.
    """
    shared = [named.intersection(terms(fact.text)) for _, fact in facts]
    scores = [len(each - other) + len(each & other) / 2 for each in shared]
    least = max(0.5, MIN_SHARED * max(scores, default=0))
    best = sorted((place for place, score in enumerate(scores) if score >= least), key=lambda place: -scores[place])
    return [facts[place] for place in best[:MAX_OF_EVENT]]


def _times_about(fact: Fact, named: set[str], asked_at: datetime) -> FactTimes:
    """Return the times in the sentence that shares the most terms with an event, or else those of the fact."""
    speaker, separator, _ = fact.text.partition(": ")
    sentences = [fact.text[start:end] for start, end in sentence_spans(fact.text)]
    best = max(sentences, key=lambda each: len(named.intersection(terms(each))), default="")
    if len(sentences) > 1 and fact.engine in VERBATIM_ENGINES:
        text = best if best.startswith(speaker) else f"{speaker}{separator}{best}"
        narrow = times_of(
            fact.model_copy(update={"text": text, "occurred_start": None, "occurred_end": None}), asked_at
        )
        if narrow.main is not None:
            return narrow
    return times_of(fact, asked_at)


def _all_times(times: Sequence[tuple[str, FactTimes]]) -> list[tuple[str, FactTime]]:
    return [(mark, time) for mark, each in times for time in each.events]


def wrong_length(text: str, start: str, end: str) -> str | None:
    """Return the right length between two dates if a text states only wrong ones, or else None.

    Both ends may be counted, and an incomplete week, month or year may be rounded up. Text without a number of days,
    weeks, months or years is not checked, nor are dates that are not days.
    """
    try:
        first, last = sorted((date.fromisoformat(start), date.fromisoformat(end)))
    except ValueError:
        return None
    days, months = (last - first).days, months_and_days(first, last)[0]
    right = {"day": days, "week": days // 7, "month": months, "year": months // 12}
    stated = [(int(found[1]), found[2].lower()) for found in _LENGTH.finditer(text)]
    if not stated or any(right[unit] <= number <= right[unit] + 1 for number, unit in stated):
        return None
    return ", or ".join(exact_lengths(first, last))


def _mentioned(times: FactTimes, today: date) -> str:
    time = FactTime("on", times.mentioned)
    return f"mentioned {_with_distance(time, today)}{', and refers to that day' if time in times.referred else ''}"


def _happened(times: FactTimes, today: date) -> Iterator[str]:
    """Yield the extracted time of the event. An event after its mention was a plan."""
    time = times.happened
    if time is None or time.period == times.mentioned:
        return
    is_plan = time.period.first > times.mentioned.last
    planned = "was planned for" if time.period.last < today else "is planned for"
    yield f"{planned if is_plan else 'happened'} {_with_distance(time, today)}"


def _referred(times: FactTimes, today: date) -> Iterator[str]:
    """Yield the times in the text, with the distance from the main time if both are days."""
    verb = "refers to"
    for time in times.referred:
        if time == FactTime("on", times.mentioned):
            continue
        words, main = _with_distance(time, today).removeprefix("within "), times.main
        if main is not None and main != time and main.period.is_day and time.period.is_day:
            distance = _distance(time.period.first, main.period.first, format_weekday_date(main.period.first))
            words = f"{words.removesuffix(')')}; {distance})"
        yield f"{verb} {'' if time.kind == 'on' else 'the time '}{words}"
        verb = "and to"


def _anniversary(times: FactTimes, today: date) -> Iterator[str]:
    """Yield the next anniversary of a past day, which questions about ages need too."""
    time = times.main
    if time is None or time.kind != "on" or not time.period.is_day:
        return
    day = time.period.first
    if day > min(times.mentioned.last, today) or months_and_days(day, today)[0] < ANNIVERSARY_FROM:
        return
    if (following := next_anniversary(day, today)) is not None:
        words = _with_distance(FactTime("on", DateSpan(following[0], following[0])), today)
        yield f"{count_noun(following[1], 'year')} after {format_date(day)}: {words}"


def _validity(fact: Fact, times: FactTimes, asked_at: datetime) -> Iterator[str]:
    """Yield the start and the end of a fact's validity, unless the start was given already."""
    since, until, today = valid_since(fact), invalid_from(fact, asked_at), asked_at.date()
    given = {times.mentioned.first, *([times.main.period.first] if times.main else [])}
    if since is not None and since.first not in given:
        start = _with_distance(FactTime("since", since), today)
        yield f"true {start}"
    if until is not None:
        yield f"{_invalid_words(until, today)} {format_date(until)} ({_distance(until, today)})"


def _invalid_words(day: date, today: date) -> str:
    return "no longer true since" if day <= today else "true until"


def _with_distance(time: FactTime, today: date) -> str:
    return f"{_in_words(time)} ({_from_question(time.period, today)})"


def _in_words(time: FactTime, *, weekday: bool = True) -> str:
    kind = "" if time.kind == "on" else f"{time.kind} "
    return kind + describe_span(time.period, weekday=weekday, moment=time.kind == "since")


def _from_question(period: DateSpan, today: date) -> str:
    if period.is_day:
        return _distance(period.first, today)
    if period.months is None:
        return _both_ends(period, today)
    label = calendar_difference(period, DateSpan(today, today))
    return f"{_distance_range(period, today)}; {label}" if label else _distance_range(period, today)


def _distance(day: date, other: date, name: str = "the question") -> str:
    """Return the distance between two days in every unit, such as "31 days before the question: 4 weeks and 3 days"."""
    if day == other:
        return f"0 days before {name}: today"
    first, *more = exact_lengths(min(day, other), max(day, other))
    side = "before" if day < other else "after"
    if name == "the question" and first == "1 day":
        more = ["yesterday" if day < other else "tomorrow"]
    return _joined(f"{first} {side} {name}", more)


def _distance_range(period: DateSpan, today: date) -> str:
    """Return the least and the greatest distance of a period from the question."""
    if period.first <= today <= period.last:
        before, after = count_noun((today - period.first).days, "day"), count_noun((period.last - today).days, "day")
        return f"the question's day is inside: from {before} before it to {after} after it"
    is_past = period.last < today
    nearest = (period.last, today) if is_past else (today, period.first)
    farthest = (period.first, today) if is_past else (today, period.last)
    first, *more = length_ranges(nearest, farthest)
    return _joined(f"{first} {'before' if is_past else 'after'} the question", more)


def _both_ends(period: DateSpan, today: date) -> str:
    """Return the distances of a period's ends and its length, as the event may have lasted all of it."""
    days = (period.last - period.first).days
    length = f"{days + 1} days counting both ends, {count_noun(days, 'day')} from the first to the last"
    number = f"; the question's day is number {(today - period.first).days + 1} of them"
    return f"{_distance_range(period, today)}; {length}{number if period.first <= today <= period.last else ''}"


def _by_time(times: Sequence[tuple[str, FactTime]]) -> list[tuple[str, FactTime]]:
    """Return the times in ascending order, each with the marks of all its facts."""
    marks: dict[FactTime, list[str]] = {}
    for mark, time in times:
        marks.setdefault(time, []).append(mark)
    ascending = sorted(marks, key=lambda time: (time.period.first, time.period.last))
    return [(", ".join(marks[time]), time) for time in ascending]


def _order(times: Sequence[tuple[str, FactTime]]) -> str:
    """Return the order in one line; imprecise times are listed separately."""
    precise = [each for each in times if (each[1].period.last - each[1].period.first).days < MIN_IMPRECISE_DAYS]
    imprecise = [_marked(*each) for each in times if each not in precise]
    parts = [_marked(*precise[0])] if precise else []
    for (_, before), (marks, time) in pairwise(precise):
        parts.append(f"{_relation(before.period, time.period)} {_marked(marks, time)}")
    line = "In order of time, earliest first: " + "; ".join(parts) if parts else ""
    rest = f"Known only approximately: {'; '.join(imprecise)}" if imprecise else ""
    return ". ".join(filter(None, [line, rest]))


def _relation(before: DateSpan, period: DateSpan) -> str:
    if period.first > before.last:
        return "then"
    return "same day:" if period == before and period.is_day else "order not known:"


def _marked(marks: str, time: FactTime) -> str:
    return f"{marks} ({_in_words(time, weekday=False)})"


def _difference(earlier: tuple[str, FactTime], later: tuple[str, FactTime]) -> str:
    """Return the time between two marked times."""
    first, second = earlier[1].period, later[1].period
    ends = f"From {_marked(*earlier)} to {_marked(*later)}"
    if first == second:
        return f"{ends}: 0 days" if first.is_day else f"{ends}: the same time; which came first is not known"
    if second.first <= first.last:
        longest = count_noun(max((second.last - first.first).days, (first.last - second.first).days), "day")
        return f"{ends}: they overlap, {longest} apart at most; which came first is not known"
    if first.is_day and second.is_day:
        lengths = exact_lengths(first.first, second.first)
    else:
        lengths = length_ranges((first.last, second.first), (first.first, second.last))
    label = calendar_difference(first, second)
    return f"{ends}: {', or '.join(lengths)}" + (f"; {label}" if label else "")


def _joined(first: str, more: Sequence[str]) -> str:
    """Return a length with its equivalents in larger units."""
    return f"{first}: {', or '.join(more)}" if more else first
