"""Time expressions of statements, and texts annotated with their absolute dates.

The tense of the clause decides whether a bare weekday, month or day is past or future. A search may use a likely
reading; a written date must be right. So a reading is certain only if the words themselves leave no doubt
(`DayRange.certain`, decided by the rule that resolved them), the chosen side of a weekday or a date without a year is
probable enough, and the words are the speaker's own: not in code, quoted, or a letter or plan
that was pasted.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from vmemo.models import Fact
from vmemo.models.changes import NewFact
from vmemo.models.records import COMPUTED_DATE
from vmemo.ports import Embedder, encodings
from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.pattern_files import read_patterns
from vmemo.text.temporal.calendar_days import DayRange
from vmemo.text.temporal.find import ResolvedTime, TimeExpression, lower_same_length, parse_both, time_expression
from vmemo.text.temporal.format import format_days
from vmemo.text.temporal.tense import (
    ClausePosition,
    Span,
    Tense,
    TenseCues,
    clause_position,
    concerns_plan,
    describes_present,
    find_cues,
    is_determined,
    is_habitual,
    is_modifier,
    is_question,
    leading_word,
    opens_clause,
    precedes_noun,
    tense_of,
)

# Certainty: which readings are beyond doubt.

CERTAIN = 0.8
"""Probability of the chosen side from which a date may be written."""
_NEAR = timedelta(days=60)
"""A date without a year that is nearer than this has that year, whatever the tense seems to be."""
_MAX_WEEKDAYS, _PER_WEEKDAY = 2, 150
"""More weekdays than this in one text, one in so many characters, are a timetable."""
_MONTH = timedelta(days=28)
_JOINT = re.compile(r"\W{0,3}")
"""The text between expressions that belong together: "Saturday (March 30)"."""
_APPOSITION = re.compile(r"\W{0,3}(?:\b(?:on|in|which was|which is|around)\b(?: on\b)?)?\W{0,3}")
"""The text between two names of the same time: "last month, on the 15th"."""
_SENTENCE_BREAK = re.compile(r"[.!?\n]")
_SAME_SENTENCE = 80
"""Characters between a weekday and another expression that it may depend on: "Sunday lunch the week before last"."""
_GENERIC = re.compile(
    r"\b(?:n?ever|whenever|any ?time|birthdays?|born|anniversar(?:y|ies)|dates? (?:like|such as))\b", re.IGNORECASE
)
"""Words of a clause about any year."""
_UNREAL = re.compile(r"(?<!\w )\bif [^.!?\n]{1,80}?(?:\b(?:would|could|should|might)|['’]d)\b", re.IGNORECASE)
"""Words of a sentence about what is not so."""

_PATTERNS = read_patterns("temporal/annotation.txt")
_WEEKDAY_BEFORE, _WEEKDAY_AFTER = (
    re.compile("|".join(_PATTERNS[f"weekday {place}"]), re.IGNORECASE) for place in ("before", "after")
)
_WEEKDAYS = "mon tue wed thu fri sat sun".split()
_CODE = re.compile("|".join(_PATTERNS["code"]), re.MULTILINE)
"""A fence, or a line of a table, of a program or of markup."""
_DOCUMENT = re.compile("|".join(_PATTERNS["document"]), re.IGNORECASE | re.MULTILINE)
"""The beginning of a line in a letter, a script or a paper, or a placeholder of a template."""
_TODAY_IS = re.compile(
    r"\b(?:today(?:['’]s(?: date)?)?(?: is)?|(?:it is|it['’]s|it was) (?:currently|now)):?\s(?:on\s)?$", re.IGNORECASE
)
_QUOTE_OR_LINE = re.compile(r'["“”\n]')


class _Reading(NamedTuple):
    """A time expression with the days chosen for it, the other choice, and the tense of its clause."""

    time: ResolvedTime
    other: DayRange
    """The reading on the other side of the reference; the same days if there is only one."""
    tense: Tense | None
    ambiguous: bool = False
    """The words may mean a past or a future time."""
    sentence: Span = (0, 0)
    clause: Span = (0, 0)
    probability: float = 1.0
    """That the chosen side of the reference is right."""


class _TextCertainty(NamedTuple):
    """Properties of a text that all its expressions share."""

    text: str
    today: date
    readings: Sequence[_Reading]
    own_words: bool
    weekdays: int
    marks: list[int]
    """Offsets of quotation marks and line breaks."""
    quoted: list[bool]
    """For each mark, whether a quotation follows it. A quotation ends with its line at the latest."""

    @property
    def is_timetable(self) -> bool:
        return self.weekdays > max(_MAX_WEEKDAYS, len(self.text) / _PER_WEEKDAY)

    def is_quoted(self, offset: int) -> bool:
        place = bisect_right(self.marks, offset) - 1
        return place >= 0 and self.quoted[place]


def _examine(text: str, today: date, readings: Sequence[_Reading]) -> _TextCertainty:
    """Return the properties of a text that all its expressions share."""
    other_day = any(_names_another_today(text, each.time, today) for each in readings)
    own_words = len(text) <= MAX_OWN_WORDS and not (other_day or _CODE.search(text) or _DOCUMENT.search(text))
    weekdays = sum(each.time.days.kind == "weekday" for each in readings)
    found = list(_QUOTE_OR_LINE.finditer(text))
    quoted: list[bool] = []
    for mark in found:
        quoted.append(mark[0] != "\n" and not (quoted and quoted[-1]))
    return _TextCertainty(
        text,
        today,
        readings,
        own_words,
        weekdays,
        marks=[mark.start() for mark in found],
        quoted=quoted,
    )


def _names_another_today(text: str, time: ResolvedTime, today: date) -> bool:
    """Return True if the text says that it was written on another day: "It is currently Friday"."""
    if time.days.bounds is None or not _TODAY_IS.search(text, max(0, time.start - 25), time.start):
        return False
    if time.days.kind == "weekday":
        return time.days.bounds[0].weekday() != today.weekday()
    return not time.days.bounds[0] <= today < time.days.bounds[1]


def _is_certain(place: int, whole: _TextCertainty) -> bool:
    """Return True if the days chosen for the expression at this place in the text's readings are beyond doubt."""
    reading = whole.readings[place]
    days = reading.time.days
    if not days.relative:
        return True
    if not days.certain or not whole.own_words or whole.is_quoted(reading.time.start):
        return False
    if _is_contradicted(place, whole) or _is_other_weekday(reading.time, whole.text):
        return False
    if not reading.ambiguous:
        return True
    if _is_joined(place, whole) or _names_no_day(whole.text, reading):
        return False
    if days.either_direction and reading.tense not in ("past", "future"):
        return False
    chosen, other = (abs((first - whole.today).days) for first in map(_first_day, (days, reading.other)) if first)
    if other <= _NEAR.days < chosen:
        return False
    return reading.probability >= CERTAIN and (days.kind != "weekday" or _is_plain_weekday(reading, whole))


