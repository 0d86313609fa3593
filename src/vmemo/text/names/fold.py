"""Folded names: the form in which names are compared and looked up."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

MAX_NAME_WORDS = 8
"""Words of a name that is looked up in a text; twice as many characters of a script without spaces."""
MAX_TEXT_WORDS = 64
"""Words of a text in which names are looked up; a longer text is not a question about a few entities."""
# In scripts without spaces a name may stand between any two characters, so each is a word. Katakana marks its own ends.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002ffff"
)
# Python does not count the vowel signs of Indic scripts as letters, but they belong to their word.
_SPACED = rf"(?:[\u0900-\u0963\u0966-\u0dff]|(?![{_UNSPACED}])[^\W_])"
_WORD = re.compile(rf"[{_UNSPACED}]|{_SPACED}+(?:[-.]{_SPACED}+)*")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_FIRST_ACCENT = 10
"""Combining classes from here on are accents and points, which writers often omit; lower ones are parts of a letter."""


class NameRun(NamedTuple):
    """Consecutive words of a text that may be a name, and their position."""

    name: str
    start: int
    end: int

    def within(self, other: NameRun) -> bool:
        """Return True if a longer run contains this one."""
        return other.start <= self.start and self.end <= other.end and self.end - self.start < other.end - other.start


def fold_name(name: str) -> str:
    """Return a name for comparison: lower case, without accents, punctuation and possessive endings."""
    return " ".join(_words(name))


def folded_names(name: str, aliases: Iterable[str]) -> set[str]:
    """Return every distinct folded form of an entity's names."""
    return {folded for folded in map(fold_name, (name, *aliases)) if folded}


def name_runs(text: str) -> Iterator[NameRun]:
    """Yield every run of words that may be a name."""
    words = list(islice(_words(text), MAX_TEXT_WORDS))
    for start in range(len(words)):
        budget = 2 * MAX_NAME_WORDS
        for end in range(start, len(words)):
            budget -= 1 if _UNSPACED_CHARACTER.match(words[end]) else 2
            if budget < 0:
                break
            yield NameRun(" ".join(words[start : end + 1]), start, end + 1)


def _words(text: str) -> Iterator[str]:
    lower = text.casefold()
    if not lower.isascii():
        decomposed = unicodedata.normalize("NFKD", lower)
        bare = "".join(c for c in decomposed if unicodedata.combining(c) < _FIRST_ACCENT)
        lower = unicodedata.normalize("NFC", bare)
    return (match[0] for match in _WORD.finditer(_POSSESSIVE.sub("", lower)))
