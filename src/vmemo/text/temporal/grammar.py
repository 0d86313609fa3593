"""Grammar engine: rules match a text's sequence of token tags, stage by stage, and replace each match by one token.

A pattern such as "the? modifier=MOD unit=UNIT (?!of)" names families of `vocabulary.txt`: those of several words in
capitals, and words that are their own family. Each name becomes the class of its one-character tags, `label=` becomes
a named group, and white space is dropped; the rest is plain `re` syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from importlib.resources import files
from itertools import accumulate
from operator import itemgetter
from types import ModuleType
from typing import NamedTuple, cast

from vmemo.text.pattern_files import read_patterns
from vmemo.text.temporal.calendar_days import (
    CalendarLength,
    DayRange,
    Preference,
    RangeKind,
    YearlyBounds,
    is_supported,
    nearest_yearly,
)

# Vocabulary.


def _sections() -> Iterator[list[str]]:
    """Yield the lines of each section of `vocabulary.txt`, without comments."""
    content = files("vmemo.text.temporal").joinpath("vocabulary.txt").read_text(encoding="utf-8")
    for section in content.split("[")[1:]:
        yield [line for line in section.splitlines()[1:] if line and line[0] != "#"]


def _numbered(words: str) -> dict[str, int]:
    pairs = (word.partition("=") for word in words.split())
    return {word: int(number or 0) for word, _, number in pairs}


_WORD_LINES, _TOKEN_LINES, _UNION_LINES = _sections()
_PAIRS = [line.partition(": ")[::2] for line in _WORD_LINES]
FAMILIES = {word: {word: 0} for name, words in _PAIRS if name == "own" for word in words.split()} | {
    name: _numbered(words) for name, words in _PAIRS if name != "own"
}
"""Words and their numbers by family."""
UNIONS = {name: words.split() for name, words in (line.split(": ") for line in _UNION_LINES)}
TAGS = {
    name: chr(0xE000 + index) for index, name in enumerate(dict.fromkeys([*FAMILIES, *" ".join(_TOKEN_LINES).split()]))
}
"""One private-use character per family, so that the tags of a text are a string that `re` can search."""
LEXICON = {word: (TAGS[name], value) for name, words in FAMILIES.items() for word, value in words.items()}
"""Tag and number of each known word."""


# Tokens: a text cut into lexemes, each with the tag of its family.

_LEXEME = re.compile(
    r"[^\W\d_]+(?:['’]s?(?!\w))?|[^\S\n]+"
    r"|\d{1,3}(?:,\d{3}){1,9}(?!\d)|\d+(?:(?:st|nd|rd|th)\b|['’]?s\b)?|.",
    re.DOTALL,
)
"""Every character belongs to one lexeme, so that the lengths of lexemes give their offsets."""
_SYMBOLS = {"~": "TILDE", ",": "COMMA", "'": "APOSTROPHE", "’": "APOSTROPHE"} | dict.fromkeys('!?;()[]":\n*|•', "STOP")
_LOOSE = _SYMBOLS | {"-": "HYPHEN", "–": "HYPHEN", "—": "HYPHEN", "/": "WORD", ".": "STOP"}
_JOINED = _LOOSE | {"-": "DASH", "–": "DASH", "/": "SLASH", ".": "DOT"}
"""Family of a symbol between two letters or digits, and elsewhere."""
_WORD = TAGS["WORD"]
_MAY_TOUCH_NUMBERS = frozenset(TAGS[name] for name in (*UNIONS["MONTH"], *UNIONS["UNIT"], "q", "APOSTROPHE", "s"))
_MONEY = "$€£#"
_LETTERS = re.compile(r"[^\W\d_]+")


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
            if lexeme != "\n" and lexeme.isspace():
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
    end = start + len(lexeme)
    joined = start > 0 and end < len(text) and text[start - 1].isalnum() and text[end].isalnum()
    family = (_JOINED if joined else _LOOSE).get(lexeme)
    return (TAGS[family], 0) if family else None


def _is_no_date_number(text: str, start: int, end: int) -> bool:
    """Return True for money, clock times, percentages, and numbers in a code such as A1B2."""
    before, after = text[start - 1 : start], text[end : end + 1]
    if (before and before in _MONEY) or after == "%":
        return True
    if (before == ":" and text[start - 2 : start - 1].isdigit()) or (
        after == ":" and text[end + 1 : end + 2].isdigit()
    ):
        return True
    if before.isalpha():
        return LEXICON.get(_LETTERS.findall(text, max(0, start - 20), start)[-1], ("", 0))[0] not in _MAY_TOUCH_NUMBERS
    if after.isalpha() and (word := _LETTERS.match(text, end)):
        return LEXICON.get(word[0], ("", 0))[0] not in _MAY_TOUCH_NUMBERS and word[0] != "t"
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
    small = "D12" if 1 <= value <= 12 else "D31" if 13 <= value <= 31 else "D99"
    large = "Y4" if len(digits) == 4 and 1000 <= value <= 2999 else "BIG"
    return TAGS[small if len(digits) <= 2 else large], value


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
        return self.now.date()


class RuleMatch(NamedTuple):
    """One match of a rule: gives access to the tokens under the labels of its pattern."""

    context: ParseContext
    groups: re.Match[str]
    tokens: Sequence[Token]

    @property
    def today(self) -> date:
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
        return self.tokens[self.groups.end() - 1]

    def has(self, label: str) -> bool:
        """Return True if the labelled part of the pattern took part in the match."""
        return label in self.groups.re.groupindex and self.groups[label] is not None

    def tag(self, label: str) -> str:
        """Return the tag of the labelled token, or an empty string."""
        return self.groups[label] or ""

    def token(self, label: str) -> Token:
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


_RULES = read_patterns("temporal/rules.txt")


def rules_of(module: ModuleType, *sections: str) -> list[Rule]:
    """Return the rules of sections of `rules.txt`; each begins with the name of a function of the module."""
    named = (line.split(" | ", 1) for section in sections for line in _RULES[section])
    return [Rule(pattern, cast("Resolver", getattr(module, name))) for name, pattern in named]


class TokenLine(NamedTuple):
    """The tokens of a text, their tags as one string, and the set of these tags."""

    tokens: list[Token]
    tags: str
    tag_set: set[str]

    @classmethod
    def of(cls, tokens: list[Token]) -> TokenLine:
        tags = "".join([token[0] for token in tokens])
        return cls(tokens, tags, set(tags))


class Stage:
    """Rules that are applied together."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def apply(self, line: TokenLine, context: ParseContext) -> TokenLine:
        """Replace each match by one token. The leftmost match wins, then the longest, then the earlier rule."""
        candidates = [
            (match.start(), -match.end(), order, match)
            for order, rule in enumerate(self.rules)
            for match in compile_pattern(rule.pattern).finditer(line.tags)
        ]
        if not candidates:
            return line
        tokens, replaced, position = line.tokens, list[Token](), 0
        for first, end, order, match in sorted(candidates, key=itemgetter(0, 1, 2)):
            if first < position:
                continue
            result = self.rules[order].resolve(RuleMatch(context, match, tokens))
            if result is not None and (token := _token(result, tokens[first].start, tokens[-end - 1].end)) is not None:
                replaced += tokens[position:first]
                replaced.append(token)
                position = -end
        return TokenLine.of(replaced + tokens[position:])


def _token(result: Result, start: int, end: int) -> Token | None:
    """Return the token of a result; None for an empty range, and for one outside the supported years."""
    if isinstance(result, PlainToken):
        return Token(TAGS[result.family], result.value, start, end)
    if isinstance(result, CalendarLength):
        return Token(TAGS["LENGTH"], 0, start, end, length=result)
    bounds = result.bounds
    if not (is_supported(result.start) and is_supported(result.end)) or (bounds and bounds[0] >= bounds[1]):
        return None
    name = result.kind.upper()
    family = name if name in TAGS else name + ("F" if result.yearly else "X")
    return Token(TAGS[family], 0, start, end, result)
