"""Procedures in a message: the steps by which something is done, recognized by their form, and words on an outcome.

A procedure is a list of steps in the imperative below a title or a question such as "How we release", or a sequence:
"When CI fails, read the log, then run it again". English only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns

MAX_PROCEDURE = 6_000
"""Characters of a procedure; a longer list is a document."""
MAX_TITLE = 160
MAX_SEQUENCE = 600
MAX_OUTCOME = 80
"""Characters of such words; a longer message says more, and stays a fact of its own."""
INLINE_STEPS = 3
"""Steps of a list within a paragraph, at least."""
_PATTERNS = read_patterns("procedures.txt")
_STEPS = frozenset(" ".join(_PATTERNS["steps"]).split())
"""Verbs of steps."""
_ADVERBS = frozenset("first second third next then now finally lastly afterwards always please and also just".split())
_NAMED = frozenset("process procedure checklist runbook playbook routine steps workflow how-to recipe".split())
_HOW = ("how we ", "how i ", "how to ", "how do ", "how should ", "here's how ", "here is how ", "this is how ")
_WHEN = ("when ", "whenever ", "if ", "before ", "after ", "once ", "every time ", "to ", "for a ")
_OURS = frozenset("we our us repo repository project team".split())
_ASKS_HOW = LazyPattern("|".join(_PATTERNS["asks how"]))
_ITEM = re.compile(r"[ \t]{0,8}(?:(?P<number>\d{1,2})[.)]|\((?P<other>\d{1,2})\)|[-*+•‣·])[ \t]{1,4}(?P<words>\S.*)")
_INLINE = LazyPattern(r"(?:(?<=\s)|^)\(?(\d{1,2})[.)]\s(?=\S)")
_BORDER = LazyPattern(r"[,;:.\n]|\b(?:then|and)\b")
_SEQUENCE = LazyPattern(r"\b(?:then|after that|afterwards|finally)\b")
_WORD = LazyPattern(r"[^\W\d_][\w'-]*")
_OUTCOME = LazyPattern("|".join(_PATTERNS["outcome"]))


class Procedure(NamedTuple):
    """The place of a procedure in a text, with its title if that stands before the steps."""

    start: int
    end: int


def find_procedure(text: str, *, before: str = "", by_agent: bool = False) -> Procedure | None:
    """Return the first procedure of a message.

    `before` is the message before it, whose question may stand for a title. What an agent writes is one only if title
    or question are about what "we" do: most of its lists are advice.
    """
    asked = _asks_how(before) and (not by_agent or _is_ours(before))

    def has_title(line: str) -> bool:
        return asked or (_is_title(line) and (not by_agent or _is_ours(line)))

    found = next(iter((*_lists(text, has_title), *_inline(text, has_title))), None)
    if found is None and not by_agent and len(text) <= MAX_SEQUENCE and _is_sequence(text, asked=asked):
        return Procedure(0, len(text))
    return found


def is_outcome(text: str) -> bool:
    """Return True for a short message about how something went: "that worked", "step 3 is gone"."""
    plain = " ".join(text.replace("’", "'").split()).lower()
    return len(plain) <= MAX_OUTCOME and not plain.endswith("?") and _OUTCOME.match(plain) is not None


def title_of(text: str) -> str:
    """Return the first line of a procedure, or its words before the first step."""
    line = text.strip().partition("\n")[0]
    first = _INLINE.search(line)
    return line[: first.start()] if first is not None and first.start() else line


def _lists(text: str, has_title: Callable[[str], bool]) -> Iterator[Procedure]:
    """Yield the lists of steps that have a title, outside of code."""
    title, title_at, offset, in_code = "", 0, 0, False
    items: list[str] = []
    numbers: list[int] = []
    start = end = 0
    for line in [*text.splitlines(keepends=True), "."]:
        in_code ^= line.lstrip().startswith("```")
        match = None if in_code else _ITEM.match(line.rstrip())
        if match is not None:
            if not items:
                start = title_at if title else offset
            items.append(match["words"])
            numbers.append(int(match["number"] or match["other"] or 0))
            end = offset + len(line)
        elif items and line.startswith((" ", "\t")) and line.strip():
            end = offset + len(line)
        elif line.strip():
            if _are_steps(items, numbers) and end - start <= MAX_PROCEDURE and has_title(title):
                yield Procedure(start, end)
            items, numbers = [], []
            title, title_at = line.strip(), offset
        offset += len(line)


def _inline(text: str, has_title: Callable[[str], bool]) -> Iterator[Procedure]:
    """Yield a procedure whose steps stand in one paragraph: "How we release: 1. bump the version 2. tag it 3. push"."""
    if len(text) > MAX_SEQUENCE:
        return
    marks = list(_INLINE.finditer(text))
    if not marks:
        return
    numbers = [int(match[1]) for match in marks]
    ends = [*(match.start() for match in marks[1:]), len(text)]
    items = [text[match.end() : end] for match, end in zip(marks, ends, strict=True)]
    if len(items) >= INLINE_STEPS and _are_steps(items, numbers) and has_title(text[: marks[0].start()].strip()):
        yield Procedure(0, len(text))


def _are_steps(items: list[str], numbers: list[int]) -> bool:
    """Return True for steps in the imperative: at least two with numbers from 1 on, or three without."""
    numbered = numbers == list(range(1, len(items) + 1))
    if len(items) < (2 if numbered else 3) or (any(numbers) and not numbered):
        return False
    return 2 * sum(map(_is_step, items)) >= len(items)


def _is_step(words: str) -> bool:
    """Return True for words that begin with a verb in the imperative, or with a command as code."""
    plain = words.lstrip(" *_[]x\"'")
    if plain.startswith("`"):
        return True
    first = [word.lower() for word in _WORD.findall(plain[:60])][:3]
    while first and first[0] in _ADVERBS:
        first.pop(0)
    return bool(first) and first[0] in _STEPS


def _is_title(line: str) -> bool:
    lower = line.replace("’", "'").strip(" #*_-").lower()
    if not lower or len(lower) > MAX_TITLE:
        return False
    lower = lower.removeprefix("ok, ").removeprefix("so ").removeprefix("fyi, ").removeprefix("remember: ")
    if lower.startswith(_HOW) or not _NAMED.isdisjoint(_WORD.findall(lower)):
        return True
    return lower.endswith((":", ":*", ":**")) and lower.startswith(_WHEN)


def _is_ours(text: str) -> bool:
    return not _OURS.isdisjoint(_WORD.findall(text[-400:].lower()))


def _asks_how(text: str) -> bool:
    lower = text[-400:].replace("’", "'").lower().rstrip()
    return lower.endswith("?") and _ASKS_HOW.search(lower) is not None


def _is_sequence(text: str, *, asked: bool) -> bool:
    """Return True for steps in prose: an occasion or a title, and at least two clauses in the imperative."""
    lower = text.replace("’", "'").strip().lower()
    if (
        lower.endswith("?")
        or "'ll " in lower
        or _SEQUENCE.search(lower) is None
        or not (asked or lower.startswith((*_HOW, *_WHEN)))
    ):
        return False
    clauses = [clause.strip() for clause in _BORDER.split(lower)]
    steps = [clause for clause in clauses[0 if asked else 1 :] if _is_step(clause)]
    return len(steps) >= 2
