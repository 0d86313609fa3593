"""Regular expressions that are compiled at their first use: importing must cost nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property


class LazyPattern:
    """A regular expression with the methods that are used here."""

    def __init__(self, source: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._source, self._flags)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The first match anywhere."""
        return self._compiled.search(text, start)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """A match at the start."""
        return self._compiled.match(text, start)

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """A match of the whole text, or of a stretch of it."""
        return self._compiled.fullmatch(text, start, end)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return self._compiled.finditer(text)

    def findall(self, text: str) -> list[str]:
        """The texts of all matches of a pattern without groups."""
        return [match[0] for match in self._compiled.finditer(text)]

    def split(self, text: str, count: int = 0) -> list[str]:
        """What stands between the matches, or the first of them."""
        return [part for part in self._compiled.split(text, count) if part is not None]

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        """The text with every match, or the first of them, replaced."""
        return self._compiled.sub(replacement, text, count)
