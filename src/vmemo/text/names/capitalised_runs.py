"""Runs of capitalised words, trimmed to candidates for names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from vmemo.text.names.lexicon import given_names, is_common_word, normalize_word, word_lists

_UPPER = "".join(c for c in map(chr, (*range(0x41, 0x590), *range(0x1E00, 0x2000))) if c.isupper())
# Bounded repetitions, and words that start at boundaries only, keep the work per character constant.
_WORD = (
    rf"(?:(?:Dr|Mr|Mrs|Ms|Prof|St|Mt|Ft|Jr|Sr)\.|(?:[{_UPPER}]\.){{1,4}}"
    rf"|(?:mac|[a-z])?[{_UPPER}][^\W_]{{0,39}}(?:[-'’&][^\W_]{{1,39}}){{0,4}}(?![\w@]|://|\.[a-z0-9]))"
)
_PARTICLE = "(?:of the|of|de la|de los|de las|de|del|della|di|da|dos|du|van der|van den|van|von|der|den|la|le|al|bin)"
_NUMBER = r"[ ]\d{1,4}[A-Za-z]{0,2}(?![\w%]|[.,:/-]\d)"
_RUN = re.compile(
    rf"(?<![\w@#/\\])({_WORD}(?:[ \t]{{1,2}}(?:(?:{_PARTICLE}|&)[ ])?{_WORD}){{0,7}})({_NUMBER})?",
)
_MONTH_NAMES = frozenset({"april", "may", "june", "august"})


class CapitalisedRun(NamedTuple):
    """Adjacent capitalised words, their offsets and their context."""

    words: tuple[str, ...]
    start: int
    end: int
    opens_sentence: bool
    """The capital may be due to the position alone."""
    greeted: bool = False
    """A greeting precedes it."""
    possessive: bool = False
    """Written with "'s"."""
    number: str = ""
    """A number that belongs to the name, as in "Route 66"."""

    @property
    def name(self) -> str:
        """The words and the number as one name."""
        return " ".join(self.words) + self.number


def find_runs(text: str, speakers: Collection[str]) -> Iterator[CapitalisedRun]:
    """Yield the trimmed runs in order. `speakers` are casefolded names, which are not trimmed."""
    function_words = word_lists()["function_word"]
    for match in _RUN.finditer(text):
        # Fast path: most capitals are an "I" or the first word of a sentence.
        if " " not in match[0] and normalize_word(match[0]) in function_words and match[0].casefold() not in speakers:
            continue
        for run in _split(text, match):
            trimmed = _trim(run, speakers)
            if trimmed is not None:
                yield trimmed


def may_open_sentence(text: str, start: int) -> bool:
    """Return True if no word directly precedes the offset, so that a capital there may only open a sentence."""
    before = text[max(0, start - 4) : start].rstrip(" \t")
    return not before or not before[-1].isalnum()


def is_name_suffix(word: str) -> bool:
    """Return True if the word is a typical last word of a place, company or event."""
    lists, key = word_lists(), normalize_word(word)
    return key in lists["company"] or key in lists["place"] or key in lists["event"]


def _split(text: str, match: re.Match[str]) -> Iterator[CapitalisedRun]:
    """Split after each possessive: "Anna's Tesla" is two names, "St. Mary's Hospital" one."""
    words, pending = match[1].split(), list[str]()
    start, opening, cursor = match.start(), may_open_sentence(text, match.start()), match.start()
    for word, following in zip(words, (*words[1:], ""), strict=True):
        cursor = text.index(word, cursor) + len(word)
        owner = word[:-2] if word[-2:] in ("'s", "’s", "'S", "’S") else word
        pending.append(owner)
        if owner != word and following and is_name_suffix(following):
            pending[-1] = word
        elif owner != word:
            yield CapitalisedRun(words=tuple(pending), start=start, end=cursor, opens_sentence=opening, possessive=True)
            start, opening, pending = cursor, False, []
    if pending:
        run = CapitalisedRun(words=tuple(pending), start=start, end=match.end(1), opens_sentence=opening)
        yield run._replace(number=match[2], end=match.end()) if match[2] and not _is_quantity(text, match) else run


def _is_quantity(text: str, match: re.Match[str]) -> bool:
    """Return True if the number belongs to the next word, as in "saw Anna 3 times"."""
    after = text[match.end() : match.end() + 16].split()
    if not after:
        return False
    key = normalize_word(after[0])
    plural = len(match[2]) < 4 and key.endswith("s") and key not in word_lists()["function_word"]
    return plural or key in word_lists()["unit"]


def _trim(run: CapitalisedRun, speakers: Collection[str]) -> CapitalisedRun | None:
    words, lists, opening, greeted = list(run.words), word_lists(), run.opens_sentence, False
    while words and _is_padding(words, run.opens_sentence, speakers):
        key = normalize_word(words.pop(0))
        greeted = greeted or key in lists["greeting"]
        opening = opening and key not in lists["connective"]
    while words and _is_trailing(words[-1], speakers):
        words.pop()
    if not words:
        return None
    if len(words) == len(run.words):
        return run
    number = run.number if words[-1] == run.words[-1] else ""
    return run._replace(words=tuple(words), opens_sentence=opening, greeted=greeted, number=number)


def _is_trailing(word: str, speakers: Collection[str]) -> bool:
    return word.islower() or (normalize_word(word) in word_lists()["function_word"] and word.casefold() not in speakers)


def _is_padding(words: list[str], opening: bool, speakers: Collection[str]) -> bool:
    """Return True if the first word is not part of the name."""
    lists, key = word_lists(), normalize_word(words[0])
    if words[0].islower() or len(words) == 1:
        return words[0].islower() or (key in lists["function_word"] and words[0].casefold() not in speakers)
    following = normalize_word(words[1])
    person = following in given_names() or following in speakers
    if key in lists["name_prefix"] and not person:
        return False
    if key in lists["function_word"]:
        named = key in _MONTH_NAMES and not is_common_word(following)
        return not (named or (key in lists["title_opener"] and not opening and not person))
    if not opening or key in lists["title"] or not is_common_word(key):
        return False
    return person or following in lists["title"] or (len(words) == 2 and not is_common_word(following))
