"""Second stage: merges lengths of time, such as "two weeks and three days", into one token each."""

from __future__ import annotations

from vmemo.text.temporal.calendar_length import CalendarLength, half_of
from vmemo.text.temporal.grammar import Rule, RuleMatch
from vmemo.text.temporal.patterns import tags_of

_FEW, _SEVERAL, _YEAR_NUMBERS = tags_of("FEWER"), tags_of("several"), tags_of("Y4")
_VAGUE_COUNTS = dict.fromkeys(_FEW, (2, 5)) | dict.fromkeys(_SEVERAL, (3, 8))
"""Lowest and highest number that is meant."""
A_FEW = 5
"""The highest number of "the days after" a date."""


def _counted(match: RuleMatch) -> CalendarLength | None:
    """Merge "two weeks", "a day", "a few months"; "2018 quarter" is no count of quarters."""
    unit, tag = match.value("unit"), match.tag("count")
    if tag in _YEAR_NUMBERS and not match.is_plural("unit"):
        return None
    if tag in _VAGUE_COUNTS:
        low, high = _VAGUE_COUNTS[tag]
        return CalendarLength.between(low, high, unit, usual=match.value("count"))
    return CalendarLength.of(match.value("count"), unit, exact="couple" not in match.source_text("count").lower())


def _and_a_half(match: RuleMatch) -> CalendarLength | None:
    return CalendarLength.of(match.value("count"), match.value("unit")).plus_half()


def _half(match: RuleMatch) -> CalendarLength | None:
    return half_of(match.value("unit"))


def _alternative_counts(match: RuleMatch) -> CalendarLength | None:
    """Merge "2 or 3 weeks" and "a day or two"."""
    low, high, unit = match.value("low"), match.value("count"), match.value("unit")
    return CalendarLength.between(low, high, unit, usual=high) if low < high else None


def _sum(match: RuleMatch) -> CalendarLength | None:
    first, *others = (token.length for token in match.matched_tokens if token.length)
    for other in others:
        first = first.plus(other)
    units = [unit for _, unit in first.counts]
    return first if len(set(units)) == len(units) else None


_UNIT = "unit=(UNIT|weekend)"
_ALTERNATIVE = "(or|to|DASH|HYPHEN)"

RULES = (
    Rule(f"(?<!MFULL|MNAME|MABBR) count=(COUNT|A|SOME) {_UNIT}", _counted),
    Rule("(?<=MFULL|MNAME|MABBR) count=(COUNT|A|SOME) unit=UNIT (?=ago|back|later|earlier)", _counted),
    Rule("count=(COUNT|A) unit=UNIT and A half", _and_a_half),
    Rule("count=COUNT and A half unit=UNIT", _and_a_half),
    Rule("half A unit=UNIT", _half),
    Rule(f"low=COUNT {_ALTERNATIVE} count=COUNT unit=UNIT", _alternative_counts),
    Rule("low=A unit=UNIT or count=COUNT (?!UNIT)", _alternative_counts),
)
SUM_RULES = (
    Rule("(?<!for|MOD) LENGTH (COMMA LENGTH)? COMMA? and LENGTH", _sum),
    Rule("(?<=for|MOD) LENGTH (COMMA LENGTH)? COMMA? and LENGTH (?!ago)(?!back)", _sum),
)
