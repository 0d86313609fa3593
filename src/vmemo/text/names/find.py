"""Names of entities in a text, found by rules and word lists. In other languages than English: speakers only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from vmemo.models.drafts import FoundName
from vmemo.text.names.capitalised_runs import CapitalisedRun, find_runs, may_open_sentence
from vmemo.text.names.entity_types import guess_type
from vmemo.text.names.language import is_foreign
from vmemo.text.names.lexicon import is_common_word, normalize_word, word_lists

MAX_NAMES = 20
"""Maximum of names per text."""

_ROLES = frozenset({"user", "assistant", "system", "tool", "document"})
_TITLE_LOWER_WORDS = frozenset(
    {"a", "an", "and", "at", "by", "for", "in", "of", "on", "or", "the", "to", "with", "from", "de"}
)
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,80})[\"”]|(?<!\w)['‘]([^'‘’\n]{3,80})['’](?!\w)")
_TRIPLE_LETTER = re.compile(r"(\w)\1\1")
_MAX_ACRONYM_LENGTH = 8

_Mention: TypeAlias = tuple[int, int, FoundName]


def find_names(text: str, *, speakers: Collection[str] = ()) -> tuple[FoundName, ...]:
    """Return the names in order of first appearance, each once and at most `MAX_NAMES`; speakers match in any case.

    Of a text in another language than English only speakers are returned: its capitals follow other rules.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    known = _speaker_names(frozenset(speakers))
    mentions = list(_speaker_mentions(text, known))
    if not is_foreign(text):
        mentions = [*_quoted_titles(text), *_capitalised_names(text, known), *mentions]
    found: dict[str, FoundName] = {}
    reached = 0
    for start, end, entity in sorted(mentions, key=lambda mention: (mention[0], -mention[1])):
        if start >= reached:
            reached = end
            _add(found, entity)
    return tuple(found.values())[:MAX_NAMES]


def merge_names(rules: Sequence[FoundName], others: Sequence[FoundName]) -> tuple[FoundName, ...]:
    """Return the names of the rules, with new names and missing types from another source.

    A part of a known name, or a longer form of one, is not a new name.
    """
    found = {entity.name.casefold(): entity for entity in rules}
    for entity in others:
        name = entity.name.casefold()
        if name in found or (len(found) < MAX_NAMES and not any(_contains(name, known) for known in found)):
            _add(found, entity)
    return tuple(found.values())[:MAX_NAMES]


def _contains(one: str, other: str) -> bool:
    """Return True if one name is a part of the other."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


def _add(found: dict[str, FoundName], entity: FoundName) -> None:
    earlier = found.setdefault(entity.name.casefold(), entity)
    if earlier.type == "OTHER" and entity.type != "OTHER":
        found[entity.name.casefold()] = FoundName(name=earlier.name, type=entity.type)


def _quoted_titles(text: str) -> Iterator[_Mention]:
    for match in _QUOTED.finditer(text):
        title = (match[1] or match[2]).strip(" ,.!?")
        if _is_title(title.split()):
            yield match.start(), match.end(), FoundName(name=title)


def _is_title(words: list[str]) -> bool:
    if not 2 <= len(words) <= 10 or all(normalize_word(word) in word_lists()["function_word"] for word in words):
        return False
    capitals = all(word[0].isupper() or word[0].isdigit() or word in _TITLE_LOWER_WORDS for word in words)
    return capitals and words[0][0].isupper() and not any(word.endswith((",", ".", "!", "?")) for word in words)


def _capitalised_names(text: str, known: Mapping[str, str]) -> Iterator[_Mention]:
    for run in find_runs(text, known):
        if run.name.casefold() not in known and _is_name(run):
            yield run.start, run.end, FoundName(name=run.name, type=guess_type(text, run, known))


def _is_name(run: CapitalisedRun) -> bool:
    keys = [normalize_word(word) for word in run.words]
    if all(word.isupper() for word in run.words):
        return all(
            2 <= len(key) <= _MAX_ACRONYM_LENGTH and not is_common_word(key) and not _has_triple_letter(key)
            for key in keys
        )
    if len(keys) > 1:
        return max(map(len, keys)) > 1
    if run.number:
        return keys[0] not in word_lists()["numbered_thing"] and not (run.opens_sentence and _is_common(run.words[0]))
    if len(keys[0]) < 2 or keys[0] in word_lists()["title"] or _has_triple_letter(keys[0]):
        return False
    return not (run.opens_sentence and _is_common(run.words[0]))


def _has_triple_letter(key: str) -> bool:
    """Return True if a letter is repeated three times, as in "Awww"."""
    return _TRIPLE_LETTER.search(key) is not None


def _is_camel_case(word: str) -> bool:
    """Return True for mixed case within a word, as in "iPhone"."""
    return word.isalpha() and not word.isupper() and not word[1:].islower()


def _is_common(word: str) -> bool:
    """Return True if all parts of a word are common words, so that it is no name at the start of a sentence."""
    parts = word.split("-")
    if _is_camel_case(word):
        return False
    return any(part[:1].islower() for part in parts[1:]) or all(is_common_word(normalize_word(part)) for part in parts)


@lru_cache(maxsize=256)
def _speaker_names(speakers: frozenset[str]) -> Mapping[str, str]:
    """Return the spelling of each speaker's full name and distinctive first name, by casefolded name."""
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
    # Chinese and Japanese put no spaces between words, so there are no word boundaries to match.
    escaped = re.escape(name)
    return escaped if name[0] >= "\u2e80" else rf"(?<!\w){escaped}(?!\w)"


def _speaker_mentions(text: str, known: Mapping[str, str]) -> Iterator[_Mention]:
    if not known:
        return
    for match in _speaker_pattern(frozenset(known)).finditer(text):
        name = known.get(match[0].casefold())
        if name is not None and _is_name_use(text, match):
            yield match.start(), match.end(), FoundName(name=name, type="PERSON")


def _is_name_use(text: str, match: re.Match[str]) -> bool:
    """Return True if a speaker's name that is also a word ("Will", "Mark") is used as a name here."""
    if not is_common_word(match[0].casefold()):
        return True
    addressed = text[match.end() : match.end() + 1] in {",", "!", "?", "'", "’"}
    return match[0][0].isupper() and (addressed or not may_open_sentence(text, match.start()))
