"""Comparing a text with another that tells the same in the first person, loosely, by its content words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vmemo.text.tokens import STOP_WORDS, terms

_SENTENCE = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")
_CLAUSE = re.compile(r"[.!?;:,。！？；：，、()\n]+|\b(?:and|but|or)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_SELF = frozenset({"i", "me", "my", "mine", "myself", "we", "our", "ours", "ourselves"})
_YOU = frozenset({"you", "your", "yours", "yourself", "yourselves"})
_ENGLISH = frozenset(
    {"the", "and", "with", "from", "that", "this", "been", "were", "their", "they", "he", "she", "his"}
)
"""Words that together with many other English ones make a text English."""
_MOSTLY = 0.3
"""Share of English words in an English text, at least."""
_MOST = 0.5
_ASIDE = frozenset(
    term
    for word in "yourself yourselves himself herself themselves please remember note know also agent d m".split()
    for term in terms(word)
)
"""Words that another person's way of telling needs not repeat: who is meant, and politeness."""
_EXACT = 4
"""Letters up to which two words must begin alike; of longer ones the last may be another."""
_ENDING = 2
"""Letters by which one word may be longer than another that is the same."""


def contains_sentences(text: str, told: str) -> bool:
    """Whether a text holds every sentence of another word for word."""
    return _sentences(told) <= _sentences(text)


def _sentences(text: str) -> set[str]:
    plain = (" ".join(part.split()).casefold().strip(" .!?;。！？") for part in _SENTENCE.split(text))
    return {part for part in plain if part}


def is_second_person(text: str) -> bool:
    """Whether a sentence speaks of "you" and not of its speaker."""
    words = [_words(sentence) for sentence in _SENTENCE.split(text)]
    return any(_YOU & set(each) and not _SELF & set(each) for each in words)


def lacks_first_person(text: str) -> bool:
    """Whether an English text has no word of the first person; of other languages nothing is said."""
    words = _words(text)
    english = sum(word in STOP_WORDS for word in words) >= _MOSTLY * len(words) and bool(_ENGLISH & set(words))
    return english and not _SELF & set(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def content_overlap(text: str, new: str, *, without: Iterable[str] = ()) -> float:
    """The share of a text's content words that a new one has, but for some phrases; 1 if it has no content words."""
    wanted = _content(text) - _content(" ".join(without))
    known = _content(new)
    return sum(_in(word, known) for word in wanted) / len(wanted) if wanted else 1.0


def lost_clauses(old: str, new: str, replaced: Iterable[str]) -> list[str]:
    """The clauses of an old text of which a new one lacks a name, a number or most content words.

    What was replaced is not missed.
    """
    phrases = list(replaced)
    clauses = (" ".join(clause.split()) for clause in _CLAUSE.split(old))
    return [
        clause
        for clause in clauses
        if content_overlap(clause, new, without=phrases) < _MOST
        or content_overlap(_names(clause), new, without=phrases) < 1
    ]


def _names(clause: str) -> str:
    """The words with a capital that the place does not ask for, and those with a digit."""
    words = clause.split()
    capital = {word for word in words[1:] if next((letter.isupper() for letter in word if letter.isalpha()), False)}
    return " ".join(word for word in words if word in capital or any(map(str.isdigit, word)))


def _content(text: str) -> set[str]:
    return set(terms(text)) - _ASIDE


def _in(word: str, known: set[str]) -> bool:
    return word in known or (not word.isdigit() and any(_alike(word, other) for other in known))


def _alike(one: str, other: str) -> bool:
    shorter = min(len(one), len(other))
    if shorter < 2 or abs(len(one) - len(other)) > _ENDING:
        return False
    needed = shorter if shorter <= _EXACT else shorter - 1
    return one[:needed] == other[:needed]
