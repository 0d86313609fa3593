"""Word lists for finding names, and the detection of texts that are not English, to which English rules do not apply.

Most English texts are recognised by their common words, the others by their n-grams. A short or doubtful text counts as
English.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from vmemo.errors import MissingExtra
from vmemo_models import LANGUAGES

# Given names.

_NameTable = Mapping[str, frozenset[str]]


@cache
def _pairs() -> tuple[tuple[str, str], ...]:
    """Return pairs of a full name and one of its short forms."""
    found = find_spec("nicknames")
    if found is None or not found.submodule_search_locations:
        raise MissingExtra("The package `nicknames` is not installed. Run: pip install nicknames")
    with (Path(found.submodule_search_locations[0]) / "names.csv").open(encoding="utf-8", newline="") as file:
        return tuple((row["name1"], row["name2"]) for row in csv.DictReader(file))


@cache
def _short_forms() -> _NameTable:
    return _grouped([(full, short) for full, short in _pairs()])


@cache
def _full_forms() -> _NameTable:
    return _grouped([(short, full) for full, short in _pairs()])


def _grouped(pairs: list[tuple[str, str]]) -> _NameTable:
    groups: dict[str, set[str]] = defaultdict(set)
    for key, value in pairs:
        groups[key].add(value)
    return {key: frozenset(values) for key, values in groups.items()}


def short_forms(name: str) -> frozenset[str]:
    """Return the short forms of a given name."""
    return _short_forms().get(name, frozenset())


def full_forms(name: str) -> frozenset[str]:
    """Return the full forms of a given name."""
    return _full_forms().get(name, frozenset())


@cache
def all_names() -> frozenset[str]:
    """Return every given name of the table, short or full."""
    return frozenset(name for pair in _pairs() for name in pair)


# Words.

_INFLECTION_RULES = (
    "ies:y",
    "ied:y",
    "ily:y",
    "ing:",
    "ing:e",
    "ed:",
    "ed:e",
    "er:",
    "er:e",
    "est:",
    "ly:",
    "es:",
    "s:",
)
_INFLECTIONS = tuple((ending, base) for ending, _, base in (rule.partition(":") for rule in _INFLECTION_RULES))
_DERIVATIONAL_SUFFIXES = ("able", "ible", "ness", "tion", "ment", "less", "ful", "ously", "ively", "ally")


@cache
def word_lists() -> Mapping[str, frozenset[str]]:
    """Return the sections of `names.txt` by title."""
    sections: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in files("vmemo.text.names").joinpath("names.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            words = sections.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            words.update(line.split())
    return {title: frozenset(words) for title, words in sections.items()}


@cache
def given_names() -> frozenset[str]:
    """Return casefolded given names that are not common words."""
    return frozenset(all_names() - word_lists()["common"] - word_lists()["function_word"])


@lru_cache(maxsize=16_384)
def normalize_word(word: str) -> str:
    """Return the word as in the lists: casefolded, without a final dot or a part after an apostrophe."""
    return word.casefold().replace("’", "'").partition("'")[0].rstrip(".")


@lru_cache(maxsize=8192)
def is_common_word(word: str) -> bool:
    """Return True for a normalized word that English writes in lower case, in any inflection."""
    return _is_listed(word) or word.endswith(_DERIVATIONAL_SUFFIXES) or any(map(_is_listed, _base_forms(word)))


def _is_listed(word: str) -> bool:
    lists = word_lists()
    return word in lists["common"] or word in lists["function_word"]


def _base_forms(word: str) -> list[str]:
    if word in given_names():
        return []
    stems = [(word[: -len(ending)], base) for ending, base in _INFLECTIONS if word.endswith(ending)]
    undoubled = [stem[:-1] for stem, base in stems if not base and stem[-1:] == stem[-2:-1]]
    return [base for base in (*(stem + base for stem, base in stems), *undoubled) if len(base) > 2]


# Languages in Latin script, by naive Bayes over the n-grams of a text's bytes.

_LONGEST = 6
"""Bytes of the longest n-gram."""
_Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Table:
    ngrams: npt.NDArray[np.uint64]
    """N-grams as little-endian numbers, in ascending order."""
    weights: npt.NDArray[np.int8]
    """Logarithmic probabilities of each n-gram in each language, divided by `scale`."""
    scale: float
    priors: _Floats
    languages: tuple[str, ...]


def _identify_language(text: str) -> tuple[str, float]:
    """Return the code of the most likely language, and its probability."""
    table = _table()
    content = unicodedata.normalize("NFC", text.lower() if text.isupper() else text).encode("utf-8", "surrogatepass")
    rows, counts = np.unique(_rows(content, table.ngrams), return_counts=True)
    known = rows >= 0
    scores = np.log1p(counts[known]) @ (table.weights[rows[known]] * np.float32(table.scale)) + table.priors
    # The square root of the length keeps probabilities of short and long texts comparable.
    likelihoods = np.exp((scores - scores.max()) / math.sqrt(max(1, len(content))))
    best = int(likelihoods.argmax())
    return table.languages[best], float(likelihoods[best] / likelihoods.sum())


def _rows(content: bytes, ngrams: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """Return for each byte the row of the longest n-gram that ends there, or -1."""
    octets = np.frombuffer(content, np.uint8).astype(np.uint64)
    rows = np.full(len(octets), -1, np.intp)
    keys = octets.copy()
    for length in range(1, min(_LONGEST, len(octets)) + 1):
        if length > 1:
            keys = (keys[1:] << np.uint64(8)) | octets[: len(keys) - 1]
        places = np.searchsorted(ngrams, keys)
        found = ngrams[np.minimum(places, len(ngrams) - 1)] == keys
        rows[length - 1 :][found] = places[found]
    return rows


@cache
def _table() -> _Table:
    with np.load(io.BytesIO(LANGUAGES.read("ngrams.npz"))) as file:
        return _Table(
            ngrams=file["ngrams"],
            weights=file["weights"],
            scale=float(file["scale"]),
            priors=file["priors"],
            languages=tuple(file["languages"].tolist()),
        )


# Texts that are not English.

MAX_CHARACTERS = 400
"""Characters of a text that are examined."""
_MIN_WORDS = 4
"""Words from which n-grams are believed; those of names and slang are found in some language."""
_MIN_ACCENTED_WORDS = 3
"""Words of a text with letters that English does not have, of which it must be almost certain."""
_ENGLISH_SHARE = 0.6
"""Share of common English words from which a text is English; those of other languages rarely have half of it."""
_DOUBTFUL_SHARE = 0.34
_CONFIDENCE, _CONFIDENCE_IN_DOUBT, _CONFIDENCE_IN_FEW_WORDS = 0.5, 0.7, 0.95
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_FIRST_OTHER_SCRIPT = "\u0370"
_LATIN_ADDITIONS = ("\u1e00", "\u1eff")
_FUNCTION_WORDS = frozenset(
    "ich du sie wir ihr mich dich mir dir gestern heute hier dort jetzt morgen der das ein eine und oder aber nicht "
    "auch je tu elle nous vous hier demain ici le la les une et mais mon ton oui aussi "
    "yo tú él nosotros ayer hoy mañana aquí ahora el los las una pero mi también "
    "noi voi ieri oggi domani qui gli mio anche nós ontem hoje amanhã aqui agora uma meu também "
    "ik jij hij wij gisteren vandaag nu het een maar mijn ook wczoraj dzisiaj dziś jutro tutaj teraz mój "
    "dün bugün yarın burada şimdi benim".split()
)
"""Words of which a line of one or two words is not English: pronouns, articles, conjunctions and days."""
_CHAT_WORDS = frozenset(
    "gonna wanna gotta lol lmao omg idk tbh btw brb thx pls plz w u ur np kk imo fyi haha yep nope".split()
)


def is_foreign(text: str) -> bool:
    """Return True if a text is certainly in another language than English."""
    return _is_foreign(text[:MAX_CHARACTERS])


@lru_cache(maxsize=4096)
def _is_foreign(text: str) -> bool:
    if not text.isascii():
        letters = [character for character in text if character.isalpha()]
        if 2 * sum(map(_is_other_script, letters)) > len(letters):
            return True
    written = _WORD.findall(text)
    words = [normalize_word(word) for word in written]
    if len(words) <= 2:
        return bool(words) and all(map(_is_foreign_function_word, written))
    if len(words) < _MIN_WORDS and (len(words) < _MIN_ACCENTED_WORDS or text.isascii()):
        return False
    # A line of names says nothing about its language.
    if not any(word[0].islower() for word in written):
        return False
    share = sum(map(_english_words().__contains__, words)) / len(words)
    if share >= _ENGLISH_SHARE:
        return False
    language, confidence = _identify_language(text)
    return language != "en" and confidence >= _needed_confidence(len(words), share)


def _needed_confidence(words: int, share: float) -> float:
    if words < _MIN_WORDS:
        return _CONFIDENCE_IN_FEW_WORDS
    return _CONFIDENCE_IN_DOUBT if share > _DOUBTFUL_SHARE else _CONFIDENCE


@cache
def _english_words() -> frozenset[str]:
    lists = word_lists()
    return lists["common"] | lists["function_word"] | _CHAT_WORDS


def _is_foreign_function_word(word: str) -> bool:
    # "LA" is a place.
    return word.casefold() in _FUNCTION_WORDS and not (len(word) > 1 and word.isupper())


def _is_other_script(letter: str) -> bool:
    return letter >= _FIRST_OTHER_SCRIPT and not _LATIN_ADDITIONS[0] <= letter <= _LATIN_ADDITIONS[1]
