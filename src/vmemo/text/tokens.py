"""Terms of keyword search, the same for facts, messages and queries.

The script of a word decides its stemmer: Russian for Cyrillic, Arabic, Hindi for Devanagari. A text in Latin script is
English unless its function words are those of another language; the words of such a text have the stem of that
language besides the English one, so that they are found even if the language of the other text is guessed wrongly.
Words of Vietnamese texts are kept with and without their accents, for the same reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise
from threading import Lock
from typing import Protocol, cast

from snowballstemmer import stemmer  # pyright: ignore[reportUnknownVariableType]

_MARKS = "".join(c for c in map(chr, range(0x0300, 0x1800)) if unicodedata.category(c).startswith("M"))
"""Accents, and the vowels of Indic scripts, which Python does not count as characters of words."""
_WORD = re.compile(rf"[\w{_MARKS}]+")
_ACCENT = re.compile("[\u0300-\u0305\u0307-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f]|(?<!и)\u0306")
"""Marks that are not part of a letter; й is not и."""
_VIETNAMESE = re.compile("[ơưạ-ỹ]")
"""Letters that nearly every sentence in Vietnamese has, and other languages do not."""
_UNSPACED = re.compile(
    "[\u0e00-\u0e7f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002ffff]+"
)
_SCRIPTS = {"russian": ("\u0400", "\u04ff"), "arabic": ("\u0600", "\u06ff"), "hindi": ("\u0900", "\u097f")}
_MAX_TERM_LENGTH = 64
"""Longer words are cut off."""
_MOST_TERMS = 64
"""Different words of a query that are searched; of a longer query, its longest words."""
_MAX_KEPT = 300
"""Characters of a text whose terms are kept: a recall or retain needs those of a question or a fact several times."""
_MIN_FUNCTION_WORDS = 2
"""Function words of another language from which a text is in that language."""

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
    return list(_short_terms(text)) if len(text) <= _MAX_KEPT else _terms(text)


@lru_cache(maxsize=2048)
def _short_terms(text: str) -> tuple[str, ...]:
    return tuple(_terms(text))


def _terms(text: str) -> list[str]:
    lowered = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text.casefold())
    vietnamese = _VIETNAMESE.search(lowered) is not None
    words = _WORD.findall((lowered if vietnamese else _fold(lowered)).replace("_", " "))
    language = "vietnamese" if vietnamese else _language(words)
    return [term for word in words for term in _word_terms(word, language)]


@cache
def term_set(words: str) -> frozenset[str]:
    """Return the terms of a constant list of words, kept for the next call."""
    return frozenset(terms(words))


def query_terms(text: str) -> list[str]:
    distinct = list(dict.fromkeys(terms(text)))
    return sorted(distinct, key=len, reverse=True)[:_MOST_TERMS] if len(distinct) > _MOST_TERMS else distinct


def _fold(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFKD", text)))


def _language(words: Sequence[str]) -> str:
    """Return the language of a text in Latin script: English, unless more function words are only in another one."""
    table, different = _function_words(), set(words)
    counts = Counter(language for word in table.keys() & different for language in table[word])
    if not counts:
        return "english"
    best = max(counts, key=lambda language: (counts[language], language))
    english = len((different & STOP_WORDS) - _stop_words()[best])
    return best if counts[best] >= max(_MIN_FUNCTION_WORDS, english + 1) else "english"


@cache
def other_function_words() -> frozenset[str]:
    """Return the function words of other languages in Latin script that English lacks, without accents."""
    return frozenset(_function_words())


@cache
def _stop_words() -> Mapping[str, frozenset[str]]:
    """Return the sections of `stop_words.txt` by language, without the accents that `terms` removes."""
    content = files("vmemo.text").joinpath("stop_words.txt").read_text(encoding="utf-8")
    sections = {name: words for name, _, words in (section.partition("]") for section in content.split("[")[1:])}
    return {
        name: frozenset((words if name == "vietnamese" else _fold(words)).split()) for name, words in sections.items()
    }


@cache
def _function_words() -> Mapping[str, tuple[str, ...]]:
    """Return the languages in Latin script of each function word that is not English and no single letter."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for language, words in _stop_words().items():
        for word in words - STOP_WORDS if language not in (*_SCRIPTS, "vietnamese") else ():
            if len(word) > 1:
                found[word] += (language,)
    return dict(found)


@lru_cache(maxsize=65_536)
def _word_terms(word: str, language: str) -> tuple[str, ...]:
    if not word.isascii():
        if _UNSPACED.search(word):
            return tuple(_terms_of_runs(word, language))
        scripts = (name for name, (first, last) in _SCRIPTS.items() if first <= word[0] <= last)
        language = next(scripts, language)
    if word in STOP_WORDS or word in _stop_words().get(language, ()):
        return ()
    word = word[:_MAX_TERM_LENGTH]
    if word.isdecimal():
        return (word,)
    if language in _SCRIPTS:
        return (_stem(word, language),)
    plain = _fold(word).replace("đ", "d")
    common = _stem(plain, "english") if plain.isascii() else plain
    if language == "english":
        return (common,)
    own = word if language == "vietnamese" else _stem(word, language)
    return (common,) if own == common else (common, own)


def _terms_of_runs(word: str, language: str) -> Iterator[str]:
    end = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > end:
            yield from _word_terms(word[end : run.start()], language)
        pairs = run[0] if len(run[0]) == 1 else map("".join, pairwise(run[0]))
        yield from pairs
        end = run.end()
    if end < len(word):
        yield from _word_terms(word[end:], language)


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...


_stemmer = cache(cast("Callable[[str], _Stemmer]", stemmer))
# Stemmers are stateful, so calls from several threads are serialized.
_lock = Lock()


def _stem(word: str, language: str) -> str:
    with _lock:
        return _stemmer(language).stemWord(word)
