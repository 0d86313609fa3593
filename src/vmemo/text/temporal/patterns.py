"""Compilation of rule patterns to regular expressions over token tags.

A pattern such as "the? modifier=MOD unit=UNIT (?!of)" names families of the vocabulary. Each name becomes the class of
its one-character tags, `label=` becomes a named group, and white space is dropped; the rest is plain `re` syntax.
"""

from __future__ import annotations

import re
from functools import cache

from vmemo.text.temporal.vocabulary import PLAIN_WORDS, SYMBOLS, TAGS, UNIONS

_ELEMENT = re.compile(r"(?:(?P<label>[a-z]{1,20})=)?(?:(?P<name>[A-Za-z][A-Za-z0-9]*)|(?P<open>\((?!\?)))|\s+")
_GROUP = re.compile(r"(?:[a-z]{1,20}=)?\((?P<look>(?:\?<?[=!])?)(?P<inside>[^()]*)\)(?P<repeat>[?*+]|\{\d,\d\})?")
_COMMON = frozenset(TAGS[name] for name in (*PLAIN_WORDS, *SYMBOLS, "A", "WORD"))


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern; it is compiled at its first use."""
    return re.compile(_ELEMENT.sub(_translate, pattern))


def tags_of(name: str) -> frozenset[str]:
    """Return the tags of a family or of a union of families."""
    if name not in UNIONS:
        return frozenset(TAGS[name])
    return frozenset[str]().union(*(tags_of(part) for part in UNIONS[name]))


def required_tags(pattern: str) -> tuple[frozenset[str], ...]:
    """Return sets of tags, of each of which a line must contain one for the pattern to match; the rarest set first."""
    groups: dict[str, frozenset[str]] = {}

    def fold(match: re.Match[str]) -> str:
        if (match["repeat"] or "").startswith(("?", "*", "{0")) or match["look"] not in ("", "?<="):
            return " "
        name = f"GROUP{len(groups)}"
        parts = [_mandatory(alternative, groups) for alternative in match["inside"].split("|")]
        groups[name] = frozenset[str]().union(*(part[0] for part in parts)) if all(parts) else frozenset()
        return f" {name} "

    while (flat := _GROUP.sub(fold, pattern)) != pattern:
        pattern = flat
    return tuple(_mandatory(pattern, groups))


def _translate(match: re.Match[str]) -> str:
    label, name = match["label"], match["name"]
    opening = f"(?P<{label}>" if label else "(?:"
    if match["open"]:
        return opening
    if name is None:
        return ""
    tags = f"[{''.join(sorted(tags_of(name)))}]"
    return f"{opening}{tags})" if label else tags


def _mandatory(sequence: str, groups: dict[str, frozenset[str]]) -> list[frozenset[str]]:
    names = (word.rpartition("=")[2] for word in sequence.split() if not word.endswith("?"))
    parts = {groups[name] if name in groups else tags_of(name) for name in names}
    return sorted(filter(None, parts), key=_frequency)


def _frequency(tags: frozenset[str]) -> int:
    """Estimate how likely a text contains one of the tags by chance."""
    return len(tags) + 100 * len(tags & _COMMON)
