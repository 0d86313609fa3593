"""Finds the entities a text names, by rule and word list alone. English first; other scripts yield only speakers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from nicknames import name_triplets

from vmemo.models import EntityType
from vmemo.ports import Found

MAX_FOUND = 20
"""Entities of one text; a longer list is a directory, not a memory."""

_ROLES = frozenset({"user", "assistant", "system", "tool"})
_UPPER = "".join(c for c in map(chr, (*range(0x41, 0x590), *range(0x1E00, 0x2000))) if c.isupper())
# Every repetition is bounded and every word starts at a boundary, so a match costs constant work per character.
_WORD = (
    rf"(?:(?:Dr|Mr|Mrs|Ms|Prof|St|Mt|Ft|Jr|Sr)\.|(?:[{_UPPER}]\.){{1,4}}"
    rf"|[a-z]{{0,3}}[{_UPPER}][^\W_]{{0,39}}(?:[-'’&][^\W_]{{1,39}}){{0,4}}(?![\w@]|://|\.[a-z0-9]))"
)
_JOIN = r"(?:of the|of|de la|de los|de las|de|del|della|di|da|dos|du|van der|van den|van|von|der|den|la|le|al|bin|y)"
_RUN = re.compile(
    rf"(?<![\w@#/\\])({_WORD}(?:[ \t]{{1,2}}(?:(?:{_JOIN}|&)[ ])?{_WORD}){{0,7}})([ ]\d{{1,4}}[A-Za-z]{{0,2}}(?![\w%]|[.,:/-]\d))?"
)
_QUOTED = re.compile(r"[\"“]([^\"“”\n]{3,80})[\"”]|(?<!\w)['‘]([^'‘’\n]{3,80})['’](?!\w)")
_STRETCHED = re.compile(r"(\w)\1\1")
_INFLECTIONS = (
    ("ies", "y"), ("ied", "y"), ("ily", "y"), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"), ("er", ""), ("er", "e"),
    ("ly", ""), ("es", ""), ("s", ""), ("d", ""), ("in", ""), ("est", ""),
)  # fmt: skip
_SMALL = frozenset(
    {"a", "an", "and", "at", "by", "for", "in", "of", "on", "or", "the", "to", "with", "from", "de"}
)


@dataclass(frozen=True)
class _Run:
    """Capitalised words in a row, and where they stand."""

    words: tuple[str, ...]
    start: int
    end: int
    opening: bool
    greeted: bool = False
    owning: bool = False
    number: str = ""


@cache
def _lists() -> Mapping[str, frozenset[str]]:
    text = files("vmemo.retain").joinpath("names.txt").read_text(encoding="utf-8")
    sections: dict[str, set[str]] = {}
    words: set[str] = set()
    for line in text.splitlines():
        if line.startswith("["):
            words = sections.setdefault(line.strip("[]"), set())
        elif not line.startswith("#"):
            words.update(line.split())
    return {title: frozenset(words) for title, words in sections.items()}


@cache
def _given_names() -> frozenset[str]:
    names = {name for triplet in name_triplets() for name in (triplet.name1, triplet.name2)}
    return frozenset(names - _lists()["common"] - _lists()["never"])


def find_entities(text: str, *, speakers: Collection[str] = ()) -> tuple[Found, ...]:
    """Names in the order of their first appearance, each once, 20 at most; speakers count in any case."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    known = _speaker_names(frozenset(speakers))
    spotted = sorted(
        (*_named(text, known), *_addressed(text, frozenset(speakers))), key=lambda s: (s[0], -s[1])
    )
    found: dict[str, Found] = {}
    reached = -1
    for start, end, entity in spotted:
        if start >= reached:
            reached = end
            _keep(found, entity)
    return tuple(found.values())[:MAX_FOUND]


def _keep(found: dict[str, Found], entity: Found) -> None:
    key = entity.name.casefold()
    if key not in found or (found[key].type == "OTHER" and entity.type != "OTHER"):
        found[key] = Found(name=found[key].name if key in found else entity.name, type=entity.type)


def _named(text: str, known: Mapping[str, str]) -> Iterator[tuple[int, int, Found]]:
    titles = [(m.start(), m.end(), m[1] or m[2]) for m in _QUOTED.finditer(text) if _is_title(m[1] or m[2])]
    for start, end, title in titles:
        yield start, end, Found(name=title.strip(" ,.!?"), type="OTHER")
    for match in _RUN.finditer(text):
        for run in _split(text, match):
            trimmed = _trim(run, known)
            if trimmed is not None and _is_name(text, trimmed, known):
                name = " ".join(trimmed.words) + trimmed.number
                yield (
                    trimmed.start,
                    trimmed.end,
                    Found(name=known.get(name.casefold(), name), type=_type(text, trimmed, known)),
                )


