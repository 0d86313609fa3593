"""The last step of a recall: optional weighting of scores, and packing into the token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Protocol, TypeVar

from vmemo.models import EpisodeId, FactId, Hit
from vmemo.models.truncate import MIN_TRUNCATED
from vmemo.ports import TokenCounter


def weigh(hits: Sequence[Hit], now: datetime, *, half_life: timedelta | None, importance_weight: float) -> list[Hit]:
    """Return hits by weighted score, best first: a score halves with each half-life since the fact was mentioned."""
    factors = [_recency(hit, now, half_life) * _importance(hit, importance_weight) for hit in hits]
    weighed = [hit.model_copy(update={"score": hit.score * factor}) for hit, factor in zip(hits, factors, strict=True)]
    return sorted(weighed, key=lambda hit: hit.score, reverse=True)


def spread_over_episodes(hits: Sequence[Hit], share: float, revised: Set[FactId]) -> list[Hit]:
    """Return hits by score, where a fact keeps a share of its score for each better one of its episode but the first.

    What is said in reply to a statement often completes it, so two facts of an episode count in full. Facts
    that replace each other keep their scores, and with them their order.
    """
    seen: Counter[EpisodeId] = Counter()
    weighed: list[Hit] = []
    for hit in hits:
        episode = hit.fact.episodes[:1]
        factor = share ** max(0, seen[episode[0]] - 1) if episode and hit.id not in revised else 1.0
        seen.update(episode)
        weighed.append(hit.model_copy(update={"score": hit.score * factor}))
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


def first_fitting(candidates: Sequence[Item], max_tokens: int | None, top_k: int | None) -> Sequence[Item]:
    """Return the first candidates whose tokens fit together, and the next one, which can be truncated."""
    chosen = candidates[:top_k]
    if max_tokens is None:
        return chosen
    used = accumulate(candidate.tokens for candidate in chosen)
    return chosen[: sum(1 for total in used if total <= max_tokens) + 1]


def pack(hits: Sequence[Hit], max_tokens: int | None, top_k: int | None, count: TokenCounter) -> list[Hit]:
    """Return the first hits that fit. The next one is truncated to what is left, and never replaced by a worse one."""
    chosen = first_fitting(hits, max_tokens, top_k)
    if max_tokens is None or not chosen or sum(hit.tokens for hit in chosen) <= max_tokens:
        return list(chosen)
    *whole, last = chosen
    left = max_tokens - sum(hit.tokens for hit in whole)
    truncated = last.truncate(left, count) if left >= MIN_TRUNCATED or not whole else None
    return whole if truncated is None else [*whole, truncated]
