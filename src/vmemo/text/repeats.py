"""Comparison of statements word by word: a repeat has the same words, apart from case, punctuation and fillers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
_PUNCTUATION = ".,!;:\"'()[]{}…*_~`-–—。，！；："
_NUMBER_PUNCTUATION = ",!;:\"')]}…*。，！；："
"""Punctuation around a word with a digit; a sign, a decimal point or a bracket may belong to the number."""
_CONTRACTIONS = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
_IRREGULAR = {"can't": ("can", "not"), "cannot": ("can", "not"), "won't": ("will", "not"), "im": ("i", "am")}
_MIN_STATEMENT_WORDS = 3
_FREE_WORDS = 12
"""A statement of more words is taken to say what its pronouns refer to."""


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    phrases = (tuple(phrase.split()) for phrase in text.split("|"))
    return tuple(sorted(phrases, key=len, reverse=True))


_OPENING = _phrases(
    "um|uh|er|erm|hm|hmm|oh|ah|wow|well|so|and|anyway|anyways|hey|hi|hello|ok|okay|yes|yeah|yep|btw|by the way|lol|"
    "actually|honestly|basically|to be honest|you know|i mean|as i said|as i mentioned|like i said|haha|hahaha|"
    "just so you know"
)
_CLOSING = _phrases("lol|haha|hahaha|thanks|thank you|btw|by the way|you know|anyway|though|ok|okay|xd")
_ANYWHERE = frozenset(("um", "uh", "er", "erm", "hm", "hmm"))
_REFERRING = frozenset(
    """it its that this those these they them their he him his she her there here then one ones so too either neither
    same both another other others yours mine else""".split()
)
_ELLIPTIC_START = frozenset(
    """in on at with for to from by because maybe probably perhaps about after before during or but no not every each
    only once twice always never sometimes definitely absolutely exactly also""".split()
)


def wording(text: str) -> tuple[str, ...]:
    """Return the words of a text that a repeat of it has too, in order.

    Numbers, names and negations are words; a question is not a repeat of a statement.
    """
    words = [word for token in text.casefold().translate(_QUOTES).split() for word in _words(token)]
    words = [word for word in words if word not in _ANYWHERE]
    start = _skip(words, _OPENING)
    end = len(words) - _skip(words[start:][::-1], _REVERSED_CLOSING)
    asks = any(c in "?？؟" for c in text.rstrip()[-3:])
    return (*words[start:end], "?") if asks else tuple(words[start:end])


def needs_context(words: Sequence[str]) -> bool:
    """Return True if the words of a statement may mean something else after another message: "I love it", "In May"."""
    if len(words) < _MIN_STATEMENT_WORDS or words[0] in _ELLIPTIC_START:
        return True
    return len(words) <= _FREE_WORDS and not _REFERRING.isdisjoint(words)


@lru_cache(maxsize=16_384)
def _words(token: str) -> tuple[str, ...]:
    """Return the words of a token without blanks, without the punctuation and symbols around it."""
    if any(map(str.isdigit, token)):
        word = token.strip(_NUMBER_PUNCTUATION + "?").rstrip(".")
    else:
        word = token.strip(_PUNCTUATION + "?")
    if not word.isascii():
        word = "".join(c for c in word if unicodedata.category(c) not in ("So", "Sk", "Cf", "Me"))
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, full in _CONTRACTIONS.items():
        if word.endswith(ending) and len(word) > len(ending):
            return word.removesuffix(ending), full
    return (word,) if word else ()


_REVERSED_CLOSING = tuple(phrase[::-1] for phrase in _CLOSING)
_FIRST_WORDS = frozenset(phrase[0] for phrase in (*_OPENING, *_REVERSED_CLOSING))


def _skip(words: Sequence[str], phrases: Sequence[tuple[str, ...]]) -> int:
    """Return the number of words at the start that are fillers; something is always left."""
    at = 0
    while at < len(words) and words[at] in _FIRST_WORDS:
        size = next((len(phrase) for phrase in phrases if tuple(words[at : at + len(phrase)]) == phrase), 0)
        if not size or at + size >= len(words):
            break
        at += size
    return at
