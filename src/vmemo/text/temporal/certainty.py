"""The decision to write a date: which readings of a statement's time expressions are certain.

A search may use a likely reading; a written date must be right. So a reading is certain only if the words themselves
leave no doubt (`DayRange.certain`, decided by the rule that resolved them), the tense of the clause and the nearest
occurrence agree on a weekday or a date without a year, and the words are the speaker's own: not in code, quoted, or a
letter or plan that was pasted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

from vmemo.text.own_words import MAX_OWN_WORDS
from vmemo.text.temporal.clauses import Span, describes_present, is_determined, leading_word, precedes_noun
from vmemo.text.temporal.day_range import DayRange
from vmemo.text.temporal.parser import ResolvedTime
from vmemo.text.temporal.tense_cues import Tense

_NEAR = timedelta(days=60)
"""A date without a year that is nearer than this has that year, whatever the tense seems to be."""
_FAR, _FAR_AHEAD = timedelta(days=300), timedelta(days=250)
"""People name the year of a date that is farther away, and say "next" of one that is farther ahead."""
_TARGET_WORDS = frozenset("by until till for to through".split())
"""Words before the date of something that was arranged."""
_MAX_WEEKDAYS = 2
"""More weekdays than this in one text are a timetable."""
_MONTH, _NEARLY_OVER = timedelta(days=28), timedelta(days=14)
_BORDERS = 3
"""Characters before the first word of a line: "- **Monday**"."""
_JOINT = re.compile(r"\W{0,3}")
"""The text between expressions that belong together: "Saturday (March 30)"."""
_APPOSITION = re.compile(r"\W{0,3}(?:\b(?:on|in|which was|which is|around)\b(?: on\b)?)?\W{0,3}")
"""The text between two names of the same time: "last month, on the 15th"."""
_SENTENCE_BREAK = re.compile(r"[.!?\n]")
_SAME_SENTENCE = 80
"""Characters between a weekday and another expression that it may depend on: "Sunday lunch the week before last"."""
_SHORT = 300
"""Characters of a text that is taken for talk."""
_PERSON = re.compile(r"\b(?:i|me|my|mine|we|us|our|you|your)\b", re.IGNORECASE)
_PROSE_LINES = 3
"""A text of more lines may be a timetable or a form that was pasted."""
_GENERIC = re.compile(r"\b(?:n?ever|whenever|any ?time|birthdays?|born|anniversar(?:y|ies))\b", re.IGNORECASE)
"""Words of a sentence about any year."""
_AFTER_EVENT = re.compile(r"\bafter \w{2,20}ing\b|\bfrom (?:my|our|his|her|their) \w", re.IGNORECASE)
_SUBJECT = re.compile(r"\b(?:i|we|he|she|they|you)\b", re.IGNORECASE)

_CODE = re.compile(
    r"```|^\||^[ \t]{0,40}(?:(?:def|class|import|return|const|let|var|function|public|private|#include|SELECT|INSERT)\b"
    r".{0,200}[:;({=]|\w{1,40} ?= ?\S|</?\w{1,20}[^>\n]{0,80}>)|[;{}]$",
    re.MULTILINE,
)
"""A fence, or a line of a table, of a program or of markup."""
_DOCUMENT = re.compile(
    r"^(?:dear\b|subject:|from:|to:|re:|sincerely|(?:kind|best|warm) regards|yours (?:truly|sincerely|faithfully)"
    r"|chapter \w+|abstract\b|act [ivx\d]+\b|scene \d+)|\[(?:your |my )?(?:name|date|company|address|email|title)",
    re.IGNORECASE | re.MULTILINE,
)
"""The beginning of a line in a letter, a script or a paper, or a placeholder of a template."""
_TODAY_IS = re.compile(
    r"\b(?:today(?:['’]s(?: date)?)?(?: is)?|(?:it is|it['’]s|it was) (?:currently|now)):?\s(?:on\s)?$", re.IGNORECASE
)
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*•#|>+]|\d{1,2}[.)])")
_QUOTE_OR_LINE = re.compile(r'["“”\n]')


class Reading(NamedTuple):
    """A time expression with the days chosen for it, the other choice, and the tense of its clause."""

    time: ResolvedTime
    other: DayRange
    """The reading on the other side of the reference; the same days if there is only one."""
    tense: Tense | None
    ambiguous: bool = False
    """The words may mean a past or a future time."""
    clause: Span = (0, 0)
    in_question: bool = False


class TextCertainty(NamedTuple):
    """Properties of a text that all its expressions share."""

    text: str
    today: date
    readings: Sequence[Reading]
    own_words: bool
    weekdays: int
    marks: list[int]
    """Offsets of quotation marks and line breaks."""
    quoted: list[bool]
    """For each mark, whether a quotation follows it. A quotation ends with its line at the latest."""
    lines: list[int]
    """Offsets of lines."""

    def is_quoted(self, offset: int) -> bool:
        """Return True if the offset is in a quotation."""
        place = bisect_right(self.marks, offset) - 1
        return place >= 0 and self.quoted[place]

    def is_talk(self, clause: Span) -> bool:
        """Return False for a long text without a first or second person in the clause, and for one of many lines."""
        if len(self.lines) > _PROSE_LINES:
            return False
        return len(self.text) <= _SHORT or _PERSON.search(self.text, *clause) is not None

    def is_listed(self, offset: int) -> bool:
        """Return True if the offset is in an item of a list or a table, in a heading, or opens one of several lines."""
        line = self.lines[bisect_right(self.lines, offset) - 1]
        return len(self.lines) > 1 and (offset - line <= _BORDERS or _LIST_ITEM.match(self.text, line) is not None)


def examine(text: str, today: date, readings: Sequence[Reading]) -> TextCertainty:
    """Return the properties of a text that all its expressions share."""
    other_day = any(_names_another_today(text, each.time, today) for each in readings)
    own_words = len(text) <= MAX_OWN_WORDS and not (other_day or _CODE.search(text) or _DOCUMENT.search(text))
    weekdays = sum(each.time.days.kind == "weekday" for each in readings)
    found = list(_QUOTE_OR_LINE.finditer(text))
    quoted: list[bool] = []
    for mark in found:
        quoted.append(mark[0] != "\n" and not (quoted and quoted[-1]))
    return TextCertainty(
        text,
        today,
        readings,
        own_words,
        weekdays,
        marks=[mark.start() for mark in found],
        quoted=quoted,
        lines=[0, *(mark.end() for mark in found if mark[0] == "\n")],
    )


def _names_another_today(text: str, time: ResolvedTime, today: date) -> bool:
    """Return True if the text says that it was written on another day: "It is currently Friday"."""
    if time.days.bounds is None or not _TODAY_IS.search(text, max(0, time.start - 25), time.start):
        return False
    if time.days.kind == "weekday":
        return time.days.bounds[0].weekday() != today.weekday()
    return not time.days.bounds[0] <= today < time.days.bounds[1]


def is_certain(place: int, whole: TextCertainty) -> bool:
    """Return True if the days chosen for the expression at this place in the text's readings are beyond doubt."""
    reading = whole.readings[place]
    days = reading.time.days
    if not days.relative:
        return True
    if not days.certain or not whole.own_words or whole.is_quoted(reading.time.start):
        return False
    if _is_contradicted(place, whole):
        return False
    if not reading.ambiguous:
        return True
    if not _agrees_with_tense(reading, whole) or _is_joined(place, whole) or not whole.is_talk(reading.clause):
        return False
    if days.kind == "weekday":
        return _is_certain_weekday(reading, whole)
    if days.either_direction:
        return reading.tense in ("past", "future") and days.start != whole.today
    return _is_certain_date(reading, whole)


