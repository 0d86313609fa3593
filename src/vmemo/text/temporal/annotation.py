"""Times as people say them of themselves: the tense of the clause tells whether a time is past or to come."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from vmemo.text.temporal.clauses import Setting, is_habit, led_by, setting, stands, tense
from vmemo.text.temporal.date_format import format_days
from vmemo.text.temporal.day_range import Stretch
from vmemo.text.temporal.find import TimeExpression, expression
from vmemo.text.temporal.parser import lower, readings
from vmemo.text.temporal.tense_cues import Cues, Tense, cues
from vmemo.text.temporal.tokenizer import Token

_ALREADY_DATED = re.compile(r"\s*\([^()]*\d{4}[^()]*\)")
_FAR = timedelta(days=60)
"""Readings further apart than this are of a yearless date or month."""
_SOON = timedelta(days=90)
"""A date this close ahead was last nine months ago, of which people say "last" or name the year."""
_UP_TO = frozenset("until till til by up".split())
_ONWARD = _UP_TO | frozenset("for from to through starting beginning".split())
_BEHIND = frozenset(("about", "after"))
"""Words before a weekday that was: "I'm still laughing about Friday"."""


class AnnotatedText(NamedTuple):
    """A text with absolute dates added, and the time expressions of the original text."""

    text: str
    expressions: list[TimeExpression]


def annotate(text: str, reference: datetime) -> AnnotatedText:
    """Return the text with each relative time expression followed by its absolute date in parentheses."""
    found = spoken(text, reference)
    pieces: list[str] = []
    position = 0
    for token, stretch in found:
        written = _note(stretch)
        if written and not _ALREADY_DATED.match(text, token.end):
            pieces += (text[position : token.end], f" ({written})")
            position = token.end
    expressions = [expression(text, token, stretch, reference) for token, stretch in found]
    return AnnotatedText("".join(pieces) + text[position:], expressions)


def _note(stretch: Stretch) -> str:
    if stretch.quiet or not stretch.relative:
        return ""
    if stretch.edge and stretch.whole and stretch.whole.days:
        return f"{stretch.edge} {format_days(stretch.whole.days)}"
    days = stretch.label or stretch.shown or stretch.days
    return format_days(days) if days else ""


def spoken(text: str, reference: datetime) -> list[tuple[Token, Stretch]]:
    """The time expressions of something said at a moment, each read as past or future by its clause."""
    past, future = readings(text, reference)
    if past is future:
        return past
    ahead = {(token.start, token.end): stretch for token, stretch in future}
    pairs = [(token, stretch, ahead.get((token.start, token.end), stretch)) for token, stretch in past]
    places = {token.start: setting(text, token) for token, *both in pairs if _may_be_both(*both)}
    heard = cues(lower(text), (place.sentence for place in places.values()))
    today = reference.date()
    read = [
        (token, _meant(_Said(text, token, places[token.start], heard), back, later, today))
        if token.start in places
        else (token, back)
        for token, back, later in pairs
    ]
    return [(token, stretch) for token, stretch in read if stretch is not None]


def _may_be_both(past: Stretch, future: Stretch) -> bool:
    return past.relative and (past.is_open or _border(past) != _border(future))


def _border(stretch: Stretch) -> date | None:
    return stretch.start or stretch.end


class _Said(NamedTuple):
    """An expression, where it stands, and the cues around it."""

    text: str
    token: Token
    place: Setting
    cues: Cues


def _meant(said: _Said, past: Stretch, future: Stretch, today: date) -> Stretch | None:
    """The reading that the clause asks for; none for what it tells of every year or week."""
    cue = tense(*said)
    if past.is_open and cue != "behind" and is_habit(said.text, said.place):
        return None
    back, ahead, lead = _border(past), _border(future), led_by(said.text, said.token)
    if back is None or ahead is None or back == ahead or lead == "since":
        return past
    if ahead - back <= _FAR:
        stands_so = cue is None and stands(said.text, said.token)
        return future if stands_so or _is_day_ahead(cue, lead) else past
    told = said.cues.speaks_of_the_past(*said.place.sentence)
    return future if _is_date_ahead(cue, lead, ahead - today, today - back, told=told) else past


def _is_day_ahead(cue: Tense | None, lead: str) -> bool:
    """Of a weekday, or of a day of some month: the last one unless something points ahead."""
    if cue == "ahead":
        return lead not in _BEHIND
    return cue != "behind" and (lead in _UP_TO or lead == "for" or (cue is not None and lead in _ONWARD))


def _is_date_ahead(cue: Tense | None, lead: str, until: timedelta, since: timedelta, *, told: bool) -> bool:
    """Of a date or month without its year: as the cue says, and else the nearer one."""
    if cue == "ahead" or cue == "behind":
        return cue == "ahead"
    if cue:
        return lead in _ONWARD or (cue == "arranged" and until <= _SOON)
    if told:
        return until <= _SOON
    return lead in _UP_TO or until < since
