"""The user's standing instructions in a recall: the current ones, newest first, within their own token budget."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet

from vmemo.models import Fact, FactId
from vmemo.models.recalled import fit_instructions
from vmemo.text.instructions import occasion_terms
from vmemo.text.tokens import terms

MAX_INSTRUCTIONS = 50
"""Newest instructions that are considered."""


def choose_instructions(
    found: Sequence[Fact], relevant: AbstractSet[FactId], max_tokens: int, *, question: str = ""
) -> tuple[Fact, ...]:
    """Return the instructions that fit, newest first and each once.

    Of too many, those `relevant` to the question or for an occasion that it names come before those for every answer,
    and instructions for other occasions last.
    """
    newest: dict[tuple[str, ...], Fact] = {}
    for fact in found:
        newest.setdefault(_wording(fact), fact)
    distinct = list(newest.values())
    asked = set(terms(question))
    preferred = sorted(distinct, key=lambda fact: 0 if fact.id in relevant else _distance(fact, asked))
    kept = {fact.id for fact in fit_instructions(preferred, max_tokens)}
    return tuple(fact for fact in distinct if fact.id in kept)


def _distance(fact: Fact, asked: AbstractSet[str]) -> int:
    occasion = occasion_terms(fact.text)
    return 1 if not occasion else 2 if occasion.isdisjoint(asked) else 0


def _wording(fact: Fact) -> tuple[str, ...]:
    return tuple(terms(fact.text))
