"""Time expressions in languages other than English, resolved by dateparser and by rules for CJK."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from vmemo.errors import InvalidInput, MissingExtra
from vmemo.models import Interval
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal.calendar_days import FIRST_YEAR, LAST_YEAR

# Relative times in Chinese, Japanese and Korean, which dateparser does not find inside a sentence.

_LANGUAGES = frozenset(("zh", "ja", "ko"))
_DAYS = {
    "昨天 昨日 昨夜 昨晚 きのう 어제": -1,
    "前天 一昨日 おととい 그저께 그제": -2,
    "今天 今日 今朝 今晚 오늘": 0,
    "明天 明日 あした 내일": 1,
    "后天 後天 明後日 あさって 모레": 2,
}
_WEEKS = {
    "上周 上週 上个星期 上個星期 上星期 上个礼拜 上礼拜 先週 지난주 지난·주": -1,
    "这周 這週 本周 本週 这个星期 今週 이번주 이번·주": 0,
    "下周 下週 下个星期 下個星期 下星期 来週 다음주 다음·주": 1,
}
_MONTHS = {
    "上个月 上個月 上月 先月 지난달 지난·달": -1,
    "这个月 這個月 本月 今月 이번달 이번·달": 0,
    "下个月 下個月 来月 다음달 다음·달": 1,
}
_YEARS = {"前年 一昨年 재작년": -2, "去年 昨年 작년": -1, "今年 올해": 0, "明年 来年 내년": 1}
_UNITS = {
    "天 日 일": "day",
    "周 週 週間 个星期 個星期 주": "week",
    "个月 個月 か月 ヶ月 カ月 개월 달": "month",
    "年 년": "year",
}
_NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", start=1)} | {"两": 2, "兩": 2}


def _by_word(table: Mapping[str, int], unit: str) -> dict[str, tuple[str, int]]:
    return {word.replace("·", " "): (unit, offset) for words, offset in table.items() for word in words.split()}


_WORDS = {
    **_by_word(_DAYS, "day"),
    **_by_word(_WEEKS, "week"),
    **_by_word(_MONTHS, "month"),
    **_by_word(_YEARS, "year"),
}
_UNIT_OF = {word: unit for words, unit in _UNITS.items() for word in words.split()}
_LONGEST_FIRST = sorted(_WORDS, key=len, reverse=True)
_TIMES = LazyPattern(
    # "目前天气" is today's weather, and "明日香" a name.
    rf"(?<!目)(?<!之)(?<!以)(?P<word>{'|'.join(_LONGEST_FIRST)})(?!香)"
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
            unit, offset = _UNIT_OF[match["unit"]], -_count(match["count"])
        if FIRST_YEAR < reference.year + (offset if unit == "year" else offset // 12) < LAST_YEAR:
            yield _relative_interval(reference, unit, offset)


def _count(written: str) -> int:
    return int(written) if written.isdecimal() else _NUMERALS[written]


def _relative_interval(reference: datetime, unit: str, offset: int) -> Interval:
    today = datetime(reference.year, reference.month, reference.day, tzinfo=reference.tzinfo)
    match unit:
        case "day":
            start, end = today + timedelta(days=offset), today + timedelta(days=offset + 1)
        case "week":
            monday = today - timedelta(days=today.weekday())
            start, end = monday + timedelta(weeks=offset), monday + timedelta(weeks=offset + 1)
        case "month":
            start, end = _month(today, offset), _month(today, offset + 1)
        case _:
            january = today.replace(month=1, day=1)
            start, end = january.replace(year=today.year + offset), january.replace(year=today.year + offset + 1)
    return Interval(start=start, end=end)


def _month(day: datetime, offset: int) -> datetime:
    """Return the first day of a month that is `offset` months away."""
    months = day.year * 12 + day.month - 1 + offset
    return day.replace(year=months // 12, month=months % 12 + 1, day=1)


# Times in other languages, by dateparser.

_MIN_CHARS = 3
"""Minimum of letters and digits: dateparser takes short words such as French "je" for weekdays."""
_MAX_CHARS = 2_000
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
        text = text[:_MAX_CHARS]
        relative = _find_cjk_times(text, reference, self._languages)
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
            if sum(map(str.isalnum, words)) >= _MIN_CHARS:
                yield _period_around(instant, parser.get_date_data(words).period, reference)


def _period_around(instant: datetime, period: str, reference: datetime) -> Interval:
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
