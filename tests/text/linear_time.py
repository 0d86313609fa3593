"""Texts that slow down backtracking rules, and a measurement of how the work of a rule grows with its text."""

from __future__ import annotations

import gc
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import inf
from random import Random
from time import thread_time
from types import ModuleType
from typing import Any, cast

from vmemo.text.lazy_regex import LazyPattern

sre: Any = import_module("re._constants")
sre_parser: Any = import_module("re._parser")
Rule = Callable[[str], object]
FACTOR = 4
"""Growth of the text between two measurements."""
MAX_GROWTH = 10
"""Allowed growth of the work: linear work grows fourfold, quadratic work sixteenfold."""
FLOOR = 0.001
"""Seconds of CPU time below which a measurement is too short to compare."""
LIMIT = 2.0
"""Seconds of CPU time after which a rule is stopped."""
SIZES = (60, 250, 1_000, 4_000)
"""Lengths of the shorter text; the next one is used while the measurement is too short."""
LAST_SIZE = 16_000


@dataclass(frozen=True)
class Text:
    """A text of any length: fixed parts at even positions, and repeated ones at odd positions."""

    parts: tuple[str, ...]

    def of_length(self, length: int) -> str:
        """Return the text with about so many repeated characters."""
        each = length // (len(self.parts) // 2)
        return "".join(
            (part * (each // len(part) + 1))[:each] if place % 2 else part for place, part in enumerate(self.parts)
        )


_PIECES = (
    " ", "\n", "a", "A", "1", "x ", "A ", "1 ", "a\n", "Anna ", ", ", ". ", "...", "'", '"', "“", "(", ")", "[F1 ", "-",
    "—", "a-", "A.", "?", "and ", "and who ", "1,111,", "12:", "\u0301", "中", "monday ", "x; ", "is ", "'s ",
    "<think>", "between ", "who ", f"ok;{' ' * 297}x monday ",
)  # fmt: skip
COMMON = (
    *(Text(("", piece, "!")) for piece in _PIECES),
    Text(("how much did", " ", "x on", " ", "y and", " ", "z")),
    Text(("How many days between", " ", "x", " ", "?")),
    Text(("how long after", " ", "x", " ", "?")),
    Text(("is x", " ", "or", " ", "y")),
    Text(("He came;", " ", "x monday")),
    Text(("in May (", "1", "x")),
)
"""Texts that every rule is tried with."""


def texts(modules: Iterable[ModuleType], random: Random, count: int) -> Iterator[Text]:
    """Yield the common texts, and `count` texts that nearly match one of the modules' regular expressions."""
    yield from COMMON
    patterns = [each for module in modules for value in vars(module).values() for each in _patterns(value, depth=0)]
    for _ in range(count if patterns else 0):
        yield _near_match(_tree(random.choice(patterns)), random)


@cache
def _tree(pattern: re.Pattern[str]) -> Any:
    return sre_parser.parse(pattern.pattern, pattern.flags)


def _patterns(value: object, *, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, LazyPattern):
        value = value.compiled
    if isinstance(value, re.Pattern):
        yield cast("re.Pattern[str]", value)
    elif isinstance(value, tuple | dict) and depth < 4:
        held = cast("dict[str, object] | tuple[object, ...]", value)
        for part in held.values() if isinstance(held, dict) else held:
            yield from _patterns(part, depth=depth + 1)


def _near_match(tree: Any, random: Random) -> Text:
    """Return a text that a pattern matches, with some of its repeats grown, up to a part of it; it may recur."""
    parts = [""]
    for part in _example(tree, random):
        if isinstance(part, str):
            parts[-1] += part
        else:
            parts += [part[0], ""]
    if len(parts) == 1 or random.random() < 0.3:
        recurring = "".join(parts)[:60] or "x"
        return Text((recurring[:5], f"{recurring} ", "\x00"))
    end = random.choice([len(parts), max(3, len(parts) - 2)])
    return Text((*parts[: end - 1], random.choice(["", "x", "?", "!\x00", parts[end - 1]])))


def _example(tree: Any, random: Random) -> Iterator[str | list[str]]:
    """Yield a text that a pattern matches, with the pieces that are repeated as lists of one."""
    for operator, argument in tree:
        if operator in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, body = argument
            once = "".join(part if isinstance(part, str) else part[0] for part in _example(body, random))
            if most > 16 and once and random.random() < 0.6:
                yield [once]
            else:
                yield once * max(least, random.randint(0, min(most, 2)))
        elif operator is sre.BRANCH:
            yield from _example(random.choice(argument[1]), random)
        elif operator is sre.SUBPATTERN:
            yield from _example(argument[-1], random)
        elif operator is sre.ATOMIC_GROUP:
            yield from _example(argument, random)
        elif operator is sre.ASSERT and argument[0] > 0:
            yield from _example(argument[1], random)
        elif operator not in (sre.ASSERT, sre.ASSERT_NOT, sre.AT, sre.GROUPREF):
            yield random.choice(_matching(operator, argument))


_CANDIDATES = (" ", "x", "1", "A", ",", "-", "\n", "é", "'", "?")


def _matching(operator: Any, argument: Any) -> list[str]:
    """Return characters that an element of a pattern matches."""
    if operator is sre.LITERAL:
        return [chr(argument)]
    if operator is sre.IN and argument[0][0] in (sre.LITERAL, sre.RANGE):
        return [chr(part if kind is sre.LITERAL else part[0]) for kind, part in argument if kind is not sre.CATEGORY]
    element = sre_parser.SubPattern(sre_parser.State(), [(operator, argument)])
    compiled: re.Pattern[str] = import_module("re._compiler").compile(element)
    return [char for char in _CANDIDATES if compiled.match(char)] or ["x"]


def grows_too_fast(rule: Rule, text: Text) -> str:
    """Return a description of work that grows faster than the text, or an empty string.

    A busy machine may disturb a measurement, so growth must be seen in four of them.
    """
    growths = [_growth(rule, text) for _ in range(3 if _growth(rule, text) > MAX_GROWTH else 0)]
    slow = bool(growths) and min(growths) > MAX_GROWTH
    return f"{min(growths):.0f} times the work for {FACTOR} times the text: {text}" if slow else ""


def _growth(rule: Rule, text: Text) -> float:
    """Return the growth of the work at the first length that can be measured.

    Work may begin at some length, such as that of a chunk: growth there must also be seen at the next length.
    """
    growth = 0.0
    for size in (*SIZES, LAST_SIZE):
        long = _seconds(rule, text.of_length(FACTOR * size))
        if long <= FLOOR and size < SIZES[-1]:
            continue
        short = _seconds(rule, text.of_length(size))
        growth = long / max(short, FLOOR / FACTOR)
        if long == inf or (growth <= MAX_GROWTH and (short > FLOOR / FACTOR or size >= SIZES[-1])):
            break
    return growth


def _seconds(rule: Rule, text: str) -> float:
    """Return the CPU time of a rule; a rule that takes too long is stopped."""
    gc.disable()
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    start = thread_time()
    try:
        rule(text)
        return thread_time() - start
    except KeyboardInterrupt:
        return inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        gc.enable()
