"""The claims of an earlier statement that a later one makes outdated: parts of its text with a probability each.

The revision model judges whole statements. Most hold several claims, of which a later statement concerns one or two,
so a second, smaller model of the same file says which.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.text.lazy_regex import LazyPattern
from vmemo.text.own_words import foreign_spans
from vmemo.text.split import claim_spans
from vmemo.text.tokens import terms

_NUMBER = LazyPattern(r"\d[\d.,:/]*+")
_TENSES = tuple(
    LazyPattern(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:i|we|my|our|me|i['’]m|i['’]ve)\b",
        r"\b(?:was|were|had|did|went|got|said|told|came|took|made|\w{3,30}ed)\b",
        r"\b(?:will|going to|gonna|plan\w{0,6}|next|tomorrow|by|until|till|due|booked|from)\b|['’]ll\b",
        r"\b(?:is|are|am|has|have|does|do|lives?|works?)\b|['’](?:s|m|re|ve)\b",
    )
)
"""Words of a speaker about himself, and of the past, the future and the present."""


class ClaimWords(NamedTuple):
    """A claim, its place in what was said, and what is compared of it."""

    start: int
    end: int
    terms: frozenset[str]
    numbers: frozenset[str]
    tense: tuple[float, ...]


@lru_cache(maxsize=4096)
def claims_in(said: str) -> tuple[ClaimWords, ...]:
    """Return the claims of a speaker's words, without those that are quoted or have no terms."""
    quoted = foreign_spans(said)
    found: list[ClaimWords] = []
    for start, end in claim_spans(said):
        inside = sum(max(0, min(end, last) - max(start, first)) for first, last in quoted)
        words = said[start:end]
        if 2 * inside < end - start and (own := frozenset(terms(words))):
            numbers = frozenset(_NUMBER.findall(words))
            tense = tuple(float(pattern.search(words) is not None) for pattern in _TENSES)
            found.append(ClaimWords(start, end, own, numbers, tense))
    return tuple(found)


def claim_numbers(
    claims: Sequence[ClaimWords], later: Sequence[ClaimWords], probability: float, rarity: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return the inputs of the model, one row for each claim.

    `probability` is that of the two statements, and `rarity` the weight of the terms that the later one shares with
    the statements it was compared with.
    """
    said = frozenset[str]().union(*(claim.terms for claim in later))
    holders = Counter(term for claim in claims for term in claim.terms & said)
    distinct = [sum(rarity.get(term, 1.0) / holders[term] for term in sorted(claim.terms & said)) for claim in claims]
    order = sorted(range(len(claims)), key=lambda at: -distinct[at])
    first, second = distinct[order[0]], distinct[order[1]] if len(order) > 1 else 0.0
    logit = math.log(max(probability, 1e-6) / max(1 - probability, 1e-6))
    rows: list[list[float]] = []
    for at, (claim, value) in enumerate(zip(claims, distinct, strict=True)):
        shared = claim.terms & said
        best = max(later, key=lambda other: sum(rarity.get(t, 1.0) for t in sorted(claim.terms & other.terms)))
        near = claim.terms & best.terms
        row = [
            math.log1p(len(shared)),
            len(shared) / len(claim.terms),
            math.log1p(sum(rarity.get(term, 1.0) for term in sorted(shared))),
            math.log1p(value),
            len(near) / len(claim.terms),
            len(near) / len(best.terms),
            math.log1p(len(claim.terms)),
            float(bool(claim.numbers)),
            float(bool(claim.numbers & best.numbers)),
            float(bool(claim.numbers) and bool(best.numbers - claim.numbers)),
            *claim.tense,
            *(best.tense if near else (0.0,) * len(best.tense)),
            value - (second if at == order[0] else first),
            value / (first + 1e-6),
            float(at == order[0]),
            value / (sum(distinct) + 1e-6),
            math.log1p(len(claims)),
        ]
        rows.append([*row, logit, *(number * logit for number in row), logit * logit])
    return np.array(rows, np.float64)


def joined(said: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in their order, with those joined that have no words between them."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and len(said[found[-1][1] : start].split()) <= 1 and "\n" not in said[found[-1][1] : start]:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found
