"""Grammar engine: rules match a text's sequence of token tags, stage by stage, and replace each match by one token.

A pattern such as "the? modifier=MOD unit=UNIT (?!of)" names families of the vocabulary. Each name becomes the class of
its one-character tags, `label=` becomes a named group, and white space is dropped; the rest is plain `re` syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import NamedTuple

from vmemo.text.temporal.calendar_days import (
    CalendarLength,
    DayRange,
    Preference,
    RangeKind,
    YearlyBounds,
    is_supported,
    nearest_yearly,
)
from vmemo.text.temporal.vocabulary import TAGS, UNIONS, Token

# Patterns.

_ELEMENT = re.compile(r"(?:(?P<label>[a-z]{1,20})=)?(?:(?P<name>[A-Za-z][A-Za-z0-9]*)|(?P<open>\((?!\?)))|\s+")


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern; it is compiled at its first use."""
    return re.compile(_ELEMENT.sub(_translate, pattern))


def tags_of(name: str) -> frozenset[str]:
    """Return the tags of a family or of a union of families."""
    if name not in UNIONS:
        return frozenset(TAGS[name])
    return frozenset[str]().union(*(tags_of(part) for part in UNIONS[name]))


def _translate(match: re.Match[str]) -> str:
    label, name = match["label"], match["name"]
    opening = f"(?P<{label}>" if label else "(?:"
    if match["open"]:
        return opening
    if name is None:
        return ""
    tags = f"[{''.join(sorted(tags_of(name)))}]"
    return f"{opening}{tags})" if label else tags


# Rules and stages.

_FAMILY_OF_KIND = {"weekday": "WEEKDAY", "offset": "OFFSET", "year": "YEAR"}


@dataclass(frozen=True, slots=True)
class ParseContext:
    """The text and the settings that its expressions are resolved with."""

    text: str
    now: datetime
    prefer: Preference
    southern: bool = False
    """Seasons are those of the southern hemisphere."""

    @property
    def today(self) -> date:
        """The day of the reference in its own time zone."""
        return self.now.date()


class RuleMatch(NamedTuple):
    """One match of a rule: gives access to the tokens under the labels of its pattern."""

    context: ParseContext
    groups: re.Match[str]
    tokens: Sequence[Token]

    @property
    def today(self) -> date:
        """The day of the reference."""
        return self.context.today

    @property
    def offset(self) -> int:
        """The character offset at which the match starts."""
        return self.tokens[self.groups.start()].start

    @property
    def previous_tag(self) -> str:
        """The tag of the token before the match, or an empty string."""
        first = self.groups.start()
        return self.tokens[first - 1].tag if first > 0 else ""

    @property
    def last_token(self) -> Token:
        """The last token of the match."""
        return self.tokens[self.groups.end() - 1]

    def has(self, label: str) -> bool:
        """Return True if the labelled part of the pattern took part in the match."""
        return label in self.groups.re.groupindex and self.groups[label] is not None

    def tag(self, label: str) -> str:
        """Return the tag of the labelled token, or an empty string."""
        return self.groups[label] or ""

    def token(self, label: str) -> Token:
        """Return the first token under the label."""
        return self.tokens[self.groups.start(label)]

    def value(self, label: str, default: int = 0) -> int:
        """Return the number of the labelled token, or the default."""
        return self.token(label).value if self.has(label) else default

    def days(self, label: str) -> DayRange:
        """Return the range that an earlier stage resolved the labelled token to."""
        days = self.token(label).days
        assert days is not None, f"{label} is not resolved"
        return days

    def length(self, label: str) -> CalendarLength:
        """Return the length of time that an earlier stage merged the labelled token to."""
        length = self.token(label).length
        assert length is not None, f"{label} is no length"
        return length

    def is_plural(self, label: str) -> bool:
        """Return True if the labelled unit is written in the plural."""
        written = self.source_text(label)
        return written.endswith("s") and written[-2] not in "'’"

    def source_text(self, label: str) -> str:
        """Return the text of the labelled token in its original case."""
        token = self.token(label)
        return self.context.text[token.start : token.end]

    def year(self, label: str = "year") -> int | None:
        """Return the year that a number with four digits means, or one with two, at most twenty years ahead."""
        token, this_year = self.token(label), self.today.year
        if token.value >= 1000 or token.end - token.start != 2:
            return token.value if token.value >= 1000 else None
        year = this_year - this_year % 100 + token.value
        return year if year <= this_year + 20 else year - 100

    def step(self) -> int:
        """Return 1 if the part of the pattern that is called `forward` took part, else -1."""
        return 1 if self.has("forward") else -1

    def nearest(self, yearly: YearlyBounds, kind: RangeKind = "day") -> DayRange | None:
        """Return the yearly days that are nearest to the reference on the preferred side."""
        return nearest_yearly(yearly, self.today, self.context.prefer, kind)


