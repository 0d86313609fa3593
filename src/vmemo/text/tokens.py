"""Terms of keyword search, the same for facts, messages and queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from threading import Lock
from typing import Protocol, cast

from snowballstemmer import stemmer  # pyright: ignore[reportUnknownVariableType]

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0e7f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002ffff]+"
)
_MAX_TERM_LENGTH = 64
"""Longer words are cut off."""
_MOST_TERMS = 64
"""Different words of a query that are searched; of a longer query, its longest words."""

STOP_WORDS = frozenset(
    """a about after again all also am an and any are as at be because been before being both but by can could did
    do does doing don down each few for from further had has have having he her here hers him his how i if in into
    is it its itself just ll me more most my myself no nor not now of off on once only or other our ours out over
    own re s same she should so some such t than that the their theirs them then there these they this those through
    to too under until up ve very was we were what when where which while who whom why will with would you your
    yours""".split()
)


def terms(text: str) -> list[str]:
    """Return the stemmed content words of a text, in order and with repetition.

    Text in a script without spaces gives overlapping pairs of characters.
    """
    return [term for word in _WORD.findall(_fold(text)) for term in _word_terms(word)]


def query_terms(text: str) -> list[str]:
    """Return the words of a query that are searched."""
    distinct = list(dict.fromkeys(terms(text)))
    return sorted(distinct, key=len, reverse=True)[:_MOST_TERMS] if len(distinct) > _MOST_TERMS else distinct


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    stripped = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", stripped)


@lru_cache(maxsize=65_536)
def _word_terms(word: str) -> tuple[str, ...]:
    if word in STOP_WORDS:
        return ()
    if word.isdecimal() and word.isascii():
        return (word[:_MAX_TERM_LENGTH],)
    return (_stem(word[:_MAX_TERM_LENGTH]),) if word.isascii() else tuple(_terms_of_runs(word))


def _terms_of_runs(word: str) -> Iterator[str]:
    end = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            yield word[end : run.start()][:_MAX_TERM_LENGTH]
        yield from _bigrams(run.group())
        end = run.end()
    if end < len(word):
        yield word[end:][:_MAX_TERM_LENGTH]


def _bigrams(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for i in range(len(run) - 1):
        yield run[i : i + 2]


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


_stemmer = cast(_Stemmer, stemmer("english"))
# The stemmer is stateful, so calls from several threads are serialized.
_lock = Lock()


def _stem(word: str) -> str:
    with _lock:
        return _stemmer.stemWord(word)
