"""Optional weighing of scores by how recent and how important a fact is. Both are off unless asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from vmemo.models import Hit


def weigh(hits: Sequence[Hit], now: datetime, *, half_life: timedelta | None, importance_weight: float) -> list[Hit]:
    """Hits by weighed score, best first: a fact's score halves with each half-life since it was mentioned."""
    factors = [_recency(hit, now, half_life) * _importance(hit, importance_weight) for hit in hits]
    weighed = [hit.model_copy(update={"score": hit.score * factor}) for hit, factor in zip(hits, factors, strict=True)]
    return sorted(weighed, key=lambda hit: hit.score, reverse=True)


def _recency(hit: Hit, now: datetime, half_life: timedelta | None) -> float:
    if half_life is None:
        return 1.0
    age = max(now - hit.fact.mentioned_at, timedelta(0))
    return 0.5 ** (age / half_life)


def _importance(hit: Hit, weight: float) -> float:
    return 1.0 - weight + weight * hit.fact.importance
