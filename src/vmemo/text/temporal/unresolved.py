"""Times that a question names and the rules cannot resolve, or only in part.

Only times of the calendar are reported: no durations, habits, or times that only an event defines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal import TimeExpression

_COUNT = (
    r"(?:\d+(?:[.,]\d+)?[¼½¾]?|half a dozen|(?:a|two|three) dozen|a (?:score|handful|couple|quarter) of|several|few|an?"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty)"
)
_UNIT = (
    r"(?:(?:day|night|weekend|week|fortnight|month|quarter|semester|year|decade|spring|summer|autumn|fall|winter)s?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|centur(?:y|ies))"
)
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_FESTIVAL = (
    r"(?:han+uk+ah?|diwali|passover|yom kippur|rosh hashanah?|purim|holi|nowruz|ramadan|eid(?: al[- ]\w+)?|lent"
    r"|mardi gras|shrove tuesday|oktoberfest|(?:full|new) moon|leap year)"
)
_TIME = LazyPattern(
    rf"\b{_COUNT}[ -]?(?:[a-z]+ )?{_UNIT}(?: of an? {_UNIT})? (?:ago|hence|from (?:now|today))\b"
    rf"|\b(?:final|penultimate|second to last|(?:first|last) (?:working|business)) {_UNIT} of "
    rf"(?:{_MONTH}|(?:19|20)\d\d)\b"
    rf"|\b(?:last|previous|past|this|next|coming) (?:{_FESTIVAL}\b(?! [a-z]*party\b)|{_COUNT} weekends)"
)
"""Calendar times that the rules miss: "a dozen days ago", "the final week of May", "last Diwali"."""
_PAST_FESTIVAL = LazyPattern(
    rf"\b(?:over|during|on|at|since|until|before|after|around|by) (?:the )?{_FESTIVAL}\b(?! [a-z]*party\b)"
)
"""A habit if the question is about the present: "What do I cook for Diwali?"."""
_PRESENT = LazyPattern(r"^(?!.*\b(?:did|didn't|was|were|had)\b).*\b(?:do|does|don't|doesn't|should|can)\b")
_HABIT = LazyPattern(
    r"\b(?:usual(?:ly)?|typical(?:ly)?|normal(?:ly)?|always|every|each|how often|(?:once|twice|times) an?)\b"
)
_ASKED_DATE = LazyPattern(
    r"\b(?:when|(?:what|which|on (?:what|which)) (?:exact )?(?:day|date|weekday|month|year|week))(?: exactly)?"
    r"(?:'s| is| was| are| were| will| does| did)(?: be)?(?: the| my| our)?\W{0,20}$"
)
"""The beginning of a question for the date itself."""
_ASKED_DATE_CHARS = 80
"""Maximum length of such a beginning."""
_FOREIGN = LazyPattern(
    "|".join([
        r"\b(?:vorgestern|gestern|heute|letzte[nrsm]? (?:woche|monat|jahr|wochenende))\b",
        r"\bvor \w+ (?:tag|woche|monat|jahr)e?n?\b",
        r"\b(?:avant-hier|aujourd['’]hui|(?:semaine|mois|année|an) derni(?:er|ère))\b",
        r"\bil y a \w+ (?:jours?|semaines?|mois|ans?)\b",
        r"\b(?:anteayer|ayer|anoche|(?:semana|mes|año) pasad[oa]|hace \w+ (?:días?|semanas?|meses|años?))\b",
        r"\b(?:anteontem|ontem|(?:semana|mês|ano) passad[oa]|há \w+ (?:dias?|semanas?|meses|anos?))\b",
        r"\b(?:ieri|(?:settimana|mese|anno) scors[oa]|\w+ (?:giorn[oi]|settiman[ae]|mes[ei]|ann[oi]) fa)\b",
        r"\b(?:eergisteren|gisteren|vorige (?:week|maand)|vorig jaar|igår|i går|wczoraj|včera|dün|kemarin|hôm qua)\b",
        r"\b(?:позавчера|вчера|на прошлой неделе|в прошлом (?:месяце|году)|вчора|χθες)\b",
        "昨日|先週|先月|昨年|去年|昨天|前天|上(?:个|個)?(?:周|週|星期|月)|어제|지난 ?(?:주|달|해)|작년",
        "أمس|الأسبوع الماضي|אתמול",
    ])
)  # fmt: skip
"""Common times in other languages than English, which are detected here but not resolved. In lower case."""


class UnresolvedTime(NamedTuple):
    """Words of a question that name a time."""

    start: int
    text: str
    foreign: bool
    """The words are not English."""

    @property
    def end(self) -> int:
        """The end offset."""
        return self.start + len(self.text)


def find_unresolved_times(text: str, times: Sequence[TimeExpression]) -> Iterator[UnresolvedTime]:
    """Yield the times that a text names and that none of the resolved times covers."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # A few letters are longer in lower case, which would shift the offsets.
        lowered = text
    starts = [time.start for time in times]
    for start, end, foreign in _candidates(lowered):
        # Times do not overlap, so only the last one that starts before can cover this one.
        place = bisect_right(starts, start) - 1
        if place < 0 or times[place].end < end:
            yield UnresolvedTime(start, text[start:end], foreign)


def _candidates(text: str) -> Iterator[tuple[int, int, bool]]:
    if not _HABIT.search(text):
        for pattern in (_TIME,) if _PRESENT.search(text) else (_TIME, _PAST_FESTIVAL):
            for match in pattern.finditer(text):
                if not _ASKED_DATE.search(text, max(0, match.start() - _ASKED_DATE_CHARS), match.start()):
                    yield match.start(), match.end(), False
    for match in _FOREIGN.finditer(text):
        yield match.start(), match.end(), True
