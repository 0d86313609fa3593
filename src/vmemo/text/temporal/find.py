"""Time expressions of questions, and the parser that finds them in any text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time as time_of_day, tzinfo
from typing import NamedTuple

from vmemo.errors import InvalidInput
from vmemo.models import Interval
from vmemo.text.temporal import date_rules as dates, relative_rules as relative
from vmemo.text.temporal.calendar_days import UNITS, Bounds, DayRange, Preference
from vmemo.text.temporal.grammar import (
    FAMILIES,
    TAGS,
    ParseContext,
    Stage,
    Token,
    TokenLine,
    compile_pattern,
    rules_of,
    tags_of,
    tokenize,
)
from vmemo.text.temporal.tense import find_cues, leading_word, sentence_bounds

# Parser: applies the stages to a text.

NUMBER_STAGES = tuple(Stage(*rules_of(dates, section)) for section in ("number", "length", "length sum"))
"""Stages that merge numbers and lengths of time, which do not depend on the reference."""
DATE_STAGE = Stage(
    *rules_of(dates, "date", "period"),
    *dates.HOLIDAY_RULES,
    *rules_of(dates, "season"),
    *rules_of(relative, "relative", "counted"),
    *rules_of(dates, "weekday"),
)
COMBINATION_STAGES = tuple(
    Stage(*rules_of(relative, *sections))
    for sections in (
        ("year",),
        ("year", "dated weekday", "part", "subperiod"),
        ("weekday of week", "offset", "part", "shared year"),
        ("shared year", "offset weekday"),
        ("range",),
        ("open range",),
    )
)
"""Stages that combine dates with their qualifiers, distances and each other."""

_TIME_FAMILIES = (
    "MFULL MNAME MVERB MSHORT MCLEAR WFULL WSHORT WCLEAR WPLURAL SEASON SEASONX DECADEWORD RELDAY TEEN TENS "
    "thanksgiving christmas halloween valentine patrick daytime"
).split()
_TIME_WORDS = frozenset(
    [word for name in _TIME_FAMILIES for word in FAMILIES.get(name, {name: 0})]
    + [word for unit in UNITS for word in FAMILIES[unit]]
    + "night easter".split()
)
"""Every expression without a digit contains one of these words."""
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
    dated = DATE_STAGE.apply(line, context)
    past = _combine(dated, context)
    if not any(token.days and token.days.is_ambiguous for token in dated.tokens):
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
    return _anchored([ResolvedTime(token.start, token.end, token.days) for token in tokens if token.days is not None])


def _anchored(times: list[ResolvedTime]) -> list[ResolvedTime]:
    """Count expressions such as "the next day" from the date that the text names before."""
    anchor: Bounds | None = None
    for place, (start, end, days) in enumerate(times):
        if days.anchored and anchor:
            times[place] = ResolvedTime(start, end, days.anchored(anchor) or days)
        found = times[place].days
        anchor = anchor if found.unannotated or found.start is None else found.bounds
    return times


def _without_recurring(line: TokenLine) -> list[Token]:
    """Drop dates that recur: "every October", "each Monday and Friday", "on 3 May every year"."""
    recurring = {
        place
        for pattern in RECURRING_PATTERNS
        for match in compile_pattern(pattern).finditer(line.tags)
        for place in range(*match.span())
    }
    return [token for place, token in enumerate(line.tokens) if place not in recurring]


# Time expressions of questions.


@dataclass(frozen=True, slots=True)
class TimeExpression:
    """A part of a text that names a time, and the half-open interval that it means."""

    start: int
    end: int
    text: str
    interval: Interval
    relative: bool
    """Depends on the reference date."""
    broad_interval: Interval
    """The interval in its widest sense: the last day named is included, and "two years ago" is that whole year."""
    named: Interval | None = None
    """The days that the words name: the Friday of "by Friday"."""
    certain: bool = True
    """The days are beyond doubt, so that they may be written; a search may use likely ones too."""


def find_times(
    text: str,
    reference: datetime,
    *,
    prefer: Preference | None = None,
    southern: bool = False,
) -> list[TimeExpression]:
    """Return the time expressions in order and without overlap. Days are those of the reference's time zone.

    `prefer` decides between the past and the future for a bare weekday, month or day. Without it they are past,
    unless the sentence asks about the future ("What will I do on Friday?"). With `southern`, summer is in December.
    """
    _require_time_zone(reference)
    past, future = parse_both(text, reference, southern=southern)
    if prefer is not None:
        found = future if prefer == "future" else past
    else:
        later = {(time.start, time.end): time for time in future}
        found = [
            later.get((time.start, time.end), time) if _is_about_future(text, time, reference.date()) else time
            for time in past
        ]
    return [time_expression(text, each, reference) for each in found]


def time_expression(text: str, resolved: ResolvedTime, reference: datetime) -> TimeExpression:
    """Return the expression as an interval in the reference's time zone."""
    zone = _require_time_zone(reference)
    start, end, days = resolved
    interval = day_interval(days.start, days.end, zone)
    broad = days.searched or days.displayed
    broad_interval = day_interval(*broad, zone) if broad else interval
    named = days.named and day_interval(*days.named, zone)
    return TimeExpression(start, end, text[start:end], interval, days.relative, broad_interval, named, days.certain)


def _is_about_future(text: str, time: ResolvedTime, today: date) -> bool:
    """Return True if the past reading of an expression leaves the future open, and its sentence is about that."""
    end = time.days.end
    if not time.days.relative or (end is not None and end > today):
        return False
    if leading_word(text, time.start, time.end) == "since":
        return False
    sentence = sentence_bounds(text, time.start, time.end)
    cues = find_cues(lower_same_length(text), [sentence])
    return cues.mention(sentence, "future", "arranged") and not cues.mention(sentence, "past", "reported")


def _require_time_zone(reference: datetime) -> tzinfo:
    if reference.tzinfo is None:
        raise InvalidInput(
            f"reference {reference.isoformat()} has no time zone; pass an aware datetime, such as "
            "datetime(..., tzinfo=UTC)"
        )
    return reference.tzinfo


def day_interval(start: date | None, end: date | None, zone: tzinfo | None) -> Interval:
    """Return the interval of the days from the first up to the second."""
    first, last = (day and datetime.combine(day, time_of_day.min, zone) for day in (start, end))
    return Interval(start=first, end=last)
