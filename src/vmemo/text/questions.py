"""Analysis of a query: its type, tense, the time that it is about, and its sub-queries. Rules only, English."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from vmemo.models import Interval, QueryType, QuestionTense
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.temporal import TimeExpression, find_times
from vmemo.text.temporal.find import lower_same_length
from vmemo.text.tokens import STOP_WORDS

MAX_QUERY_CHARS = 2_000
"""Characters of a query that are analysed."""

# Types of questions, by which recall weighs its channels, and questions that many facts answer.

_LETTERS = LazyPattern(r"[^\W\d_]+")
_CONTENTLESS = STOP_WORDS | frozenset("s d m please know tell think mean say ok okay yes hi hello hey thanks".split())
_STATEMENT = LazyPattern(r"\W*(?:i|we|he|she|it|they|you|there|this|that|my|our|let|thanks?|hi|hello|hey|ok(?:ay)?)\b")
_PATTERNS = read_patterns("questions.txt")
_ASSISTANT = LazyPattern("|".join(_PATTERNS["assistant"]))
_ADVICE = LazyPattern("|".join(_PATTERNS["advice"]))
_TYPES: tuple[QueryType, ...] = ("general", "temporal", "update", "count", "multi-hop", "preference")
_CUES = {type: LazyPattern("|".join(_PATTERNS[type])) for type in _TYPES}
"""Cues of a question, the first of which decides."""
_EVERYTHING = LazyPattern("|".join(_PATTERNS["everything"]))
_COURSE = LazyPattern("|".join(_PATTERNS["course"]))
_PROFILE = LazyPattern("|".join(_PATTERNS["profile"]))


def query_type(text: str, questions: Sequence[str], *, timed: bool) -> QueryType:
    """Return the type of a query in lower case with the given questions; `timed` if it names a time."""
    if _ASSISTANT.search(text):
        return "assistant"
    asked = " ".join(questions)
    if _ADVICE.search(text) and not _CUES["temporal"].search(asked):
        return "preference"
    if not questions or (set(_LETTERS.findall(text)) <= _CONTENTLESS and not timed):
        # At most eight words that state nothing are keywords.
        keywords = len(text.split(maxsplit=8)) <= 8 and _STATEMENT.match(text) is None
        return "temporal" if timed and keywords else "general"
    for type in _TYPES:
        if _CUES[type].search(asked):
            return type
    return "temporal" if timed else "factual"


def asks_for_everything(text: str) -> bool:
    """Return True if a text in lower case asks for what many facts say: "how many", "list all", "summarize"."""
    return _EVERYTHING.search(text) is not None or asks_for_course(text)


def asks_for_course(text: str) -> bool:
    """Return True if a text in lower case asks for an order, a summary or a development; former facts belong to it."""
    return _COURSE.search(text) is not None


def asks_for_profile(text: str) -> bool:
    """Return True if a question asks what someone or something is like, or for a summary."""
    return _PROFILE.search(" ".join(text[:2000].lower().replace("’", "'").split())) is not None


# Sub-queries of a question. Each rule matches one form of question exactly: a wrong sub-query costs a search.

MAX_PARTS = 4
_OPENING = (
    r"\W*(?:(?:hey|hi|hello|so|ok|okay|well|and|but|also|please|now|by the way)\b[,!]?\s+)*"
    r"(?:(?:(?:can|could|would|will) you (?:please )?(?:tell|remind) me|do you (?:happen to )?(?:know|remember|recall)"
    r"|(?:please )?(?:tell|remind) me|i (?:wonder|forgot|forget|want to know|don't remember))[,:]?\s+)?"
)
"""Greetings and phrases before the question itself."""
_ABBREVIATED = r"(?:(?<=\b[A-Za-z])|(?<=\b[DMS][rst])|(?<=Mrs)|(?<=Prof)|(?<=vs))\."
_SENTENCE = LazyPattern(rf"(?:[^.?!\n]+|[.!](?=\w)|{_ABBREVIATED})+[.?!]*\s*")
_QUESTION = LazyPattern("|".join(_PATTERNS["question"]))
_OPENING_PHRASE = LazyPattern(rf"(?i){_OPENING}")
_WORD = LazyPattern(r"[^\W_]+")
_DEPENDENT = LazyPattern(r"(?i)\b(?:its?|that|this|those|these|each|ones?|there|then|they|them)\b")
_PRONOUN = LazyPattern(r"(?i)\b(?:he|him|his|she|her)\b")
_CLAUSE = LazyPattern(r"(?i),? and (?=(?:(?:in|on|at|by|for) )?(?:who|what|where|when|why|which|how)\b)")
_TWO = LazyPattern("|".join(_PATTERNS["two"]))
"""The beginning of a question about two events, which "or" or "and" separates."""
_SEPARATOR = LazyPattern(r"(?i),? (?:or|and) ")


def question_sentences(text: str) -> list[re.Match[str]]:
    """Return the sentences that are questions, with or without a question mark."""
    return [found for found in _SENTENCE.finditer(text) if _QUESTION.match(found[0])]


def decompose(questions: Sequence[str], times: Sequence[str]) -> tuple[str, ...]:
    """Return up to four sub-queries: the questions of a text, the clauses of one, or the two events that it names.

    A part that only names a time is not one.
    """
    parts = questions if len(questions) > 1 else [part for question in questions for part in _divide(question)]
    tidy = {(part := _tidy(each)).casefold(): part for each in parts}
    kept = [part for part in tidy.values() if not any(part in time for time in times)]
    alone = len(kept) == len(tidy) > 1 and all(map(_stands_alone, kept))
    return tuple(_with_name(kept)[:MAX_PARTS]) if alone else ()


def _with_name(parts: Sequence[str]) -> list[str]:
    """Add the name to parts with a pronoun: "what is her job" after "Where does Ana live" is about Ana."""
    names = _names(parts[0])
    added = f" {names[0]}" if len(names) == 1 else ""
    return [part + added if _PRONOUN.search(part) and not _names(part) else part for part in parts]


def _names(part: str) -> list[str]:
    return [word for word in _WORD.findall(part)[1:] if word[0].isupper() and word.lower() not in STOP_WORDS]


def _divide(question: str) -> Sequence[str]:
    bare = _tidy(question.partition("?")[0])
    if len(clauses := _CLAUSE.split(bare)) > 1:
        return clauses
    found = _TWO.search(bare)
    middle = _SEPARATOR.search(bare, found.end()) if found else None
    return (bare[found.end() : middle.start()], bare[middle.end() :]) if found and middle else ()


def _tidy(part: str) -> str:
    return " ".join(_OPENING_PHRASE.sub("", part, count=1).split()).strip(" ,;:.?!")


def _stands_alone(part: str) -> bool:
    """Return True if a part is clear without the others: it has a name, or several words and no pronoun."""
    words = _WORD.findall(part)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    is_name = len(words) == 1 and bool(content) and words[0][0].isupper()
    return is_name or bool(_names(part)) or (bool(content) and len(words) > 1 and _DEPENDENT.search(part) is None)


# Times that a question names and the rules cannot resolve: no durations, habits, or times that only an event defines.

_TIME = LazyPattern("|".join(_PATTERNS["unresolved"]))
"""Calendar times that the rules miss: "a dozen days ago", "last Diwali"."""
_FOREIGN = LazyPattern("|".join(_PATTERNS["foreign"]))
"""Common times in other languages than English, which are detected here but not resolved. In lower case."""


class UnresolvedTime(NamedTuple):
    """Words of a question that name a time."""

    start: int
    text: str
    foreign: bool
    """The words are not English."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def find_unresolved_times(text: str, times: Sequence[TimeExpression]) -> Iterator[UnresolvedTime]:
    """Yield the times of the calendar that a text names and that none of the resolved times covers."""
    lowered = lower_same_length(text)
    for pattern in (_TIME, _FOREIGN):
        for match in pattern.finditer(lowered):
            start, end = match.span()
            if not any(time.start <= start and end <= time.end for time in times):
                yield UnresolvedTime(start, text[start:end], pattern is _FOREIGN)


