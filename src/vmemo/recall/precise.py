"""The fewest hits that suffice: those near the best one, each statement once, and none that states nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vmemo.models import Hit
from vmemo.text.small_talk import is_small_talk
from vmemo.text.tokens import terms


class Precision(NamedTuple):
    """The bars that facts must pass to be returned."""

    share: float
    """Share of the best score that a hit has at least."""
    related: float
    """Probability that the best facts are about the question, below which nothing is returned."""


# Chosen on conversations of an author whom the encoder was not trained on.
SUFFICIENT = Precision(share=0.6, related=0.19)
"""That of a precise recall."""
RELEVANT = Precision(share=0.4, related=0.06)
"""That of a context, which may show more than an answer needs."""


def sufficient(hits: Sequence[Hit], share: float) -> list[Hit]:
    """Return the hits with at least a share of the best score that add something to those above them.

    A fact that replaced another, or that one replaced, is no repetition of it.
    """
    kept: list[Hit] = []
    said: list[frozenset[str]] = []
    for hit in hits:
        if hit.score < share * hits[0].score:
            continue
        words = frozenset(terms(hit.text))
        if not words or is_small_talk(hit.text.partition(": ")[2] or hit.text):
            continue
        if any(words <= others for others in said) and hit.status == "current" and hit.fact.supersedes is None:
            continue
        kept.append(hit)
        said.append(words)
    return kept
