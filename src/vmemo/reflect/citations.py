"""Marks inside an answer: which there are, which were made up, and what they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

BACKGROUND = "B"
"""The mark of what the bank's own background says."""
_ONE = r"(?:[FSO]\d{1,5}|B)"
_MARK = re.compile(rf"[\[【]\s*({_ONE}(?:[\s,;/&+]+(?:and\s+)?{_ONE})*)\s*[\]】]", re.IGNORECASE)
_STRANGE = re.compile(
    r"[\[【]\s*(?:(?:fact|memory|source|id|ref)?\s*[:#]?\s*\d{1,3}|[0-9a-f]{8}-[0-9a-f-]{20,27})\s*[\]】]",
    re.IGNORECASE,
)
"""Citations in other forms than ours: bare numbers, or ids that nobody has shown."""
_SPACED = re.compile(rf"(\s*){_MARK.pattern}", re.IGNORECASE)
_SPACED_STRANGE = re.compile(rf"\s*{_STRANGE.pattern}", re.IGNORECASE)
_INSIDE = re.compile(_ONE, re.IGNORECASE)
_SHOWN = re.compile(rf"[\[【](?=\s*{_ONE}[\s,;/&+\]】])", re.IGNORECASE)


def cited(text: str) -> list[str]:
    """All marks of a text in the order of their first use."""
    return list(dict.fromkeys(mark.upper() for group in _MARK.finditer(text) for mark in _INSIDE.findall(group[1])))


def invented(text: str, known: Collection[str]) -> list[str]:
    """Marks that stand for nothing which was shown."""
    strange = [match[0].strip("[]【】 ") for match in _STRANGE.finditer(text)]
    return [*(mark for mark in cited(text) if mark not in known), *dict.fromkeys(strange)]


def resolved(text: str, name: Callable[[str], str | None]) -> str:
    """The text with each mark replaced by what it is called; a mark without a name is taken out with its space."""

    def replaced(match: re.Match[str]) -> str:
        names = dict.fromkeys(filter(None, (name(mark.upper()) for mark in _INSIDE.findall(match[2]))))
        return match[1] + "".join(f"[{each}]" for each in names) if names else ""

    return _SPACED.sub(replaced, _SPACED_STRANGE.sub("", text)).strip()


def unfinished(text: str) -> str:
    """As much of a text that is still being written as can't become part of a mark."""
    opened = max(text.rfind("["), text.rfind("【"))
    if opened >= 0 and not re.search(r"[\]】]", text[opened:]):
        text = text[:opened]
    return text.rstrip()


def unmarked(text: str) -> str:
    """A memory's text in which nothing looks like one of our marks."""
    return _SHOWN.sub("‹", text)
