"""How alike two names are: folding, nicknames, initials, fuller forms and misspellings, as plain arithmetic."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from jellyfish import damerau_levenshtein_distance, jaro_winkler_similarity
from nicknames import NickNamer

_TITLES: Mapping[str, str] = {
    "mr": "m", "mister": "m", "mrs": "f", "ms": "f", "miss": "f", "madam": "f", "mme": "f", "monsieur": "m", "sir": "m",
    "dr": "", "doctor": "", "prof": "", "professor": "", "coach": "", "captain": "", "chef": "", "rev": "", "judge": "",
    "aunt": "f", "auntie": "f", "uncle": "m",
}  # fmt: skip
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
_COMPANY_FORMS = frozenset({"inc", "llc", "ltd", "corp", "gmbh", "plc"})
_SPACED = str.maketrans({**dict.fromkeys("'’‘`", ""), **dict.fromkeys('.,-–_/"“”()', " "), "&": " and "})

EXACT, RESPACED, TITLED, FULL_NICKNAME = 1.0, 0.96, 0.92, 0.95
KNOWN_SHORT = 0.9
INITIAL, FULLER, NICKNAME, ACRONYM, FULLER_NICKNAME, SURNAME = 0.88, 0.85, 0.85, 0.82, 0.81, 0.78
DOUBTFUL_NICKNAME, MISSPELT = 0.7, 0.65
# A shorter word one letter away from another is more often another name (Marina, Martina) than a slip.
_LONG_ENOUGH, _CLOSE_ENOUGH = 7, 0.94


@dataclass(frozen=True, slots=True)
class NameForm:
    """A name ready to compare: folded words, and what its title says of its bearer."""

    words: tuple[str, ...]
    title: str | None = None

    @property
    def key(self) -> str:
        """Equal for names that differ only in case, accents, spacing or punctuation."""
        return "".join(self.words)


def fold(name: str) -> str:
    """Small letters without accents. Marks that are letters of their own script stay."""
    if name.isascii():
        return name.lower()
    spread = unicodedata.normalize("NFKD", name.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.combining(c) < 200))


@lru_cache(maxsize=8192)
def name_form(name: str) -> NameForm:
    """Read a name once; the result is remembered because a bank's names recur."""
    words = fold(name).translate(_SPACED).split() or [name]
    title = _TITLES.get(words[0]) if len(words) > 1 else None
    if title is not None:
        words = words[1:]
    elif words[0] == "the" and len(words) > 1:
        words = words[1:]
    if len(words) > 1 and words[-1] in _COMPANY_FORMS:
        words = words[:-1]
    if len(words) > 1 and all(len(word) == 1 for word in words):
        words = ["".join(words)]
    return NameForm(tuple(words), title)


@cache
def _nicknamer() -> NickNamer:
    return NickNamer()


@lru_cache(maxsize=8192)
def nicknames(word: str) -> frozenset[str]:
    """Given names this one is short for, or that are short for it."""
    table = _nicknamer()
    return frozenset(table.nicknames_of(word) | table.canonicals_of(word))


def _is_plain_nickname(one: str, other: str) -> bool:
    """Whether the shorter of the two is only ever a short form, as Bob is and Ann is not."""
    table = _nicknamer()
    return not table.nicknames_of(one if one in table.nicknames_of(other) else other)


def likeness(one: NameForm, other: NameForm, *, person: bool) -> float:
    """How likely two names are one, from 0 to 1, by their letters alone; persons have more ways to be alike."""
    if one.title and other.title and one.title != other.title:
        return 0.0
    if one.words == other.words:
        return EXACT if one.title == other.title else TITLED
    if one.key == other.key:
        return RESPACED
    if _GENERATIONS.intersection(one.words) != _GENERATIONS.intersection(other.words):
        return 0.0
    if not person:
        return max(_misspelt(one.words, other.words), _acronym(one.words, other.words))
    if len(one.words) == len(other.words):
        return max(_aligned(one.words, other.words), _misspelt(one.words, other.words))
    short, long = (one, other) if len(one.words) < len(other.words) else (other, one)
    return _contained(short, long.words)


def _first_name(one: str, other: str) -> float:
    """Likeness of two given names, one of which may be short for the other or its initial."""
    if one == other:
        return EXACT
    if len(one) == 1 or len(other) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    if other in nicknames(one):
        return NICKNAME if _is_plain_nickname(one, other) else DOUBTFUL_NICKNAME
    return 0.0


def _aligned(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    first = _first_name(one[0], other[0])
    if len(one) == 1:
        return 0.0 if first == INITIAL else first
    middles = all(
        a == b or (min(len(a), len(b)) == 1 and a[0] == b[0])
        for a, b in zip(one[1:-1], other[1:-1], strict=True)
    )
    if not middles or one[-1] != other[-1]:
        return 0.0
    return min(FULL_NICKNAME, INITIAL if first == INITIAL else first + 0.1) if first else 0.0


def _contained(short: NameForm, long: tuple[str, ...]) -> float:
    words = short.words
    if words == long[: len(words)]:
        return FULLER
    if len(words) == 1:
        if words[0] == long[-1]:
            return FULLER if short.title is not None else SURNAME
        first = _first_name(words[0], long[0])
        return {NICKNAME: FULLER_NICKNAME, DOUBTFUL_NICKNAME: DOUBTFUL_NICKNAME}.get(first, 0.0)
    first = _first_name(words[0], long[0])
    return min(first, FULLER) if words[-1] == long[-1] else 0.0


def _misspelt(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    differing = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
    if len(one) != len(other) or len(differing) != 1:
        return 0.0
    a, b = differing[0]
    if (
        min(len(a), len(b)) < _LONG_ENOUGH
        or not (a.isalpha() and b.isalpha())
        or nicknames(a)
        and nicknames(b)
    ):
        return 0.0
    close = damerau_levenshtein_distance(a, b) == 1 and jaro_winkler_similarity(a, b) >= _CLOSE_ENOUGH
    return MISSPELT if close else 0.0


def _acronym(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    short, long = (one, other) if len(one) < len(other) else (other, one)
    fits = len(short) == 1 and len(long) >= 3 and short[0] == "".join(word[0] for word in long)
    return ACRONYM if fits else 0.0
