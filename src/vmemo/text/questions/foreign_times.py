"""Time expressions in other languages than English, which are detected here but not resolved."""

from __future__ import annotations

from vmemo.text.lazy_regex import LazyPattern

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

FOREIGN_TIME = LazyPattern("|".join([rf"\b(?:{'|'.join(_WORDS)})\b", f"(?:{'|'.join(_UNSPACED)})", _FRENCH]))
"""Matches in lower-case text."""