def _names_no_day(text: str, reading: _Reading) -> bool:
    """Return True for a clause about any year, and for a condition that is not so: "If I had until July, I would"."""
    return bool(_GENERIC.search(text, *reading.clause) or _UNREAL.search(text, *reading.sentence))


def _is_plain_weekday(reading: _Reading, whole: _TextCertainty) -> bool:
    """Return False for the weekdays of a timetable, of a habit or of a name, and for today's own: that is "today"."""
    start, end, days = reading.time
    if whole.is_timetable or reading.tense not in ("past", "future"):
        return False
    if is_determined(whole.text, start) or precedes_noun(whole.text, end) or describes_present(whole.text, end):
        return False
    return days.start is not None and abs((days.start - whole.today).days) not in (0, 1, 7)


def _neighbours(place: int, whole: _TextCertainty) -> list[tuple[ResolvedTime, ResolvedTime]]:
    """Return the expression with the one before it, and with the one after it."""
    pairs = ((place - 1, place), (place, place + 1))
    return [(whole.readings[a].time, whole.readings[b].time) for a, b in pairs if a >= 0 and b < len(whole.readings)]


def _is_contradicted(place: int, whole: _TextCertainty) -> bool:
    """Return True if the text names the same time once more, and by other days: "last month, on 12 March" in May."""
    for before, after in _neighbours(place, whole):
        one, other = (each.days.displayed or each.days.bounds for each in (before, after))
        apart = one and other and (one[0] >= other[1] or other[0] >= one[1])
        if apart and _APPOSITION.fullmatch(whole.text, before.end, after.start):
            return True
    return False


