"""The times of facts, reckoned from the question's day and put in words, so that a model copies and never counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import combinations, pairwise

from vmemo.models import Fact
from vmemo.reflect.fact_times import Time, Times, closed_on, times_of, true_since
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal.date_format import format_date
from vmemo.text.temporal.durations import (
    DateSpan,
    calendar_difference,
    count_noun,
    describe_span,
    exact_lengths,
    format_weekday_date,
    length_ranges,
    months_and_days,
    next_anniversary,
)
from vmemo.text.tokens import STOP_WORDS

_LENGTHS = frozenset(
    "long many old soon ago since until till between apart elapsed passed before after later earlier first latest "
    "earliest order sooner longer shorter older younger age duration anniversary days weeks months years hours".split()
)
_WORD = LazyPattern(r"\w+")
WIDE = 31
"""Days from which a time is too wide to stand in an order with others."""
YEARLY_FROM = 10
"""Months after which it is said when a day comes round again: sooner, an anniversary is far away."""
MOST_ORDERED = 24
"""Facts that are put in order; of more than these, the order is a long line that nobody needs."""


def asked_on(asked: datetime) -> str:
    """The question's day in its own time zone, such as "Thursday, 22 June 2023"."""
    return format_weekday_date(asked.date())


def dated(fact: Fact, asked: datetime) -> str:
    """When a fact was told and when it happened, each with the distance from the question's day.

    Of a fact in a speaker's own words it is not known what happened when: it "speaks of" the times in it.
    """
    times, today = times_of(fact, asked), asked.date()
    clauses = [_told(times, today), *_happened(times, today), *_named(times, today), *_yearly(times, today)]
    return "; ".join([*clauses, *_true(fact, times, asked)])


def asks_for_lengths(question: str) -> bool:
    """Whether a question needs to know how far times lie from it or from one another, or which came first.

    Of languages that we can't read it may always do.
    """
    words = set(_WORD.findall(question.casefold()))
    return not _LENGTHS.isdisjoint(words) or STOP_WORDS.isdisjoint(words)


def dates(fact: Fact, asked: datetime) -> str:
    """When a fact was told and when it happened, and no more: enough where no lengths of time are asked for."""
    times = times_of(fact, asked)
    clauses = [f"told {format_weekday_date(times.told.first)}"]
    if times.happened is not None and times.happened.period != times.told:
        plan = times.happened.period.first > times.told.last
        clauses.append(f"{'planned for' if plan else 'happened'} {_by_name(times.happened)}")
    if (closed := closed_on(fact, asked)) is not None:
        clauses.append(f"{'no longer true since' if closed <= asked.date() else 'true until'} {format_date(closed)}")
    return "; ".join(clauses)


def differences(named: Sequence[tuple[str, Fact]], asked: datetime, *, most: int = 6) -> list[str]:
    """The facts in order of time, and how far apart the first `most` of them are, which come by relevance.

    One line gives the order and one each pair; facts of the same time share what is said of them.
    """
    if len(named) < 2:
        return []
    placed = [(label, times_of(fact, asked).place) for label, fact in named[: max(most, MOST_ORDERED)]]
    pairs = combinations(_by_time(placed[:most]), 2)
    return [_order(_by_time(placed)), *(_apart(one, other) for one, other in pairs)]


def _told(times: Times, today: date) -> str:
    told = Time("on", times.told)
    return f"told {_placed(told, today)}{', and speaks of that day' if told in times.named else ''}"


def _happened(times: Times, today: date) -> Iterator[str]:
    """When a model read that it happened; what lay ahead when it was told was a plan."""
    when = times.happened
    if when is None or when.period == times.told:
        return
    is_plan = when.period.first > times.told.last
    plan = "was to happen" if when.period.last < today else "is to happen"
    yield f"{plan if is_plan else 'happened'} {_placed(when, today)}"


def _named(times: Times, today: date) -> Iterator[str]:
    """The times in its words, and how far each lies from the main one where both are days."""
    verb = "speaks of"
    for when in times.named:
        if when == Time("on", times.told):
            continue
        placed, main = _placed(when, today).removeprefix("within "), times.main
        if main is not None and main != when and main.period.is_day and when.period.is_day:
            apart = _from(when.period.first, main.period.first, format_weekday_date(main.period.first))
            placed = f"{placed.removesuffix(')')}; {apart})"
        yield f"{verb} {'' if when.kind == 'on' else 'the time '}{placed}"
        verb = "and of"


def _yearly(times: Times, today: date) -> Iterator[str]:
    """When a day of the past comes round again: for ages and anniversaries."""
    when = times.main
    if when is None or when.kind != "on" or not when.period.is_day or when.period.first > min(times.told.last, today):
        return
    day = when.period.first
    again = next_anniversary(day, today) if months_and_days(day, today)[0] >= YEARLY_FROM else None
    if again is not None:
        placed = _placed(Time("on", DateSpan(again[0], again[0])), today)
        yield f"{count_noun(again[1], 'year')} after {format_date(day)}: {placed}"


