"""Prompt injection: instructions to the model inside memories, and answers that follow or reveal them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.pattern_files import read_patterns
from vmemo.text.tokens import STOP_WORDS

MIN_REPEATED_WORDS = 8
"""Consecutive words that an answer does not share with its prompt by chance."""
_SAME_SENTENCE = r"[^.!?。\n]{0,80}?"


def _pattern(lines: Iterable[str]) -> LazyPattern:
    """Return the pattern of some lines, in which dots separate what stands in one sentence, the last part last."""
    found: list[str] = []
    for first, *others in (line.split(" ... ") for line in lines):
        between, last = others[:-1], others[-1:]
        ahead = "".join(f"(?={_SAME_SENTENCE}(?:{each}))" for each in between)
        found.append(f"(?:{first}){ahead}" + "".join(f"{_SAME_SENTENCE}(?:{each})" for each in last))
    return LazyPattern("|".join(found), re.IGNORECASE | re.MULTILINE)


_PATTERNS = read_patterns("injection.txt")
_OVERRIDE = _pattern(_PATTERNS["overriding"])
"""Instructions against the model's rules, which nobody may give."""
_DIRECTIVE = _pattern(_PATTERNS["directives"])
"""Instructions on how to answer, which only the user may give."""
_SENTENCE = LazyPattern(r"[^.!?。！？\n]+[.!?。！？\n]*")
_WORD = LazyPattern(r"\w+")
_SECOND_PERSON = frozenset("you your yours yourself you're".split())


def contains_instructions(text: str) -> bool:
    """Return True if a text contains instructions to the model that reads it."""
    return overrides_rules(text) or _DIRECTIVE.search(text) is not None


def overrides_rules(text: str) -> bool:
    """Return True if a text contains instructions to break or reveal the model's rules, or to take another role."""
    return _OVERRIDE.search(text) is not None


def remove_instructions(text: str) -> str:
    """Return the text without the sentences that contain instructions."""
    return "".join(sentence for sentence in _SENTENCE.findall(text) if not contains_instructions(sentence))


def repeats_prompt(text: str, prompt: str, *, allowed: str, min_words: int = MIN_REPEATED_WORDS) -> bool:
    """Return True if an answer repeats consecutive words of the prompt that are not part of the allowed text."""
    runs = set(_runs(text, min_words)).intersection(_runs(prompt, min_words))
    return bool(runs.difference(_runs(allowed, min_words)))


def addresses_assistant(question: str) -> bool:
    """Return True if a question may be about the assistant; in languages other than English any may."""
    words = set(_words(question))
    return not _SECOND_PERSON.isdisjoint(words) or STOP_WORDS.isdisjoint(words)


def _runs(text: str, length: int) -> Iterator[tuple[str, ...]]:
    """Yield every run of so many words."""
    words = _words(text)
    return (tuple(words[at : at + length]) for at in range(len(words) - length + 1))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
