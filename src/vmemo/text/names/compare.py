"""Comparison of names: folded forms, nicknames, initials, fuller forms, acronyms and misspellings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from jellyfish import jaro_winkler_similarity

from vmemo.text.names.lexicon import full_forms, short_forms

# Folded names: the form in which names are looked up.

MAX_NAME_WORDS = 8
"""Words of a name that is looked up in a text; twice as many characters of a script without spaces."""
MAX_TEXT_WORDS = 64
"""Words of a text in which names are looked up; a longer text is not a question about a few entities."""
# In scripts without spaces a name may stand between any two characters, so each is a word. Katakana marks its own ends.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0002ffff"
)
# Python does not count the vowel signs of Indic scripts as letters, but they belong to their word.
_SPACED_LETTER = rf"(?:[\u0900-\u0963\u0966-\u0dff]|(?![{_UNSPACED}])[^\W_])"
_WORD = re.compile(rf"[{_UNSPACED}]|{_SPACED_LETTER}+(?:[-.]{_SPACED_LETTER}+)*")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_POSSESSIVE_ENDING = re.compile(r"['\u2019]s\b")
_FIRST_ACCENT = 10
"""Combining classes from here on are accents and points, which writers often omit; lower ones are parts of a letter."""


class NameRun(NamedTuple):
    """Consecutive words of a text that may be a name, and their position."""

    name: str
    start: int
    end: int

    def within(self, other: NameRun) -> bool:
        """Return True if a longer run contains this one."""
        return other.start <= self.start and self.end <= other.end and self.end - self.start < other.end - other.start


def fold_name(name: str) -> str:
    """Return a name for comparison: lower case, without accents, punctuation and possessive endings."""
    return " ".join(_folded_words(name))


def folded_names(name: str, aliases: Iterable[str]) -> set[str]:
    """Return every distinct folded form of an entity's names."""
    return {folded for folded in map(fold_name, (name, *aliases)) if folded}


def name_runs(text: str) -> Iterator[NameRun]:
    """Yield every run of words that may be a name."""
    words = list(islice(_folded_words(text), MAX_TEXT_WORDS))
    for start in range(len(words)):
        budget = 2 * MAX_NAME_WORDS
        for end in range(start, len(words)):
            budget -= 1 if _UNSPACED_CHARACTER.match(words[end]) else 2
            if budget < 0:
                break
            yield NameRun(" ".join(words[start : end + 1]), start, end + 1)


def _folded_words(text: str) -> Iterator[str]:
    lower = text.casefold()
    if not lower.isascii():
        decomposed = unicodedata.normalize("NFKD", lower)
        bare = "".join(c for c in decomposed if unicodedata.combining(c) < _FIRST_ACCENT)
        lower = unicodedata.normalize("NFC", bare)
    return (match[0] for match in _WORD.finditer(_POSSESSIVE_ENDING.sub("", lower)))


# Similarity.

_TITLES: Mapping[str, str] = {
    **dict.fromkeys(("mr", "mister", "sir", "monsieur", "uncle", "herr", "lord", "brother", "father"), "m"),
    **dict.fromkeys(("señor", "senor", "signor", "seu"), "m"),
    **dict.fromkeys(("mrs", "ms", "miss", "madam", "madame", "aunt", "auntie", "frau", "lady", "sister", "dona"), "f"),
    **dict.fromkeys(("señora", "senora", "signora", "mme"), "f"),
    **dict.fromkeys(("dr", "doctor", "prof", "professor", "coach", "captain", "chef", "rev", "judge", "cllr"), ""),
    **dict.fromkeys(("councillor", "imam", "rabbi", "inspector", "sergeant", "major", "colonel", "nurse"), ""),
}
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
_COMPANY_FORMS = frozenset({"inc", "llc", "ltd", "corp", "gmbh", "plc"})
_PARTICLES = frozenset(
    {"al", "ben", "bin", "da", "de", "del", "della", "den", "der", "di", "dos", "du", "e", "el", "ibn", "la", "las"}
    | {"le", "los", "ter", "van", "von", "y", "zu"}
)
_JOINING = frozenset({"of", "and", "or", "with", "from", "for"})
_POSSESSIVE = re.compile(r"['’]s\s|s['’]\s")
_SPACED = str.maketrans({**dict.fromkeys("'’‘`", ""), **dict.fromkeys('.,-–_/"“”()', " "), "&": " and "})

