"""A small grammar engine: rules search a text's shape in stages, and each stage reduces what it finds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from vmemo.text.temporal.day_range import Stretch
from vmemo.text.temporal.patterns import expression, needs
from vmemo.text.temporal.reading import Build, Number, Reading, Scene
from vmemo.text.temporal.tokenizer import Token
from vmemo.text.temporal.vocabulary import STRETCHES, TAGS

_KIND_TAG = {"weekday": "WEEKDAY", "offset": "OFFSET", "year": "YEAR"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over families and what it means."""

    pattern: str
    build: Build


def rule(pattern: str, build: Build) -> Rule:
    """A rule from a readable pattern: families and words by name, `label=` before what the builder asks for."""
    return Rule(pattern, build)


Found = tuple[int, int, int, re.Match[str], Rule]
Filed = tuple[int, Rule, tuple[frozenset[str], ...]]


class Line(NamedTuple):
    """A text as its tokens, their tags as one string, and the set of these tags."""

    tokens: list[Token]
    shape: str
    present: set[str]


def line_of(found: list[Token]) -> Line:
    """The line that the tokens make."""
    shape = "".join([token[0] for token in found])
    return Line(found, shape, set(shape))


class Stage:
    """Rules tried together, found by the tags they need. They are filed at first use, so that importing is cheap."""

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules

    @cached_property
    def _by_tag(self) -> dict[str, list[Filed]]:
        filed: dict[str, list[Filed]] = {}
        for order, each in enumerate(self._rules):
            needed = needs(each.pattern)
            for tag in needed[0]:
                filed.setdefault(tag, []).append((order, each, needed))
        return filed

    def reduce(self, line: Line, scene: Scene) -> Line:
        """Replace every match by one token: leftmost first, then longest, then the earlier rule."""
        tags = self._by_tag.keys() & line.present
        matches = self._matches(line, tags) if tags else None
        if not matches:
            return line
        ordered = [(match, each.build) for *_, match, each in sorted(matches, key=_position)]
        return line_of(_replace(line.tokens, ordered, scene))

    def _matches(self, line: Line, tags: set[str]) -> list[Found]:
        shape, present = line.shape, line.present
        rules = {order: (each, needed) for tag in tags for order, each, needed in self._by_tag[tag]}
        return [
            (match.start(), -match.end(), order, match, each)
            for order, (each, needed) in rules.items()
            if not any(map(present.isdisjoint, needed))
            for match in expression(each.pattern).finditer(shape)
        ]


def _position(found: Found) -> tuple[int, int, int]:
    return found[:3]


def _replace(found: list[Token], matches: list[tuple[re.Match[str], Build]], scene: Scene) -> list[Token]:
    reduced: list[Token] = []
    position = 0
    for match, build in matches:
        first, last = match.span()
        if first < position:
            continue
        made = build(Reading(scene, match, found))
        if made is None or _is_empty(made):
            continue
        reduced += found[position:first]
        reduced.append(_token(made, found[first].start, found[last - 1].end))
        position = last
    return reduced + found[position:]


def _is_empty(made: Stretch | Number) -> bool:
    days = made.days if isinstance(made, Stretch) else None
    return days is not None and days[0] >= days[1]


def _token(made: Stretch | Number, start: int, end: int) -> Token:
    if isinstance(made, Number):
        return Token(TAGS[made.family], made.value, start, end)
    return Token(stretch_tag(made), 0, start, end, made)


def stretch_tag(stretch: Stretch) -> str:
    """The tag a resolved stretch takes in the shape."""
    name = _KIND_TAG.get(stretch.kind)
    if name is None:
        name = stretch.kind.upper() + ("F" if stretch.yearly else "X")
    assert name in STRETCHES
    return TAGS[name]
