"""Vocabulary of the grammar: words by family, and the tag of each family.

Rule patterns name families in capitals, and words that are their own family in lower case.
"""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ("day", "week", "fortnight", "month", "quarter", "year", "decade", "century", "weekend")
_MONTHS = "january february march april may june july august september october november december".split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_ONES = "one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth".split()
_ORDINAL_TEENS = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth".split()
)
_DECADES = "twenties thirties forties fifties sixties seventies eighties nineties".split()

_MONTHS_THAT_ARE_VERBS = ("may", "march")
_MONTHS_THAT_ARE_NAMES = ("april", "june", "august")


def _numbered(words: Sequence[str], first: int, step: int = 1) -> dict[str, int]:
    return {word: first + step * index for index, word in enumerate(words)}


_MONTH_NUMBER = _numbered(_MONTHS, 1)
_SHORT_MONTHS = {word[:3]: number for word, number in _MONTH_NUMBER.items() if word != "may"} | {"sept": 9}
_SHORT_DAYS = {word[:3]: number for word, number in _numbered(_WEEKDAYS, 0).items()}

FAMILIES: dict[str, dict[str, int]] = {
    # Months, seasons and weekdays. Those in families of their own are ordinary words or names too.
    "MFULL": {
        word: number
        for word, number in _MONTH_NUMBER.items()
        if word not in _MONTHS_THAT_ARE_VERBS and word not in _MONTHS_THAT_ARE_NAMES
    },
    "MNAME": {word: _MONTH_NUMBER[word] for word in _MONTHS_THAT_ARE_NAMES},
    "MVERB": {word: _MONTH_NUMBER[word] for word in _MONTHS_THAT_ARE_VERBS},
    "MABBR": _SHORT_MONTHS,
    "WFULL": _numbered(_WEEKDAYS, 0),
    "WABBR": _SHORT_DAYS | {"tues": 1, "weds": 2, "thur": 3, "thurs": 3},
    "WPLURAL": {word + "s": number for word, number in _numbered(_WEEKDAYS, 0).items()},
    "SEASON": {"summer": 6, "autumn": 9, "winter": 12},
    "SEASONX": {"spring": 3, "fall": 9},
    # Number words.
    "ONES": _numbered(_ONES, 1),
    "TEEN": _numbered(_TEENS, 10),
    "TENS": _numbered(_TENS, 20, 10),
    "ORDONE": _numbered(_ORDINALS, 1),
    "ORDTEEN": _numbered(_ORDINAL_TEENS, 10) | {"twentieth": 20, "thirtieth": 30},
    "DECADEWORD": _numbered(_DECADES, 20, 10),
    # Words that refer to the reference date, with their distance from it.
    "RELDAY": {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "tmrw": 1, "tmr": 1, "tomorow": 1},
    # Determiners, quantities, and modifiers with the direction that they point in.
    "A": {"a": 1, "an": 1},
    "POSS": {"my": 0, "our": 0, "your": 0, "his": 0, "their": 0},
    "her": {"her": 0},
    "SEASONS": {"springs": 3, "summers": 6, "autumns": 9, "falls": 9, "winters": 12},
    "HOUR": {"hour": 60, "hours": 60, "hr": 60, "hrs": 60, "minute": 1, "minutes": 1, "min": 1, "mins": 1},
    "few": {"few": 3},
    "several": {"several": 4},
    "last": {"last": -1},
    "previous": {"previous": -1, "prior": -1, "preceding": -1},
    "past": {"past": -1},
    "this": {"this": 0, "current": 0},
    "next": {"next": 1},
    "coming": {"coming": 1, "upcoming": 1},
    "following": {"following": 1},
    # Parts of a period, as indexes of PERIOD_PARTS.
    "EARLY": {"early": 0},
    "MID": {"mid": 1},
    "LATE": {"late": 2},
    "beginning": {"beginning": 0},
    "start": {"start": 0},
    "middle": {"middle": 1},
    "end": {"end": 2},
    # Times of day, and words of holiday names with their spellings.
    "habit": {"mornings": 0, "afternoons": 0, "evenings": 0, "nights": 0},
    "daytime": {"morning": 0, "afternoon": 0, "evening": 0},
    "calendar": {"calendar": 0, "fiscal": 0, "financial": 0},
    "every": {"every": 0, "each": 0},
    "starting": {"starting": 0, "commencing": 0, "effective": 0},
    "workers": {"workers": 0, "worker": 0},
    "mothers": {"mother": 0, "mothers": 0},
    "fathers": {"father": 0, "fathers": 0},
    "veterans": {"veteran": 0, "veterans": 0},
    "presidents": {"president": 0, "presidents": 0},
    "women": {"women": 0, "womens": 0},
    "saint": {"saint": 0, "st": 0},
    "valentine": {"valentine": 0, "valentines": 0},
    "fools": {"fools": 0, "fool": 0},
    "christmas": {"christmas": 0, "xmas": 0, "christmases": 0},
    "labor": {"labor": 0, "labour": 0},
    "halloween": {"halloween": 0},
    "patrick": {"patrick": 0, "patricks": 0, "paddy": 0},
} | {
    unit: {unit: index, unit + "s": index} | extra
    for index, (unit, extra) in enumerate(
        zip(
            UNITS,
            ({}, {"wk": 1, "wks": 1}, {}, {"mos": 3}, {}, {"yr": 5, "yrs": 5}, {}, {"centuries": 7}, {}),
            strict=True,
        )
    )
}

