"""How alike two names are: folding, nicknames, initials, fuller forms and misspellings; pure arithmetic."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from jellyfish import damerau_levenshtein_distance, jaro_winkler_similarity

from vmemo.text.names.nickname_table import full_forms, short_forms

_TITLES: Mapping[str, str] = {
    **dict.fromkeys(("mr", "mister", "sir", "monsieur", "uncle"), "m"),
    **dict.fromkeys(("mrs", "ms", "miss", "madam", "madame", "aunt", "auntie"), "f"),
    **dict.fromkeys(("dr", "doctor", "prof", "professor", "coach", "captain", "chef", "rev", "judge"), ""),
}
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
_COMPANY_FORMS = frozenset({"inc", "llc", "ltd", "corp", "gmbh", "plc"})
_POSSESSIVE = re.compile(r"['’]s\s|s['’]\s")
_SPACED = str.maketrans({**dict.fromkeys("'’‘`", ""), **dict.fromkeys('.,-–_/"“”()', " "), "&": " and "})

EXACT, RESPACED, TITLED, FULL_NICKNAME = 1.0, 0.96, 0.92, 0.95
KNOWN_SHORT = 0.9
INITIAL, FULLER, NICKNAME, ACRONYM, FULLER_NICKNAME, SURNAME = 0.88, 0.85, 0.85, 0.82, 0.81, 0.78
CLIPPED, DOUBTFUL_NICKNAME, MISSPELT = 0.74, 0.66, 0.65
CLIP = 3
"""Letters to which a given name is often cut: Mel of Melanie, Tam of Tamsin."""
# A shorter word one letter away from another is more often another name (Marina, Martina) than a slip.
LONG_ENOUGH, _CLOSE_ENOUGH = 7, 0.94


class NameForm(NamedTuple):
    """A name ready to compare: folded words, and what its title says of its bearer."""

    words: tuple[str, ...]
    title: str | None = None
    proper: bool = True
    """Whether it names someone, as "John's new teammates" and "friends" do not."""

    @property
    def key(self) -> str:
        """Equal for names that differ only in case, accents, spacing or punctuation."""
        return "".join(self.words)


def fold_name(name: str) -> str:
    """Small letters without accents. Marks that are letters of their own script stay."""
    if name.isascii():
        return name.lower()
    spread = unicodedata.normalize("NFKD", name.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.combining(c) < 200))


@lru_cache(maxsize=65_536)
def name_form(name: str) -> NameForm:
    """Read a name; the reading is remembered because a bank's names recur."""
    words = fold_name(name).translate(_SPACED).split() or [name]
    proper = name != name.lower() if name.upper() != name.lower() else True
    if len(words) == 1:
        return NameForm((words[0],), None, proper)
    title = _TITLES.get(words[0])
    if title is not None or words[0] == "the":
        del words[0]
    if len(words) > 1 and words[-1] in _COMPANY_FORMS:
        del words[-1]
    if len(words) > 1 and max(map(len, words)) == 1:
        words = ["".join(words)]
    return NameForm(tuple(words), title, proper and not _POSSESSIVE.search(name))


@lru_cache(maxsize=8192)
def nicknames(word: str) -> frozenset[str]:
    """Given names this one is short for, or that are short for it."""
    return short_forms(word) | full_forms(word)


def _is_short_form(one: str, other: str) -> bool:
    """Whether the shorter is hardly a name of its own, as Bob, Bill and Carrie are; Anna, Mary and Emma are."""
    short, full = sorted((one, other), key=len)
    missing = len(full) - len(short)
    clipped = missing >= len(short) - 1 and (len(short) < 4 or (len(short) == 4 and short[-1] not in "aeiouy"))
    diminutive = missing >= 2 and short.endswith(("y", "ie"))
    own = short_forms(short) - full_forms(short)
    return (clipped or diminutive) and len(own) < 4


def name_similarity(one: NameForm, other: NameForm, *, person: bool) -> float:
    """How likely two names are one, by their letters alone; persons have more ways to be alike."""
    if one.title and other.title and one.title != other.title:
        return 0.0
    if one.words == other.words:
        return EXACT if one.title == other.title else TITLED
    if not (one.proper and other.proper):
        return RESPACED if one.key == other.key else 0.0
    if len(one.words) == len(other.words):
        alike = _misspelt(one.words, other.words)
        return max(alike, _aligned(one.words, other.words)) if person else alike
    short, long = (one, other) if len(one.words) < len(other.words) else (other, one)
    if short.words[0][0] == long.words[0][0] and short.key == long.key:
        return RESPACED
    if not person:
        return _acronym(short.words, long.words)
    return 0.0 if long.words[-1] in _GENERATIONS else _contained(short, long.words)


def _first_name(one: str, other: str) -> float:
    """Likeness of two given names, one of which may be short for the other or its initial."""
    if one == other:
        return EXACT
    if len(one) == 1 or len(other) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    if other in nicknames(one):
        return NICKNAME if _is_short_form(one, other) else DOUBTFUL_NICKNAME
    clipped = CLIP in (len(one), len(other)) and one[:CLIP] == other[:CLIP] and abs(len(one) - len(other)) > 1
    return CLIPPED if clipped else 0.0


def _aligned(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    first = _first_name(one[0], other[0])
    if len(one) < 2:
        return 0.0 if first == INITIAL else first
    if not first or one[-1] != other[-1] or not all(map(_is_middle, one[1:-1], other[1:-1])):
        return 0.0
    return INITIAL if first == INITIAL else min(first + 0.1, FULL_NICKNAME)


def _is_middle(one: str, other: str) -> bool:
    return one == other or (min(len(one), len(other)) == 1 and one[0] == other[0])


def _contained(short: NameForm, long: tuple[str, ...]) -> float:
    words = short.words
    if words == long[: len(words)]:
        return FULLER
    if len(words) == 1:
        if words[0] == long[-1]:
            return FULLER if short.title is not None else SURNAME
        first = _first_name(words[0], long[0])
        return 0.0 if first == INITIAL else min(first, FULLER_NICKNAME)
    first = _first_name(words[0], long[0])
    return min(first, FULLER) if words[-1] == long[-1] else 0.0


def _misspelt(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    differing = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    if len(differing) > 1:
        return 0.0
    a, b = differing[0]
    if min(len(a), len(b)) < LONG_ENOUGH or not (a.isalpha() and b.isalpha()) or (nicknames(a) and nicknames(b)):
        return 0.0
    close = damerau_levenshtein_distance(a, b) == 1 and jaro_winkler_similarity(a, b) >= _CLOSE_ENOUGH
    return MISSPELT if close else 0.0


def _acronym(short: tuple[str, ...], long: tuple[str, ...]) -> float:
    fits = len(short) == 1 and len(long) >= 3 and short[0] == "".join([word[0] for word in long])
    return ACRONYM if fits else 0.0
