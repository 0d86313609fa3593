"""The user's standing instructions in a recall: the current ones, newest first, within their own token budget."""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet

from vmemo.models import Fact, FactId
from vmemo.models.recall_prompt import fit_instructions
from vmemo.text.tokens import terms

MAX_INSTRUCTIONS = 50
"""Newest instructions that are considered."""


def choose_instructions(found: Sequence[Fact], relevant: AbstractSet[FactId], max_tokens: int) -> tuple[Fact, ...]:
    """Return the instructions that fit, newest first and each once; of too many, those `relevant` to the question."""
    newest: dict[tuple[str, ...], Fact] = {}
    for fact in found:
        newest.setdefault(_wording(fact), fact)
    distinct = list(newest.values())
    preferred = sorted(distinct, key=lambda fact: fact.id not in relevant)
    kept = {fact.id for fact in fit_instructions(preferred, max_tokens)}
    return tuple(fact for fact in distinct if fact.id in kept)


def _wording(fact: Fact) -> tuple[str, ...]:
    return tuple(terms(fact.text))
