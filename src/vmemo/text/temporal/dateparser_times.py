"""Times in other languages than English, as far as dateparser reaches; only in the languages that were asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import InvalidInput, MissingExtra
from vmemo.models import Interval

SHORTEST = 3
"""Letters and digits of what may be a time: dateparser takes short words such as French "je" for weekdays."""
MOST_READ = 2_000
"""Characters of a text that are read; its search takes time in proportion."""
_Found = Sequence[tuple[str, datetime]] | None
_Settings = Mapping[str, object]


class _Search(Protocol):
    search_dates: Callable[..., _Found]


class _Data(Protocol):
    period: str


class _Parser(Protocol):
    def get_date_data(self, text: str) -> _Data: ...


class _Dates(Protocol):
    DateDataParser: Callable[..., _Parser]


class DateparserTimes:
    """Fulfils the TimeReader port. Loads at first use; threads take turns."""

    def __init__(self, languages: Sequence[str]) -> None:
        if find_spec("dateparser") is None:
            raise MissingExtra(
                "Times in other languages are read with dateparser, which is not installed. "
                'Run: pip install "vmemo[languages]"'
            )
        self._languages = list(languages)
        self._turn = threading.Lock()

    def __call__(self, text: str, reference: datetime) -> list[Interval]:
        """The stretches of time that a text names, in its order; past rather than future where both could be meant."""
        with self._turn:
            return list(self._read(text[:MOST_READ], reference))

    def _read(self, text: str, reference: datetime) -> Iterator[Interval]:
        settings: _Settings = {"RELATIVE_BASE": reference.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
        search = cast("_Search", import_module("dateparser.search"))
        dates = cast("_Dates", import_module("dateparser.date"))
        try:
            found = search.search_dates(text, languages=self._languages, settings=settings)
            parser = dates.DateDataParser(languages=self._languages, settings=settings)
        except ValueError as error:
            raise InvalidInput(f"languages must be codes that dateparser knows, such as de or fr: {error}") from error
        for piece, moment in found or ():
            if sum(map(str.isalnum, piece)) >= SHORTEST:
                yield _stretch(moment, parser.get_date_data(piece).period, reference)


def _stretch(moment: datetime, period: str, reference: datetime) -> Interval:
    """The day, week, month or year that is meant, in the reference's time zone."""
    start = datetime(moment.year, moment.month, moment.day, tzinfo=reference.tzinfo)
    if period == "week":
        start -= timedelta(days=start.weekday())
        return Interval(start=start, end=start + timedelta(days=7))
    if period == "month":
        start = start.replace(day=1)
        return Interval(start=start, end=(start + timedelta(days=32)).replace(day=1))
    if period == "year":
        return Interval(start=start.replace(month=1, day=1), end=start.replace(year=start.year + 1, month=1, day=1))
    return Interval(start=start, end=start + timedelta(days=1))
