"""First stage: merges numbers in words, and hides phrases that later rules would mistake for dates."""

from __future__ import annotations

from vmemo.text.temporal.grammar import PlainToken, Rule, RuleMatch


def _cardinal(match: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", match.value("tens") + match.value("ones"))


def _hundreds(match: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", match.value("count") * 100)


def _ordinal(match: RuleMatch) -> PlainToken:
    return PlainToken("ORDINAL", match.value("tens") + match.value("ones"))


def _below_hundred(match: RuleMatch) -> int:
    return match.value("tens") + match.value("ones") + match.value("teens")


def _year(match: RuleMatch) -> PlainToken | None:
    year = match.value("century") * 100 + _below_hundred(match)
    return PlainToken("YEARWORD", year) if 1500 <= year < 2100 else None


def _year_from_2000(match: RuleMatch) -> PlainToken | None:
    return PlainToken("YEARWORD", 2000 + _below_hundred(match)) if match.value("thousands") == 2 else None


def _couple(_: RuleMatch) -> PlainToken:
    return PlainToken("NUMBER", 2)


def _few(_: RuleMatch) -> PlainToken:
    return PlainToken("FEWER", 3)


def _short_month(match: RuleMatch) -> PlainToken:
    return PlainToken("MABBR", match.value("month"))


def _hidden(_: RuleMatch) -> PlainToken:
    return PlainToken("WORD")


_BELOW_HUNDRED = "(tens=TENS DASH? ones=ONES?|teens=(TEEN|ONES))"

RULES = (
    Rule("century=(TEEN|TENS) DASH? (tens=TENS DASH? ones=ONES?|teens=TEEN)", _year),
    Rule("century=(TEEN|TENS) oh ones=ONES", _year),
    Rule(f"century=(TEEN|TENS) hundred (and? {_BELOW_HUNDRED})?", _year),
    Rule(f"thousands=ONES thousand (and? {_BELOW_HUNDRED})?", _year_from_2000),
    Rule("tens=TENS DASH? ones=ONES", _cardinal),
    Rule("tens=TENS DASH? ones=ORDONE", _ordinal),
    Rule("count=(ONES|A) hundred", _hundreds),
    Rule("A? couple of?", _couple),
    Rule("A? few", _few),
    Rule("month=MABBR STOP (?!$)", _short_month),
    Rule("NUMERAL DOT NUMERAL (?=UNIT)", _hidden),
    Rule("half A UNIT (?!ago)(?!back)", _hidden),
    Rule("(POSS|her) PART? DASH? (DECADENUM|DECADEWORD)", _hidden),
    Rule("day (after|by|to|DASH) DASH? day", _hidden),
    Rule("week (after|by) week", _hidden),
    Rule("year (after|by|on) year", _hidden),
    Rule("up DASH? to DASH? date", _hidden),
    Rule("end of the day (?!before|after)", _hidden),
)
