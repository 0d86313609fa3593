"""Word lists for finding names: common words, given names, titles and others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

from vmemo.text.names.nickname_table import all_names

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