# Tense.

_PAST = LazyPattern("|".join(_PATTERNS["past"]))
_PRESENT = LazyPattern("|".join(_PATTERNS["present"]))
_PAST_SUBJECT = LazyPattern("|".join(_PATTERNS["past subject"]))
"""A question for the subject of a verb, which has no auxiliary."""
_FORMER = LazyPattern("|".join(_PATTERNS["former"]))


def question_tense(text: str, during: Interval | None, now: datetime) -> QuestionTense:
    """Return the tense of a question about the time `during`."""
    lowered = text.lower().replace("’", "'")
    if _FORMER.search(lowered) is not None:
        return "former"
    if _PAST.search(lowered) is not None:
        return "past"
    # A recurring time, as in "When does the Friday boat leave?", is not over.
    if _PRESENT.search(lowered) is not None:
        return "present"
    over = during is not None and is_over(during, now)
    return "past" if over or _PAST_SUBJECT.search(lowered) is not None else "present"


def is_over(during: Interval, now: datetime) -> bool:
    return during.end is not None and during.end <= now


# Analysis.

_CONJUNCTION = LazyPattern(r"[\s,]*(?:(?:to|through|until|till|-|–)\s+)?|[^.?!;]{0,60}\b(?:and|or)\b[^.?!;]{0,60}")
"""Text between times that belong together: a range, or two times joined by "and" or "or"."""


