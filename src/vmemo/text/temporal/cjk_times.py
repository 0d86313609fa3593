"""Relative times in Chinese, Japanese and Korean, which dateparser does not find inside a sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from vmemo.models import Interval
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal.calendar_units import FIRST_YEAR, LAST_YEAR

LANGUAGES = frozenset(("zh", "ja", "ko"))
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


def find_cjk_times(text: str, reference: datetime, languages: Collection[str]) -> Iterator[Interval]:
    """Yield the days, weeks, months and years that a text names relative to a reference time, in its order."""
    if text.isascii() or LANGUAGES.isdisjoint(languages):
        return
    for match in _TIMES.finditer(text):
        if match["word"]:
            unit, offset = _WORDS[match["word"]]
        else:
            unit, offset = _UNIT_OF[match["unit"]], -_count(match["count"])
        if FIRST_YEAR < reference.year + (offset if unit == "year" else offset // 12) < LAST_YEAR:
            yield _interval(reference, unit, offset)


def _count(written: str) -> int:
    return int(written) if written.isdecimal() else _NUMERALS[written]


def _interval(reference: datetime, unit: str, offset: int) -> Interval:
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
