"""Cut a text into tagged tokens; the tags together are the text's shape."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

from vmemo.text.temporal.day_range import Stretch
from vmemo.text.temporal.vocabulary import LEXICON, TAGS, UNIONS

_PIECE = re.compile(
    r"[^\W\d_]+(?:['’]s?(?!\w))?|[^\S\n]+"
    r"|\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:st|nd|rd|th)\b|\d+['’]?s\b|\d+|.",
    re.DOTALL,
)
"""Pieces that together are the whole text, so that their lengths give the offsets."""
_SYMBOL = {
    "~": "TILDE", ",": "COMMA", "'": "APOSTROPHE", "’": "APOSTROPHE", "<": "LESS", ">": "MORE", "=": "EQUALS",
} | dict.fromkeys("!?;()[]\":\n", "STOP")  # fmt: skip
_GLUE = {"-": ("DASH", "HYPHEN"), "–": ("DASH", "HYPHEN"), "—": ("HYPHEN", "HYPHEN"), "/": ("SLASH", "WORD")} | {
    ".": ("DOT", "STOP")
}
_SYMBOL_TAG = {symbol: TAGS[name] for symbol, name in _SYMBOL.items()}
_GLUE_TAG = {symbol: (TAGS[glued], TAGS[loose]) for symbol, (glued, loose) in _GLUE.items()}
_WORD = TAGS["WORD"]
_MAY_TOUCH_NUMBERS = frozenset(
    TAGS[name] for name in (*UNIONS["MONTH"], *UNIONS["UNIT"], "q", "h", "fy", "cy", "APOSTROPHE", "s")
)
_MONEY = "$€£#"


class Token(NamedTuple):
    """A piece of the text: its family's tag, its number where it has one, and what it was resolved to."""

    tag: str
    value: int
    start: int
    end: int
    stretch: Stretch | None = None


def tokens(lowered: str) -> list[Token]:
    """The tokens of a lower-case text, a run of unknown words being one."""
    pieces = _PIECE.findall(lowered)
    starts = accumulate(map(len, pieces), initial=0)
    found: list[Token] = []
    unknown = False
    for piece, known, start in zip(pieces, map(LEXICON.get, pieces), starts, strict=False):
        if known is None:
            if piece.isspace():
                continue
            known = _tagged(lowered, piece, start)
            if known is None:
                if not unknown:
                    found.append(Token(_WORD, 0, start, start + len(piece)))
                unknown = True
                continue
        found.append(Token(known[0], known[1], start, start + len(piece)))
        unknown = False
    return found


def _tagged(text: str, piece: str, start: int) -> tuple[str, int] | None:
    if piece.isalpha():
        return None
    if piece[0].isdecimal():
        return None if _is_no_date(text, start, start + len(piece)) else _digits(piece)
    if piece[0].isalpha():
        return LEXICON.get(piece.rstrip("s").rstrip("'’"))
    return _mark(text, piece, start, start + len(piece))


def _mark(text: str, symbol: str, start: int, end: int) -> tuple[str, int] | None:
    if symbol in _GLUE_TAG:
        glued = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
        return _GLUE_TAG[symbol][0 if glued else 1], 0
    tag = _SYMBOL_TAG.get(symbol)
    return (tag, 0) if tag else None


def _is_no_date(text: str, start: int, end: int) -> bool:
    """Money, clock times, percentages, and numbers that are part of a code such as A1B2."""
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


def _digits(piece: str) -> tuple[str, int]:
    digits = piece.rstrip("stndrh'’")
    if "," in digits or len(digits) > 8:
        return TAGS["BIG"], 10**6
    value = int(digits)
    if piece[-1] == "s":
        return (TAGS["DECADENUM"] if value % 10 == 0 and len(digits) in (2, 4) else _WORD), value
    if piece[-1].isalpha():
        return (TAGS["ORDNUM"] if 1 <= value <= 31 else TAGS["ORDINAL"]), value
    return TAGS[_family(digits, value)], value


def _family(digits: str, value: int) -> str:
    if len(digits) <= 2:
        return "D12" if 1 <= value <= 12 else "D31" if 13 <= value <= 31 else "D99"
    if len(digits) == 4 and 1000 <= value <= 2999:
        return "Y4"
    return "DATE8" if len(digits) == 8 and 19 <= value // 10**6 <= 20 else "BIG"