@dataclass(frozen=True, kw_only=True)
class QueryAnalysis:
    type: QueryType
    during: Interval | None
    """The time that the query is about."""
    parts: tuple[str, ...] = ()
    """Sub-queries to search for; empty if the query cannot be divided."""
    gathers: bool = False
    """The answer is gathered from many facts, as for "how many" and "list all"."""
    unresolved_time: UnresolvedTime | None = None
    """A time that the query names and the rules could not resolve completely, if requested."""
    tense: QuestionTense = "present"


def analyse_query(
    text: str, now: datetime, *, report_unresolved: bool = False, southern: bool = False
) -> QueryAnalysis:
    """Return the type, time and sub-queries of a query; `now` needs a time zone.

    `report_unresolved` also looks for a time that the rules cannot resolve; `southern` turns the seasons round.
    """
    text = text[:MAX_QUERY_CHARS].replace("’", "'")
    times = find_times(text, now, southern=southern)
    sentences = question_sentences(text)
    asked = [time for time in times if _is_within(time, sentences)]
    unresolved = _unresolved(text, times, sentences, timed=bool(asked)) if report_unresolved else None
    questions = [sentence[0].strip() for sentence in sentences]
    lowered = [question.lower() for question in questions]
    type = query_type(text.lower(), lowered, timed=bool(unresolved or (asked if sentences else times)))
    during, question = _during(text, asked or times), " ".join(lowered) or text.lower()
    tense = question_tense(question, during, now)
    divided = type not in ("assistant", "preference", "general")
    parts = decompose(questions, [time.text for time in times]) if divided else ()
    return QueryAnalysis(
        type="multi-hop" if parts and type == "factual" else type,
        during=during,
        parts=parts,
        gathers=type not in ("assistant", "preference") and asks_for_everything(question),
        unresolved_time=unresolved,
        tense="past" if tense == "present" and asks_for_course(question) else tense,
    )


def _unresolved(
    text: str, times: Sequence[TimeExpression], sentences: Sequence[re.Match[str]], *, timed: bool
) -> UnresolvedTime | None:
    """Return the first unresolved time; if the questions name a time already, only one within them."""
    found = find_unresolved_times(text, times)
    return next((time for time in found if not timed or _is_within(time, sentences)), None)


def _is_within(time: TimeExpression | UnresolvedTime, sentences: Sequence[re.Match[str]]) -> bool:
    return any(sentence.start() < time.end and time.start < sentence.end() for sentence in sentences)


def _during(text: str, times: Sequence[TimeExpression]) -> Interval | None:
    """Return the first bounded time with those joined to it, or else the first with an open side."""
    groups: list[list[TimeExpression]] = []
    for time in times:
        if groups and _CONJUNCTION.fullmatch(text, groups[-1][-1].end, time.start):
            groups[-1].append(time)
        else:
            groups.append([time])
    hulls = [hull for group in groups if (hull := _hull([time.broad_interval for time in group])) is not None]
    bounded = (hull for hull in hulls if hull.start is not None and hull.end is not None)
    return next(bounded, hulls[0] if hulls else None)


def _hull(intervals: Sequence[Interval]) -> Interval | None:
    starts = [interval.start for interval in intervals if interval.start is not None]
    ends = [interval.end for interval in intervals if interval.end is not None]
    start = min(starts) if len(starts) == len(intervals) else None
    end = max(ends) if len(ends) == len(intervals) else None
    return Interval(start=start, end=end) if start or end else None