def _is_other_weekday(time: ResolvedTime, text: str) -> bool:
    """Return True if the words beside an expression say that its day is another weekday: "a Sunday three days ago"."""
    first, after = time.days.bounds or (None, None)
    named = _WEEKDAY_BEFORE.search(text, max(0, time.start - 25), time.start) or _WEEKDAY_AFTER.match(text, time.end)
    if named is None or first is None or after is None or after - first > timedelta(days=1):
        return False
    # Not by `%a`, which is in the language of the process.
    return (named[1] or named[2])[:3].casefold() != _WEEKDAYS[first.weekday()]


def _is_joined(place: int, whole: _TextCertainty) -> bool:
    """Return True if another expression follows or precedes directly, or anywhere in the sentence of a weekday."""
    is_weekday = whole.readings[place].time.days.kind == "weekday"
    return any(
        _JOINT.fullmatch(whole.text, end, start)
        or (is_weekday and start - end <= _SAME_SENTENCE and not _SENTENCE_BREAK.search(whole.text, end, start))
        for end, start in ((before.end, after.start) for before, after in _neighbours(place, whole))
    )


# Doubtful dates: those that the rules above leave open, for the reader of messages to judge.

_TENSES: tuple[Tense | None, ...] = ("past", "future", "arranged", "reported", None)
_LEADS = ("on", "in", "by", "for", "since", "from")
_LIKELY_TAG = 0.8
DATE = 0.92
"""Probability from which a doubtful date is written: of those of two held-out authors five of six are right."""


class DoubtfulDate(NamedTuple):
    """A time expression that may be followed by its date, and the numbers by which that is judged."""

    start: int
    end: int
    first: date | None
    """The first of the days chosen for it."""
    numbers: tuple[float, ...]

    def probability(self, tag: float) -> float:
        """Return the probability that the chosen days are right; `tag` is the reader's that it is meant as a date."""
        return _probability("date", self.inputs(tag))

    def inputs(self, tag: float) -> list[float]:
        """Return the inputs of the regression; the last one is constant."""
        return [*self.numbers, tag, float(tag > _LIKELY_TAG), 1.0]


@cache
def _weights() -> Mapping[str, tuple[float, ...]]:
    """Return the weights of `dates.json`, of which the last one is the bias; see `training/dates.py`."""
    return json.loads(files("vmemo.text.temporal").joinpath("dates.json").read_text(encoding="utf-8"))


def _probability(model: str, inputs: Sequence[float]) -> float:
    return 1 / (1 + math.exp(-sum(weight * number for weight, number in zip(_weights()[model], inputs, strict=True))))


def _doubtful(place: int, whole: _TextCertainty) -> DoubtfulDate:
    reading = whole.readings[place]
    days, (start, end, _), open_ = reading.time.days, reading.time, reading.ambiguous
    first, other = _first_day(days), _first_day(reading.other)
    distance = 0 if first is None else (first - whole.today).days
    far, far_other, ahead = abs(distance), 0 if other is None else abs((other - whole.today).days), distance > 0
    lead, bounds = leading_word(whole.text, start, end), days.annotated_as or days.displayed or days.bounds
    facts = [
        not open_,
        days.certain,
        whole.own_words,
        whole.is_quoted(start),
        _is_joined(place, whole),
        reading.probability,
        whole.is_timetable,
        # A month or a part of it, of which a sentence without tense may mean that of any year.
        bounds is None or days.part is not None or bounds[1] - bounds[0] >= _MONTH,
        days.kind == "weekday",
        days.kind == "day",
        days.either_direction,
        _names_no_day(whole.text, reading),
        *(open_ and reading.tense == tense and ahead == way for tense in _TENSES for way in (True, False)),
        *(lead == word and ahead == way for word in _LEADS for way in (True, False)),
        far > _NEAR.days,
        ahead,
        open_ and far in (0, 1, 7),
        ahead and far < far_other,
    ]
    nearer = (math.log1p(far_other) - math.log1p(far)) * open_
    return DoubtfulDate(start, end, first, (*map(float, facts), math.log1p(far) / 5, nearer))


def _first_day(days: DayRange) -> date | None:
    return days.named[0] if days.named else days.start or days.end


# Time expressions of statements.

