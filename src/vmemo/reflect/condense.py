"""Shortening of a long statement to its informative clauses: topic, names, numbers, and what the question is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from vmemo.models.truncate import TRUNCATED, truncate
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import terms

MAX_CHARACTERS = 4000
MAX_CLAUSES = 60
"""Clauses of a text that are considered."""
_GAP = "…"
_CLAUSE = LazyPattern(r"(?:[^.?!;,:\n]|[.,:](?=\S))+[.?!;,:]*\s*|[.?!;,:\n]+\s*")
_REQUEST = LazyPattern(
    r"\b(?:can|could|would) (?:you|i get)\b|\bplease\b|\bhelp me\b|\bthanks?\b|\blet me know\b"
    r"|\bhow (?:can|do|should) i\b|\bi(?:'m| am) (?:not sure|having trouble)\b|\bdo you (?:have|think)\b"
    r"|\bi(?:'d| would) (?:like|love|appreciate)\b|\bi (?:want|need) to (?:make sure|ensure|know)\b"
    r"|\bhere(?:'s| is) (?:my|what)\b|\bany (?:help|advice|tips|suggestions)\b",
    re.IGNORECASE,
)
_NAME_WEIGHT, _ASKED_WEIGHT, _REQUEST_WEIGHT = 0.5, 1.0, -2.0


def condense(text: str, max_tokens: int, count: Callable[[str], int], asked: Collection[str] = ()) -> str | None:
    """Return the first clause of a text and the most informative others that fit, in their order; None if none fit.

    Clauses with numbers, names and the `asked` terms come before others, and requests for help last.
    """
    speaker, separator, body = text.partition(": ")
    body = body.removesuffix(TRUNCATED) if separator else text
    prefix = speaker + separator if separator else ""
    clauses = [each for each in _CLAUSE.findall(" ".join(body[:MAX_CHARACTERS].split())) if each.strip()][:MAX_CLAUSES]
    if not clauses:
        return truncate(text, max_tokens, count)
    ranked = sorted(range(1, len(clauses)), key=lambda place: -_value(clauses[place], asked))
    order = [0, *(place for place in ranked if _value(clauses[place], asked) >= 0)]
    best: str | None = None
    for number in range(1, len(order) + 1):
        candidate = prefix + _joined(clauses, order[:number])
        if count(candidate) > max_tokens:
            break
        best = candidate
    return best or truncate(text, max_tokens, count)


def _value(clause: str, asked: Collection[str]) -> float:
    """Return how much a clause says; requests say least."""
    words = clause.split()
    names = sum(word[:1].isupper() for word in words[1:]) + sum(not _is_plain(word) for word in words)
    named = _NAME_WEIGHT * names + min(2, sum(map(str.isdigit, clause)))
    about = _ASKED_WEIGHT * len(set(asked).intersection(terms(clause)))
    return named + about + (_REQUEST_WEIGHT if _REQUEST.search(clause) else 0.0)


def _is_plain(word: str) -> bool:
    """Return True for a word without the characters of an identifier, a path or a quotation."""
    return not any(mark in word for mark in '_/`"')


def _joined(clauses: Sequence[str], places: Sequence[int]) -> str:
    """Return clauses in their order, with a mark where others are left out."""
    chosen = sorted(places)
    parts = [
        clauses[place].strip() + ("" if place + 1 in chosen or place + 1 == len(clauses) else f" {_GAP}")
        for place in chosen
    ]
    return " ".join(parts)
