"""Times that a question names and the rules cannot resolve, or only in part.

Only times of the calendar are reported: no durations, habits, or times that only an event defines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.temporal import TimeExpression

# Times in other languages than English, which are detected here but not resolved.

_WORDS = [
    # German
    r"vorgestern|gestern|übermorgen|heute",
    r"(?:letzte|vorige|vergangene|nächste|kommende|diese)[nrsm]? (?:woche|monat|jahr|wochenende|nacht|sommer|winter|"
    r"herbst|frühling|frühjahr|quartal|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)",
    r"vor (?:\d+|ein(?:em|er)|zwei|drei|vier|fünf|sechs|sieben|acht|zehn|wenigen|einigen|ein paar) "
    r"(?:tag|woche|monat|jahr)(?:e?n)?",
    r"am (?:(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)|an (?:weihnachten|ostern|pfingsten|silvester)",
    r"(?:im|seit|\d\.) (?:januar|februar|märz|mai|juni|juli|oktober|dezember)",
    # French
    r"avant-hier|aujourd['’]hui|hier (?:soir|matin)",
    r"(?:semaine|mois|année|an|week-end|été|hiver|printemps|automne|nuit|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche)"
    r" (?:derni(?:er|ère)|prochaine?|passée?)",
    r"il y a (?:\d+|une?|deux|trois|quatre|cinq|six|dix|quelques) (?:jours?|semaines?|mois|ans?|années?)",
    r"janvier|février|avril|juin|juillet|août|octobre|décembre|(?:en|depuis|\d) (?:mars|mai|septembre|novembre)",
    # Spanish and Portuguese
    r"anteayer|ayer|anoche|anteontem|ontem|amanhã",
    r"(?:semana|mes|mês|año|ano|verano|verão|invierno|inverno|lunes|martes|miércoles|jueves|viernes|sábado|domingo|"
    r"segunda-feira|sexta-feira|fin de semana|fim de semana) (?:pasad[oa]|passad[oa]|que viene|que vem)",
    r"(?:hace|há) (?:\d+|una?|um|uma|dos|dois|duas|tres|três|cuatro|quatro|unos|unas|alguns|algumas) "
    r"(?:días?|dias?|semanas?|mes(?:es)?|mês|años?|anos?)",
    r"(?:en|em|de) (?:enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|"
    r"janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro)",
    # Italian
    r"l['’]altro ieri|ieri|(?:settimana|mese|anno|estate|inverno) (?:scors[oa]|passat[oa]|prossim[oa])",
    r"(?:\d+|una?|due|tre|quattro|cinque|dieci) (?:giorn[oi]|settiman[ae]|mes[ei]|ann[oi]) fa",
    # Dutch and the languages of Scandinavia
    r"eergisteren|gisteren|(?:vorige|afgelopen|volgende) (?:week|weekend|maand|zomer|winter|nacht)|vorig jaar",
    r"(?:\d+|een|twee|drie|vier|vijf) (?:dag(?:en)?|we(?:ek|ken)|maand(?:en)?|jaar) geleden",
    r"igår|i går|förra (?:veckan|månaden|året)|sidste (?:uge|måned|år)|forrige (?:uke|måned)|i fjor",
    # Polish, Czech, Turkish, Indonesian, Vietnamese
    r"przedwczoraj|wczoraj|w zeszłym (?:tygodniu|miesiącu|roku)|předevčírem|včera",
    r"geçen (?:hafta|ay|yıl|sene)|dün|kemarin|(?:minggu|bulan|tahun) lalu|hôm qua|(?:tuần|tháng) trước|năm ngoái",
    # Russian, Ukrainian, Greek
    r"позавчера|вчера|сегодня|вчора|на прошлой неделе|в прошлом (?:месяце|году)|прошл(?:ым|ой) (?:летом|зимой|осенью)",
    r"(?:день|дня|дней|неделю|недели|недель|месяца?|месяцев|год|года|лет) назад|προχθές|χθες|χτες",
]
_UNSPACED = [
    # Japanese and Chinese, which put no space between words
    "一昨日|昨日|昨夜|今日|今朝|明日|先々週|先週|今週|来週|先月|今月|来月|一昨年|昨年|去年|今年|来年|おととい|きのう",
    r"[\d一二三四五六七八九十数]{1,9}(?:日|週間|[かヶカ]月|年)前|\d{1,9}月\d{1,9}日|\d{4}年",
    "昨天|前天|今天|明天|后天|後天|上上?(?:个|個)?(?:周|週|星期|礼拜|月)|下(?:个|個)?(?:周|週|星期|月)|前年|明年",
    r"[\d一二两兩三四五六七八九十几幾]{1,9}(?:天|周|週|个月|個月|年)(?:以?前|之前)",
    # Korean, Thai, Arabic, Persian, Hebrew, Hindi
    r"어제|그저께|지난 ?(?:주|달|해|여름|겨울)|작년|다음 ?(?:주|달)|\d{1,9}(?:일|주|개월|달|년) ?전",
    "เมื่อวาน|สัปดาห์ที่แล้ว|أمس|البارحة|الأسبوع الماضي|الشهر الماضي|(?:العام|السنة) الماضي[ة]?|دیروز|هفته گذشته",
    "אתמול|שלשום|בשבוע שעבר|בחודש שעבר|בשנה שעברה|पिछले (?:हफ़?्ते|सप्ताह|महीने|साल)|परसों",
]
_FRENCH = r"^(?=.*\b(?:je|j['’]ai|ai-je|qu['’]|que|qui|nous|vous|avons|avez|est-ce|a-t-)).*?\bhier\b"
"""Without other French words, "hier" is German for "here"."""

_FOREIGN_TIME = LazyPattern("|".join([rf"\b(?:{'|'.join(_WORDS)})\b", f"(?:{'|'.join(_UNSPACED)})", _FRENCH]))
"""Matches in lower-case text."""


# English times.

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
_SHORT_MONTH = "(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)"
_DAY_TYPE = "(?:business|working|calendar|school|trading|full|whole|complete|lunar|bank[- ]holiday)"
_YEAR_TYPE = "(?:fiscal|financial|tax|academic|school)"
_ORDINAL = (
    r"(?:\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|hundredth|last)"
)
_MODIFIER = "(?:last|previous|past|this|current|next|coming)"
_FESTIVAL = (
    r"(?:han+uk+ah?|chanukah|diwali|deepavali|passover|yom kippur|rosh hashanah?|purim|sukkot|shavuot|holi|vesak|"
    r"nowruz|songkran|lent|advent(?! of)|ascension(?: day)?|whitsun|corpus christi|epiphany|candlemas|michaelmas|"
    r"martinmas|walpurgis night|mardi gras|fat tuesday|shrove (?:tuesday|monday)|maundy thursday|burns night|"
    r"twelfth night|all (?:saints|souls)'? day|st\.? (?:nicholas|lucia)'?s?'? day|oktoberfest|golden week|obon|tet|"
    r"midsummer(?:'s)?(?: eve| day)?|(?:mid-autumn|dragon boat|spring) festival|"
    r"(?:(?:summer|winter|spring|vernal|autumnal|autumn) )(?:solstice|equinox)|(?:full|new) moon|leap year|semester)"
)
_HOLIDAY = (
    r"(?:christmas(?: eve| day)?|easter(?: sunday| monday)?|thanksgiving|new year(?:'?s)?(?: eve| day)?|halloween|"
    r"valentine'?s(?: day)?|good friday|pentecost|ramadan|eid(?: al-\w+)?|labou?r day|memorial day|boxing day|"
    r"independence day|(?:mother|father)'?s'? day|black friday|(?:chinese|lunar) new year|juneteenth)"
)
_NO_NOUN = (
    r"(?!['’]s)(?=\W*$| ?[?.!,;:)]| (?:and|or|in|at|on|of|to|with|for|by|from|about|did|was|were|is|are|have|had|when|"
    r"where|that|i|we|he|she|they|you|my|last|this|next|\d+)\b)"
)
"""Excludes events such as "the Diwali party"."""
_DATE = (
    rf"(?:(?:{_MONTH}|{_SHORT_MONTH}\.?) (?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?:,? (?:of )?\d{{4}})?|"
    rf"(?:the )?\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH}|{_SHORT_MONTH})(?:,? \d{{4}})?|\d{{4}}-\d\d-\d\d)"
)
_FIXED = (
    rf"(?:{_DATE}|(?:early |late |mid-? ?)?(?:{_MONTH}|the year)?(?:,? (?:of )?)?(?:1[5-9]|20)\d\d|"
    rf"(?:the )?{_MODIFIER} (?:{_UNIT}|{_SEASON}|{_MONTH}|{_WEEKDAY}|{_HOLIDAY}|{_FESTIVAL})|"
    rf"(?:early |late |mid-? ?)?{_MONTH}|"
    rf"(?:the )?{_SEASON}(?: of)? \d{{4}}|(?:the )?(?:{_HOLIDAY}|{_FESTIVAL})(?: (?:eve|{_WEEKDAY}))?"
    rf"(?: (?:of |in )?(?:\d{{4}}|last year|this year))?|(?:the )?(?:ides|kalends|calends|nones) of {_MONTH}|"
    rf"(?:the day (?:before|after) )?(?:yesterday|today|tomorrow)|{_WEEKDAY})"
)
_CALENDAR = rf"(?:the day (?:before|after) )?{_FIXED}{_NO_NOUN}"
_RELATION = r"(?:before|after|following|preceding|prior to|leading up to|running up to)"
_PART = (
    rf"(?:q[1-4]|h[12]|(?:(?:{_ORDINAL}|final) )?(?:quarter|half|month|week|day|semester)|"
    r"(?:the )?(?:start|beginning|middle|end|close))"
)
_FRACTION = (
    r"(?:half[- ]?way|mid-?way|part-?way|(?:three quarters|two thirds|(?:a|one) (?:third|quarter))(?: of the way)?) "
    r"(?:through|into)"
)
_LAST_OF = rf"(?:(?:closing|dying|final|opening|waning) (?:few )?{_UNIT}|tail[- ]end) of"

_DEFINITE = LazyPattern(
    "|".join([
        # Weekdays counted in weeks: "Friday week", "two weeks last Monday".
        rf"\b(?:{_WEEKDAY}|today|tomorrow) (?:week|fortnight)(?=\W*$| ?[?.!,;:])",
        rf"\b{_NUMBER} (?:weeks?|fortnights?) (?:ago )?(?:last|next|from|past|this|come) "
        rf"(?:{_WEEKDAY}|yesterday|today|tomorrow)\b",
        # "three business days ago", "a month and a day ago", "a quarter of a year ago".
        rf"\b(?:{_NUMBER}[ -]?{_UNIT} (?:and|plus) )?{_NUMBER}(?: and (?:a half|three quarters))?[ -]?"
        rf"(?:(?:{_DAY_TYPE}|{_YEAR_TYPE}|leap|good|long) )?(?:{_DAY}|{_SEASON}|semesters|{_FESTIVAL}s?)"
        rf"(?: and a (?:half|bit)| of an? {_UNIT})?(?: or so)? (?:ago|hence|from (?:now|today))\b",
        rf"\b(?:{_DAY}|{_SEASON}|{_MONTH}|{_HOLIDAY}|{_FESTIVAL}) (?:before last|after next){_NO_NOUN}",
        # Fiscal and academic years.
        rf"\b(?:{_PART} of )?(?:the )?{_MODIFIER} {_YEAR_TYPE} (?:year|quarter)\b",
        rf"\b(?:{_PART}(?: of)? )?(?:{_YEAR_TYPE}(?: year)? |fy ?)'?\d{{2,4}}(?:[/-]\d{{2,4}})?\b",
        r"\b(?:[1-4]q|[12]h) ?'?\d{2,4}\b|\b(?:19|20)\d\d-?w\d\d\b|\bc?w\d\d?[ /'-]+(?:19|20)\d\d\b",
        # Points within a period.
        rf"\b(?:{_FRACTION}|{_LAST_OF}|(?:run|lead|build)[- ]?up to) {_CALENDAR}",
        rf"\bturn of the (?:century|millennium)\b|\b(?:ides|kalends|calends|nones) of {_MONTH}\b",
        rf"\b(?:{_ORDINAL}|middle|final) (?:third|trimester|semester) of {_CALENDAR}",
        rf"\b(?:{_ORDINAL}[- ]to[- ](?:the[- ])?last|next[- ]to[- ]last|(?:ante)?penultimate|{_ORDINAL}[- ]last|final) "
        rf"(?:{_DAY_TYPE} )?{_DAY} (?:of|in|before|after) {_CALENDAR}",
        rf"\b(?:{_ORDINAL} {_DAY_TYPE} {_DAY}|(?:long|bank[- ]holiday) weekend|\d+(?:st|nd|rd|th) day) "
        rf"(?:of|in|before|after|around) {_CALENDAR}",
        # Before or after a calendar day.
        rf"(?:(?<=\bthe )|\b{_ORDINAL} )(?:{_DAY_TYPE} )?{_DAY} {_RELATION} {_CALENDAR}",
        rf"\b{_NUMBER}(?: and a half)? (?:{_DAY_TYPE} )?{_UNIT}(?: and a half)? {_RELATION} {_CALENDAR}",
        rf"\b{_MODIFIER} {_NUMBER} (?:{_DAY_TYPE} {_UNIT}|weekends|nights|mornings|evenings|{_WEEKDAY}|{_SEASON})\b"
        r"(?! of\b)",
        rf"\blast (?:{_UNIT}|{_MONTH}|{_SEASON}),? (?:at |around |about |by )?(?:this|the same|that) time\b(?! as\b)",
        r"\b(?:ereyesterday|overmorrow|yestereve|yestereven|yesternight|yestermorn)\b",
        rf"\b(?:(?:since|until|over|during|on|at|in|around|before|after|by|of|for) )?(?:the )?"
        rf"{_MODIFIER} {_FESTIVAL}{_NO_NOUN}",
        rf"\b{_FESTIVAL} (?:of |in )?(?:(?:19|20)\d\d|last year|this year|next year)\b",
    ])
)  # fmt: skip
_POSSIBLY_HABITUAL = LazyPattern(
    "|".join([
        rf"\b(?:over|during|on|at|since|until|till|before|after|around|by|of|for) (?:the )?"
        rf"(?!lent\b|semester|leap year|full moon|new moon){_FESTIVAL}{_NO_NOUN}",
        rf"\b(?:in|during|since|before|after|of|for) lent{_NO_NOUN}",
        rf"\b(?:{_FRACTION}|{_LAST_OF}) (?:the (?:year|month|week|decade|century|quarter|spring)|"
        rf"(?:the )?(?:summer|winter|autumn)){_NO_NOUN}",
        rf"\b(?:{_ORDINAL}|final) (?:business|working|trading) day of the (?:year|month|week|quarter){_NO_NOUN}",
        rf"\b{_PART} of the {_YEAR_TYPE} year\b|\bturn of the (?:year|month)\b",
    ])
)  # fmt: skip
"""Habits if the question is about the present: "What do I cook for Diwali?"."""
_PRESENT = LazyPattern(r"^(?!.*\b(?:did|didn't|was|were|had)\b).*\b(?:do|does|don't|doesn't|should|can)\b")
_HABIT = LazyPattern(
    r"\b(?:usual(?:ly)?|typical(?:ly)?|normal(?:ly)?|always|every|each|how often|(?:once|twice|times) an?|"
    r"tradition\w*)\b"
)
_ASKED_DATE = LazyPattern(
    r"\b(?:when|(?:what|which|on (?:what|which)) (?:exact )?(?:day|date|weekday|month|year|week))(?: exactly)?"
    r"(?:'s| is| was| are| were| will| does| did)(?: be)?(?: the| my| our)?\W{0,20}$"
)
"""The beginning of a question for the date itself."""
_ASKED_DATE_CHARS = 80
"""Maximum length of such a beginning."""


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
        for pattern in (_DEFINITE,) if _PRESENT.search(text) else (_DEFINITE, _POSSIBLY_HABITUAL):
            for match in pattern.finditer(text):
                if not _ASKED_DATE.search(text, max(0, match.start() - _ASKED_DATE_CHARS), match.start()):
                    yield match.start(), match.end(), False
    for match in _FOREIGN_TIME.finditer(text):
        yield match.start(), match.end(), True
