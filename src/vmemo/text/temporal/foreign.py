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
from vmemo.text.temporal.calendar_days import DAY, FIRST_YEAR, LAST_YEAR, MONTH, UNITS, WEEK, YEAR, period_bounds
from vmemo.text.temporal.find import day_interval

# Relative times in Chinese, Japanese and Korean, which dateparser does not find inside a sentence.

_LANGUAGES = frozenset(("zh", "ja", "ko"))
_RELATIVE = {
    (DAY, -2): "前天 一昨日 おととい 그저께 그제",
    (DAY, -1): "昨天 昨日 昨夜 昨晚 きのう 어제",
    (DAY, 0): "今天 今日 今朝 今晚 오늘",
    (DAY, 1): "明天 明日 あした 내일",
    (DAY, 2): "后天 後天 明後日 あさって 모레",
    (WEEK, -1): "上周 上週 上个星期 上個星期 上星期 上个礼拜 上礼拜 先週 지난주 지난·주",
    (WEEK, 0): "这周 這週 本周 本週 这个星期 今週 이번주 이번·주",
    (WEEK, 1): "下周 下週 下个星期 下個星期 下星期 来週 다음주 다음·주",
    (MONTH, -1): "上个月 上個月 上月 先月 지난달 지난·달",
    (MONTH, 0): "这个月 這個月 本月 今月 이번달 이번·달",
    (MONTH, 1): "下个月 下個月 来月 다음달 다음·달",
    (YEAR, -2): "前年 一昨年 재작년",
    (YEAR, -1): "去年 昨年 작년",
    (YEAR, 0): "今年 올해",
    (YEAR, 1): "明年 来年 내년",
}
_COUNTED = {
    DAY: "天 日 일",
    WEEK: "周 週 週間 个星期 個星期 주",
    MONTH: "个月 個月 か月 ヶ月 カ月 개월 달",
    YEAR: "年 년",
}
_NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", start=1)} | {"两": 2, "兩": 2}
_WORDS = {word.replace("·", " "): time for time, words in _RELATIVE.items() for word in words.split()}
_UNIT_OF = {word: unit for unit, words in _COUNTED.items() for word in words.split()}
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
