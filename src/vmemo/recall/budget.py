"""The last step of a recall: optional weighting of scores, and packing into the token budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from vmemo.models import Hit


def weigh(hits: Sequence[Hit], now: datetime, *, half_life: timedelta | None, importance_weight: float) -> list[Hit]:
    """Return hits by weighted score, best first: a score halves with each half-life since the fact was mentioned."""
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


class HasTokens(Protocol):
    """Something with a token count."""

    @property
    def tokens(self) -> int: ...


Item = TypeVar("Item", bound=HasTokens)


def pack(candidates: Iterable[Item], max_tokens: int | None, top_k: int | None) -> list[Item]:
    """Return the first candidates whose tokens fit together. One that does not fit is skipped."""
    return list(_fitting(candidates, max_tokens, top_k))


def _fitting(candidates: Iterable[Item], max_tokens: int | None, top_k: int | None) -> Iterator[Item]:
    left, taken = max_tokens, 0
    for candidate in candidates:
        if top_k is not None and taken >= top_k:
            return
        if left is not None and candidate.tokens > left:
            continue
        taken += 1
        if left is not None:
            left -= candidate.tokens
        yield candidate
