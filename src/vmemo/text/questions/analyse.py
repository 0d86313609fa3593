"""Analysis of a query: its type, tense, the time that it is about, and its sub-queries. Rules only, English."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vmemo.models import Interval, QueryType, QuestionTense
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.subqueries import decompose, question_sentences
from vmemo.text.questions.types import asks_for_course, asks_for_everything, query_type
from vmemo.text.temporal import TimeExpression, find_times
from vmemo.text.temporal.unresolved import UnresolvedTime, find_unresolved_times

MAX_QUERY_CHARS = 2_000
"""Characters of a query that are analysed."""

# Tense.

_PAST_VERB = r"(?:did|didn't|was|wasn't|were|weren't|had|hadn't)"
_IRREGULAR = (
    "drove|stood|went|came|took|got|gave|made|said|told|sold|bought|ran|won|lost|led|held|kept|wrote|taught|paid|sang|sat"
    "|met|saw|knew|thought|found|left|began|brought|built|caught|chose|drew|ate|fell|flew|grew|heard|rode|sent|spoke|spent"
)
_PAST = LazyPattern(rf"\b{_PAST_VERB}\b|\w'd been\b")
_PRESENT = LazyPattern(
    r"\b(?:is|are|am|do|does|has|have|will|can|should)\b|\w'(?:re|m|ll|ve)\b"
    r"|\b(?:what|who|where|when|how|it|he|she|that|there)'s\b"
)
_PAST_SUBJECT = LazyPattern(
    rf"^(?:and |so )?(?:who|what|which)(?: [\w'-]{{1,30}}){{0,3}}? (?:{_IRREGULAR}|\w{{2,20}}ed)\b"
)
"""A question for the subject of a verb, which has no auxiliary."""
_NOT_HABIT = r"(?<!\bam )(?<!\bare )(?<!\bis )(?<!'m )(?<!'re )(?<!'s )(?<!\bget )(?<!\bgot )(?<!\bgetting )(?<!\bbe )"
_OWNER = r"(?:my|our|his|her|their|the|\w{1,30}'s)"
_FORMER = LazyPattern(
    "|".join(
        (
            rf"{_NOT_HABIT}\bused? to\b",
            r"\b(?:origin|initi)al(?:ly)?\b|\bat first\b|\bin the first place\b|\bto (?:begin|start) with\b",
            r"\b(?:former|previous|prior)(?:ly)?\b|\bback (?:then|when|in|at)\b",
            r"\bin (?:the past|(?:those|the old) days)\b",
            rf"\b{_OWNER} (?:old|ex)\b(?! (?:friend|people|man|woman|town|lady)s?\b)|\bex-\w",
            r"\bhow (?:did|has|have|had)\b.{0,80}\b(?:chang|evolv|develop|shift)(?:ed?)?\b",
            rf"\bwhat(?:'s| has| have| had)? (?:\w{{1,20}} ){{0,4}}changed\b|\bchanges? (?:to|of|in) {_OWNER}\b",
            rf"\b(?:switch|chang|mov)(?:e|ed|ing)? (?:away )?from\b|\bhistory of {_OWNER}\b",
            r"\bover (?:time|the years)\b|\bearlier (?:plan|version|idea|value|date|address|name|job|choice)s?\b",
            r"\bno longer\b.{0,60}\b(?:which|what|who|where)\b|\b(?:which|what|who|where)\b.{0,60}\bno longer\b",
            # These words ask for a former state if the verb is in the past.
            rf"\b{_PAST_VERB}\b.{{0,120}}\b(?:before|until|till|first|once|earlier|up to|instead)\b",
            rf"\b(?:before|until|till|first|once|earlier)\b.{{0,80}}\b{_PAST_VERB}\b",
        )
    )
)


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
    """Return True if an interval has ended."""
    return during.end is not None and during.end <= now


# Analysis.

_CONJUNCTION = LazyPattern(r"[\s,]*(?:(?:to|through|until|till|-|–)\s+)?|[^.?!;]{0,60}\b(?:and|or)\b[^.?!;]{0,60}")
"""Text between times that belong together: a range, or two times joined by "and" or "or"."""


@dataclass(frozen=True, kw_only=True)
class QueryAnalysis:
    """The result of analysing a query."""

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
