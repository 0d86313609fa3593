"""Vocabulary and tokenizer of the grammar.

Rule patterns name families of words in capitals, and words that are their own family in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from vmemo.text.temporal.calendar_days import UNITS, CalendarLength, DayRange

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
    "end": {"end": 3},
    # Times of day, and words of holiday names with their spellings.
    "habit": {"mornings": 0, "afternoons": 0, "evenings": 0, "nights": 0},
    "daytime": {"morning": 0, "afternoon": 0, "evening": 0},
    "calendar": {"calendar": 0, "fiscal": 0, "financial": 0},
    "every": {"every": 0, "each": 0},
    "starting": {"starting": 0, "commencing": 0, "effective": 0},
    "workers": {"workers": 0, "worker": 0},
    "mothers": {"mother": 0, "mothers": 0},
    "fathers": {"father": 0, "fathers": 0},
    "saint": {"saint": 0, "st": 0},
    "valentine": {"valentine": 0, "valentines": 0},
    "christmas": {"christmas": 0, "xmas": 0, "christmases": 0},
    "labor": {"labor": 0, "labour": 0},
    "halloween": {"halloween": 0},
    "patrick": {"patrick": 0, "patricks": 0, "paddy": 0},
} | {
    unit: {unit: index, unit + "s": index} | extra
    for index, (unit, extra) in enumerate(
        zip(
            UNITS,
            ({}, {"wk": 1, "wks": 1}, {}, {"mos": 3}, {}, {"yr": 5, "yrs": 5}, {}, {}),
            strict=True,
        )
    )
}

PLAIN_WORDS = """
the of in on at by to for from and or but with is was are be will if as than then before after since until
till til through thru between during within over around up ago back now hence time earlier later onward
onwards forward more less no not q rest half couple hundred night new eve black good easter thanksgiving
other memorial independence boxing canada pentecost we i they it that very these sooner beyond am m re so s w c
greater earth international business working thousand century far
""".split()

SYMBOLS = ("DASH", "HYPHEN", "SLASH", "DOT", "TILDE", "COMMA", "STOP", "APOSTROPHE")
DIGIT_FAMILIES = ("D12", "D31", "D99", "Y4", "BIG", "ORDNUM", "DECADENUM")
"""Numbers in digits: a month, another day of a month, other two digits, a year, a bigger one, 3rd, 1990s."""
MERGED_FAMILIES = ("NUMBER", "ORDINAL", "FEWER", "LENGTH", "WORD")
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
    "NUMERAL": ("D12", "D31", "D99", "BIG", "Y4"),
    "SOME": ("FEWER", "several"),
    "SEP": ("DASH", "SLASH", "DOT"),
    "UNIT": ("day", "week", "fortnight", "month", "quarter", "year", "decade"),
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


# Tokens: a text cut into lexemes, each with the tag of its family.

_LEXEME = re.compile(
    r"[^\W\d_]+(?:['’]s?(?!\w))?|[^\S\n]+"
    r"|\d{1,3}(?:,\d{3}){1,9}(?!\d)|\d+(?:(?:st|nd|rd|th)\b|['’]?s\b)?|.",
    re.DOTALL,
)
"""Every character belongs to one lexeme, so that the lengths of lexemes give their offsets."""
_SYMBOL_FAMILY = {"~": "TILDE", ",": "COMMA", "'": "APOSTROPHE", "’": "APOSTROPHE"} | dict.fromkeys(
    '!?;()[]":\n*|•', "STOP"
)
_JOINER_FAMILY = {
    "-": ("DASH", "HYPHEN"),
    "–": ("DASH", "HYPHEN"),
    "—": ("HYPHEN", "HYPHEN"),
    "/": ("SLASH", "WORD"),
    ".": ("DOT", "STOP"),
}
"""Family of a symbol between two letters or digits, and of the same symbol elsewhere."""
_SYMBOL_TAG = {symbol: TAGS[name] for symbol, name in _SYMBOL_FAMILY.items()}
_JOINER_TAG = {symbol: (TAGS[joined], TAGS[loose]) for symbol, (joined, loose) in _JOINER_FAMILY.items()}
_WORD = TAGS["WORD"]
_MAY_TOUCH_NUMBERS = frozenset(TAGS[name] for name in (*UNIONS["MONTH"], *UNIONS["UNIT"], "q", "APOSTROPHE", "s"))
_MONEY = "$€£#"


class Token(NamedTuple):
    """A lexeme or several merged ones, with the tag of their family, their number and offsets."""

    tag: str
    value: int
    start: int
    end: int
    days: DayRange | None = None
    """The range that a rule resolved it to."""
    length: CalendarLength | None = None
    """The length of time that a rule merged it to."""


def tokenize(lowered: str) -> list[Token]:
    """Return the tokens of a lower-case text; a run of unknown words is one token."""
    lexemes = _LEXEME.findall(lowered)
    starts = accumulate(map(len, lexemes), initial=0)
    tokens: list[Token] = []
    in_unknown_run = False
    for lexeme, known, start in zip(lexemes, map(LEXICON.get, lexemes), starts, strict=False):
        if known is None:
            if lexeme == " " or lexeme.isspace():
                continue
            known = None if lexeme.isalpha() else _tagged(lowered, lexeme, start)
            if known is None:
                if not in_unknown_run:
                    tokens.append(Token(_WORD, 0, start, start + len(lexeme)))
                in_unknown_run = True
                continue
        tokens.append(Token(known[0], known[1], start, start + len(lexeme)))
        in_unknown_run = False
    return tokens


def _tagged(text: str, lexeme: str, start: int) -> tuple[str, int] | None:
    if lexeme[0].isdecimal():
        return None if _is_no_date_number(text, start, start + len(lexeme)) else _digit_tag(lexeme)
    if lexeme[0].isalpha():
        return LEXICON.get(lexeme.rstrip("s").rstrip("'’"))
    return _symbol_tag(text, lexeme, start, start + len(lexeme))


def _symbol_tag(text: str, symbol: str, start: int, end: int) -> tuple[str, int] | None:
    if symbol in _JOINER_TAG:
        joined = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
        return _JOINER_TAG[symbol][0 if joined else 1], 0
    tag = _SYMBOL_TAG.get(symbol)
    return (tag, 0) if tag else None


def _is_no_date_number(text: str, start: int, end: int) -> bool:
    """Return True for money, clock times, percentages, and numbers in a code such as A1B2."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if (before and before in _MONEY) or after == "%":
        return True
    if before == ":" and text[start - 2 : start - 1].isdigit():
        return True
    if after == ":" and text[end + 1 : end + 2].isdigit():
        return True
    return _touches_word(text, start, before, end, after)


