"""stretches() and readings(): a text through the stages of the grammar, resolved against a reference."""

from __future__ import annotations

import re
from datetime import datetime

from vmemo.text.temporal.day_range import DAY, MONTH, WEEK, YEAR, Prefer, Stretch, following
from vmemo.text.temporal.grammar import Line, Stage, line_of
from vmemo.text.temporal.patterns import expression, tags_of
from vmemo.text.temporal.reading import Scene
from vmemo.text.temporal.rules import (
    approximate,
    clock,
    counted,
    dates,
    numbers,
    offsets,
    periods,
    qualifiers,
    ranges,
    relative,
    seasons,
    subperiods,
    weekdays,
)
from vmemo.text.temporal.tokenizer import Token, tokens
from vmemo.text.temporal.vocabulary import FAMILIES, TAGS, UNITS

_NUMBERS = Stage(*numbers.RULES)
_DATES = Stage(
    *dates.RULES,
    *periods.RULES,
    *seasons.RULES,
    *relative.RULES,
    *counted.RULES,
    *weekdays.RULES,
    *offsets.NOW,
    *approximate.RULES,
    *clock.RULES,
)
_LATER = (
    Stage(*qualifiers.JOINS),
    Stage(*qualifiers.WEEKDAYS, *qualifiers.PARTS, *subperiods.RULES),
    Stage(*subperiods.WEEKDAYS, *offsets.RULES, *qualifiers.PARTS, *qualifiers.SHARED),
    Stage(*offsets.WEEKDAYS, *qualifiers.SHARED),
    Stage(*ranges.RANGES),
    Stage(*ranges.BOUNDS),
)
_TELLING = (
    "MFULL MNAME MVERB MABBR WFULL WABBR WPLURAL SEASON SEASONX SEASONS DECADEWORD HOUR RELDAY TEEN TENS thanksgiving "
    "christmas halloween valentine patrick daytime"
).split()
_TELLING_WORDS = frozenset(
    [word for name in _TELLING for word in FAMILIES.get(name, {name: 0})]
    + [word for unit in UNITS for word in FAMILIES[unit]]
    + "night date easter juneteenth pentecost eid ramadan mayo thousand".split()
)
_LONGEST = {DAY: 1, WEEK: 7, MONTH: 31, YEAR: 366}
"""Days that an earlier date may span for a unit to be counted from it."""
_EVERY = TAGS["every"]
_AGAIN = (
    "every (other|COUNT|ORD)? (ANY|WDAY|night|daytime) ((COMMA|and|or)+ (FLOATING|WEEKDAY))*",
    "every year COMMA? (in|on|at|around|over)? the? (FLOATING|WEEKDAY) ((COMMA|and|or)+ FLOATING)*",
    "FLOATING COMMA? (of|in)? every year",
)
_RESOLVED = tags_of("ANY")
_WORDS = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")


def stretches(
    text: str, reference: datetime, *, prefer: Prefer = "past", day_first: bool = False
) -> list[tuple[Token, Stretch]]:
    """What is found, in order and without overlap, as days of the reference's own calendar."""
    scene = Scene(text, reference, prefer, day_first)
    line = _numbered(scene)
    return _joined(_DATES.reduce(line, scene), scene) if line else []


def readings(text: str, reference: datetime) -> tuple[list[tuple[Token, Stretch]], list[tuple[Token, Stretch]]]:
    """What is found, read as past and read as future: the same list where no time in the text can be both."""
    scene = Scene(text, reference, "past", day_first=False)
    line = _numbered(scene)
    if line is None:
        return [], []
    dated = _DATES.reduce(line, scene)
    past = _joined(dated, scene)
    if not any(token.stretch and token.stretch.is_open for token in dated.tokens):
        return past, past
    ahead = Scene(text, reference, "future", day_first=False)
    return past, _joined(_DATES.reduce(line, ahead), ahead)


def _numbered(scene: Scene) -> Line | None:
    """The text's tokens with its numbers merged, or None when no word in it can tell a time."""
    lowered = lower(scene.text)
    if _DIGIT.search(lowered) is None and _TELLING_WORDS.isdisjoint(_WORDS.findall(lowered)):
        return None
    return _NUMBERS.reduce(line_of(tokens(lowered)), scene)


def _joined(line: Line, scene: Scene) -> list[tuple[Token, Stretch]]:
    if line.present.isdisjoint(_RESOLVED):
        return []
    for stage in _LATER:
        line = stage.reduce(line, scene)
    once = _once(line) if _EVERY in line.present else line.tokens
    return _followed([(token, token.stretch) for token in once if token.stretch is not None])


def _once(line: Line) -> list[Token]:
    """The tokens less those that come again and again: every October, each Monday and Friday, on 3 May every year."""
    again = [match.span() for pattern in _AGAIN for match in expression(pattern).finditer(line.shape)]
    return [token for place, token in enumerate(line.tokens) if not any(a <= place < b for a, b in again)]


def _followed(found: list[tuple[Token, Stretch]]) -> list[tuple[Token, Stretch]]:
    """Place what leans on an earlier date of the same text: "on 5 May ... the next day"."""
    if all(stretch.follows is None for _, stretch in found):
        return found
    placed: list[tuple[Token, Stretch]] = []
    anchor: Stretch | None = None
    for token, stretch in found:
        seen = _seen_from(anchor, stretch)
        placed.append((token, seen))
        anchor = anchor if seen.quiet or seen.start is None else seen
    return placed


def _seen_from(anchor: Stretch | None, stretch: Stretch) -> Stretch:
    if anchor is None or anchor.start is None or anchor.end is None or stretch.follows is None:
        return stretch
    unit = stretch.follows[0]
    fits = (anchor.end - anchor.start).days <= _LONGEST.get(unit, 1)
    return (following(anchor.start, stretch.follows) if fits else None) or stretch


def lower(text: str) -> str:
    """Lower case of the same length, so that offsets hold."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
