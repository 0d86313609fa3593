"""Citation marks such as [F2] in generated text: find them, check them, and replace them with fact ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

BACKGROUND = "B"
"""The mark of the bank's own background."""
_MARK = r"(?:[FSO]\d{1,5}|(?-i:B))"
_ID = r"[0-9a-f]{8}-[0-9a-f-]{20,27}"
_PREFIX = r"(?:(?:facts?|memor(?:y|ies)|sources?|see|refs?|ids?)\b[\s:]*|[#^]\s*)?"
_SEPARATOR = r"(?:[\s,;/&+]+(?:and\s+)?|\s*[-–—]\s*)"
_ITEM = rf"(?:{_MARK}|{_ID}|\d{{1,3}})"
_LIST = rf"\s*{_PREFIX}({_ITEM}(?:{_SEPARATOR}{_ITEM})*)\s*[\]】]"
_SUBSCRIPT = rf"(?<=\w.)\s*{_PREFIX}\d{{1,3}}(?:{_SEPARATOR}\d{{1,3}})*\s*[\]】]"
"""A number directly after a name, as in items[1], is a subscript and not a citation."""
_CITATION = re.compile(rf"(?<!\s)(\s*)[\[【](?!{_SUBSCRIPT}){_LIST}", re.IGNORECASE)
"""Marks in brackets with the space before them. Models also cite by bare number or id, so these match too."""
_ITEM_PARTS = re.compile(rf"({_ID})|(?:([-–—])\s*)?(?:([FSO])?(\d+)|(?-i:(B)))", re.IGNORECASE)
_OPENING = re.compile(rf"[\[【](?=\s*{_PREFIX}(?:{_MARK}|{_ID})(?!\w)|(?!{_SUBSCRIPT}){_LIST})", re.IGNORECASE)
_CODE = "```"
"""Begins and ends code, in which a number in brackets is a subscript or a list."""
_NUMBERED = re.compile(r"\[(?=\d)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOT_IN_CITATION = re.compile(r"[^\w\s,;/&+:#^–—-]")
_MAX_RANGE = 50
"""Marks that a range such as F1-F9 may expand to."""


def cited_marks(text: str) -> list[str]:
    """Return the marks of a text in the order of their first use."""
    return list(dict.fromkeys(mark for _, marks, _ in _citations(_printable(text)) for mark in marks))


def parse_marks(values: Iterable[str]) -> list[str]:
    """Return the marks in a list of strings, with or without brackets."""
    return cited_marks(" ".join(f"[{value.strip('[]【】 ')}]" for value in values))


def unknown_marks(text: str, known: Collection[str]) -> list[str]:
    """Return the marks, bare numbers and ids that a text cites and that are not known."""
    others = [each for _, _, others in _citations(_printable(text)) for each in others]
    return [*(mark for mark in cited_marks(text) if mark not in known), *dict.fromkeys(others)]


def resolve_citations(text: str, fact_id: Callable[[str], str | None]) -> str:
    """Replace each mark with its fact id; remove a mark that has none, together with the space before it."""
    text, parts, end = _printable(text), list[str](), 0
    for match, marks, _ in _citations(text):
        ids = dict.fromkeys(filter(None, map(fact_id, marks)))
        parts += text[end : match.start()], match[1] + "".join(f"[{each}]" for each in ids) if ids else ""
        if not ids and (_inside_brackets(text, at := match.start()) or text[max(at - 1, 0) : at] == "`"):
            # The text around a removed mark must not join into a new mark, or a beginning of code.
            parts.append("…")
        end = match.end()
    return "".join([*parts, text[end:]]).strip()


def without_citations(text: str) -> str:
    return resolve_citations(text, lambda _: None)


def complete_part(text: str) -> str:
    """Return the part of a partial text that later characters cannot turn into a mark."""
    text = _printable(text)
    opened = max(text.rfind("["), text.rfind("【"))
    if opened >= 0 and not _NOT_IN_CITATION.search(text, opened + 1):
        text = text[:opened]
    return text.rstrip()


def escape_marks(text: str) -> str:
    """Replace the opening bracket of everything in a stored text that looks like a mark."""
    return _OPENING.sub("‹", _printable(text))


def _printable(text: str) -> str:
    return _CONTROL.sub("", text)


def _citations(text: str) -> Iterator[tuple[re.Match[str], list[str], list[str]]]:
    """Yield each citation with its marks, and with the bare numbers and ids in it."""
    parts = [_NUMBERED.sub("(", part) if at % 2 else part for at, part in enumerate(text.split(_CODE))]
    return ((match, *_items(match[2])) for match in _CITATION.finditer(_CODE.join(parts)))


def _items(inside: str) -> tuple[list[str], list[str]]:
    marks, others = list[str](), list[str]()
    letter, last = "", 0
    for id, dash, given, number, background in _ITEM_PARTS.findall(inside):
        if background:
            marks.append(BACKGROUND)
        elif id or not (given or letter):
            others.append(id or number)
        else:
            is_range = dash and given.upper() in ("", letter) and 0 < int(number) - last <= _MAX_RANGE
            letter, first, last = given.upper() or letter, last + 1 if is_range else int(number), int(number)
            marks += [f"{letter}{n}" for n in range(first, last + 1)]
    return marks, others


def _inside_brackets(text: str, end: int) -> bool:
    opening, closing = (max(text.rfind(each, 0, end) for each in pair) for pair in ("[【", "]】"))
    return opening > closing
