"""Comparison of a text with a paraphrase of it, by content words."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    wanted = _content_terms(text) - _content_terms(" ".join(without))
    known = _content_terms(new)
    return sum(_is_in(word, known) for word in wanted) / len(wanted) if wanted else 1.0


def lost_clauses(old: str, new: str, replaced: Iterable[str]) -> list[str]:
    """Return the clauses of an old text of which a new one lacks a name, a number or most content words.

    Words of the phrases `replaced` do not count.
    """
    phrases = list(replaced)
    clauses = (" ".join(clause.split()) for clause in _CLAUSE.split(old))
    return [
        clause
        for clause in clauses
        if content_overlap(clause, new, without=phrases) < _MIN_CLAUSE_OVERLAP
        or content_overlap(_names_and_numbers(clause), new, without=phrases) < 1
    ]


def _names_and_numbers(clause: str) -> str:
    """Return the words with a digit, and those with a capital that do not open the clause."""
    words = clause.split()
    capital = {word for word in words[1:] if next((letter.isupper() for letter in word if letter.isalpha()), False)}
    return " ".join(word for word in words if word in capital or any(map(str.isdigit, word)))


def _content_terms(text: str) -> set[str]:
    return set(terms(text)) - _IGNORED_TERMS


def _is_in(word: str, known: set[str]) -> bool:
    return word in known or (not word.isdigit() and any(_are_equal(word, other) for other in known))


def _are_equal(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    if shorter < 2 or abs(len(one) - len(other)) > _MAX_LENGTH_DIFFERENCE:
        return False
    needed = shorter if shorter <= _MAX_EXACT_LENGTH else shorter - 1
    return one[:needed] == other[:needed]