@dataclass(frozen=True, slots=True)
class PlainToken:
    """A token without a date: a number made of several words, or words that no later rule may match."""

    family: str
    value: int = 0


Result = DayRange | CalendarLength | PlainToken
Resolver = Callable[[RuleMatch], Result | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the function that resolves its matches; None rejects a match.

    The pattern names families and words of the vocabulary, with `label=` before those that the resolver reads.
    """

    pattern: str
    resolve: Resolver


_Candidate = tuple[int, int, int, re.Match[str], Rule]
"""Start, negative end and rule number, which candidates are ordered by; the match; its rule."""


class TokenLine(NamedTuple):
    """The tokens of a text, their tags as one string, and the set of these tags."""

    tokens: list[Token]
    tags: str
    tag_set: set[str]

    @classmethod
    def of(cls, tokens: list[Token]) -> TokenLine:
        """Return the line of the tokens."""
        tags = "".join([token[0] for token in tokens])
        return cls(tokens, tags, set(tags))


class Stage:
    """Rules that are applied together."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def apply(self, line: TokenLine, context: ParseContext) -> TokenLine:
        """Replace each match by one token. The leftmost match wins, then the longest, then the earlier rule."""
        candidates = [
            (match.start(), -match.end(), order, match, rule)
            for order, rule in enumerate(self.rules)
            for match in compile_pattern(rule.pattern).finditer(line.tags)
        ]
        return TokenLine.of(_replace(line.tokens, sorted(candidates, key=_precedence), context)) if candidates else line


def _precedence(candidate: _Candidate) -> tuple[int, int, int]:
    return candidate[:3]


def _replace(tokens: list[Token], candidates: list[_Candidate], context: ParseContext) -> list[Token]:
    replaced: list[Token] = []
    position = 0
    for *_, match, rule in candidates:
        first, last = match.span()
        result = rule.resolve(RuleMatch(context, match, tokens)) if first >= position else None
        if result is not None and _is_valid(result):
            replaced += tokens[position:first]
            replaced.append(_token(result, tokens[first].start, tokens[last - 1].end))
            position = last
    return replaced + tokens[position:]


def _is_valid(result: DayRange | CalendarLength | PlainToken) -> bool:
    """Return False for an empty range, and for one outside the supported years."""
    if not isinstance(result, DayRange):
        return True
    bounds = result.bounds
    return is_supported(result.start) and is_supported(result.end) and (bounds is None or bounds[0] < bounds[1])


def _token(result: DayRange | CalendarLength | PlainToken, start: int, end: int) -> Token:
    if isinstance(result, PlainToken):
        return Token(TAGS[result.family], result.value, start, end)
    if isinstance(result, CalendarLength):
        return Token(TAGS["LENGTH"], 0, start, end, length=result)
    return Token(_range_tag(result), 0, start, end, result)


def _range_tag(days: DayRange) -> str:
    name = _FAMILY_OF_KIND.get(days.kind)
    if name is None:
        name = days.kind.upper() + ("F" if days.yearly else "X")
    return TAGS[name]
