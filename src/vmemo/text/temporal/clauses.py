"""Where a time stands in something said, and whether its clause looks back or ahead."""

from __future__ import annotations

import re
from typing import NamedTuple

from vmemo.text.temporal.tense_cues import OWNER, PRONOUN, Cues, Tense
from vmemo.text.temporal.tokenizer import Token

_APPOINTED = re.compile(
    r"(?:\b(?:is|are|isn['’]t|aren['’]t)|['’](?:s|re))"
    r"(?: (?:not|now|still|only|just|back|out|over|up|off|away|due|set|fixed|closed))*"
    r"(?: at [\d:]+(?: ?[ap]m)?)?(?: (?:on|in|at|for|from))?(?: the)? $|\b(?:starts?|begins?) (?:on |in )?(?:the )?$",
    re.IGNORECASE,
)
"""What is on Saturday, or out in April, is still to come."""
_STANDING = re.compile(
    r"\W{0,2}(?:is|are|isn['’]t|aren['’]t)\b|(?<=['’]s) (?:fine|good|okay|ok|perfect|best|better|full|off|free)\b",
    re.IGNORECASE,
)
"""What is said of a day as it stands: "Friday is sold out"."""
_HABIT = re.compile(r"\b(?:always|usually|normally|typically|generally|annually|traditionally)\b", re.IGNORECASE)

_SENTENCE = re.compile(r"[.!?…]\s|\n")
_BREAK = re.compile(r"[;—]|:\s|\s[-–]\s")
_CLAUSE = re.compile(
    r",?\s(?:and|but|so|because|though|although|while|whereas|if|yet)\s"
    rf"(?=(?i:{PRONOUN}|{OWNER}|the|this|that|in|on|by|at|from|until)\b|[A-Z])"
    rf"|\s(?:since|when|before|after|until)\s(?=(?i:{PRONOUN})\b)"
    rf"|,\s(?=(?i:{PRONOUN})\b|[A-Z]\w+ (?:will|is|was|has|had|can|could|would|did|does|says|said)\b)",
)
_OPENING = re.compile(
    r"[^\w]*(?:and|but|so|then)?\s*(?:in|on|by|at|around|from|until|for)?\s*(?:the\s)?$", re.IGNORECASE
)
_WORD = re.compile(r"\w+")
_NEXT_WORD = re.compile(r"\s*,?\s*\w+")
_LAST_WORD = re.compile(r"(\w+)\W*(?:the\s)?$")
_LOOK_BACK = 300


class Setting(NamedTuple):
    """Where a time stands: the borders of its sentence, of the part it belongs to, and of its own clause."""

    sentence: tuple[int, int]
    part: tuple[int, int]
    clause: tuple[int, int]


def sentence(text: str, token: Token) -> tuple[int, int]:
    """The borders of the sentence around an expression, not looked for far away."""
    return _within(text, token, _SENTENCE, (max(0, token.start - _LOOK_BACK), min(len(text), token.end + _LOOK_BACK)))


def setting(text: str, token: Token) -> Setting:
    """The sentence, the part between its breaks, and the clause that an expression stands in."""
    whole = sentence(text, token)
    part = _within(text, token, _BREAK, whole)
    begin, end = _within(text, token, _CLAUSE, part)
    if _OPENING.fullmatch(text, begin, token.start):
        end = _clause_after_next(text, token.end, part[1])
    return Setting(whole, part, (begin, end))


def _within(text: str, token: Token, border: re.Pattern[str], limits: tuple[int, int]) -> tuple[int, int]:
    begin = max((match.end() for match in border.finditer(text, limits[0], token.start)), default=limits[0])
    following = border.search(text, token.end, limits[1])
    return begin, following.start() if following else limits[1]


def _clause_after_next(text: str, start: int, limit: int) -> int:
    """Where the clause ends that a time opens: "In May, we went" is one."""
    first = _NEXT_WORD.match(text, start, limit)
    following = _CLAUSE.search(text, first.end() if first else start, limit)
    return following.start() if following else limit


def tense(text: str, token: Token, place: Setting, cues: Cues) -> Tense | None:
    """What the nearest cue says: in the own clause before the time, after it, or else earlier in the same part."""
    if _APPOINTED.search(text[max(place.clause[0], token.start - 60) : token.start]):
        return "ahead"
    begin, end = place.clause
    return cues.last(begin, token.start) or cues.first(token.end, end) or cues.last(place.part[0], begin)


def stands(text: str, token: Token) -> bool:
    """Whether something is said of the day as it stands, which no past day does."""
    return _STANDING.match(text, token.end) is not None


def is_habit(text: str, place: Setting) -> bool:
    """Whether the clause tells what is so every year."""
    return _HABIT.search(text, *place.clause) is not None


def led_by(text: str, token: Token) -> str:
    """The preposition that the expression begins with, or else the word before it."""
    first = _WORD.match(text, token.start, token.end)
    word = first[0].lower() if first else ""
    if word in ("since", "until", "till", "til", "by", "up", "from", "before", "after", "starting", "beginning"):
        return word
    before = _LAST_WORD.search(text, max(0, token.start - 30), token.start)
    return before[1].lower() if before else ""
