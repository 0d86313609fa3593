"""Times as people say them of themselves: the tense of the sentence tells whether a time is past or to come."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from vmemo.temporal.parsing import stretches
from vmemo.temporal.stretch import Stretch
from vmemo.temporal.tokens import Token

_DONE = (
    r"been|had|gone|done|come|said|told|made|met|left|lost|won|paid|sold|kept|felt|found|held|read|put|cut|let|sat"
    r"|slept|spent|stood|run|become|known|shown|flown|grown|worn|torn|born|\w+(?:ed|en|ght)"
)
"""What follows "should have" when it looks back."""
_AHEAD = re.compile(
    r"\b(?:will|shall|gonna|won't|upcoming|planning|scheduled|let's|can't wait|coming up|supposed to"
    r"|(?:going|plans?|hop(?:e|ing)|wants?|need) to|plans? for|looking forward)\b|['’]ll\b"
    r"|\b(?:should|must|might)\b(?! (?:have|of) (?:\w+ly )?(?:" + _DONE + r")\b)"
    r"|['’]m (?:leaving|flying|starting)\b",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    r"\b(?:was|were|had|did|been|went|got|came|made|took|saw|met|ate|bought|left|found|felt|told|said|won|began"
    r"|\w{2,}ed)\b",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(r"(?:\b(?:is|are|am)|['’](?:s|re|m)) (?:\w+ ){0,2}\w+ing\b", re.IGNORECASE)
_COMING_UP = re.compile(
    r"(?:\b(?:is|are|am)|['’](?:s|re|m)) (?:(?!(?:the|an?|my|our|your|his|her|their|this|that|there)\b)\w+ ){0,2}"
    r"(?!\w*thing\b|(?:wedding|evening|morning|during|spring|thanksgiving)\b)"
    r"\w+ing\b",
    re.IGNORECASE,
)
"""Someone is doing something, which of a day means a plan; nouns and owners are left out."""
_APPOINTED = re.compile(r"(?:\b(?:is|are|starts?|begins?|takes place)|['’]s) (?:on )?$", re.IGNORECASE)
"""What is on Saturday is still to come."""
_ASKED_AHEAD = re.compile(r"\b(?:planned|booked|calendar|agenda|diary)\b", re.IGNORECASE)
_ASKED_BACK = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
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


def by_tense(
    text: str, reference: datetime, past: list[tuple[Token, Stretch]], *, day_first: bool
) -> list[tuple[Token, Stretch]]:
    """What was read as past, read as future where the sentence clearly looks ahead; memories are mostly of the past."""
    today = reference.date()
    ahead = {
        token.start
        for token, stretch in past
        if stretch.relative and not _reaches(stretch, today) and _looks_ahead(text, token, stretch)
    }
    if not ahead:
        return past
    future = stretches(text, reference, prefer="future", day_first=day_first)
    other = {(token.start, token.end): stretch for token, stretch in future if token.start in ahead}
    return [(token, other.get((token.start, token.end), stretch)) for token, stretch in past]


def _reaches(stretch: Stretch, today: date) -> bool:
    """Whether the past reading runs into the future already, as "August to October" does in September."""
    return stretch.end is not None and stretch.end > today


def _looks_ahead(text: str, token: Token, stretch: Stretch) -> bool:
    """Will we, are we meeting on Sunday; but "how is it going since March" looks back."""
    begin, end = _sentence(text, token)
    if _ASKED_BACK.search(text, begin, end):
        return False
    if _AHEAD.search(text, begin, token.start) or _ASKED_AHEAD.search(text, begin, token.start):
        return True
    return stretch.end is not None and _COMING_UP.search(text, begin, end) is not None


def _is_open(stretch: Stretch) -> bool:
    """Whether it could be read of the past and of the future alike, as "yesterday" and "two weeks ago" can't."""
    return stretch.relative and (stretch.yearly is not None or stretch.kind in ("weekday", "span"))


def _meant(text: str, token: Token, past: Stretch, future: Stretch, today: date) -> Stretch:
    if past.start == future.start or past.start is None or future.start is None:
        return past
    begin, end = _sentence(text, token)
    if _AHEAD.search(text, begin, token.start) or _APPOINTED.search(text[begin : token.start]):
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
