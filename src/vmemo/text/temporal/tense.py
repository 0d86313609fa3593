"""Tense of the clause around a time expression."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns

# Cues: words that show whether a clause is about the past or the future.

Tense = Literal["future", "past", "arranged", "reported"]
"""`arranged` is a past act about a future date ("booked"); `reported` is one if a preposition points forward."""

_PATTERNS = read_patterns("temporal/tense.txt")
_BEFORE_STATE = tuple(
    f"{word} "
    for word in (
        " is; are; am; not; be; being; get; gets; getting; the; a; an; my; our; his; their; to;'m;’m;'re;’re;n't;n’t"
    ).split(";")
)
"""A participle after these is a state or an adjective: "is closed", "the planned trip"."""
_BY_DATE = LazyPattern("|".join(_PATTERNS["by date"]))
_CUES: Mapping[str, Tense | None] = {
    "named": None,
    "unfulfilled": "past",
    "arranged": "arranged",
    "future": "future",
    "reported": "reported",
    "past": "past",
    "past_verb": "past",
}
"""Tense by type of cue, the sections of `tense.txt`; the earlier type wins if two match at the same word."""
_GROUPS = (f"(?P<{name}>{'|'.join(_PATTERNS[name])})" for name in _CUES)
_CUE = LazyPattern(rf"(?:\b(?=\w)|(?=['’]))(?:{'|'.join(_GROUPS)})")


class TenseCues(NamedTuple):
    """The cues of a text in order: the offset and the tense of each."""

    offsets: list[int]
    tenses: list[Tense]

    def last(self, begin: int, end: int) -> Tense | None:
        """Return the tense of the last cue between the offsets."""
        place = bisect_left(self.offsets, end) - 1
        return self.tenses[place] if place >= 0 and self.offsets[place] >= begin else None

    def first(self, begin: int, end: int) -> Tense | None:
        """Return the tense of the first cue between the offsets."""
        place = bisect_left(self.offsets, begin)
        return self.tenses[place] if place < len(self.offsets) and self.offsets[place] < end else None

    def mention(self, span: Span, *tenses: Tense) -> bool:
        """Return True if a cue within the span has one of the tenses."""
        first, last = bisect_left(self.offsets, span[0]), bisect_left(self.offsets, span[1])
        return not set(tenses).isdisjoint(self.tenses[first:last])


def find_cues(lowered: str, spans: Iterable[tuple[int, int]]) -> TenseCues:
    """Return the cues within the spans of a lower-case text. Spans are in order and may overlap."""
    offsets: list[int] = []
    tenses: list[Tense] = []
    searched = 0
    for begin, end in spans:
        for match in _CUE.finditer(lowered, max(begin, searched), end):
            name = match.lastgroup or "named"
            tense = _CUES[name]
            in_future = bool(tenses) and tenses[-1] == "future" and offsets[-1] >= begin
            # A participle may be an adjective, or a result that is wanted: "I need it painted by May".
            wanted = in_future and _BY_DATE.match(lowered, match.end()) is not None
            is_state = name == "past_verb" and (wanted or lowered.endswith(_BEFORE_STATE, 0, match.start()))
            if tense and not is_state:
                offsets.append(match.start())
                tenses.append(tense)
        searched = max(searched, end)
    return TenseCues(offsets, tenses)


# The sentence and clause around a time expression, and the tense of that clause.

_SCHEDULED = re.compile("|".join(_PATTERNS["scheduled"]), re.IGNORECASE)
"""The verb before a future date: "is on Saturday", "is out in April"."""
_PRESENT_STATE = re.compile("|".join(_PATTERNS["present state"]), re.IGNORECASE)
"""The verb after a future day: "Friday is sold out"."""
_HABITUAL = re.compile(r"\b(?:always|usually|normally|typically|generally|annually|traditionally)\b", re.IGNORECASE)

_MODIFIED_NOUN = re.compile("|".join(_PATTERNS["modified noun"]), re.IGNORECASE)
"""The text after a date that qualifies a noun: "the July 8 workshop", "Friday's game"."""
_DETERMINER = re.compile(r"(?:\b(?:the|an?|my|our|your|his|her|their|its|this|that)|['’]s?)\s$", re.IGNORECASE)
_DATED_PLAN = re.compile("|".join(_PATTERNS["dated plan"]), re.IGNORECASE)
_PLAN = re.compile("|".join(_PATTERNS["plan"]), re.IGNORECASE)
_ATTAINED = re.compile("|".join(_PATTERNS["attained"]), re.IGNORECASE)

_SENTENCE_END = re.compile(r"[.!?…]\s|\n")
_SENTENCE_BREAK = re.compile(r"[;—]|:\s|\s[-–]\s")
_CLAUSE = re.compile("|".join(_PATTERNS["clause"]))
_OPENING = re.compile(
    r"\W*+(?:(?:and|but|so|then)\s*+)?(?:(?:in|on|by|at|around|from|until|for)\s*+)?(?:the\s)?", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_NEXT_WORD = re.compile(r"\s*+(?:,\s*+)?\w+")
_LAST_WORD = re.compile(r"(\w{1,30})\W{0,30}(?:the\s)?$")
_MAX_DISTANCE = 300
Span = tuple[int, int]
"""Start and end offsets."""


class ClausePosition(NamedTuple):
    """The sentence that a time expression is in, its part between dashes or colons, and its clause."""

    sentence: Span
    part: Span
    clause: Span


def sentence_bounds(text: str, start: int, end: int) -> Span:
    """Return the bounds of the sentence around an expression, searched for within a fixed distance."""
    limits = (max(0, start - _MAX_DISTANCE), min(len(text), end + _MAX_DISTANCE))
    return _narrow(text, (start, end), _SENTENCE_END, limits)


def clause_position(text: str, start: int, end: int) -> ClausePosition:
    """Return the sentence, part and clause that an expression is in."""
    sentence = sentence_bounds(text, start, end)
    part = _narrow(text, (start, end), _SENTENCE_BREAK, sentence)
    clause_start, clause_end = _narrow(text, (start, end), _CLAUSE, part)
    position = ClausePosition(sentence, part, (clause_start, clause_end))
    if not opens_clause(text, start, position):
        return position
    return position._replace(clause=(clause_start, _end_of_opened_clause(text, end, part[1])))


def opens_clause(text: str, start: int, position: ClausePosition) -> bool:
    """Return True if nothing but a conjunction and a preposition precedes the expression in its clause."""
    return _OPENING.fullmatch(text, position.clause[0], start) is not None


def _narrow(text: str, expression: Span, border: re.Pattern[str], limits: Span) -> Span:
    begin = max((match.end() for match in border.finditer(text, limits[0], expression[0])), default=limits[0])
    following = border.search(text, expression[1], limits[1])
    return begin, following.start() if following else limits[1]


def _end_of_opened_clause(text: str, start: int, limit: int) -> int:
    """Return the end of a clause that the expression opens, past a border right after it: "In May, we went"."""
    first = _NEXT_WORD.match(text, start, limit)
    following = _CLAUSE.search(text, first.end() if first else start, limit)
    return following.start() if following else limit


def tense_of(text: str, start: int, end: int, position: ClausePosition, cues: TenseCues) -> Tense | None:
    """Return the tense by the nearest cue: before the expression in its clause, after it, or earlier in its part."""
    clause_start, clause_end = position.clause
    if _SCHEDULED.search(text[max(clause_start, start - 60) : start]):
        return "future"
    return cues.last(clause_start, start) or cues.first(end, clause_end) or cues.last(position.part[0], clause_start)


def describes_present(text: str, end: int) -> bool:
    """Return True if the text after an expression describes the day in the present tense, as of no past day."""
    return _PRESENT_STATE.match(text, end) is not None


def is_habitual(text: str, position: ClausePosition) -> bool:
    """Return True if the clause describes what usually happens."""
    return _HABITUAL.search(text, *position.clause) is not None


def concerns_plan(text: str, lead: str, position: ClausePosition) -> bool:
    """Return True if a clause in the past sets or changes a plan, whose date may be ahead: "I set a target for 1 May".

    A date after "on" is that of the act ("I made the plan on 3 March"), unless the plan is itself an event.
    """
    plan = _DATED_PLAN if lead in ("on", "in") else _PLAN
    place = position.part if lead == "by" else position.clause
    return plan.search(text, *place) is not None and _ATTAINED.search(text, *place) is None


def leading_word(text: str, start: int, end: int) -> str:
    """Return the preposition that the expression begins with, or else the word before it."""
    first = _WORD.match(text, start, end)
    word = first[0].lower() if first else ""
    if word in ("since", "until", "till", "til", "by", "up", "from", "before", "after", "starting", "beginning"):
        return word
    before = _LAST_WORD.search(text, max(0, start - 30), start)
    return before[1].lower() if before else ""


def is_modifier(text: str, start: int, end: int) -> bool:
    """Return True if an expression qualifies a noun, and so has no tense: "the July 8 workshop"."""
    return is_determined(text, start) and precedes_noun(text, end)


def is_determined(text: str, start: int) -> bool:
    """Return True if an article or a possessive precedes: "the Sunday", "Anna's May 20"."""
    return _DETERMINER.search(text, max(0, start - 12), start) is not None


def precedes_noun(text: str, end: int) -> bool:
    """Return True if a word follows that is probably a noun: "Sunday lunch", "Friday night football"."""
    return _MODIFIED_NOUN.match(text, end) is not None


def is_question(text: str, position: ClausePosition) -> bool:
    """Return True if the sentence ends with a question mark."""
    end = position.sentence[1]
    return "?" in text[max(0, end - 1) : end + 1]
