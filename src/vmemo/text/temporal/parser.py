"""Parser of the time grammar: applies the stages to a text and returns the ranges that it names."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from vmemo.text.temporal.calendar_units import DAY, MONTH, WEEK, YEAR
from vmemo.text.temporal.day_range import DayRange, Preference, offset_from_anchor
from vmemo.text.temporal.grammar import ParseContext, TokenLine
from vmemo.text.temporal.patterns import compile_pattern, tags_of
from vmemo.text.temporal.rules import COMBINATION_STAGES, DATE_STAGE, NUMBER_STAGES
from vmemo.text.temporal.tokenizer import Token, tokenize
from vmemo.text.temporal.vocabulary import FAMILIES, TAGS, UNITS

_TIME_FAMILIES = (
    "MFULL MNAME MVERB MABBR WFULL WABBR WPLURAL SEASON SEASONX SEASONS DECADEWORD HOUR RELDAY TEEN TENS thanksgiving "
    "christmas halloween valentine patrick daytime"
).split()
_TIME_WORDS = frozenset(
    [word for name in _TIME_FAMILIES for word in FAMILIES.get(name, {name: 0})]
    + [word for unit in UNITS for word in FAMILIES[unit]]
    + "night date easter juneteenth pentecost eid ramadan mayo thousand".split()
)
"""Every expression without a digit contains one of these words."""
_LONGEST_ANCHOR = {DAY: 1, WEEK: 7, MONTH: 31, YEAR: 366}
"""Days that an earlier date may span for a unit to be counted from it."""
_EVERY = TAGS["every"]
RECURRING_PATTERNS = (
    "every (other|COUNT|ORD)? (ANY|WDAY|night|daytime) ((COMMA|and|or)+ (FLOATING|WEEKDAY))*",
    "every year COMMA? (in|on|at|around|over)? the? (FLOATING|WEEKDAY) ((COMMA|and|or)+ FLOATING)*",
    "FLOATING COMMA? (of|in)? every year",
)
"""Dates that recur, which are not times."""
_RESOLVED_TAGS = tags_of("ANY")
_WORD = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")


class ResolvedTime(NamedTuple):
    """A time expression: its character offsets and the days that it means."""

    start: int
    end: int
    days: DayRange


def parse(
    text: str, reference: datetime, *, prefer: Preference = "past", day_first: bool = False, southern: bool = False
) -> list[ResolvedTime]:
    """Return the time expressions in order and without overlap, in the calendar of the reference's time zone."""
    context = ParseContext(text, reference, prefer, day_first=day_first, southern=southern)
    line = _merge_numbers(context)
    return _combine(DATE_STAGE.apply(line, context), context) if line else []


def parse_both(
    text: str, reference: datetime, *, southern: bool = False
) -> tuple[list[ResolvedTime], list[ResolvedTime]]:
    """Return the expressions with a preference for the past, and for the future.

    Both are the same list object if no expression of the text is ambiguous.
    """
    context = ParseContext(text, reference, "past", southern=southern)
    line = _merge_numbers(context)
    if line is None:
        return [], []
    dates = DATE_STAGE.apply(line, context)
    past = _combine(dates, context)
    if not any(token.days and token.days.is_ambiguous for token in dates.tokens):
        return past, past
    context = ParseContext(text, reference, "future", southern=southern)
    return past, _combine(DATE_STAGE.apply(line, context), context)


def lower_same_length(text: str) -> str:
    """Return the text in lower case, with letters unchanged whose lower case is longer, so that offsets hold."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _merge_numbers(context: ParseContext) -> TokenLine | None:
    """Return the tokens with numbers and lengths merged, or None if the text contains no word of a time expression."""
    lowered = lower_same_length(context.text)
    if _DIGIT.search(lowered) is None and _TIME_WORDS.isdisjoint(_WORD.findall(lowered)):
        return None
    line = TokenLine.of(tokenize(lowered))
    for stage in NUMBER_STAGES:
        line = stage.apply(line, context)
    return line


def _combine(line: TokenLine, context: ParseContext) -> list[ResolvedTime]:
    if line.tag_set.isdisjoint(_RESOLVED_TAGS):
        return []
    for stage in COMBINATION_STAGES:
        line = stage.apply(line, context)
    tokens = _without_recurring(line) if _EVERY in line.tag_set else line.tokens
    times = [ResolvedTime(token.start, token.end, token.days) for token in tokens if token.days is not None]
    return _resolve_anchors(times)


def _without_recurring(line: TokenLine) -> list[Token]:
    """Drop dates that recur: "every October", "each Monday and Friday", "on 3 May every year"."""
    recurring = {
        place
        for pattern in RECURRING_PATTERNS
        for match in compile_pattern(pattern).finditer(line.tags)
        for place in range(*match.span())
    }
    return [token for place, token in enumerate(line.tokens) if place not in recurring]


def _resolve_anchors(times: list[ResolvedTime]) -> list[ResolvedTime]:
    """Resolve expressions that depend on an earlier date of the text: "on 5 May ... the next day"."""
    if all(time.days.anchor_offset is None for time in times):
        return times
    resolved: list[ResolvedTime] = []
    anchor: DayRange | None = None
    for time in times:
        days = _relative_to(anchor, time.days)
        resolved.append(time._replace(days=days))
        anchor = anchor if days.unannotated or days.start is None else days
    return resolved


def _relative_to(anchor: DayRange | None, days: DayRange) -> DayRange:
    if anchor is None or anchor.start is None or anchor.end is None or days.anchor_offset is None:
        return days
    if (anchor.end - anchor.start).days > _LONGEST_ANCHOR.get(days.anchor_offset.unit, 1):
        return days
    return offset_from_anchor(anchor.start, days.anchor_offset) or days
