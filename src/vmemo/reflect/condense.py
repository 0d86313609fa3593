"""Shortening of a long statement to its informative clauses: topic, names, numbers, and what the question is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from vmemo.models.truncate import TRUNCATED, truncate
from vmemo.reflect.outline import FILLER, SEPARATOR
from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.tokens import terms

MAX_CHARACTERS = 4000
MAX_CLAUSES = 60
"""Clauses of a text that are considered."""
MIN_SUBJECT = 4
"""Different terms, without stop words, from which a request for help names its subject."""
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

    Clauses with numbers, names and the `asked` terms come before others, and requests for help without a subject last.
    Phrases that only open a reply are left out.
    """
    speaker, separator, body = text.partition(": ")
    body = body.removesuffix(TRUNCATED) if separator else text
    prefix = speaker + separator if separator else ""
    clauses = [each for each in _CLAUSE.findall(" ".join(body[:MAX_CHARACTERS].split())) if each.strip()][:MAX_CLAUSES]
    clauses = clauses[next((place for place, each in enumerate(clauses) if not FILLER.match(each)), 0) :]
    if not clauses:
        return truncate(text, max_tokens, count)
    ranked = sorted(range(1, len(clauses)), key=lambda place: -_value(clauses[place], asked))
    order = [0, *(place for place in ranked if _value(clauses[place], asked) >= 0)]
    chosen = _fitting(order, lambda places: prefix + _joined(clauses, places), max_tokens, count)
    return prefix + _joined(clauses, chosen) if 0 in chosen else truncate(text, max_tokens, count)


def without_requests(text: str) -> str:
    """Return a text without openings and requests for help that name no subject; the text itself if none are left."""
    speaker, separator, body = text.partition(": ")
    prefix, body = (speaker + separator, body) if separator else ("", text)
    clauses = [each for each in _CLAUSE.findall(" ".join(body.split())) if each.strip()]
    kept = [each for each in clauses if not _is_empty_request(each) and not FILLER.match(each)]
    stated = "".join(kept).strip(" ,;:")
    return prefix + stated if len(set(terms(stated))) >= MIN_SUBJECT else text


def condense_outline(
    text: str, max_tokens: int, count: Callable[[str], int], asked: Collection[str] = ()
) -> str | None:
    """Return the most informative labels of an outline that fit, in their order; None if none fit."""
    speaker, _, body = text.partition(": ")
    labels = body[:MAX_CHARACTERS].split(SEPARATOR)[:MAX_CLAUSES]
    ranked = sorted(range(len(labels)), key=lambda place: -_value(labels[place], asked))

    def _line(places: Sequence[int]) -> str:
        return f"{speaker}: {SEPARATOR.join(labels[place] for place in sorted(places))}"

    chosen = _fitting(ranked, _line, max_tokens, count)
    return _line(chosen) if chosen else None


def _fitting(
    order: Sequence[int], text_of: Callable[[Sequence[int]], str], max_tokens: int, count: Callable[[str], int]
) -> list[int]:
    """Return the places, best first, whose text fits; a long one that does not is skipped."""
    chosen: list[int] = []
    for place in order:
        if count(text_of([*chosen, place])) <= max_tokens:
            chosen.append(place)
    return chosen


def _value(clause: str, asked: Collection[str]) -> float:
    """Return how much a clause says; requests say least."""
    words = clause.split()
    names = sum(word[:1].isupper() for word in words[1:]) + sum(not _is_plain(word) for word in words)
    named = _NAME_WEIGHT * names + min(2, sum(map(str.isdigit, clause)))
    about = _ASKED_WEIGHT * len(set(asked).intersection(terms(clause)))
    return named + about + (_REQUEST_WEIGHT if _is_empty_request(clause) else 0.0)


def _is_empty_request(clause: str) -> bool:
    """Return True for a request for help that does not say with what."""
    return _REQUEST.search(clause) is not None and len(set(terms(_REQUEST.sub(" ", clause)))) < MIN_SUBJECT


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
