"""The last step of a recall: optional weighting of scores, and packing into the token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Generic, NamedTuple, Protocol, TypeVar

from vmemo.models import EpisodeId, Fact, FactId, Hit
from vmemo.models.search import FactOutline
from vmemo.models.truncate import MIN_TRUNCATED
from vmemo.ports import TokenCounter

AnyFact = TypeVar("AnyFact", Fact, FactOutline)


class ScoredFact(NamedTuple, Generic[AnyFact]):
    """A loaded candidate. It becomes a hit only if it is returned, because weighing makes many more of them."""

    fact: AnyFact
    score: float
    verbatim: bool = False
    """It is a message in its own words."""

    @property
    def id(self) -> FactId:
        """The fact's id."""
        return self.fact.id

    @property
    def tokens(self) -> int:
        """The tokens of the fact's text."""
        return self.fact.tokens

    def times(self, factor: float) -> ScoredFact[AnyFact]:
        """Return it with its score multiplied by a factor."""
        return ScoredFact(self.fact, self.score * factor, self.verbatim)


def by_score(found: Iterable[ScoredFact[AnyFact]]) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score, best first."""
    return sorted(found, key=lambda each: each.score, reverse=True)


def weigh(
    found: Sequence[ScoredFact[AnyFact]], now: datetime, *, half_life: timedelta | None, importance_weight: float
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by weighted score: a score halves with each half-life since the fact was mentioned."""
    return by_score(
        each.times(_recency(each.fact, now, half_life) * _importance(each.fact, importance_weight)) for each in found
    )


def spread_over_episodes(
    found: Sequence[ScoredFact[AnyFact]], share: float, revised: Set[FactId]
) -> list[ScoredFact[AnyFact]]:
    """Return candidates by score; one keeps a share of it for each better one of its episode but the first.

    What is said in reply to a statement often completes it, so two facts of an episode count in full. Facts
    that replace each other keep their scores, and with them their order.
    """
    seen: Counter[EpisodeId] = Counter()
    weighed: list[ScoredFact[AnyFact]] = []
    for each in found:
        if not each.fact.episodes:
            weighed.append(each)
            continue
        episode = each.fact.episodes[0]
        weighed.append(each if each.id in revised else each.times(share ** max(0, seen[episode] - 1)))
        seen[episode] += 1
    return by_score(weighed)


def _recency(fact: Fact | FactOutline, now: datetime, half_life: timedelta | None) -> float:
    if half_life is None:
        return 1.0
    age = max(now - fact.mentioned_at, timedelta(0))
    return 0.5 ** (age / half_life)


def _importance(fact: Fact | FactOutline, weight: float) -> float:
    return 1.0 - weight + weight * fact.importance


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
    return chosen[: next((place for place, total in enumerate(used, start=1) if total > max_tokens), len(chosen))]


def truncate_last(hits: Sequence[Hit], max_tokens: int | None, count: TokenCounter) -> list[Hit]:
    """Return hits of which all but the last fit; that one is truncated to what is left, or left out."""
    if max_tokens is None or not hits or sum(hit.tokens for hit in hits) <= max_tokens:
        return list(hits)
    *whole, last = hits
    left = max_tokens - sum(hit.tokens for hit in whole)
    truncated = last.truncate(left, count) if left >= MIN_TRUNCATED or not whole else None
    return whole if truncated is None else [*whole, truncated]