def _is_title(quoted: str) -> bool:
    words = quoted.strip(" ,.!?").split()
    if not 2 <= len(words) <= 10 or all(_fold(w) in _lists()["never"] for w in words):
        return False
    return words[0][:1].isupper() and all(w[:1].isupper() or w[:1].isdigit() or w in _SMALL for w in words)


def _fold(word: str) -> str:
    """The word as the lists know it: small, and without what an apostrophe adds."""
    return word.casefold().replace("’", "'").partition("'")[0].rstrip(".")


def _split(text: str, match: re.Match[str]) -> Iterator[_Run]:
    """One run, cut after each owner: "Anna's Tesla" names two things, "St. Mary's Hospital" one."""
    words = match[1].split()
    start, opening, pending = match.start(), _opens(text, match.start()), list[str]()
    cursor = start
    for index, word in enumerate(words):
        cursor = text.index(word, cursor) + len(word)
        owner = word.replace("’", "'").removesuffix("'s").removesuffix("'S")
        following = words[index + 1] if index + 1 < len(words) else ""
        last = not following
        if len(owner) < len(word) and (last or not _completes(following)):
            pending.append(word[: len(owner)])
            yield _Run(tuple(pending), start, cursor, opening, owning=True)
            start, opening, pending = cursor, False, []
        elif last:
            number = match[2] or ""
            pending.append(word)
            yield _numbered(text, _Run(tuple(pending), start, match.end(1), opening), number)
        else:
            pending.append(word)


def _completes(word: str) -> bool:
    lists, key = _lists(), _fold(word)
    return key in lists["company"] or key in lists["place"] or key in lists["event"]


def _numbered(text: str, run: _Run, number: str) -> _Run:
    """The run with its number, unless the number counts what follows it ("saw Anna 3 times")."""
    if not number:
        return run
    end = run.end + len(number)
    after = text[end : end + 16].split()
    counted = bool(after) and (
        _fold(after[0]) in _lists()["unit"]
        or (after[0].endswith("s") and _fold(after[0]) not in _lists()["never"])
    )
    return run if counted else _Run(run.words, run.start, end, run.opening, number=number)


def _opens(text: str, start: int) -> bool:
    """Whether a capital is owed to the place: nothing but a word or a number stands before it in its clause."""
    before = text[max(0, start - 4) : start].rstrip(" \t")
    return not before or not before[-1].isalnum()


def _trim(run: _Run, known: Mapping[str, str]) -> _Run | None:
    lists, words = _lists(), list(run.words)
    greeted = False
    while words and _is_padding(words, run.opening, known):
        greeted = greeted or _fold(words[0]) in lists["greeting"]
        words.pop(0)
    while words and _fold(words[-1]) in lists["never"]:
        words.pop()
    if not words:
        return None
    trimmed = tuple(words)
    number = run.number if run.words[-1] == trimmed[-1] else ""
    return _Run(trimmed, run.start, run.end, run.opening, greeted, run.owning, number)


def _is_padding(words: list[str], opening: bool, known: Mapping[str, str]) -> bool:
    """Whether the first word only stands before the name."""
    lists, key = _lists(), _fold(words[0])
    following = words[1] if len(words) > 1 else ""
    person = _fold(following) in _given_names() or following.casefold() in known
    if key in lists["lead"] and following and not person and not _is_ordinary(_fold(following)):
        return False
    if key in lists["never"]:
        is_month_name = (
            key in {"april", "may", "june", "august"}
            and len(words) == 2
            and not _is_ordinary(_fold(following))
        )
        return not (is_month_name or (key in {"the", "a"} and not opening and len(words) > 1))
    if not (opening and following) or key in lists["title"] or words[0].isupper() or not _is_ordinary(key):
        return False
    return person or (len(words) == 2 and not _completes(following) and not _is_ordinary(_fold(following)))


@lru_cache(maxsize=4096)
def _is_ordinary(word: str) -> bool:
    lists = _lists()
    plain = lists["common"] | lists["never"] if False else lists["common"]
    if word in plain or word in lists["never"]:
        return True
    for ending, base in _INFLECTIONS:
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            stem = word[: -len(ending)]
            doubled = base == "" and len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in plain
            if stem + base in plain or stem + base in lists["never"] or doubled:
                return True
    return False