_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)")
_YEAR = re.compile(r"\d{4}")
_MAX_DAY_DISTANCE = timedelta(days=60)
"""A past and a future reading further apart belong to a date or month without a year."""
_SOON = timedelta(days=90)
"""People say "last" or name the year of a date that is this close to its next occurrence."""
_LEADING = tuple(
    map(
        str.split,
        "until till til by up|for|from starting beginning|to through|on|in|about after|before|next|at".split("|"),
    )
)
"""Words before an expression that point forward or back."""
_VERBS = frozenset("was were had did went came met got is are".split())
_CHANGED = re.compile(r"\b(?:now|instead|forward|expected|new)\b", re.IGNORECASE)
"""Words of a sentence about a plan that changed."""
_DAY_WORDS = frozenset(("on", "in", "at", "by"))
_GOVERNED: Mapping[Tense, AbstractSet[str]] = {
    "past": _DAY_WORDS | {"until", "till", "from"},
    "reported": _DAY_WORDS,
    "arranged": frozenset(),
    "future": _DAY_WORDS,
}
"""Words before a time that a verb governs, by tense: "I worked there until March", but "they gave me until March"."""
_INTERRUPTION = re.compile("|".join(_PATTERNS["interruption"]), re.IGNORECASE)
"""A sign between a verb and a time that another word governs the time."""
_OPENED = re.compile(r",?(?: \w{1,20}){0,3} ")
"""The text between a time that opens a clause and its verb: "In May, we drove"."""


class AnnotatedText(NamedTuple):
    """A text with absolute dates added, and the time expressions of the original text."""

    text: str
    expressions: list[TimeExpression]


class DatedText(NamedTuple):
    """The time expressions of a text, and the text with the dates of those that are certain, and of all."""

    certain: str
    """As `annotate` returns it."""
    likely: str
    """With each relative time followed by its likely date, for search: "in two weeks (21 May 2023)"."""
    expressions: list[TimeExpression]
    doubtful: Sequence[DoubtfulDate] = ()
    """Expressions whose dates are likely and not certain."""


def with_doubtful(text: str, reference: datetime, accepted: AbstractSet[int], *, southern: bool = False) -> str:
    """Return the text with the dates that are certain, and those of doubtful expressions at these offsets."""
    times = _resolve(text, reference, southern=southern)
    return _insert_dates(text, [time for time in times if time.days.certain or time.start in accepted], COMPUTED_DATE)


def annotate(text: str, reference: datetime, *, southern: bool = False) -> AnnotatedText:
    """Return the text with each relative time that is certain followed by its date: "yesterday (= 7 May 2023)"."""
    dated = date_text(text, reference, southern=southern)
    return AnnotatedText(dated.certain, dated.expressions)


def date_text(text: str, reference: datetime, *, southern: bool = False) -> DatedText:
    """Find the times of a text once for what is stored of it and for what is embedded."""
    readings = _read_by_tense(text, reference, southern=southern)
    whole = _examine(text, reference.date(), readings)
    times = _judged(whole)
    if not times:
        return DatedText(text, _with_likely_dates(text, ()), [])
    expressions = [time_expression(text, time, reference) for time in times]
    certain = [time for time in times if time.days.certain]
    open_ = [
        at
        for at, time in enumerate(times)
        if not time.days.certain and _annotation(time.days) and not _is_other_weekday(time, text)
    ]
    return DatedText(
        _insert_dates(text, certain, COMPUTED_DATE),
        _with_likely_dates(text, times),
        expressions,
        [_doubtful(at, whole) for at in open_],
    )


def _with_likely_dates(text: str, times: Sequence[ResolvedTime]) -> str:
    # The dates of a stored text are embedded in the same form.
    return _insert_dates(text, times, " (").replace(COMPUTED_DATE, " (")


def _insert_dates(text: str, times: Sequence[ResolvedTime], opening: str) -> str:
    parts: list[str] = []
    position = 0
    for _, end, days in times:
        written = _annotation(days)
        given = _PARENTHESIS.match(text, end)
        if written and not (given and _YEAR.search(given[1])):
            parts += (text[position:end], f"{opening}{written})")
            position = end
    return "".join(parts) + text[position:]


def find_statement_times(text: str, reference: datetime, *, southern: bool = False) -> list[TimeExpression]:
    """Return the time expressions of a statement, each read as past or future by the tense of its clause."""
    return [time_expression(text, time, reference) for time in _resolve(text, reference, southern=southern)]