EXACT, RESPACED, TITLED, FULL_NICKNAME = 1.0, 0.96, 0.92, 0.95
KNOWN_SHORT = 0.9
INITIAL, FULLER, NICKNAME, ACRONYM, FULLER_NICKNAME, SURNAME = 0.88, 0.85, 0.85, 0.82, 0.81, 0.78
CLIPPED, DOUBTFUL_NICKNAME, MISSPELT = 0.74, 0.66, 0.65
CLIP = 3
"""Least length that given names are clipped to: Mel for Melanie, Bern for Bernadette."""
# Shorter words that differ in one letter are more often two names (Marina, Martina) than a misspelling.
MIN_MISSPELLING_LENGTH, _MIN_MISSPELLING_SIMILARITY = 7, 0.94


class NameForm(NamedTuple):
    """A name prepared for comparison."""

    words: tuple[str, ...]
    title: str | None = None
    """Gender of the title, empty if it has none; None without a title."""
    proper: bool = True
    """A proper name, unlike "John's new teammates" or "friends"."""
    phrase: bool = False
    """Words that describe a person by another one, such as "artist friend of Calvin"."""

    @property
    def key(self) -> str:
        """The words without spaces: equal for names that differ only in case, accents, spacing or punctuation."""
        return "".join(self.words)


def _without_accents(name: str) -> str:
    """Return the name in lower case without accents. Combining marks of other scripts stay."""
    if name.isascii():
        return name.lower()
    spread = unicodedata.normalize("NFKD", name.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in spread if unicodedata.combining(c) < 200))


@lru_cache(maxsize=65_536)
def name_form(name: str) -> NameForm:
    """Return the form of a name. Cached, because the names of a bank recur."""
    words = _without_accents(name).translate(_SPACED).split() or [name]
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
    return NameForm(tuple(words), title, proper and not _POSSESSIVE.search(name), _is_phrase(name.split()))


def is_title(word: str) -> bool:
    """Return True for a title that stands before a name: Ms, Dr., Councillor."""
    return word.casefold().rstrip(".") in _TITLES


def _is_phrase(words: Sequence[str]) -> bool:
    """Return True if a word can't be part of a person's name; "the" can before a capital."""
    return any(
        word.lower() in _JOINING
        or (word.islower() and word not in _PARTICLES and not (word == "the" and after.istitle()))
        for word, after in zip(words, (*words[1:], ""), strict=True)
    )


@lru_cache(maxsize=8192)
def nicknames(word: str) -> frozenset[str]:
    """Return the short and full forms of a given name."""
    return short_forms(word) | full_forms(word)


def _is_short_form(one: str, other: str) -> bool:
    """Return True if the shorter name is rarely a full name: Bob, Bill and Carrie, unlike Anna, Mary and Emma."""
    short, full = sorted((one, other), key=len)
    missing = len(full) - len(short)
    clipped = missing >= len(short) - 1 and (len(short) < 4 or (len(short) == 4 and short[-1] not in "aeiouy"))
    diminutive = missing >= 2 and short.endswith(("y", "ie"))
    own = short_forms(short) - full_forms(short)
    return (clipped or diminutive) and len(own) < 4


def name_similarity(one: NameForm, other: NameForm, *, person: bool) -> float:
    """Return a score from 0 to 1 that two names mean one entity; persons have more ways to match."""
    if one.title and other.title and one.title != other.title:
        return 0.0
    if one.words == other.words:
        return EXACT if one.title == other.title else TITLED
    if not (one.proper and other.proper) or (person and (one.phrase or other.phrase)):
        return RESPACED if one.key == other.key else 0.0
    if len(one.words) == len(other.words):
        alike = _misspelling_similarity(one.words, other.words)
        return max(alike, _same_length_similarity(one.words, other.words)) if person else alike
    short, long = (one, other) if len(one.words) < len(other.words) else (other, one)
    if short.words[0][0] == long.words[0][0] and short.key == long.key:
        return RESPACED
    if not person:
        return _acronym_similarity(short.words, long.words)
    return 0.0 if long.words[-1] in _GENERATIONS else _contained_similarity(short, long.words)