def _neighbours(place: int, whole: TextCertainty) -> list[tuple[ResolvedTime, ResolvedTime]]:
    """Return the expression with the one before it, and with the one after it."""
    pairs = ((place - 1, place), (place, place + 1))
    return [(whole.readings[a].time, whole.readings[b].time) for a, b in pairs if a >= 0 and b < len(whole.readings)]


def _is_contradicted(place: int, whole: TextCertainty) -> bool:
    """Return True if the text names the same time once more, and by other days: "last month, on 12 March" in May."""
    return any(
        _APPOSITION.fullmatch(whole.text, before.end, after.start) and not _overlap(before.days, after.days)
        for before, after in _neighbours(place, whole)
    )


def _overlap(one: DayRange, other: DayRange) -> bool:
    first, second = one.displayed or one.bounds, other.displayed or other.bounds
    return first is None or second is None or (first[0] < second[1] and second[0] < first[1])


def _is_joined(place: int, whole: TextCertainty) -> bool:
    """Return True if another expression follows or precedes directly, or anywhere in the sentence of a weekday."""
    is_weekday = whole.readings[place].time.days.kind == "weekday"
    return any(
        _JOINT.fullmatch(whole.text, before.end, after.start)
        or (is_weekday and _in_one_sentence(whole.text, before.end, after.start))
        for before, after in _neighbours(place, whole)
    )


