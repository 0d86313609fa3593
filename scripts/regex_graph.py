"""Unbounded repeats of a regular expression that can share one run of text, found in a graph of its elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

sre: Any = import_module("re._constants")
sre_parser: Any = import_module("re._parser")
UNBOUNDED = 1000
"""A repeat that may match so often is as slow as an unbounded one."""
Chars = frozenset[str]
_SAMPLE = frozenset(map(chr, (*range(0x180), 0x3B1, 0x430, 0x4E00, 0x2019, 0x2026, 0x3000)))
"""Characters that stand for all others; those of the pattern are added."""


class Overlap(NamedTuple):
    """Two repeats that can match one run of text; `first` is None for the search for a start."""

    first: str | None
    second: str


@dataclass
class _Node:
    """Characters that an element consumes, a condition on the characters of a run, or neither for a plain step."""

    chars: Chars | None = None
    holds: Callable[[Chars], bool] | None = None
    next: list[int] = field(default_factory=list[int])


class _Repeat(NamedTuple):
    chars: Chars
    entry: int
    leave: int
    atomic: tuple[int, ...]
    """Groups around it that are not entered again after they have matched."""
    number: int

    def __str__(self) -> str:
        return f"repeat {self.number} (of {_described(self.chars)})"


def find_overlaps(source: str, flags: int, *, searched: bool, must_end: bool) -> list[Overlap]:
    """Return the overlapping repeats of a pattern that is searched for, or has to match up to the end of a text."""
    return _Graph(sre_parser.parse(source, flags)).overlaps(searched=searched, must_end=must_end)


class _Graph:
    def __init__(self, tree: Any) -> None:
        self.nodes: list[_Node] = []
        self.repeats: list[_Repeat] = []
        self.flags: int = tree.state.flags
        self.alphabet = _SAMPLE | _literals(tree)
        self.start = self._node()
        self.accept = self._node(self._sequence(tree, self.start, ()))

    def overlaps(self, *, searched: bool, must_end: bool) -> list[Overlap]:
        found = [
            Overlap(str(one), str(other))
            for one in self.repeats
            for other in self.repeats
            if _backtracks(one, other) and self._share_a_run(one, other, must_end=must_end)
        ]
        if searched:
            found += [
                Overlap(None, str(repeat))
                for repeat in self.repeats
                if self._may_fail(repeat, must_end=must_end)
                and self._loops(repeat, repeat.chars)
                and self._reaches(self.start, repeat.entry, repeat.chars)
            ]
        return found

    def _share_a_run(self, one: _Repeat, other: _Repeat, *, must_end: bool) -> bool:
        common = one.chars & other.chars
        return (
            self._may_fail(other, must_end=must_end)
            and self._loops(one, common)
            and self._loops(other, common)
            and self._reaches(one.leave, other.entry, common)
        )

    def _loops(self, repeat: _Repeat, run: Chars) -> bool:
        return any(self._reaches(at, repeat.entry, run) for at in self.nodes[repeat.entry].next if at != repeat.leave)

    def _may_fail(self, repeat: _Repeat, *, must_end: bool) -> bool:
        return must_end or not self._reaches(repeat.leave, self.accept, frozenset())

    def _reaches(self, start: int, goal: int, run: Chars) -> bool:
        """Return True if the elements between two nodes can match using only the characters of a run."""
        seen, pending = {start}, [start]
        while pending:
            at = pending.pop()
            if at == goal:
                return True
            node = self.nodes[at]
            if (node.chars is None or node.chars & run) and (node.holds is None or node.holds(run)):
                fresh = [after for after in node.next if after not in seen]
                seen.update(fresh)
                pending += fresh
        return False

    def _node(self, *before: int, chars: Chars | None = None, holds: Callable[[Chars], bool] | None = None) -> int:
        self.nodes.append(_Node(chars, holds))
        for each in before:
            self.nodes[each].next.append(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def _sequence(self, elements: Iterable[tuple[Any, Any]], at: int, atomic: tuple[int, ...]) -> int:
        for operator, argument in elements:
            at = self._element(operator, argument, at, atomic)
        return at

    def _element(self, operator: Any, argument: Any, at: int, atomic: tuple[int, ...]) -> int:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            inside = (*atomic, len(self.nodes)) if operator is sre.POSSESSIVE_REPEAT else atomic
            return self._repeat(*argument, at=at, atomic=inside)
        if operator is sre.BRANCH:
            return self._node(*[self._sequence(branch, self._node(at), atomic) for branch in argument[1]])
        if operator is sre.SUBPATTERN:
            _, added, removed, body = argument
            outer, self.flags = self.flags, (self.flags | added) & ~removed
            at = self._sequence(body, at, atomic)
            self.flags = outer
            return at
        if operator is sre.ATOMIC_GROUP:
            return self._sequence(argument, at, (*atomic, len(self.nodes)))
        if operator in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(operator, *argument, at=at, atomic=atomic)
        if operator is sre.AT:
            return self._node(at, holds=self._position(argument))
        return self._node(at, chars=self._chars(operator, argument))

    def _repeat(self, least: int, most: int, body: Any, *, at: int, atomic: tuple[int, ...]) -> int:
        entry = self._node(at)
        first = self._node(entry)
        last = self._sequence(body, first, atomic)
        chars = frozenset[str]().union(*(node.chars for node in self.nodes[first : last + 1] if node.chars))
        if most == 1:
            return self._node(*([last, entry] if least == 0 else [last]))
        self.nodes[last].next.append(entry)
        leave = self._node(entry if least == 0 else last)
        if most >= UNBOUNDED:
            self.repeats.append(_Repeat(chars, entry, leave, atomic, len(self.repeats) + 1))
        return leave

    def _look(self, operator: Any, direction: int, body: Any, *, at: int, atomic: tuple[int, ...]) -> int:
        """Add a lookahead as a branch that ends, and a lookbehind as a condition on the character before."""
        if direction > 0:
            dead_end = self._sequence(body, self._node(at), (*atomic, len(self.nodes)))
            self.nodes[dead_end].next.clear()
            chars = self._first_chars(body) if operator is sre.ASSERT else self.alphabet
            return self._node(at, holds=lambda run: bool(run & chars))
        branches = [list(body)] if body[0][0] is not sre.BRANCH else [list(each) for each in body[0][1][1]]
        ends = [self._chars(*each[-1]) if each and each[-1][0] is not sre.AT else self.alphabet for each in branches]
        before = frozenset[str]().union(*ends)
        if operator is sre.ASSERT:
            return self._node(at, holds=lambda run: bool(run & before))
        if len(branches) > 1 or len(branches[0]) > 1:
            return self._node(at, holds=bool)
        return self._node(at, holds=lambda run: bool(run - before))

    def _first_chars(self, body: Any) -> Chars:
        operator, argument = body[0]
        return self._chars(operator, argument) if operator in (sre.LITERAL, sre.IN) else self.alphabet

    def _position(self, where: Any) -> Callable[[Chars], bool]:
        if where is sre.AT_BOUNDARY:
            return lambda run: any(map(_is_word, run)) and not all(map(_is_word, run))
        if where is sre.AT_NON_BOUNDARY:
            return bool
        multiline = bool(self.flags & re.MULTILINE) and where is not sre.AT_BEGINNING_STRING
        return lambda run: multiline and "\n" in run

    def _chars(self, operator: Any, argument: Any) -> Chars:
        if operator is sre.ANY:
            return self.alphabet if self.flags & re.DOTALL else self.alphabet - {"\n"}
        if operator is sre.NOT_LITERAL:
            return self.alphabet - self._cased({chr(argument)})
        if operator is sre.IN:
            chars = frozenset[str]().union(*(self._chars(*item) for item in argument if item[0] is not sre.NEGATE))
            return self.alphabet - chars if argument[0][0] is sre.NEGATE else chars
        if operator is sre.RANGE:
            return self._cased({c for c in self.alphabet if argument[0] <= ord(c) <= argument[1]})
        if operator is sre.CATEGORY:
            return frozenset(c for c in self.alphabet if _CATEGORIES[argument](c))
        return self._cased({chr(argument)}) if operator is sre.LITERAL else self.alphabet

    def _cased(self, chars: set[str]) -> Chars:
        if not self.flags & re.IGNORECASE:
            return frozenset(chars)
        return frozenset(chars | {form for c in chars for form in (c.lower(), c.upper()) if len(form) == 1})


def _backtracks(one: _Repeat, other: _Repeat) -> bool:
    """Return True if a failure in the second repeat can lead back into the first."""
    return other.atomic[: len(one.atomic)] == one.atomic


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_WORD: _is_word,
    sre.CATEGORY_NOT_WORD: lambda char: not _is_word(char),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda char: not char.isspace(),
    sre.CATEGORY_DIGIT: str.isdecimal,
    sre.CATEGORY_NOT_DIGIT: lambda char: not char.isdecimal(),
}


def _literals(elements: Iterable[tuple[Any, Any]]) -> Chars:
    """Return the characters that a pattern names, in both cases."""
    found: set[str] = set()
    for operator, argument in elements:
        if operator in (sre.LITERAL, sre.NOT_LITERAL):
            found |= {chr(argument), chr(argument).lower()[:1], chr(argument).upper()[:1]}
        elif operator is sre.RANGE:
            found |= set(map(chr, argument))
        elif operator is sre.IN:
            found |= _literals(argument)
        else:
            for body in _bodies(operator, argument):
                found |= _literals(body)
    return frozenset(found)


def _bodies(operator: Any, argument: Any) -> Sequence[Any]:
    """Return the sequences of elements inside an element."""
    if operator is sre.BRANCH:
        return argument[1]
    if operator is sre.ATOMIC_GROUP:
        return [argument]
    return [argument[-1]] if isinstance(argument, tuple) else []


def _described(chars: Chars) -> str:
    listed = sorted(chars)
    return (
        repr("".join(listed))
        if len(listed) < 12
        else f"{len(listed)} characters such as {''.join(listed[:: len(listed) // 8][:8])!r}"
    )
