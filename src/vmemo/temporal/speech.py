"""Times as people say them of themselves: the tense of the sentence tells whether a time is past or to come."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from vmemo.temporal.finding import stretches
from vmemo.temporal.stretch import Stretch
from vmemo.temporal.tokens import Token

_AHEAD = re.compile(
    r"\b(?:will|shall|gonna|won't|upcoming|planning|scheduled|let's|can't wait|coming up|supposed to"
    r"|(?:going|plans?|hop(?:e|ing)|wants?|need) to|looking forward)\b|['’]ll\b|['’]m (?:leaving|flying|starting)\b",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"\b(?:was|were|had|did|been|went|got|came|made|took|saw|met|ate|bought|left|found|felt|told|said|won|began"
    r"|\w{2,}ed)\b",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(r"(?:\b(?:is|are|am)|['’](?:s|re|m)) (?:\w+ ){0,2}\w+ing\b", re.IGNORECASE)
_LOOK_BACK = 300
_SENTENCE = re.compile(r"[.!?]\s|\n")
_FAR = timedelta(days=60)
"""Readings further apart than this are of a yearless date or month, where the nearer one is meant."""


def spoken(text: str, reference: datetime) -> list[tuple[Token, Stretch]]:
    """The time expressions of something said at a moment, each read as past or future by its sentence."""
    past = stretches(text, reference)
    if not any(_is_open(stretch) for _, stretch in past):
        return past
    future = {(token.start, token.end): stretch for token, stretch in stretches(text, reference, prefer="future")}
    today = reference.date()
    return [
        (token, _meant(text, token, stretch, future.get((token.start, token.end), stretch), today))
        for token, stretch in past
    ]


def _is_open(stretch: Stretch) -> bool:
    """Whether it could be read of the past and of the future alike, as "yesterday" and "two weeks ago" can't."""
    return stretch.relative and (stretch.yearly is not None or stretch.kind in ("weekday", "span"))


def _meant(text: str, token: Token, past: Stretch, future: Stretch, today: date) -> Stretch:
    if past.start == future.start or past.start is None or future.start is None:
        return past
    begin, end = _sentence(text, token)
    if _AHEAD.search(text, begin, token.start):
        return future
    if future.start - past.start <= _FAR:
        return past
    if _UNDER_WAY.search(text, begin, end):
        return future
    nearer = future.start - today < today - past.start
    return future if nearer and not _BEHIND.search(text, begin, end) else past


def _sentence(text: str, token: Token) -> tuple[int, int]:
    """The borders of the sentence around an expression, not looked for far away."""
    earliest, latest = max(0, token.start - _LOOK_BACK), min(len(text), token.end + _LOOK_BACK)
    begin = max((match.end() for match in _SENTENCE.finditer(text, earliest, token.start)), default=earliest)
    following = _SENTENCE.search(text, token.end, latest)
    return begin, following.start() if following else latest
