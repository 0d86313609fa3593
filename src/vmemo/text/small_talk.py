"""Small talk: greetings, thanks, farewells, acknowledgements and laughter, in many languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

_MAX_CHARACTERS = 200
"""Longer messages are not small talk."""
# Part of an address, a price, a path or a tag.
_INFORMATIVE_CHARS = frozenset("@#/\\_$€£¥%")
_MAX_PHRASE_WORDS = 5
_REPEATED_LETTER = re.compile(r"(.)\1{2,}")
_LAUGHTER = re.compile(r"(?:a*(?:ha){2,}h?|(?:he){2,}h?|(?:hi){2,}|(?:ja){2,}|lo+l|lmao|rofl|xd|hm+|mhm|aw+|www+)")


def _normalize(word: str) -> str:
    return unicodedata.normalize("NFC", word.casefold().replace("’", "'"))


@cache
def _phrases() -> frozenset[tuple[str, ...]]:
    """Return the phrases of `small_talk.txt`, which a bar or a line end divides."""
    content = files("vmemo.text").joinpath("small_talk.txt").read_text(encoding="utf-8")
    return frozenset(tuple(_normalize(phrase).split()) for phrase in content.replace("\n", "|").split("|") if phrase)


def is_small_talk(text: str) -> bool:
    """Return True if a message consists of greetings, thanks, farewells, acknowledgements, laughter or emoji."""
    if len(text) > _MAX_CHARACTERS or not _INFORMATIVE_CHARS.isdisjoint(text) or any(map(str.isnumeric, text)):
        return False
    # Words consist of letters and combining marks.
    spaced = "".join(c if unicodedata.category(c)[0] in "LM" or c == "'" else " " for c in _normalize(text))
    words = [word for word in (each.strip("'") for each in spaced.split()) if any(map(str.isalpha, word))]
    reached = {0}
    for at in range(len(words)):
        if at in reached:
            reached.update(at + size for size in _phrase_lengths(words, at))
    return len(words) in reached


def _phrase_lengths(words: Sequence[str], at: int) -> Iterator[int]:
    if _LAUGHTER.fullmatch(words[at]):
        yield 1
    for size in range(1, min(_MAX_PHRASE_WORDS, len(words) - at) + 1):
        phrase = tuple(words[at : at + size])
        if phrase in _phrases() or tuple(_REPEATED_LETTER.sub(r"\1", word) for word in phrase) in _phrases():
            yield size
