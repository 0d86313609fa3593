"""Time expressions in languages other than English, resolved by dateparser and by rules for CJK."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import InvalidInput, MissingExtra
from vmemo.models import Interval
from vmemo.text.temporal.calendar_units import FIRST_YEAR, LAST_YEAR
from vmemo.text.temporal.cjk_times import find_cjk_times

MIN_CHARS = 3
"""Minimum of letters and digits: dateparser takes short words such as French "je" for weekdays."""
MAX_CHARS = 2_000
"""Characters of a text that are searched, because the time this takes grows with the text."""
_Matches = Sequence[tuple[str, datetime]] | None
_Settings = Mapping[str, object]


class _SearchModule(Protocol):
    search_dates: Callable[..., _Matches]


class _DateData(Protocol):
    period: str


class _DateParser(Protocol):
    def get_date_data(self, text: str) -> _DateData: ...


class _DateModule(Protocol):
    DateDataParser: Callable[..., _DateParser]


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
        text = text[:MAX_CHARS]
        relative = find_cjk_times(text, reference, self._languages)
        with self._lock:
            return [*relative, *self._search(text, reference)]

    def _search(self, text: str, reference: datetime) -> Iterator[Interval]:
        if not FIRST_YEAR < reference.year < LAST_YEAR:
            return
        settings: _Settings = {"RELATIVE_BASE": reference.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
        search = cast("_SearchModule", import_module("dateparser.search"))
        dates = cast("_DateModule", import_module("dateparser.date"))
        try:
            found = search.search_dates(text, languages=self._languages, settings=settings)
            parser = dates.DateDataParser(languages=self._languages, settings=settings)
        except ValueError as error:
            raise InvalidInput(f"languages must be codes that dateparser knows, such as de or fr: {error}") from error
        for words, instant in found or ():
            if sum(map(str.isalnum, words)) >= MIN_CHARS:
                yield _interval(instant, parser.get_date_data(words).period, reference)


def _interval(instant: datetime, period: str, reference: datetime) -> Interval:
    """Return the day, week, month or year of an instant in the reference's time zone."""
    start = datetime(instant.year, instant.month, instant.day, tzinfo=reference.tzinfo)
    if period == "week":
        start -= timedelta(days=start.weekday())
        return Interval(start=start, end=start + timedelta(days=7))
    if period == "month":
        start = start.replace(day=1)
        return Interval(start=start, end=(start + timedelta(days=32)).replace(day=1))
    if period == "year":
        return Interval(start=start.replace(month=1, day=1), end=start.replace(year=start.year + 1, month=1, day=1))
    return Interval(start=start, end=start + timedelta(days=1))
