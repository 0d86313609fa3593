"""The weight of feedback: a fact that was judged as a hit gains or loses a little of its score in like questions."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from vmemo.models import Fact
from vmemo.text.tokens import terms

LARGEST = 0.25
"""Share of its score that a fact gains or loses at most."""
ALIKE = 0.6
"""Share of their words that two questions have in common at least to count as alike."""


def feedback_factor(fact: Fact, question: str, words: AbstractSet[str]) -> float:
    """Return the factor of a fact's score for a question with these words: 1 without feedback on a like question."""
    judged = ((each.useful, _likeness(each.question, question, words)) for each in fact.feedback)
    moved = sum(likeness if useful else -likeness for useful, likeness in judged)
    return 1.0 + LARGEST * min(1.0, max(-1.0, moved))


def _likeness(earlier: str, question: str, words: AbstractSet[str]) -> float:
    """Return the share of the words of two questions that both have; 0 if they are not alike."""
    if earlier.casefold() == question.casefold():
        return 1.0
    known = set(terms(earlier))
    share = len(known & words) / max(1, len(known | words))
    return share if share >= ALIKE else 0.0