def _given_name_similarity(one: str, other: str) -> float:
    """Compare two given names, of which one may be the short form or the initial of the other."""
    if one == other:
        return EXACT
    if len(one) == 1 or len(other) == 1:
        return INITIAL if one[0] == other[0] else 0.0
    if other in nicknames(one):
        return NICKNAME if _is_short_form(one, other) else DOUBTFUL_NICKNAME
    short, full = sorted((one, other), key=len)
    if full == short + "s":
        # "Ellies" for "Ellie's".
        return NICKNAME
    return CLIPPED if len(short) >= CLIP and full.startswith(short) and len(full) - len(short) > 1 else 0.0


def _same_length_similarity(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    first = _given_name_similarity(one[0], other[0])
    if len(one) < 2:
        return 0.0 if first == INITIAL else first
    if first == EXACT and len(one) == 2 and 1 in (len(one[1]), len(other[1])) and one[1][0] == other[1][0]:
        # "Roy T." and "Roy Tipping".
        return INITIAL
    middle = zip(one[1:-1], other[1:-1], strict=True)
    compatible = all(a == b or (min(len(a), len(b)) == 1 and a[0] == b[0]) for a, b in middle)
    if not first or one[-1] != other[-1] or not compatible:
        return 0.0
    return INITIAL if first == INITIAL else min(first + 0.1, FULL_NICKNAME)


def _contained_similarity(short: NameForm, long: tuple[str, ...]) -> float:
    words = short.words
    if words == long[: len(words)]:
        return FULLER
    if len(words) == 1:
        if words[0] == long[-1]:
            return FULLER if short.title is not None else SURNAME
        first = _given_name_similarity(words[0], long[0])
        return 0.0 if first == INITIAL else min(first, FULLER_NICKNAME)
    first = _given_name_similarity(words[0], long[0])
    return min(first, FULLER) if words[-1] == long[-1] else 0.0


def _misspelling_similarity(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    differing = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    if len(differing) > 1:
        return 0.0
    a, b = differing[0]
    if (
        abs(len(a) - len(b)) > 1
        or min(len(a), len(b)) < MIN_MISSPELLING_LENGTH
        or not (a.isalpha() and b.isalpha())
        or (nicknames(a) and nicknames(b))
    ):
        return 0.0
    close = _differ_by_one_edit(a, b) and jaro_winkler_similarity(a, b) >= _MIN_MISSPELLING_SIMILARITY
    return MISSPELT if close else 0.0


def _differ_by_one_edit(one: str, other: str) -> bool:
    """Return True if one letter was added, left out or replaced, or two neighbours exchanged; takes linear time."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    first, most = 0, min(len(one), len(other))
    while first < most and one[first] == other[first]:
        first += 1
    rest, others = one[first:], other[first:]
    exchanged = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return exchanged or rest[1:] == others or rest == others[1:] or rest[1:] == others[1:]


def _acronym_similarity(short: tuple[str, ...], long: tuple[str, ...]) -> float:
    fits = len(short) == 1 and len(long) >= 3 and short[0] == "".join([word[0] for word in long])
    return ACRONYM if fits else 0.0


# Names that a text sets apart: a person is not called by two names in one sentence.

_SENTENCE = re.compile(r"[^.!?\n]+")
_MET = re.compile(r"\b(?:met|meet|saw|seen?|with|asked|told|rang|called|visited|know|knew|like|than|not) $")


def names_apart(text: str, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return for each name the longer names that contain it and stand beside it in one sentence, casefolded.

    "Alice met Alice Cooper" is about two people. In "I met Alice Cooper. Alice sings." the short name may repeat the
    long one, as in "the other Alice, Alice Cooper". In "Alice: sign it Alice Cooper" she states her full name.
    """
    folded = [name.casefold() for name in names]
    longer = {name: [other for other in folded if _contains(other, name.casefold())] for name in names}
    if not any(longer.values()):
        return dict.fromkeys(names, frozenset())
    speaker, _, words = text.casefold().partition(": ")
    sentences: Sequence[str] = _SENTENCE.findall(words or speaker)
    return {name: frozenset(_beside(name.casefold(), longer[name], speaker, sentences)) for name in names}


def _contains(long: str, short: str) -> bool:
    return long != short and f" {short} " in f" {long} "


_INTRODUCED = re.compile(
    r"(?:\b(?:an?|another|different|(?:a|the) (?:second|new)|named)"
    r"|(?<!\bi)(?<!\bhe)(?<!\bwe)(?<!\bthey)(?<!\byou) called)\s$"
)
_ANOTHER = re.compile(
    r"\bnamesakes?\b|\bno relation\b|\bnot related\b"
    r"|\b(?:a|an|the) (?:different|second|third|other|another) one\b|\bof all (?:things|names)\b"
)
"""Words about a person who has the name of another one."""
_SET_APART = re.compile(
    r"\b(?:another|different|other|second|not(?: my| our| your| the)?) \0(?!\w)"
    r"|\bnot (?:my|our|your|his|her|their|the) (?:[\w\0]{1,20} ){1,2}\0(?!\w)|\0s? \(not\b"
    r"|\b(?:two|three|third) \0s?(?!\w)|\0,? (?:but )?not (?:my|our|your|the) "
)
"""Words that set the bearer of a first name, which is written as a zero, apart from another one."""
_TOKEN = re.compile(r"\w+")
_CUE = re.compile("not|other|differ|second|two|three|third")
_NEAR = 40
"""Characters around a name in which they are looked for."""
_EQUATED = re.compile(
    r" ?(?:=|/|\((?:or |aka |alias )?|,? (?:aka|alias|also called|known as|or just|is|short for)"
    r"|,? (?:so |and |but |\()?(?:we|folks|people|friends|everyone|everybody) (?:all )?(?:say|calls? (?:him|her|me)))"
    r" ?"
)


class NameUse(NamedTuple):
    """The words of a text about the bearer of a name."""

    new: bool
    """It introduces one: "a Sam", "a boy called Sky"."""
    other: bool
    """It sets one apart from another: "a different Steve", "not my Paul"."""
    same: frozenset[str]
    """Names that it equates with this one, casefolded: "Marguerite (Rita)"."""


PLAIN_USE = NameUse(new=False, other=False, same=frozenset())


def name_use(text: str, name: str, names: Sequence[str]) -> NameUse:
    """Return what a text says about the bearer of a name; `names` are all names in the text.

    Of a longer name, only the first word is another's: "Steve Lumb. Different Steve".
    """
    lower, folded = text.casefold(), name.casefold()
    uses, first = list(_places(lower, folded)), name_form(name).words[0]
    new = any(_INTRODUCED.search(lower, max(0, start - 24), start) for start, _ in uses)
    # A pattern with the name in it would have to be compiled for each name.
    written = {first: "\0", f"{first}s": "\0s"}
    marked = _TOKEN.sub(lambda word: written.get(word[0], word[0]), lower) if _CUE.search(lower) else ""
    other = any(_ANOTHER.search(lower, max(0, start - _NEAR), end + _NEAR) for start, end in uses)
    other = other or _SET_APART.search(marked) is not None
    ends = [match.end() for _, end in uses if (match := _EQUATED.match(lower, end))]
    # "Anna is Ben's sister": not the same.
    same = {
        each
        for each in map(str.casefold, names)
        if any(lower.startswith(each, end) and not _POSSESSIVE_ENDING.match(lower, end + len(each)) for end in ends)
    }
    return NameUse(new, other, frozenset(same - {folded}))


def _places(text: str, words: str) -> Iterator[tuple[int, int]]:
    """Yield the places of whole words in a text."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        if not any(c.isalnum() or c == "_" for c in text[max(0, start - 1) : start] + text[end : end + 1]):
            yield start, end
        start = text.find(words, start + 1)


def _beside(short: str, longer: Sequence[str], speaker: str, sentences: Sequence[str]) -> Iterator[str]:
    if not longer:
        return
    alone = re.compile(rf"(?<!\w)(?<!\ba )(?<!\banother ){re.escape(short)}(?!\w)")
    other = re.compile(rf"\bnot (?:my |our |your |the )?{re.escape(short)}(?!\w)")
    for sentence in sentences:
        rest = sentence
        for name in sorted(longer, key=len, reverse=True):
            # A name after a comma repeats the one before it: "Trina does the other two, Trina Hiscock".
            rest = "" if f", {name}" in rest else rest.replace(name, " ")
        if other.search(sentence):
            yield from longer
        elif alone.search(rest):
            yield from (name for name in longer if name in sentence)
        elif speaker == short:
            yield from (name for name in longer if _MET.search(sentence.partition(name)[0]) and name in sentence)
