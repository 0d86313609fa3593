"""Word lists for finding names, and the detection of texts that are not English."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from vmemo.errors import MissingExtra
from vmemo.text.tokens import other_function_words

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
def _forms(known: int) -> _NameTable:
    """Return the other names of each first (0) or second name (1) of the pairs."""
    groups: dict[str, set[str]] = defaultdict(set)
    for pair in _pairs():
        groups[pair[known]].add(pair[1 - known])
    return {key: frozenset(values) for key, values in groups.items()}


def short_forms(name: str) -> frozenset[str]:
    """Return the short forms of a given name."""
    return _forms(0).get(name, frozenset())


def full_forms(name: str) -> frozenset[str]:
    """Return the full forms of a given name."""
    return _forms(1).get(name, frozenset())


@cache
def all_names() -> frozenset[str]:
    """Return every given name of the table, short or full."""
    return frozenset(name for pair in _pairs() for name in pair)


# Words.

_INFLECTION_RULES = "ies:y ied:y ily:y ing: ing:e ed: ed:e er: er:e est: ly: es: s:"
_INFLECTIONS = tuple((ending, base) for ending, _, base in (rule.partition(":") for rule in _INFLECTION_RULES.split()))
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


# Texts that are not English.

MAX_CHARACTERS = 400
"""Characters of a text that are examined."""
_WORD = re.compile(r"[^\W\d_]+")
_OTHER_SCRIPT = re.compile("[^\u0000-\u036f\u1e00-\u1eff]")


def is_foreign(text: str) -> bool:
    """Return True if a text is in another script, or has more words of another language than English ones."""
    return _is_foreign(text[:MAX_CHARACTERS])


@lru_cache(maxsize=4096)
def _is_foreign(text: str) -> bool:
    letters = [] if text.isascii() else [character for character in text if character.isalpha()]
    if 2 * len(_OTHER_SCRIPT.findall("".join(letters))) > len(letters):
        return True
    # "LA" is a place, and the accents of a name say nothing about its language.
    words = {word.lower() for word in _WORD.findall(text) if not (word.isupper() and len(word) > 1)}
    accented = sum(word.islower() and not word.isascii() for word in _WORD.findall(text))
    lists = word_lists()
    # Joined lists would be copied for each text.
    others = (words & other_function_words() | words & lists["foreign"]) - lists["function_word"]
    english = (words & lists["common"] | words & lists["function_word"]) - others
    return len(others) + accented > len(english)