PLAIN_WORDS = """
the of in on at by to for from and or but with is was are be will if as than then
before after since until till til through thru between during within over around up
ago back now hence time date earlier later onward onwards forward greater more less no not
business working s q h rest cy fy w c oh half couple hundred thousand night other
new eve black cyber good easter thanksgiving martin luther king jr mlk columbus memorial independence
boxing groundhog earth juneteenth cinco de mayo flag inauguration international guy fawkes bonfire
eid al fitr ul adha ramadan islamic chinese lunar canada bastille anzac australia ash palm pentecost
singles we i they it that very these sooner beyond am m re so far same
""".split()

SYMBOLS = ("DASH", "HYPHEN", "SLASH", "DOT", "TILDE", "COMMA", "STOP", "APOSTROPHE", "LESS", "MORE", "EQUALS")
DIGIT_FAMILIES = ("D12", "D31", "D99", "Y4", "BIG", "DATE8", "ORDNUM", "DECADENUM")
"""Numbers in digits: a month, another day of a month, other two digits, a year, a bigger one, 20230507, 3rd, 1990s."""
MERGED_FAMILIES = ("NUMBER", "ORDINAL", "YEARWORD", "FEWER", "LENGTH", "WORD")
"""Numbers made of several words, lengths of time such as "two weeks", and WORD for words the grammar does not know."""
RANGE_FAMILIES = ("DAYF", "DAYX", "WEEKDAY", "OFFSET", "WEEKF", "WEEKX", "SPANF", "SPANX", "YEAR")
"""Tokens that are resolved to a range: F floats because the text names no year, X is fixed."""

UNIONS: dict[str, tuple[str, ...]] = {
    "MONTH": ("MFULL", "MNAME", "MVERB", "MABBR"),
    "WDAY": ("WFULL", "WABBR"),
    "ORD": ("ORDNUM", "ORDONE", "ORDTEEN", "ORDINAL"),
    "DD": ("D12", "D31"),
    "YY": ("D12", "D31", "D99"),
    "DAYNUM": ("D12", "D31", "ONES", "TEEN", "TENS", "NUMBER"),
    "COUNT": ("D12", "D31", "D99", "BIG", "Y4", "ONES", "TEEN", "TENS", "NUMBER"),
    "NUMERAL": ("D12", "D31", "D99", "BIG", "Y4", "DATE8"),
    "SOME": ("FEWER", "several"),
    "FULLYEAR": ("Y4", "YEARWORD"),
    "SEP": ("DASH", "SLASH", "DOT"),
    "UNIT": ("day", "week", "fortnight", "month", "quarter", "year", "decade", "century"),
    "MOD": ("last", "previous", "past", "this", "next", "following", "coming"),
    "PART": ("EARLY", "MID", "LATE"),
    "PARTOF": ("EARLY", "MID", "LATE", "beginning", "start", "middle", "end"),
    "TO": ("to", "through", "thru", "until", "till", "til", "DASH", "HYPHEN", "TILDE"),
    "DAY": ("DAYF", "DAYX", "WEEKDAY", "OFFSET"),
    "WEEK": ("WEEKF", "WEEKX"),
    "SPAN": ("SPANF", "SPANX", "YEAR", "WEEKF", "WEEKX"),
    "FLOATING": ("DAYF", "SPANF", "WEEKF"),
    "ANY": RANGE_FAMILIES,
}


def _tags() -> dict[str, str]:
    names = [*FAMILIES, *PLAIN_WORDS, *SYMBOLS, *DIGIT_FAMILIES, *MERGED_FAMILIES, *RANGE_FAMILIES]
    return {name: chr(0xE000 + index) for index, name in enumerate(dict.fromkeys(names))}


TAGS = _tags()
"""One private-use character per family, so that the tags of a text are a string that `re` can search."""
LEXICON: dict[str, tuple[str, int]] = {
    **{word: (TAGS[word], 0) for word in PLAIN_WORDS},
    **{word: (TAGS[name], value) for name, words in FAMILIES.items() for word, value in words.items()},
}
"""Tag and number of each known word."""