def _true(fact: Fact, times: Times, asked: datetime) -> Iterator[str]:
    """From when and until when it is true, where that is more than was said already."""
    since, closed, today = true_since(fact), closed_on(fact, asked), asked.date()
    said = {times.told.first, *([times.main.period.first] if times.main else [])}
    if since is not None and since.first not in said:
        yield f"true {_placed(Time('since', since), today)}"
    if closed is not None:
        words = "no longer true since" if closed <= today else "true until"
        yield f"{words} {format_date(closed)} ({_from(closed, today)})"


def _placed(when: Time, today: date) -> str:
    """A time by name and, in parentheses, how far it lies from the question."""
    return f"{_by_name(when)} ({_from_question(when.period, today)})"


def _by_name(when: Time, *, weekday: bool = True) -> str:
    kind = "" if when.kind == "on" else f"{when.kind} "
    return kind + describe_span(when.period, weekday=weekday, moment=when.kind == "since")


def _from_question(period: DateSpan, today: date) -> str:
    if period.is_day:
        return _from(period.first, today)
    if period.months is None:
        return _ends(period, today)
    label = calendar_difference(period, DateSpan(today, today))
    return f"{_reach(period, today)}; {label}" if label else _reach(period, today)


def _from(day: date, other: date, name: str = "the question") -> str:
    """How far a day lies from another, in all units."""
    if day == other:
        return f"0 days before {name}: today"
    first, *more = exact_lengths(min(day, other), max(day, other))
    side = "before" if day < other else "after"
    if name == "the question" and first == "1 day":
        more = ["yesterday" if day < other else "tomorrow"]
    return _with(f"{first} {side} {name}", more)


def _reach(period: DateSpan, today: date) -> str:
    """How far days that are not known closely lie from the question."""
    if period.first <= today <= period.last:
        before, after = count_noun((today - period.first).days, "day"), count_noun((period.last - today).days, "day")
        return f"the question's day is inside: from {before} before it to {after} after it"
    is_past = period.last < today
    near = (period.last, today) if is_past else (today, period.first)
    far = (period.first, today) if is_past else (today, period.last)
    first, *more = length_ranges(near, far)
    return _with(f"{first} {'before' if is_past else 'after'} the question", more)


def _ends(period: DateSpan, today: date) -> str:
    """Both ends of some days, and how many they are: it may have lasted all the while."""
    days = (period.last - period.first).days
    length = f"{days + 1} days counting both ends, {count_noun(days, 'day')} from the first to the last"
    inside = f"; the question's day is number {(today - period.first).days + 1} of them"
    within = inside if period.first <= today <= period.last else ""
    return f"{_reach(period, today)}; {length}{within}"


def _by_time(placed: Sequence[tuple[str, Time]]) -> list[tuple[str, Time]]:
    """Times from the earliest on, each with the labels of all facts that have it."""
    labels: dict[Time, list[str]] = {}
    for label, when in placed:
        labels.setdefault(when, []).append(label)
    times = sorted(labels, key=lambda when: (when.period.first, when.period.last))
    return [(", ".join(labels[when]), when) for when in times]


def _order(placed: Sequence[tuple[str, Time]]) -> str:
    """All in one line; what may lie before its neighbour is said to, and what is known only widely stands apart."""
    close = [each for each in placed if (each[1].period.last - each[1].period.first).days < WIDE]
    wide = [_mark(*each) for each in placed if each not in close]
    parts = [_mark(*close[0])] if close else []
    for (_, before), (labels, when) in pairwise(close):
        parts.append(f"{_joint(before.period, when.period)} {_mark(labels, when)}")
    line = "In order of time, earliest first: " + "; ".join(parts) if parts else ""
    apart = f"Known only widely: {'; '.join(wide)}" if wide else ""
    return ". ".join(filter(None, [line, apart]))


def _joint(before: DateSpan, period: DateSpan) -> str:
    if period.first > before.last:
        return "then"
    return "same day:" if period == before and period.is_day else "order not known:"


def _mark(labels: str, when: Time) -> str:
    """The labels of facts and their time in short."""
    return f"{labels} ({_by_name(when, weekday=False)})"


def _apart(one: tuple[str, Time], other: tuple[str, Time]) -> str:
    """From an earlier time to a later one."""
    (_, earlier), (_, later) = one, other
    a, b = earlier.period, later.period
    ends = f"From {_mark(*one)} to {_mark(*other)}"
    if a == b:
        return f"{ends}: 0 days" if a.is_day else f"{ends}: the same time; which came first is not known"
    if b.first <= a.last:
        longest = count_noun(max((b.last - a.first).days, (a.last - b.first).days), "day")
        return f"{ends}: they overlap, {longest} apart at most; which came first is not known"
    exact = a.is_day and b.is_day
    lengths = exact_lengths(a.first, b.first) if exact else length_ranges((a.last, b.first), (a.first, b.last))
    label = calendar_difference(a, b)
    return f"{ends}: {', or '.join(lengths)}" + (f"; {label}" if label else "")


def _with(first: str, more: Sequence[str]) -> str:
    """A length, and the same in larger units."""
    return f"{first}: {', or '.join(more)}" if more else first