def _annotation(days: DayRange) -> str:
    if days.unannotated or not days.relative:
        return ""
    if days.part and days.whole and (whole := days.whole.bounds):
        # "The end of May" is its last day, and that of a week may be Friday.
        is_month = whole[0].day == whole[1].day == 1
        if days.part != "end" or not is_month:
            return f"{'late' if days.part == 'end' else days.part} {format_days(whole)}"
    return format_days(days.named) if days.named else ""


def _resolve(text: str, reference: datetime, *, southern: bool = False) -> list[ResolvedTime]:
    """Return the time expressions by tense, with `certain` set to whether their days may be written."""
    readings = _read_by_tense(text, reference, southern=southern)
    return _judged(_examine(text, reference.date(), readings)) if readings else []


def _judged(whole: _TextCertainty) -> list[ResolvedTime]:
    return [
        reading.time._replace(days=replace(reading.time.days, certain=_is_certain(place, whole)))
        for place, reading in enumerate(whole.readings)
    ]


def _read_by_tense(text: str, reference: datetime, *, southern: bool) -> list[_Reading]:
    """Return the time expressions, each read as past or future by the tense of its clause."""
    past, future = parse_both(text, reference, southern=southern)
    if past is future:
        return [_Reading(time, time.days, None) for time in past]
    future_days = {(time.start, time.end): time.days for time in future}
    pairs = [(time, future_days.get((time.start, time.end), time.days)) for time in past]
    positions = {
        time.start: clause_position(text, time.start, time.end)
        for time, later in pairs
        if time.days.relative and (time.days.is_ambiguous or _first_bound(time.days) != _first_bound(later))
    }
    cues = find_cues(lower_same_length(text), (position.sentence for position in positions.values()))
    today = reference.date()
    readings: list[_Reading] = []
    for time, later in pairs:
        position = positions.get(time.start)
        if position is None:
            readings.append(_Reading(time, time.days, None))
        elif (reading := _choose(_Statement(text, time, position, cues), later, today)) is not None:
            readings.append(reading)
    return readings


def _first_bound(days: DayRange) -> date | None:
    return days.start or days.end


class _Statement(NamedTuple):
    """A time expression read as past, its position, and the tense cues of its text."""

    text: str
    time: ResolvedTime
    position: ClausePosition
    cues: TenseCues


def _choose(statement: _Statement, future: DayRange, today: date) -> _Reading | None:
    """Return the reading that fits the clause, or None if the clause describes a habit."""
    text, time, position, cues = statement
    past = time.days
    tense = tense_of(text, time.start, time.end, position, cues)
    if past.is_ambiguous and tense != "past" and is_habitual(text, position):
        return None
    lead = leading_word(text, time.start, time.end)
    if _first_bound(past) in (None, _first_bound(future)) or _first_bound(future) is None or lead == "since":
        return _Reading(time, future, tense, ambiguous=True, sentence=position.sentence, clause=position.clause)
    probability = _governed_side(statement, tense, lead)
    if probability is None:
        probability = _probability("future", [*_side_inputs(statement, future, tense, today), 1.0])
    chosen, other = (future, past) if probability >= 0.5 else (past, future)
    return _Reading(
        time._replace(days=chosen),
        other,
        tense,
        ambiguous=True,
        sentence=position.sentence,
        clause=position.clause,
        probability=max(probability, 1 - probability),
    )


def side_examples(text: str, reference: datetime) -> Iterator[tuple[int, int, list[float], date | None, date | None]]:
    """Yield each expression with two readings for `training/dates.py`: its place, inputs, and both first days."""
    past, future = parse_both(text, reference)
    for time, later in zip(past, future, strict=False):
        if (time.start, time.end) == (later.start, later.end) and _first_day(time.days) != _first_day(later.days):
            position = clause_position(text, time.start, time.end)
            statement = _Statement(text, time, position, find_cues(lower_same_length(text), [position.sentence]))
            tense = tense_of(text, time.start, time.end, position, statement.cues)
            inputs = [*_side_inputs(statement, later.days, tense, reference.date()), 1.0]
            yield time.start, time.end, inputs, _first_day(time.days), _first_day(later.days)


