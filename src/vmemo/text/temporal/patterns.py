"""Readable patterns turned into regular expressions over a text's shape."""

from __future__ import annotations

import re
from functools import cache

from vmemo.text.temporal.vocabulary import PLAIN, SYMBOLS, TAGS, UNIONS

_PIECE = re.compile(r"(?:(?P<label>[a-z]+)=)?(?:(?P<name>[A-Za-z][A-Za-z0-9]*)|(?P<open>\((?!\?)))|\s+")
_GROUP = re.compile(r"(?:[a-z]+=)?\((?P<look>(?:\?<?[=!])?)(?P<inside>[^()]*)\)(?P<optional>\??)")
_COMMON = frozenset(TAGS[name] for name in (*PLAIN, *SYMBOLS, "A", "WORD"))


@cache
def expression(pattern: str) -> re.Pattern[str]:
    """The regular expression for a pattern of families and words, made when it is first tried."""
    return re.compile(_PIECE.sub(_translate, pattern))


def needs(pattern: str) -> tuple[frozenset[str], ...]:
    """The tags of which a shape must hold one each for the pattern to match."""
    return tuple(_needed(pattern))


def tags_of(name: str) -> frozenset[str]:
    """The tags a family or union of families stands for."""
    if name not in UNIONS:
        return frozenset(TAGS[name])
    return frozenset[str]().union(*(tags_of(part) for part in UNIONS[name]))


def _translate(match: re.Match[str]) -> str:
    label, name = match["label"], match["name"]
    opening = f"(?P<{label}>" if label else "(?:"
    if match["open"]:
        return opening
    if name is None:
        return ""
    tags = f"[{''.join(sorted(tags_of(name)))}]"
    return f"{opening}{tags})" if label else tags


def _needed(pattern: str) -> list[frozenset[str]]:
    """For each mandatory part its tags, the part first that a text is least likely to hold by chance."""
    groups: dict[str, frozenset[str]] = {}

    def fold(match: re.Match[str]) -> str:
        if match["optional"] or match["look"] not in ("", "?<="):
            return " "
        name = f"GROUP{len(groups)}"
        parts = [_mandatory(alternative, groups) for alternative in match["inside"].split("|")]
        groups[name] = frozenset[str]().union(*(part[0] for part in parts)) if all(parts) else frozenset()
        return f" {name} "

    while (flat := _GROUP.sub(fold, pattern)) != pattern:
        pattern = flat
    return _mandatory(pattern, groups)


def _mandatory(sequence: str, groups: dict[str, frozenset[str]]) -> list[frozenset[str]]:
    names = (word.rpartition("=")[2] for word in sequence.split() if not word.endswith("?"))
    parts = {groups[name] if name in groups else tags_of(name) for name in names}
    return sorted(filter(None, parts), key=_commonness)


def _commonness(tags: frozenset[str]) -> int:
    return len(tags) + 100 * len(tags & _COMMON)
