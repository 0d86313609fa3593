"""Importance of new facts: how far they are from what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vmemo.models.drafts import ExpectedStatement, FactDraft
from vmemo.models.search import Vectors
from vmemo.text.tokens import terms

UNRELATED_COSINE = 0.3
"""Cosine up to which a fact has nothing in common with a statement."""


def calibrated(
    drafts: Sequence[FactDraft], vectors: Vectors, expected: Sequence[ExpectedStatement], expected_vectors: Vectors
) -> tuple[FactDraft, ...]:
    """Return drafts with their importance: the mean of the distance to the nearest expected statement and of what that
    statement misses.

    A fact that outdates a known one contradicts what was expected, so the missed part of it counts in full.
    """
    if not expected or not drafts:
        return tuple(drafts)
    cosines = vectors @ expected_vectors.T
    nearest: list[int] = cosines.argmax(axis=1).tolist()
    return tuple(
        replace(draft, importance=_importance(draft, float(cosines[at, near]), expected[near].text))
        for at, (draft, near) in enumerate(zip(drafts, nearest, strict=True))
    )


def _importance(draft: FactDraft, cosine: float, expected: str) -> float:
    distance = float(np.clip((1 - cosine) / (1 - UNRELATED_COSINE), 0.0, 1.0))
    contradicts = any(each.verdict == "supersede" for each in draft.judgements)
    missed = 1.0 if contradicts else _missed_share(draft.text, expected)
    return round((distance + missed) / 2, 3)


def _missed_share(text: str, expected: str) -> float:
    """Return the share of a text's terms that are missing in what was expected."""
    stated = set(terms(text))
    return len(stated - set(terms(expected))) / len(stated) if stated else 0.0
