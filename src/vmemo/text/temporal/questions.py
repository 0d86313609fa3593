"""Times as people ask about them: read as past, unless the sentence clearly looks ahead."""

from __future__ import annotations

import re
from datetime import date, datetime

from vmemo.text.temporal.clauses import sentence
from vmemo.text.temporal.day_range import Stretch
from vmemo.text.temporal.parser import stretches
from vmemo.text.temporal.tense_cues import DONE
from vmemo.text.temporal.tokenizer import Token

_AHEAD = re.compile(
    r"\b(?:will|shall|gonna|won't|upcoming|planning|scheduled|let's|can't wait|coming up|supposed to"
    r"|(?:going|plans?|hop(?:e|ing)|wants?|need) to|plans? for|looking forward)\b|['’]ll\b"
    r"|\b(?:should|must|might)\b(?! (?:have|of) (?:\w+ly )?(?:" + DONE + r")\b)"
    r"|['’]m (?:leaving|flying|starting)\b",
    re.IGNORECASE,
)
_COMING_UP = re.compile(
    r"(?:\b(?:is|are|am)|['’](?:s|re|m)) (?:(?!(?:the|an?|my|our|your|his|her|their|this|that|there)\b)\w+ ){0,2}"
    r"(?!\w*thing\b|(?:wedding|evening|morning|during|spring|thanksgiving)\b)"
    r"\w+ing\b",
    re.IGNORECASE,
)
"""Someone is doing something, which of a day means a plan; nouns and owners are left out."""
_ASKED_AHEAD = re.compile(r"\b(?:planned|booked|calendar|agenda|diary)\b", re.IGNORECASE)
_ASKED_BACK = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)


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
    begin, end = sentence(text, token)
    if _ASKED_BACK.search(text, begin, end):
        return False
    if _AHEAD.search(text, begin, token.start) or _ASKED_AHEAD.search(text, begin, token.start):
        return True
    return stretch.end is not None and _COMING_UP.search(text, begin, end) is not None
