"""Time expressions of statements, and texts annotated with their absolute dates.

The tense of the clause decides whether a bare weekday, month or day is past or future.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import NamedTuple

from vmemo.models.facts import COMPUTED_DATE
from vmemo.text.temporal.certainty import Reading, examine, is_certain
from vmemo.text.temporal.clauses import (
    ClausePosition,
    clause_position,
    concerns_plan,
    describes_present,
    is_habitual,
    is_modifier,
    is_question,
    leading_word,
    tense_of,
)
from vmemo.text.temporal.date_format import format_days
from vmemo.text.temporal.day_range import DayRange
from vmemo.text.temporal.find import TimeExpression, time_expression
from vmemo.text.temporal.parser import ResolvedTime, lower_same_length, parse_both
from vmemo.text.temporal.tense_cues import Tense, TenseCues, find_cues

_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)")
_YEAR = re.compile(r"\d{4}")
_MAX_DAY_DISTANCE = timedelta(days=60)
"""A past and a future reading further apart belong to a date or month without a year."""
_SOON = timedelta(days=90)
"""People say "last" or name the year of a date that is this close to its next occurrence."""
_UNTIL_WORDS = frozenset("until till til by up".split())
_FORWARD_WORDS = _UNTIL_WORDS | frozenset("for from to through starting beginning".split())
_BACKWARD_WORDS = frozenset(("about", "after"))
"""Words before a past weekday in a sentence about the present: "I'm still laughing about Friday"."""


class AnnotatedText(NamedTuple):
    """A text with absolute dates added, and the time expressions of the original text."""

    text: str
    expressions: list[TimeExpression]


class DatedText(NamedTuple):
    """The time expressions of a text, and the text with the dates of those that are certain, and of all."""

    certain: str
    """As `annotate` returns it."""
    likely: str
    """As `annotate_likely` returns it."""
    expressions: list[TimeExpression]


def annotate(text: str, reference: datetime, *, southern: bool = False) -> AnnotatedText:
    """Return the text with each relative time that is certain followed by its date: "yesterday (= 7 May 2023)"."""
    dated = date_text(text, reference, southern=southern)
    return AnnotatedText(dated.certain, dated.expressions)


def annotate_likely(text: str, reference: datetime) -> str:
    """Return the text with each relative time followed by its likely date, for search: "in two weeks (21 May 2023)"."""
    return _with_likely_dates(text, [reading.time for reading in _read_by_tense(text, reference, southern=False)])


def date_text(text: str, reference: datetime, *, southern: bool = False) -> DatedText:
    """Find the times of a text once for what is stored of it and for what is embedded."""
    times = _resolve(text, reference, southern=southern)
    if not times:
        return DatedText(text, _with_likely_dates(text, times), [])
    expressions = [time_expression(text, time, reference) for time in times]
    certain = [time for time in times if time.days.certain]
    return DatedText(_insert_dates(text, certain, COMPUTED_DATE), _with_likely_dates(text, times), expressions)


def _with_likely_dates(text: str, times: Sequence[ResolvedTime]) -> str:
    return _insert_dates(text, times, " (").replace(COMPUTED_DATE, " (")


def _insert_dates(text: str, times: Sequence[ResolvedTime], opening: str) -> str:
    parts: list[str] = []
    position = 0
    for _, end, days in times:
        written = _annotation(days)
        if written and not _date_follows(text, end):
            parts += (text[position:end], f"{opening}{written})")
            position = end
    return "".join(parts) + text[position:]


def find_statement_times(text: str, reference: datetime, *, southern: bool = False) -> list[TimeExpression]:
    """Return the time expressions of a statement, each read as past or future by the tense of its clause."""
    return [time_expression(text, time, reference) for time in _resolve(text, reference, southern=southern)]


def _date_follows(text: str, end: int) -> bool:
    parenthesis = _PARENTHESIS.match(text, end)
    return parenthesis is not None and _YEAR.search(parenthesis[1]) is not None


def _annotation(days: DayRange) -> str:
    if days.unannotated or not days.relative:
        return ""
    if days.part and days.whole and days.whole.bounds:
        return f"{days.part} {format_days(days.whole.bounds)}"
    bounds = days.annotated_as or days.displayed or days.bounds
    return format_days(bounds) if bounds else ""


def _resolve(text: str, reference: datetime, *, southern: bool = False) -> list[ResolvedTime]:
    """Return the time expressions by tense, with `certain` set to whether their days may be written."""
    readings = _read_by_tense(text, reference, southern=southern)
    if not readings:
        return []
    whole = examine(text, reference.date(), readings)
    return [
        reading.time._replace(days=replace(reading.time.days, certain=is_certain(place, whole)))
        for place, reading in enumerate(readings)
    ]


def _read_by_tense(text: str, reference: datetime, *, southern: bool) -> list[Reading]:
    """Return the time expressions, each read as past or future by the tense of its clause."""
    past, future = parse_both(text, reference, southern=southern)
    if past is future:
        return [Reading(time, time.days, None) for time in past]
    future_days = {(time.start, time.end): time.days for time in future}
    pairs = [(time, future_days.get((time.start, time.end), time.days)) for time in past]
    positions = {
        time.start: clause_position(text, time.start, time.end)
        for time, later in pairs
        if _is_ambiguous(time.days, later)
    }
    cues = find_cues(lower_same_length(text), (position.sentence for position in positions.values()))
    today = reference.date()
    readings: list[Reading] = []
    for time, later in pairs:
        position = positions.get(time.start)
        if position is None:
            readings.append(Reading(time, time.days, None))
        elif (reading := _choose(_Statement(text, time, position, cues), later, today)) is not None:
            readings.append(reading)
    return readings


def _is_ambiguous(past: DayRange, future: DayRange) -> bool:
    return past.relative and (past.is_ambiguous or _first_bound(past) != _first_bound(future))


def _first_bound(days: DayRange) -> date | None:
    return days.start or days.end


class _Statement(NamedTuple):
    """A time expression read as past, its position, and the tense cues of its text."""

    text: str
    time: ResolvedTime
    position: ClausePosition
    cues: TenseCues


def _choose(statement: _Statement, future: DayRange, today: date) -> Reading | None:
    """Return the reading that fits the clause, or None if the clause describes a habit."""
    text, time, position, cues = statement
    past = time.days
    tense = tense_of(text, time.start, time.end, position, cues)
    if past.is_ambiguous and tense != "past" and is_habitual(text, position):
        return None
    past_date, future_date, lead = _first_bound(past), _first_bound(future), leading_word(text, time.start, time.end)
    if past_date is None or future_date is None or past_date == future_date or lead == "since":
        return Reading(time, future, tense, ambiguous=True, clause=position.clause)
    if future_date - past_date <= _MAX_DAY_DISTANCE:
        is_future = _is_future_day(tense, lead) or (tense is None and _points_forward(statement))
    else:
        tense = None if past.kind == "day" and is_modifier(text, time.start, time.end) else tense
        if tense in ("past", "reported") and concerns_plan(text, lead, position):
            tense = "arranged"
        mentions_past = cues.mention_past(*position.sentence)
        until, since = future_date - today, today - past_date
        is_future = _is_future_date(tense, lead, until, since, mentions_past=mentions_past)
    chosen, other = (future, past) if is_future else (past, future)
    in_question = is_question(text, position)
    return Reading(
        time._replace(days=chosen), other, tense, ambiguous=True, clause=position.clause, in_question=in_question
    )


def _points_forward(statement: _Statement) -> bool:
    """Return True for a day described in the present tense, or asked about: "Does Saturday sound good?"."""
    return describes_present(statement.text, statement.time.end) or is_question(statement.text, statement.position)


def _is_future_day(tense: Tense | None, lead: str) -> bool:
    """Decide for a weekday or a day of some month: past, unless something points to the future."""
    if tense == "future":
        return lead not in _BACKWARD_WORDS
    return tense != "past" and (lead in _UNTIL_WORDS or lead == "for" or (tense is not None and lead in _FORWARD_WORDS))


def _is_future_date(tense: Tense | None, lead: str, until: timedelta, since: timedelta, *, mentions_past: bool) -> bool:
    """Decide for a date or month without a year: by the tense, or else the nearer one."""
    if tense == "future" or tense == "past":
        return tense == "future"
    if tense:
        return lead in _FORWARD_WORDS or (tense == "arranged" and until <= _SOON)
    if mentions_past:
        return until <= _SOON
    return lead in _UNTIL_WORDS or until < since
