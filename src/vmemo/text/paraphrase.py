"""Comparison of a text with a paraphrase of it, by content words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vmemo.text.tokens import STOP_WORDS, terms

_SENTENCE = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")
_CLAUSE = re.compile(r"[.!?;:,。！？；：，、()\n]+|\b(?:and|but|or)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "we", "our", "ours", "ourselves"})
_SECOND_PERSON = frozenset({"you", "your", "yours", "yourself", "yourselves"})
_ENGLISH = frozenset(
    {"the", "and", "with", "from", "that", "this", "been", "were", "their", "they", "he", "she", "his"}
)
"""Words of which an English text contains at least one."""
_MIN_STOP_WORD_SHARE = 0.3
"""Least share of stop words in an English text."""
_MIN_CLAUSE_OVERLAP = 0.5
_IGNORED_TERMS = frozenset(
    term
    for word in "yourself yourselves himself herself themselves please remember note know also agent d m".split()
    for term in terms(word)
)
"""Terms of address and politeness, which a paraphrase need not repeat."""
_MAX_EXACT_LENGTH = 4
"""Longer terms are also equal if they differ in the last letter of the shorter one."""
_MAX_LENGTH_DIFFERENCE = 2
"""Letters by which equal terms may differ in length."""


def contains_sentences(text: str, other: str) -> bool:
    """Return True if a text contains every sentence of another one word for word."""
    return _sentences(other) <= _sentences(text)


def _sentences(text: str) -> set[str]:
    plain = (" ".join(part.split()).casefold().strip(" .!?;。！？") for part in _SENTENCE.split(text))
    return {part for part in plain if part}


def is_second_person(text: str) -> bool:
    """Return True if a sentence of the text has a word of the second person and none of the first."""
    words = [_words(sentence) for sentence in _SENTENCE.split(text)]
    return any(_SECOND_PERSON & set(each) and not _FIRST_PERSON & set(each) for each in words)


def lacks_first_person(text: str) -> bool:
    """Return True for an English text without a word of the first person; False for other languages."""
    words = _words(text)
    english = sum(word in STOP_WORDS for word in words) >= _MIN_STOP_WORD_SHARE * len(words) and bool(
        _ENGLISH & set(words)
    )
    return english and not _FIRST_PERSON & set(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def content_overlap(text: str, new: str, *, without: Iterable[str] = ()) -> float:
    """Return the share of a text's content words that a new one has, except those of `without`; 1 if there are none."""
    return _Vocabulary(new).share_of(_content_terms(text) - _content_terms(" ".join(without)))


def lost_clauses(old: str, new: str, replaced: Iterable[str]) -> list[str]:
    """Return the clauses of an old text of which a new one lacks a name, a number or most content words.

    Words of the phrases `replaced` do not count.
    """
    ignored, known = _content_terms(" ".join(replaced)), _Vocabulary(new)
    clauses = (" ".join(clause.split()) for clause in _CLAUSE.split(old))
    return [
        clause
        for clause in clauses
        if known.share_of(_content_terms(clause) - ignored) < _MIN_CLAUSE_OVERLAP
        or known.share_of(_content_terms(_names_and_numbers(clause)) - ignored) < 1
    ]


def _names_and_numbers(clause: str) -> str:
    """Return the words with a digit, and those with a capital that do not open the clause."""
    words = clause.split()
    capital = {word for word in words[1:] if next((letter.isupper() for letter in word if letter.isalpha()), False)}
    return " ".join(word for word in words if word in capital or any(map(str.isdigit, word)))


def _content_terms(text: str) -> set[str]:
    return set(terms(text)) - _IGNORED_TERMS


class _Vocabulary:
    """The content words of a text, in which a word is also found by its beginning."""

    def __init__(self, text: str) -> None:
        self._terms = _content_terms(text)
        self._beginnings = {
            (len(term), term[:needed]) for term in self._terms for _, needed in _compared_lengths(len(term))
        }

    def share_of(self, wanted: set[str]) -> float:
        """Return the share of words that the text has, 1 for no words."""
        return sum(map(self._has, wanted)) / len(wanted) if wanted else 1.0

    def _has(self, word: str) -> bool:
        if word in self._terms or word.isdigit():
            return word in self._terms
        return any((length, word[:needed]) in self._beginnings for length, needed in _compared_lengths(len(word)))


def _compared_lengths(length: int) -> Iterator[tuple[int, int]]:
    """Yield the lengths of words that may be equal to a word, and the number of letters that they must share."""
    for other in range(length - _MAX_LENGTH_DIFFERENCE, length + _MAX_LENGTH_DIFFERENCE + 1):
        shorter = min(length, other)
        if shorter >= 2:
            yield other, shorter if shorter <= _MAX_EXACT_LENGTH else shorter - 1