def _touches_word(text: str, start: int, before: str, end: int, after: str) -> bool:
    if before.isalpha():
        first = start
        while first > 0 and text[first - 1].isalpha():
            first -= 1
        return LEXICON.get(text[first:start], ("", 0))[0] not in _MAY_TOUCH_NUMBERS
    if after.isalpha():
        last = end
        while last < len(text) and text[last].isalpha():
            last += 1
        return LEXICON.get(text[end:last], ("", 0))[0] not in _MAY_TOUCH_NUMBERS and text[end:last] != "t"
    return False


def _digit_tag(lexeme: str) -> tuple[str, int]:
    digits = lexeme.rstrip("stndrh'’")
    if "," in digits or len(digits) > 8:
        return TAGS["BIG"], 10**6
    value = int(digits)
    if lexeme[-1] == "s":
        return (TAGS["DECADENUM"] if value % 10 == 0 and len(digits) in (2, 4) else _WORD), value
    if lexeme[-1].isalpha():
        return (TAGS["ORDNUM"] if 1 <= value <= 31 else TAGS["ORDINAL"]), value
    return TAGS[_digit_family(digits, value)], value


def _digit_family(digits: str, value: int) -> str:
    if len(digits) <= 2:
        return "D12" if 1 <= value <= 12 else "D31" if 13 <= value <= 31 else "D99"
    if len(digits) == 4 and 1000 <= value <= 2999:
        return "Y4"
    return "BIG"
