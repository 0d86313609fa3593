"""Comparison of texts by their words: repeats and paraphrases."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set as AbstractSet
from functools import lru_cache

from vmemo.text.pattern_files import read_patterns
from vmemo.text.tokens import STOP_WORDS, term_set, terms

# Repeats: the same words, apart from case, punctuation and fillers.

_QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
_PUNCTUATION = ".,!;:\"'()[]{}…*_~`-–—。，！；："
_NUMBER_PUNCTUATION = ",!;:\"')]}…*。，！；："
"""Punctuation around a word with a digit; a sign, a decimal point or a bracket may belong to the number."""
_CONTRACTIONS = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
_IRREGULAR = {"can't": ("can", "not"), "cannot": ("can", "not"), "won't": ("will", "not"), "im": ("i", "am")}
_MIN_STATEMENT_WORDS = 3
_FREE_WORDS = 12
"""A statement of more words is taken to say what its pronouns refer to."""


def _phrases(section: str) -> tuple[tuple[str, ...], ...]:
    phrases = (tuple(phrase.split()) for phrase in _WORDS[section])
    return tuple(sorted(phrases, key=len, reverse=True))


_WORDS = read_patterns("wording.txt")
_OPENING, _CLOSING = _phrases("opening"), _phrases("closing")
_ANYWHERE, _REFERRING, _ELLIPTIC_START, _FIRST_PERSON, _SECOND_PERSON, _ENGLISH = (
    frozenset(" ".join(_WORDS[name]).split())
    for name in ("anywhere", "referring", "elliptic start", "first person", "second person", "english")
)


def wording(text: str) -> tuple[str, ...]:
    """Return the words of a text that a repeat of it has too, in order.

    Numbers, names and negations are words; a question is not a repeat of a statement.
    """
    words = [word for token in text.casefold().translate(_QUOTES).split() for word in _words_of_token(token)]
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
def _words_of_token(token: str) -> tuple[str, ...]:
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


# Paraphrases, compared by content words.

_SENTENCE = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")
_CLAUSE = re.compile(r"[.!?;:,。！？；：，、()\n]+|\b(?:and|but|or)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_MIN_STOP_WORD_SHARE = 0.3
"""Least share of stop words in an English text."""
_MIN_CLAUSE_OVERLAP = 0.5
_IGNORED_WORDS = "yourself yourselves himself herself themselves please remember note know also agent d m"
"""Words of address and politeness, which a paraphrase need not repeat."""
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
    return _share(_content_terms(text) - _content_terms(" ".join(without)), _keys_of(new))


def lost_clauses(old: str, new: str, replaced: Iterable[str]) -> list[str]:
    """Return the clauses of an old text of which a new one lacks a name, a number or most content words.

    Words of the phrases `replaced` do not count.
    """
    ignored, known = _content_terms(" ".join(replaced)), _keys_of(new)
    clauses = (" ".join(clause.split()) for clause in _CLAUSE.split(old))
    return [
        clause
        for clause in clauses
        if _share(_content_terms(clause) - ignored, known) < _MIN_CLAUSE_OVERLAP
        or _share(_content_terms(_names_and_numbers(clause)) - ignored, known) < 1
    ]


def _names_and_numbers(clause: str) -> str:
    """Return the words with a digit, and those with a capital that do not open the clause."""
    words = clause.split()
    capital = {word for word in words[1:] if next((letter.isupper() for letter in word if letter.isalpha()), False)}
    return " ".join(word for word in words if word in capital or any(map(str.isdigit, word)))


def _content_terms(text: str) -> set[str]:
    return set(terms(text)) - term_set(_IGNORED_WORDS)


def _share(wanted: set[str], keys: AbstractSet[tuple[int, int, str]]) -> float:
    """Return the share of terms that have one of the keys; 1 for no terms."""
    return sum(not keys.isdisjoint(_keys(term)) for term in wanted) / len(wanted) if wanted else 1.0


def _keys_of(text: str) -> set[tuple[int, int, str]]:
    return {key for term in _content_terms(text) for key in _keys(term)}


def _keys(term: str) -> set[tuple[int, int, str]]:
    """Return keys of which two equal terms share one: two lengths, and the letters that such terms must share."""
    differences = () if term.isdigit() else range(-_MAX_LENGTH_DIFFERENCE, _MAX_LENGTH_DIFFERENCE + 1)
    lengths = (sorted((len(term), len(term) + difference)) for difference in differences)
    found = {(one, two, term[: one if one <= _MAX_EXACT_LENGTH else one - 1]) for one, two in lengths if one >= 2}
    return found | {(0, 0, term)}
