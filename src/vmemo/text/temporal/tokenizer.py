"""Tokenizer of the time grammar: cuts a text into tagged tokens."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from vmemo.text.temporal.calendar_length import CalendarLength
from vmemo.text.temporal.day_range import DayRange
from vmemo.text.temporal.vocabulary import LEXICON, TAGS, UNIONS

_LEXEME = re.compile(
    r"[^\W\d_]+(?:['’]s?(?!\w))?|[^\S\n]+"
    r"|\d{1,3}(?:,\d{3}){1,9}(?!\d)|\d+(?:(?:st|nd|rd|th)\b|['’]?s\b)?|.",
    re.DOTALL,
)
"""Every character belongs to one lexeme, so that the lengths of lexemes give their offsets."""
_SYMBOL_FAMILY = {
    "~": "TILDE", ",": "COMMA", "'": "APOSTROPHE", "’": "APOSTROPHE", "<": "LESS", ">": "MORE", "=": "EQUALS",
} | dict.fromkeys("!?;()[]\":\n", "STOP")  # fmt: skip
_JOINER_FAMILY = {
    "-": ("DASH", "HYPHEN"),
    "–": ("DASH", "HYPHEN"),
    "—": ("HYPHEN", "HYPHEN"),
    "/": ("SLASH", "WORD"),
    ".": ("DOT", "STOP"),
}
"""Family of a symbol between two letters or digits, and of the same symbol elsewhere."""
_SYMBOL_TAG = {symbol: TAGS[name] for symbol, name in _SYMBOL_FAMILY.items()}
_JOINER_TAG = {symbol: (TAGS[joined], TAGS[loose]) for symbol, (joined, loose) in _JOINER_FAMILY.items()}
_WORD = TAGS["WORD"]
_MAY_TOUCH_NUMBERS = frozenset(
    TAGS[name] for name in (*UNIONS["MONTH"], *UNIONS["UNIT"], "q", "h", "fy", "cy", "APOSTROPHE", "s")
)
_MONEY = "$€£#"


class Token(NamedTuple):
    """A lexeme or several merged ones, with the tag of their family, their number and offsets."""

    tag: str
    value: int
    start: int
    end: int
    days: DayRange | None = None
    """The range that a rule resolved it to."""
    length: CalendarLength | None = None
    """The length of time that a rule merged it to."""


def tokenize(lowered: str) -> list[Token]:
    """Return the tokens of a lower-case text; a run of unknown words is one token."""
    lexemes = _LEXEME.findall(lowered)
    starts = accumulate(map(len, lexemes), initial=0)
    tokens: list[Token] = []
    in_unknown_run = False
    for lexeme, known, start in zip(lexemes, map(LEXICON.get, lexemes), starts, strict=False):
        if known is None:
            if lexeme == " " or lexeme.isspace():
                continue
            known = None if lexeme.isalpha() else _tagged(lowered, lexeme, start)
            if known is None:
                if not in_unknown_run:
                    tokens.append(Token(_WORD, 0, start, start + len(lexeme)))
                in_unknown_run = True
                continue
        tokens.append(Token(known[0], known[1], start, start + len(lexeme)))
        in_unknown_run = False
    return tokens


def _tagged(text: str, lexeme: str, start: int) -> tuple[str, int] | None:
    if lexeme[0].isdecimal():
        return None if _is_no_date_number(text, start, start + len(lexeme)) else _digit_tag(lexeme)
    if lexeme[0].isalpha():
        return LEXICON.get(lexeme.rstrip("s").rstrip("'’"))
    return _symbol_tag(text, lexeme, start, start + len(lexeme))


def _symbol_tag(text: str, symbol: str, start: int, end: int) -> tuple[str, int] | None:
    if symbol in _JOINER_TAG:
        joined = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
        return _JOINER_TAG[symbol][0 if joined else 1], 0
    tag = _SYMBOL_TAG.get(symbol)
    return (tag, 0) if tag else None


def _is_no_date_number(text: str, start: int, end: int) -> bool:
    """Return True for money, clock times, percentages, and numbers in a code such as A1B2."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if (before and before in _MONEY) or after == "%":
        return True
    if before == ":" and text[start - 2 : start - 1].isdigit():
        return True
    if after == ":" and text[end + 1 : end + 2].isdigit():
        return True
    return _touches_word(text, start, before, end, after)


def _touches_word(text: str, start: int, before: str, end: int, after: str) -> bool:
    if before.isalpha():
        first = start
        while first > 0 and text[first - 1].isalpha():
            first -= 1
        return LEXICON.get(text[first:start], ("", 0))[0] not in _MAY_TOUCH_NUMBERS
    if after.isalpha():
        last = end
        while last < len(text) and text[last].isalpha():
            last += 1
        return LEXICON.get(text[end:last], ("", 0))[0] not in _MAY_TOUCH_NUMBERS and text[end:last] != "t"
    return False


def _digit_tag(lexeme: str) -> tuple[str, int]:
    digits = lexeme.rstrip("stndrh'’")
    if "," in digits or len(digits) > 8:
        return TAGS["BIG"], 10**6
    value = int(digits)
    if lexeme[-1] == "s":
        return (TAGS["DECADENUM"] if value % 10 == 0 and len(digits) in (2, 4) else _WORD), value
    if lexeme[-1].isalpha():
        return (TAGS["ORDNUM"] if 1 <= value <= 31 else TAGS["ORDINAL"]), value
    return TAGS[_digit_family(digits, value)], value


def _digit_family(digits: str, value: int) -> str:
    if len(digits) <= 2:
        return "D12" if 1 <= value <= 12 else "D31" if 13 <= value <= 31 else "D99"
    if len(digits) == 4 and 1000 <= value <= 2999:
        return "Y4"
    return "DATE8" if len(digits) == 8 and 19 <= value // 10**6 <= 20 else "BIG"
