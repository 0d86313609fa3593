"""The word lists behind entity finding: what is an ordinary word, and what is a given name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files

from vmemo.text.names.nickname_table import all_names

_ENDINGS = ("ies:y", "ied:y", "ily:y", "ing:", "ing:e", "ed:", "ed:e", "er:", "er:e", "est:", "ly:", "es:", "s:")
_INFLECTIONS = tuple((ending, base) for ending, _, base in (rule.partition(":") for rule in _ENDINGS))
_MADE_OF_WORDS = ("able", "ible", "ness", "tion", "ment", "less", "ful", "ously", "ively", "ally")


@cache
def word_lists() -> Mapping[str, frozenset[str]]:
    """The sections of `names.txt` by their titles."""
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
    """Folded given names that are not ordinary words too."""
    return frozenset(all_names() - word_lists()["common"] - word_lists()["never"])


def normalize_word(word: str) -> str:
    """The word as the lists know it: small, and without a last dot or what an apostrophe adds."""
    return word.casefold().replace("’", "'").partition("'")[0].rstrip(".")


@lru_cache(maxsize=8192)
def is_common_word(word: str) -> bool:
    """Whether a bare word is English as written small, in any inflection."""
    return _is_listed(word) or word.endswith(_MADE_OF_WORDS) or any(map(_is_listed, _bases(word)))


def _is_listed(word: str) -> bool:
    lists = word_lists()
    return word in lists["common"] or word in lists["never"]


def _bases(word: str) -> list[str]:
    if word in given_names():
        return []
    stems = [(word[: -len(ending)], base) for ending, base in _INFLECTIONS if word.endswith(ending)]
    undoubled = [stem[:-1] for stem, base in stems if not base and stem[-1:] == stem[-2:-1]]
    return [base for base in (*(stem + base for stem, base in stems), *undoubled) if len(base) > 2]
