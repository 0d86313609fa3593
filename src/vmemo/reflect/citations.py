"""Marks inside an answer: which there are, which were made up, and what they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

BACKGROUND = "B"
"""The mark of what the bank's own background says."""
_MARK = r"(?:[FSO]\d{1,5}|(?-i:B))"
_ID = r"[0-9a-f]{8}-[0-9a-f-]{20,27}"
_WORD = r"(?:(?:facts?|memor(?:y|ies)|sources?|see|refs?|ids?)\b[\s:]*|[#^]\s*)?"
_NEXT = r"(?:[\s,;/&+]+(?:and\s+)?|\s*[-–—]\s*)"
_ANY = rf"(?:{_MARK}|{_ID}|\d{{1,3}})"
_LIST = rf"\s*{_WORD}({_ANY}(?:{_NEXT}{_ANY})*)\s*[\]】]"
_PLACE = rf"(?<=\w.)\s*{_WORD}\d{{1,3}}(?:{_NEXT}\d{{1,3}})*\s*[\]】]"
"""A number right behind a name, such as items[1], is a place in a list and no citation."""
_CITATION = re.compile(rf"(?<!\s)(\s*)[\[【](?!{_PLACE}){_LIST}", re.IGNORECASE)
"""Marks in brackets, with the space before them; bare numbers and ids too, as models cite by habit."""
_ITEM = re.compile(rf"({_ID})|(?:([-–—])\s*)?(?:([FSO])?(\d+)|(?-i:(B)))", re.IGNORECASE)
_OURS = re.compile(rf"[\[【](?=\s*{_WORD}(?:{_MARK}|{_ID})(?!\w)|(?!{_PLACE}){_LIST})", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NO_MARK = re.compile(r"[^\w\s,;/&+:#^–—-]")
"""What can't stand inside a citation."""
_WIDEST = 50
"""Marks that a range from one to another may stand for."""


def cited(text: str) -> list[str]:
    """All marks of a text in the order of their first use."""
    return list(dict.fromkeys(mark for _, marks, _ in _citations(_printable(text)) for mark in marks))


def named(values: Iterable[str]) -> list[str]:
    """The marks that a list names, with or without brackets."""
    return cited(" ".join(f"[{value.strip('[]【】 ')}]" for value in values))


def invented(text: str, known: Collection[str]) -> list[str]:
    """Marks that stand for nothing which was shown."""
    strange = [each for _, _, others in _citations(_printable(text)) for each in others]
    return [*(mark for mark in cited(text) if mark not in known), *dict.fromkeys(strange)]


def resolved(text: str, name: Callable[[str], str | None]) -> str:
    """The text with each mark replaced by what it is called; a mark without a name is taken out with its space."""
    text, parts, end = _printable(text), list[str](), 0
    for match, marks, _ in _citations(text):
        names = dict.fromkeys(filter(None, map(name, marks)))
        parts += text[end : match.start()], match[1] + "".join(f"[{each}]" for each in names) if names else ""
        if not names and _opened(text, match.start()):
            # What stood around it must not become a mark of its own.
            parts.append("…")
        end = match.end()
    return "".join([*parts, text[end:]]).strip()


def bare(text: str) -> str:
    """The text without any marks."""
    return resolved(text, lambda _: None)


def unfinished(text: str) -> str:
    """As much of a text that is still being written as can't become part of a mark."""
    text = _printable(text)
    opened = max(text.rfind("["), text.rfind("【"))
    if opened >= 0 and not _NO_MARK.search(text, opened + 1):
        text = text[:opened]
    return text.rstrip()


def unmarked(text: str) -> str:
    """A memory's text in which nothing looks like one of our marks."""
    return _OURS.sub("‹", _printable(text))


def _printable(text: str) -> str:
    return _CONTROL.sub("", text)


def _citations(text: str) -> Iterator[tuple[re.Match[str], list[str], list[str]]]:
    """Each citation with its marks, and with what it names in other ways than ours."""
    return ((match, *_read(match[2])) for match in _CITATION.finditer(text))


def _read(inside: str) -> tuple[list[str], list[str]]:
    marks, others = list[str](), list[str]()
    letter, last = "", 0
    for id, dash, given, number, background in _ITEM.findall(inside):
        if background:
            marks.append(BACKGROUND)
        elif id or not (given or letter):
            others.append(id or number)
        else:
            ranged = dash and given.upper() in ("", letter) and 0 < int(number) - last <= _WIDEST
            letter, first, last = given.upper() or letter, last + 1 if ranged else int(number), int(number)
            marks += [f"{letter}{n}" for n in range(first, last + 1)]
    return marks, others


def _opened(text: str, end: int) -> bool:
    """Whether a place lies inside brackets."""
    opening, closing = (max(text.rfind(each, 0, end) for each in pair) for pair in ("[【", "]】"))
    return opening > closing
