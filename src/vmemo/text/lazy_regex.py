"""Regular expressions that are compiled at their first use, to keep imports fast."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cached_property


class LazyPattern:
    """A regular expression that is compiled at its first use."""

    def __init__(self, source: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._source = source
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._source, self._flags)

    def search(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.search(text, start, end)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self.compiled.match(text, start)

    def fullmatch(self, text: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self.compiled.fullmatch(text, start, end)

    def finditer(self, text: str, start: int = 0, end: int = sys.maxsize) -> Iterator[re.Match[str]]:
        return self.compiled.finditer(text, start, end)

    def findall(self, text: str) -> list[str]:
        """Return the text of every match, also if the pattern has groups."""
        return [match[0] for match in self.compiled.finditer(text)]

    def split(self, text: str, count: int = 0) -> list[str]:
        """Split the text at the matches, at most `count` of them if it is not 0."""
        return [part for part in self.compiled.split(text, count) if part is not None]

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        """Replace the matches, at most `count` of them if it is not 0."""
        return self.compiled.sub(replacement, text, count)
