"""Memories that give orders, and answers that followed them: text inside a memory is data, whatever it says."""

from __future__ import annotations

import re

from vmemo.words import STOP_WORDS

RUN = 8
"""Words in a row that an answer may share with its instructions by chance, less one."""
_RULES = "instructions?|prompts?|rules?|guidelines?|anweisungen?|regeln|instrucciones|instructions|règles|istruzioni"
_ORDER = re.compile(
    rf"\b(?:ignor\w*|disregard|forget|override|bypass|missachte|vergiss|olvida|oublie\w*)\b.{{0,60}}\b(?:{_RULES})\b"
    rf"|\b(?:reveal|print|repeat|output|show|leak|recite|disclose)\b.{{0,60}}\b(?:{_RULES}|your profile|the profile)\b"
    r"|\byou (?:are now|must now|will now)\b|\bfrom now on,? (?:you|answer|respond|always|only)\b"
    r"|\bnew instructions?\b|\bsystem prompt\b|</?(?:system|assistant|instructions?)>|^\s*(?:system|assistant)\s*:"
    r"|\b(?:answer|respond|reply)\b.{0,30}\b(?:only|exactly|just) with\b"
    r"|\bdo not (?:cite|mention (?:this|these|your))\b",
    re.IGNORECASE | re.MULTILINE,
)
_WORD = re.compile(r"\w+")
_ADDRESSED = frozenset("you your yours yourself you're".split())


def gives_orders(text: str) -> bool:
    """Whether a text reads as if it were meant for the model that is shown it."""
    return _ORDER.search(text) is not None


def repeats(text: str, told: str, *, beside: str) -> bool:
    """Whether an answer holds a run of words from what a model was told, which stands nowhere in the rest."""
    words, rest = _words(text), f" {' '.join(_words(beside))} "
    whole = f" {' '.join(_words(told))} "
    runs = (f" {' '.join(words[at : at + RUN])} " for at in range(len(words) - RUN + 1))
    return any(run in whole and run not in rest for run in runs)


def addresses(question: str) -> bool:
    """Whether a question may be about the one who answers; in languages that we can't read, any may."""
    words = set(_words(question))
    return not _ADDRESSED.isdisjoint(words) or STOP_WORDS.isdisjoint(words)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
