"""Finds the entities a text names, by rule and word list alone. English first; elsewhere speakers only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from vmemo.models.drafts import FoundName
from vmemo.text.names.capitalised_runs import CapitalisedRun, find_runs, may_open_sentence
from vmemo.text.names.entity_types import guess_type
from vmemo.text.names.lexicon import is_common_word, normalize_word, word_lists

MAX_NAMES = 20
"""Entities of one text; a longer list is a directory, not a memory."""

_ROLES = frozenset({"user", "assistant", "system", "tool"})
_SMALL = frozenset({"a", "an", "and", "at", "by", "for", "in", "of", "on", "or", "the", "to", "with", "from", "de"})
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,80})[\"”]|(?<!\w)['‘]([^'‘’\n]{3,80})['’](?!\w)")
_STRETCHED = re.compile(r"(\w)\1\1")
_LONGEST_ACRONYM = 8

_Spot: TypeAlias = tuple[int, int, FoundName]


def find_names(text: str, *, speakers: Collection[str] = ()) -> tuple[FoundName, ...]:
    """Names in the order of their first appearance, each once, 20 at most; speakers count in any case."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    known = _speaker_names(frozenset(speakers))
    spots = [*_titled(text), *_named(text, known), *_spoken_of(text, known)]
    found: dict[str, FoundName] = {}
    reached = 0
    for start, end, entity in sorted(spots, key=lambda spot: (spot[0], -spot[1])):
        if start >= reached:
            reached = end
            _keep(found, entity)
    return tuple(found.values())[:MAX_NAMES]


def merge_names(rules: Sequence[FoundName], others: Sequence[FoundName]) -> tuple[FoundName, ...]:
    """What the rules found and what another reader adds: new names, and types where the rules had none.

    A piece of a name that is known already, or a longer form of one, is no new name.
    """
    found = {entity.name.casefold(): entity for entity in rules}
    for entity in others:
        name = entity.name.casefold()
        if name in found or not any(f" {name} " in f" {known} " or f" {known} " in f" {name} " for known in found):
            _keep(found, entity)
    return tuple(found.values())[:MAX_NAMES]


def _keep(found: dict[str, FoundName], entity: FoundName) -> None:
    earlier = found.setdefault(entity.name.casefold(), entity)
    if earlier.type == "OTHER" and entity.type != "OTHER":
        found[entity.name.casefold()] = FoundName(name=earlier.name, type=entity.type)


def _titled(text: str) -> Iterator[_Spot]:
    for match in _QUOTED.finditer(text):
        title = (match[1] or match[2]).strip(" ,.!?")
        if _is_title(title.split()):
            yield match.start(), match.end(), FoundName(name=title)


def _is_title(words: list[str]) -> bool:
    if not 2 <= len(words) <= 10 or all(normalize_word(word) in word_lists()["never"] for word in words):
        return False
    capitals = all(word[0].isupper() or word[0].isdigit() or word in _SMALL for word in words)
    return capitals and words[0][0].isupper() and not any(word.endswith((",", ".", "!", "?")) for word in words)


def _named(text: str, known: Mapping[str, str]) -> Iterator[_Spot]:
    for run in find_runs(text, known):
        if run.name.casefold() not in known and _is_name(run):
            yield run.start, run.end, FoundName(name=run.name, type=guess_type(text, run, known))


def _is_name(run: CapitalisedRun) -> bool:
    keys = [normalize_word(word) for word in run.words]
    if all(word.isupper() for word in run.words):
        return all(
            2 <= len(key) <= _LONGEST_ACRONYM and not is_common_word(key) and not _is_stretched(key) for key in keys
        )
    if len(keys) > 1:
        return max(map(len, keys)) > 1
    if run.number:
        return keys[0] not in word_lists()["counter"] and not (run.opening and _is_plain(run.words[0]))
    if len(keys[0]) < 2 or keys[0] in word_lists()["title"] or _is_stretched(keys[0]):
        return False
    return not (run.opening and _is_plain(run.words[0]))


def _is_stretched(key: str) -> bool:
    """Whether a letter comes three times in a row, as in "Awww"."""
    return _STRETCHED.search(key) is not None


def _is_camel(word: str) -> bool:
    """Whether capitals and small letters mix as no ordinary word has them, as in "iPhone"."""
    return word.isalpha() and not word.isupper() and not word[1:].islower()


def _is_plain(word: str) -> bool:
    """Whether a word, part by part, is no name when it merely opens a sentence."""
    parts = word.split("-")
    if _is_camel(word):
        return False
    return any(part[:1].islower() for part in parts[1:]) or all(is_common_word(normalize_word(part)) for part in parts)


@lru_cache(maxsize=256)
def _speaker_names(speakers: frozenset[str]) -> Mapping[str, str]:
    """Speakers' full names and telling first names, folded, each with its spelling."""
    names: dict[str, str] = {}
    for speaker in sorted(speakers):
        words = unicodedata.normalize("NFC", speaker).split()
        if words and " ".join(words).casefold() not in _ROLES:
            if (
                len(words) > 1
                and len(words[0]) > 2
                and words[0].isalpha()
                and not is_common_word(normalize_word(words[0]))
            ):
                names.setdefault(words[0].casefold(), words[0])
            names[" ".join(words).casefold()] = " ".join(words)
    return names


@lru_cache(maxsize=256)
def _speaker_pattern(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(_bounded, sorted(names, key=len, reverse=True))), re.IGNORECASE)


def _bounded(name: str) -> str:
    # Chinese and Japanese write no space between words, so a boundary there would never be met.
    escaped = re.escape(name)
    return escaped if name[0] >= "\u2e80" else rf"(?<!\w){escaped}(?!\w)"


def _spoken_of(text: str, known: Mapping[str, str]) -> Iterator[_Spot]:
    if not known:
        return
    for match in _speaker_pattern(frozenset(known)).finditer(text):
        name = known.get(match[0].casefold())
        if name is not None and _is_meant(text, match):
            yield match.start(), match.end(), FoundName(name=name, type="PERSON")


def _is_meant(text: str, match: re.Match[str]) -> bool:
    """Whether a speaker's name that is also a word ("Will", "Mark") stands here as a name."""
    if not is_common_word(match[0].casefold()):
        return True
    addressed = text[match.end() : match.end() + 1] in {",", "!", "?", "'", "’"}
    return match[0][0].isupper() and (addressed or not may_open_sentence(text, match.start()))
