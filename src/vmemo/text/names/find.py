"""Names of entities in a text, found by rules and word lists. In other languages than English: speakers only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from vmemo.models import EntityType
from vmemo.models.changes import FoundName
from vmemo.text.names.lexicon import given_names, is_common_word, is_foreign, normalize_word, word_lists

# Runs of capitalised words, trimmed to candidates for names.

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


class _CapitalisedRun(NamedTuple):
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


def _find_runs(text: str, speakers: Collection[str]) -> Iterator[_CapitalisedRun]:
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


def _may_open_sentence(text: str, start: int) -> bool:
    """Return True if no word directly precedes the offset, so that a capital there may only open a sentence."""
    before = text[max(0, start - 4) : start].rstrip(" \t")
    return not before or not before[-1].isalnum()


def _is_name_suffix(word: str) -> bool:
    """Return True if the word is a typical last word of a place, company or event."""
    lists, key = word_lists(), normalize_word(word)
    return key in lists["company"] or key in lists["place"] or key in lists["event"]


def _split(text: str, match: re.Match[str]) -> Iterator[_CapitalisedRun]:
    """Split after each possessive: "Anna's Tesla" is two names, "St. Mary's Hospital" one."""
    words, pending = match[1].split(), list[str]()
    start, opening, cursor = match.start(), _may_open_sentence(text, match.start()), match.start()
    for word, following in zip(words, (*words[1:], ""), strict=True):
        cursor = text.index(word, cursor) + len(word)
        owner = word[:-2] if word[-2:] in ("'s", "’s", "'S", "’S") else word
        pending.append(owner)
        if owner != word and following and _is_name_suffix(following):
            pending[-1] = word
        elif owner != word:
            yield _CapitalisedRun(
                words=tuple(pending), start=start, end=cursor, opens_sentence=opening, possessive=True
            )
            start, opening, pending = cursor, False, []
    if pending:
        run = _CapitalisedRun(words=tuple(pending), start=start, end=match.end(1), opens_sentence=opening)
        yield run._replace(number=match[2], end=match.end()) if match[2] and not _is_quantity(text, match) else run


def _is_quantity(text: str, match: re.Match[str]) -> bool:
    """Return True if the number belongs to the next word, as in "saw Anna 3 times"."""
    after = text[match.end() : match.end() + 16].split()
    if not after:
        return False
    key = normalize_word(after[0])
    plural = len(match[2]) < 4 and key.endswith("s") and key not in word_lists()["function_word"]
    return plural or key in word_lists()["unit"]


def _trim(run: _CapitalisedRun, speakers: Collection[str]) -> _CapitalisedRun | None:
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


# The type of an entity, guessed from its name and the words around it.

_DEMONYM_ENDINGS = ("ish", "ese", "ian")


def _guess_type(text: str, run: _CapitalisedRun, speakers: Collection[str]) -> EntityType:
    """Return the type, or OTHER if it is uncertain: a wrong type prevents two mentions of an entity from merging."""
    first = normalize_word(run.words[0])
    if run.words[0].casefold() in speakers or (first in word_lists()["title"] and len(run.words) > 1):
        return "PERSON"
    by_words = _type_by_words(run.words)
    if by_words is not None:
        return by_words
    if run.number or (len(run.words) == 1 and run.name[0].islower()):
        return "PRODUCT"
    return _type_by_context(text, run)


def _type_by_words(words: Sequence[str]) -> EntityType | None:
    lists, first, last = word_lists(), normalize_word(words[0]), normalize_word(words[-1])
    if last in lists["holiday"]:
        return "EVENT"
    if len(words) == 1:
        return None
    if last in lists["event"]:
        return "EVENT"
    if last in lists["company"] or first in lists["company"]:
        return "ORGANIZATION"
    if last in lists["place"] or (first in lists["place_prefix"] and last not in lists["common"]):
        return "LOCATION"
    return None


def _type_by_context(text: str, run: _CapitalisedRun) -> EntityType:
    lists, first = word_lists(), normalize_word(run.words[0])
    if len(run.words) > 3 or not all(word[:1].isupper() and not word.isupper() for word in run.words):
        return "OTHER"
    before = [normalize_word(word) for word in text[max(0, run.start - 40) : run.start].split()[-3:]]
    if run.start and text[run.start - 1] == " " and before and before[-1] in lists["relative"]:
        return "PERSON"
    if first in lists["language"] or first.endswith(_DEMONYM_ENDINGS):
        return "OTHER"
    if first in given_names() and first not in lists["place_and_given_name"]:
        return "PERSON"
    if _acts_like_person(text, run):
        return "PERSON"
    if not run.possessive and not is_common_word(first) and _is_location_context(before):
        return "LOCATION"
    return "OTHER"


def _acts_like_person(text: str, run: _CapitalisedRun) -> bool:
    """Return True if the name is greeted, is the subject of a verb of speech, or owns a relative."""
    lists = word_lists()
    after = text[run.end : run.end + 24].split()
    following = normalize_word(after[0]) if after else ""
    return (run.greeted and len(run.words) < 3) or following in lists["relative" if run.possessive else "speech_verb"]


def _is_location_context(before: Sequence[str]) -> bool:
    lists = word_lists()
    earlier, last = ("", "", *before)[-2:]
    if last in lists["before_place"]:
        return earlier not in lists["not_before_place"]
    return (last == "to" and earlier in lists["before_to"]) or (last == "from" and earlier in lists["before_from"])


# Names.

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
    found: dict[str, FoundName] = {}
    for _, _, entity in name_spans(text, speakers=speakers):
        _add(found, entity)
    return tuple(found.values())[:MAX_NAMES]


def name_spans(text: str, *, speakers: Collection[str] = ()) -> Iterator[_Mention]:
    """Yield the names in their order, each with its place."""
    known = _speaker_names(frozenset(speakers))
    mentions = list(_speaker_mentions(text, known))
    if not is_foreign(text):
        mentions = [*_quoted_titles(text), *_capitalised_names(text, known), *mentions]
    reached = 0
    for start, end, entity in sorted(mentions, key=lambda mention: (mention[0], -mention[1])):
        if start >= reached:
            reached = end
            yield start, end, entity


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
    for run in _find_runs(text, known):
        if run.name.casefold() not in known and _is_name(run):
            yield run.start, run.end, FoundName(name=run.name, type=_guess_type(text, run, known))


def _is_name(run: _CapitalisedRun) -> bool:
    keys = [normalize_word(word) for word in run.words]
    if all(word.isupper() for word in run.words):
        return all(
            2 <= len(key) <= _MAX_ACRONYM_LENGTH and not is_common_word(key) and not _TRIPLE_LETTER.search(key)
            for key in keys
        )
    if len(keys) > 1:
        return max(map(len, keys)) > 1
    if run.number:
        return keys[0] not in word_lists()["numbered_thing"] and not (run.opens_sentence and _is_common(run.words[0]))
    if len(keys[0]) < 2 or keys[0] in word_lists()["title"] or _TRIPLE_LETTER.search(keys[0]):
        return False
    return not (run.opens_sentence and _is_common(run.words[0]))


def _is_common(word: str) -> bool:
    """Return True if all parts of a word are common words, so that it is no name at the start of a sentence."""
    parts = word.split("-")
    # As in "iPhone".
    if word.isalpha() and not word.isupper() and not word[1:].islower():
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
    return match[0][0].isupper() and (addressed or not _may_open_sentence(text, match.start()))