def _is_name(text: str, run: _Run, known: Mapping[str, str]) -> bool:
    lists, words = _lists(), run.words
    name = " ".join(words)
    if name.casefold() in known:
        return True
    if len(words) > 1:
        return any(len(w) > 2 for w in words)
    word, key = words[0], _fold(words[0])
    if run.number:
        return key not in lists["counter"]
    if len(key) < 2 or _STRETCHED.search(key):
        return False
    if word.isupper():
        return len(word) <= 8 and not _is_ordinary(key)
    if "-" in word and any(part[:1].islower() for part in word.split("-")):
        return not run.opening
    if _is_ordinary(key) or all(_is_ordinary(part) for part in key.split("-")):
        if not run.opening:
            return key not in lists["title"]
        return not run.opening
    return True


def _type(text: str, run: _Run, known: Mapping[str, str]) -> EntityType:
    lists, words = _lists(), run.words
    first, last = _fold(words[0]), _fold(words[-1])
    before = [_fold(w) for w in text[max(0, run.start - 40) : run.start].split()[-3:]]
    if run.words[0].casefold() in known or (first in lists["title"] and len(words) > 1):
        return "PERSON"
    if last in lists["holiday"] or (len(words) > 1 and last in lists["event"]):
        return "EVENT"
    if len(words) > 1 and (last in lists["company"] or first in lists["company"]):
        return "ORGANIZATION"
    if len(words) > 1 and (last in lists["place"] or first in lists["place_lead"]):
        return "LOCATION"
    if run.number or (words[0][:1].islower() and len(words) == 1):
        return "PRODUCT"
    return "OTHER" if not before and not first else _type_in_context(text, run, before)


def _type_in_context(text: str, run: _Run, before: list[str]) -> EntityType:
    lists, words = _lists(), run.words
    first, key = _fold(words[0]), before[-1] if before else ""
    plain = len(words) <= 3 and all(w.istitle() or "'" in w for w in words)
    after = text[run.end : run.end + 24].split()
    if plain and key in lists["kin"] and text[run.start - 1 : run.start] == " ":
        return "PERSON"
    if first in _given_names() and plain and first not in lists["city_name"]:
        return "PERSON"
    if first in lists["tongue"] or not plain:
        return "OTHER"
    if _is_whereabouts(before):
        return "LOCATION"
    if (
        run.greeted
        or (after and after[0] in lists["person_verb"])
        or (run.owning and after and _fold(after[0]) in lists["kin"])
    ):
        return "PERSON"
    return "OTHER"


def _is_whereabouts(before: list[str]) -> bool:
    lists = _lists()
    key, earlier = before[-1] if before else "", before[-2] if len(before) > 1 else ""
    if key in {"in", "near", "throughout", "visit", "visited", "visiting", "toured"}:
        return earlier not in lists["in_verb"]
    return (key == "to" and earlier in lists["go_verb"]) or (
        key == "from"
        and earlier
        in {"is", "am", "i'm", "are", "was", "originally", "moved", "come", "came", "comes", "back"}
    )


@lru_cache(maxsize=256)
def _speaker_names(speakers: frozenset[str]) -> Mapping[str, str]:
    """Folded full names and first names, each with its spelling."""
    names: dict[str, str] = {}
    for speaker in sorted(speakers):
        name = " ".join(speaker.split())
        if name and name.casefold() not in _ROLES:
            first = name.split()[0]
            if first != name and len(first) > 2 and not _is_ordinary(_fold(first)) and first.isalpha():
                names.setdefault(first.casefold(), first)
            names[name.casefold()] = name
    return names


@lru_cache(maxsize=256)
def _speaker_pattern(speakers: frozenset[str]) -> re.Pattern[str] | None:
    names = sorted(_speaker_names(speakers), key=len, reverse=True)
    if not names:
        return None
    return re.compile("|".join(map(_bounded, names)), re.IGNORECASE)


def _bounded(name: str) -> str:
    # Chinese and Japanese write no space between words, so a boundary there would never be met.
    escaped = re.escape(name)
    return escaped if name[0] >= "\u2e80" else rf"(?<!\w){escaped}(?!\w)"


def _addressed(text: str, speakers: frozenset[str]) -> Iterator[tuple[int, int, Found]]:
    pattern = _speaker_pattern(speakers)
    if pattern is None:
        return
    names = _speaker_names(speakers)
    for match in pattern.finditer(text):
        name = names.get(match[0].casefold())
        if name is not None and _is_meant(text, match):
            yield match.start(), match.end(), Found(name=name, type="PERSON")


def _is_meant(text: str, match: re.Match[str]) -> bool:
    """Whether a speaker's name that is also a word ("Will", "Mark") stands here as a name."""
    if not _is_ordinary(match[0].casefold()):
        return True
    if not match[0][0].isupper():
        return False
    return not _opens(text, match.start()) or text[match.end() : match.end() + 1] in tuple(",!?'’")