def _governed_side(statement: _Statement, tense: Tense | None, lead: str) -> float | None:
    """Return 1 if a verb in the future governs the time, 0 for one in the past: "He said so in May"; else None."""
    text, (start, end, past), position, cues = statement
    if lead == "about" and past.kind == "weekday" and tense != "future":
        return 0.0
    if tense is None or (lead == "from" and (past.kind != "span" or past.end is None)):
        return None
    place = bisect_left(cues.offsets, start) - 1
    if place >= 0 and cues.offsets[place] >= position.part[0]:
        between = text[cues.offsets[place] : start]
        is_direct = tense == "past" and len(between.split()) == 1
        governs = (is_direct or lead in _GOVERNED[tense]) and _INTERRUPTION.search(between) is None
    else:
        place += 1
        opens = lead in _DAY_WORDS and opens_clause(text, start, position)
        governs = opens and _OPENED.fullmatch(text, end, cues.offsets[place]) is not None
    if not governs or cues.tenses[place] != tense:
        return None
    if tense == "future":
        return None if cues.mention(position.clause, "past", "reported") else 1.0
    return None if concerns_plan(text, lead, position) or _CHANGED.search(text, *position.clause) else 0.0


def _side_inputs(statement: _Statement, future: DayRange, tense: Tense | None, today: date) -> list[float]:
    """Return the numbers by which the past and the future reading of an expression are told apart."""
    text, (start, end, past), position, cues = statement
    ahead, back = (future.start or future.end or today) - today, today - (past.start or past.end or today)
    lead, clause = leading_word(text, start, end), text[slice(*position.clause)]
    before = cues.last(position.clause[0], start)
    facts = [
        *(tense == each for each in _TENSES),
        *(before == each for each in _TENSES),
        *(before == each and lead in ("in", "on") for each in _TENSES[:4]),
        lead in _VERBS,
        *(lead in each for each in _LEADING),
        describes_present(text, end),
        is_question(text, position),
        cues.mention(position.sentence, "past", "reported"),
        cues.mention(position.sentence, "future"),
        concerns_plan(text, lead, position),
        is_modifier(text, start, end),
        is_determined(text, start),
        precedes_noun(text, end),
        _CHANGED.search(clause) is not None,
        ahead <= _SOON,
        back <= _SOON,
        future.start == today,
    ]
    numbers = [*map(float, facts), math.log1p(abs(ahead.days)) / 5, math.log1p(abs(back.days)) / 5, 1.0]
    near = ahead + back <= _MAX_DAY_DISTANCE
    return [*(number * near for number in numbers), *(number * (not near) for number in numbers)]


OWN_WORDS_ENGINES = ("local", "verbatim")
"""Engines whose facts are the words of a message."""
EDITED_BY_HAND = "user"
"""The engine of facts that were written with `update()`."""


def speaker_in(text: str, engine: str) -> str:
    """Return the speaker of a fact in the words of a message, folded; empty for other facts."""
    speaker, colon, _ = text.partition(": ")
    return speaker.casefold() if colon and engine in (*OWN_WORDS_ENGINES, EDITED_BY_HAND) else ""


def embedded_text(text: str, mentioned_at: datetime, engine: str = OWN_WORDS_ENGINES[0], *, after: str = "") -> str:
    """Return the text with its date in front, because the stored text has none, and with the likely dates of its times.

    The encoder was trained on these: a likely date serves a search, even where it is too uncertain to be stored. A
    model has dated the facts that it wrote, so their times are not resolved again. `after` is the line that a short
    line continues.
    """
    if engine in OWN_WORDS_ENGINES:
        text = _with_likely_dates(text, [each.time for each in _read_by_tense(text, mentioned_at, southern=False)])
    return with_date(after_line(after, text), mentioned_at)


async def embed_facts(facts: Sequence[Fact], embedder: Embedder) -> list[NewFact]:
    texts = [embedded_text(fact.text, fact.mentioned_at, fact.engine) for fact in facts]
    encoded = await encodings(embedder, texts, "document")
    return [NewFact(fact=fact, embedding=e.vector, tokens=e.tokens) for fact, e in zip(facts, encoded, strict=True)]


def after_line(line: str, text: str) -> str:
    """Return a text with the line that it continues, if there is one, after its speaker."""
    speaker, _, words = text.partition(": ")
    return f"{speaker}: {line} {words}" if line else text


def with_date(text: str, mentioned_at: datetime) -> str:
    return f"{mentioned_at.day} {mentioned_at:%B %Y}. {text}"
