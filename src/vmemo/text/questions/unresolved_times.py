"""Times that a question clearly names and the rules can't resolve, or only in part. English; see also foreign.py.

Only times that a calendar tells are looked for. Durations, habits and times named by an event alone are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.questions.foreign_times import FOREIGN_TIME
from vmemo.text.temporal import TimeExpression

_ONES = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|hundred"
_NUMBER = (
    rf"(?:\d+(?:[.,]\d+)?(?:-odd)?[¼½¾]?|[¼½¾]|half a dozen|(?:a|two|three) dozen|a (?:score|handful) of|"
    rf"(?:a )?couple(?: of)?|(?:a )?few|several|{_ONES}|an?)"
)
_UNIT = "(?:hours?|days?|nights?|weekends?|weeks?|fortnights?|months?|quarters?|years?|decades?|century|centuries)"
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_DAY = rf"(?:{_UNIT}|{_WEEKDAY}|mornings?|evenings?)"
_SEASON = "(?:springs?|summers?|autumns?|falls?|winters?)"
_MONTH = "(?:january|february|march|april|may|june|july|august|september|october|november|december)"
_SHORT = "(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_SPECIAL = "(?:business|working|calendar|school|trading|full|whole|complete|lunar|bank[- ]holiday)"
_YEARLY = "(?:fiscal|financial|tax|academic|school)"
_ORDINAL = (
    r"(?:\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|hundredth|last)"
)
_MOVED = "(?:last|previous|past|this|current|next|coming)"
_FEAST = (
    r"(?:han+uk+ah?|chanukah|diwali|deepavali|passover|yom kippur|rosh hashanah?|purim|sukkot|shavuot|holi|vesak|"
    r"nowruz|songkran|lent|advent(?! of)|ascension(?: day)?|whitsun|corpus christi|epiphany|candlemas|michaelmas|"
    r"martinmas|walpurgis night|mardi gras|fat tuesday|shrove (?:tuesday|monday)|maundy thursday|burns night|"
    r"twelfth night|all (?:saints|souls)'? day|st\.? (?:nicholas|lucia)'?s?'? day|oktoberfest|golden week|obon|tet|"
    r"midsummer(?:'s)?(?: eve| day)?|(?:mid-autumn|dragon boat|spring) festival|"
    r"(?:(?:summer|winter|spring|vernal|autumnal|autumn) )(?:solstice|equinox)|(?:full|new) moon|leap year|semester)"
)
_KNOWN = (
    r"(?:christmas(?: eve| day)?|easter(?: sunday| monday)?|thanksgiving|new year(?:'?s)?(?: eve| day)?|halloween|"
    r"valentine'?s(?: day)?|good friday|pentecost|ramadan|eid(?: al-\w+)?|labou?r day|memorial day|boxing day|"
    r"independence day|(?:mother|father)'?s'? day|black friday|(?:chinese|lunar) new year|juneteenth)"
)
_END = (
    r"(?!['’]s)(?=\W*$| ?[?.!,;:)]| (?:and|or|in|at|on|of|to|with|for|by|from|about|did|was|were|is|are|have|had|when|"
    r"where|that|i|we|he|she|they|you|my|last|this|next|\d+)\b)"
)
"""After a time comes no noun: "the Diwali party" is an event."""
_DATE = (
    rf"(?:(?:{_MONTH}|{_SHORT}\.?) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?:,? (?:of )?\d{{4}})?|"
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}|{_SHORT})(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d)"
)
_FIXED = (
    rf"(?:{_DATE}|(?:early |late |mid-? ?)?(?:{_MONTH}|the year)?(?:,? (?:of )?)?(?:1[5-9]|20)\d\d|"
    rf"(?:the )?{_MOVED} (?:{_UNIT}|{_SEASON}|{_MONTH}|{_WEEKDAY}|{_KNOWN}|{_FEAST})|(?:early |late |mid-? ?)?{_MONTH}|"
    rf"(?:the )?{_SEASON}(?: of)? \d{{4}}|(?:the )?(?:{_KNOWN}|{_FEAST})(?: (?:eve|{_WEEKDAY}))?"
    rf"(?: (?:of |in )?(?:\d{{4}}|last year|this year))?|(?:the )?(?:ides|kalends|calends|nones) of {_MONTH}|"
    rf"(?:the day (?:before|after) )?(?:yesterday|today|tomorrow)|{_WEEKDAY})"
)
_CALENDAR = rf"(?:the day (?:before|after) )?{_FIXED}{_END}"
_BESIDE = r"(?:before|after|following|preceding|prior to|leading up to|running up to)"
_PART = (
    rf"(?:q[1-4]|h[12]|(?:(?:{_ORDINAL}|final) )?(?:quarter|half|month|week|day|semester)|"
    r"(?:the )?(?:start|beginning|middle|end|close))"
)
_WAY = (
    r"(?:half[- ]?way|mid-?way|part-?way|(?:three quarters|two thirds|(?:a|one) (?:third|quarter))(?: of the way)?) "
    r"(?:through|into)"
)
_EDGE = rf"(?:(?:closing|dying|final|opening|waning) (?:few )?{_UNIT}|tail[- ]end) of"

_DEFINITE = LazyPattern(
    "|".join([
        # Weekdays counted in weeks, which begin like plain distances and go on.
        rf"\b(?:{_WEEKDAY}|today|tomorrow) (?:week|fortnight)(?=\W*$| ?[?.!,;:])",
        rf"\b{_NUMBER} (?:weeks?|fortnights?) (?:ago )?(?:last|next|from|past|this|come) "
        rf"(?:{_WEEKDAY}|yesterday|today|tomorrow)\b",
        # Three business days ago, a month and a day ago, a quarter of a year ago.
        rf"\b(?:{_NUMBER}[ -]?{_UNIT} (?:and|plus) )?{_NUMBER}(?: and (?:a half|three quarters))?[ -]?"
        rf"(?:(?:{_SPECIAL}|{_YEARLY}|leap|good|long) )?(?:{_DAY}|{_SEASON}|semesters|{_FEAST}s?)"
        rf"(?: and a (?:half|bit)| of an? {_UNIT})?(?: or so)? (?:ago|hence|from (?:now|today))\b",
        rf"\b(?:{_DAY}|{_SEASON}|{_MONTH}|{_KNOWN}|{_FEAST}) (?:before last|after next){_END}",
        # Years that begin elsewhere.
        rf"\b(?:{_PART} of )?(?:the )?{_MOVED} {_YEARLY} (?:year|quarter)\b",
        rf"\b(?:{_PART}(?: of)? )?(?:{_YEARLY}(?: year)? |fy ?)'?\d{{2,4}}(?:[/-]\d{{2,4}})?\b",
        r"\b(?:[1-4]q|[12]h) ?'?\d{2,4}\b|\b(?:19|20)\d\d-?w\d\d\b|\bc?w\d\d?[ /'-]+(?:19|20)\d\d\b",
        # Places inside a stretch.
        rf"\b(?:{_WAY}|{_EDGE}|(?:run|lead|build)[- ]?up to) {_CALENDAR}",
        rf"\bturn of the (?:century|millennium)\b|\b(?:ides|kalends|calends|nones) of {_MONTH}\b",
        rf"\b(?:{_ORDINAL}|middle|final) (?:third|trimester|semester) of {_CALENDAR}",
        rf"\b(?:{_ORDINAL}[- ]to[- ](?:the[- ])?last|next[- ]to[- ]last|(?:ante)?penultimate|{_ORDINAL}[- ]last|final) "
        rf"(?:{_SPECIAL} )?{_DAY} (?:of|in|before|after) {_CALENDAR}",
        rf"\b(?:{_ORDINAL} {_SPECIAL} {_DAY}|(?:long|bank[- ]holiday) weekend|\d+(?:st|nd|rd|th) day) "
        rf"(?:of|in|before|after|around) {_CALENDAR}",
        # Beside a day of the calendar.
        rf"(?:(?<=\bthe )|\b{_ORDINAL} )(?:{_SPECIAL} )?{_DAY} {_BESIDE} {_CALENDAR}",
        rf"\b{_NUMBER}(?: and a half)? (?:{_SPECIAL} )?{_UNIT}(?: and a half)? {_BESIDE} {_CALENDAR}",
        rf"\b{_MOVED} {_NUMBER} (?:{_SPECIAL} {_UNIT}|weekends|nights|mornings|evenings|{_WEEKDAY}|{_SEASON})\b"
        r"(?! of\b)",
        rf"\blast (?:{_UNIT}|{_MONTH}|{_SEASON}),? (?:at |around |about |by )?(?:this|the same|that) time\b(?! as\b)",
        r"\b(?:ereyesterday|overmorrow|yestereve|yestereven|yesternight|yestermorn)\b",
        rf"\b(?:(?:since|until|over|during|on|at|in|around|before|after|by|of|for) )?(?:the )?{_MOVED} {_FEAST}{_END}",
        rf"\b{_FEAST} (?:of |in )?(?:(?:19|20)\d\d|last year|this year|next year)\b",
    ])
)  # fmt: skip
_LOOSE = LazyPattern(
    "|".join([
        rf"\b(?:over|during|on|at|since|until|till|before|after|around|by|of|for) (?:the )?"
        rf"(?!lent\b|semester|leap year|full moon|new moon){_FEAST}{_END}",
        rf"\b(?:in|during|since|before|after|of|for) lent{_END}",
        rf"\b(?:{_WAY}|{_EDGE}) (?:the (?:year|month|week|decade|century|quarter|spring)|"
        rf"(?:the )?(?:summer|winter|autumn)){_END}",
        rf"\b(?:{_ORDINAL}|final) (?:business|working|trading) day of the (?:year|month|week|quarter){_END}",
        rf"\b{_PART} of the {_YEARLY} year\b|\bturn of the (?:year|month)\b",
    ])
)  # fmt: skip
"""Times that are habits where the question is about the present: "What do I cook for Diwali?"."""
_PRESENT = LazyPattern(r"^(?!.*\b(?:did|didn't|was|were|had)\b).*\b(?:do|does|don't|doesn't|should|can)\b")
_HABIT = LazyPattern(
    r"\b(?:usual(?:ly)?|typical(?:ly)?|normal(?:ly)?|always|every|each|how often|(?:once|twice|times) an?|"
    r"tradition\w*)\b"
)
_ASKED_FOR = LazyPattern(
    r"\b(?:when|(?:what|which|on (?:what|which)) (?:exact )?(?:day|date|weekday|month|year|week))(?: exactly)?"
    r"(?:'s| is| was| are| were| will| does| did)(?: be)?(?: the| my| our)?\W*$"
)
"""What stands before a time whose date is the question itself."""


class UnresolvedTime(NamedTuple):
    """Words of a question that name a time; `foreign` where they are not English."""

    start: int
    text: str
    foreign: bool

    @property
    def end(self) -> int:
        """Where the words end."""
        return self.start + len(self.text)


def find_unresolved_times(text: str, times: Sequence[TimeExpression]) -> Iterator[UnresolvedTime]:
    """Times that a text names and that none of those which the rules found covers."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # A few letters grow when they are made small, and places would shift.
        lowered = text
    for start, end, foreign in _named(lowered):
        if not any(time.start <= start and end <= time.end for time in times):
            yield UnresolvedTime(start, text[start:end], foreign)


def _named(text: str) -> Iterator[tuple[int, int, bool]]:
    if not _HABIT.search(text):
        for pattern in (_DEFINITE,) if _PRESENT.search(text) else (_DEFINITE, _LOOSE):
            for match in pattern.finditer(text):
                if not _ASKED_FOR.search(text[: match.start()]):
                    yield match.start(), match.end(), False
    for match in FOREIGN_TIME.finditer(text):
        yield match.start(), match.end(), True