def _in_one_sentence(text: str, end: int, start: int) -> bool:
    return start - end <= _SAME_SENTENCE and _SENTENCE_BREAK.search(text, end, start) is None


def _agrees_with_tense(reading: Reading, whole: TextCertainty) -> bool:
    start, end, days = reading.time
    if reading.tense == "past":
        return days.start is None or days.start <= whole.today
    is_plan = reading.tense == "arranged" and leading_word(whole.text, start, end) != "on"
    if not is_plan and reading.tense != "future":
        return True
    # A plan for a month that is nearly over is one for next year.
    is_over = days.end is not None and days.end <= whole.today + (_NEARLY_OVER if _is_long(days) else timedelta())
    return not is_over


def _is_certain_weekday(reading: Reading, whole: TextCertainty) -> bool:
    """Return True for a weekday with a clear tense, if it is neither today nor next to it: that has another name."""
    start, end, days = reading.time
    if whole.weekdays > _MAX_WEEKDAYS or whole.is_listed(start):
        return False
    if is_determined(whole.text, start) or precedes_noun(whole.text, end) or describes_present(whole.text, end):
        return False
    if days.start is None or abs((days.start - whole.today).days) in (0, 1, 7):
        return False
    return reading.tense in ("past", "future")


def _is_certain_date(reading: Reading, whole: TextCertainty) -> bool:
    """Return True if the nearest occurrence is close, or if it is the one that the tense asks for."""
    days, (start, end, _), tense = reading.time.days, reading.time, reading.tense
    chosen, other = _distance(days, whole.today), _distance(reading.other, whole.today)
    if chosen is None or other is None or (chosen > other and other <= _NEAR):
        return False
    lead = leading_word(whole.text, start, end)
    if (reading.in_question and chosen > _NEAR) or _GENERIC.search(whole.text, *reading.clause):
        return False
    is_future = (days.start or days.end or whole.today) > whole.today
    if chosen > (_FAR_AHEAD if is_future else _FAR):
        return False
    if is_future and _mentions_another_event(reading, whole.text, far=chosen > other):
        return False
    if tense in ("past", "future") or (tense == "reported" and lead in ("on", "in", "since")):
        return True
    if tense == "arranged" and is_future and lead in _TARGET_WORDS:
        return True
    return lead == "since" or (chosen <= min(other, _NEAR) and not _is_long(days))


def _mentions_another_event(reading: Reading, text: str, *, far: bool) -> bool:
    """Return True if a future date may be that of a past event: "after attending it on", "the photo we took on"."""
    clause = text[reading.clause[0] : reading.time.start]
    return _AFTER_EVENT.search(clause) is not None or (far and len(_SUBJECT.findall(clause)) > 1)


def _is_long(days: DayRange) -> bool:
    """Return True for a month or a part of it, of which a sentence without tense may mean that of any year."""
    bounds = days.annotated_as or days.displayed or days.bounds
    return bounds is None or days.part is not None or bounds[1] - bounds[0] >= _MONTH


def _distance(days: DayRange, today: date) -> timedelta | None:
    first = days.start or days.end
    return first and abs(first - today)
