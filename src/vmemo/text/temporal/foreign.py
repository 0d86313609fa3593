"""Time expressions in languages other than English, resolved by dateparser and by rules for CJK."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import InvalidInput, MissingExtra
from vmemo.models import Interval
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.temporal.calendar_days import DAY, FIRST_YEAR, LAST_YEAR, UNITS, period_bounds
from vmemo.text.temporal.find import day_interval

# Relative times in Chinese, Japanese and Korean, which dateparser does not find inside a sentence.

_LANGUAGES = frozenset(("zh", "ja", "ko"))
_UNITS = {name: [line.split() for line in lines] for name, lines in read_patterns("temporal/foreign.txt").items()}
_NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", start=1)} | {"两": 2, "兩": 2}
_WORDS = {
    word.replace("·", " "): (UNITS.index(unit), int(n)) for unit, n, *words in _UNITS["relative"] for word in words
}
_UNIT_OF = {word: UNITS.index(unit) for unit, *words in _UNITS["counted"] for word in words}
_TIMES = LazyPattern(
    # "目前天气" is today's weather, and "明日香" a name.
    rf"(?<!目)(?<!之)(?<!以)(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})(?!香)"
    rf"|(?P<count>\d{{1,3}}|[{''.join(_NUMERALS)}]) ?(?P<unit>{'|'.join(sorted(_UNIT_OF, key=len, reverse=True))})"
    r" ?(?:以前|之前|前|전)"
)


def _find_cjk_times(text: str, reference: datetime, languages: Collection[str]) -> Iterator[Interval]:
    """Yield the days, weeks, months and years that a text names relative to a reference time, in its order."""
    if text.isascii() or _LANGUAGES.isdisjoint(languages):
        return
    for match in _TIMES.finditer(text):
        if match["word"]:
            unit, offset = _WORDS[match["word"]]
        else:
            written = match["count"]
            unit, offset = _UNIT_OF[match["unit"]], -(int(written) if written.isdecimal() else _NUMERALS[written])
        if bounds := period_bounds(reference.date(), unit, offset):
            yield day_interval(*bounds, reference.tzinfo)


# Times in other languages, by dateparser.

_MIN_CHARS = 3
"""Minimum of letters and digits: dateparser takes short words such as French "je" for weekdays."""
_MAX_CHARS = 2_000
"""Characters of a text that are searched, because the time this takes grows with the text."""


_Search = Callable[..., Sequence[tuple[str, datetime]] | None]


class _DateParser(Protocol):
    class _Data(Protocol):
        period: str

    def get_date_data(self, text: str) -> _Data: ...


class DateparserTimes:
    """TimeReader that uses dateparser. Loads it at the first call; threads are serialized by a lock."""

    def __init__(self, languages: Sequence[str]) -> None:
        if find_spec("dateparser") is None:
            raise MissingExtra(
                'Times in other languages need dateparser, which is not installed. Run: pip install "vmemo[languages]"'
            )
        self._languages = list(languages)
        self._lock = threading.Lock()

    def __call__(self, text: str, reference: datetime) -> list[Interval]:
        """Return the intervals that a text names, in its order; ambiguous times are taken as past.

        Relative times in Chinese, Japanese and Korean come before others.
        """
        text = text[:_MAX_CHARS]
        relative = _find_cjk_times(text, reference, self._languages)
        with self._lock:
            return [*relative, *self._search(text, reference)]

    def _search(self, text: str, reference: datetime) -> Iterator[Interval]:
        if not FIRST_YEAR < reference.year < LAST_YEAR:
            return
        settings: object = {"RELATIVE_BASE": reference.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
        search = cast("_Search", import_module("dateparser.search").search_dates)
        new_parser = cast("Callable[..., _DateParser]", import_module("dateparser.date").DateDataParser)
        try:
            found = search(text, languages=self._languages, settings=settings)
            parser = new_parser(languages=self._languages, settings=settings)
        except ValueError as error:
            raise InvalidInput(f"languages must be codes that dateparser knows, such as de or fr: {error}") from error
        for words, instant in found or ():
            if sum(map(str.isalnum, words)) >= _MIN_CHARS:
                period = parser.get_date_data(words).period
                if bounds := period_bounds(instant.date(), UNITS.index(period) if period in UNITS else DAY):
                    yield day_interval(*bounds, reference.tzinfo)
