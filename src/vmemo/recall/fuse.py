"""Merging the channels' rankings into one order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vmemo.models import Channel, FactId, Placing
from vmemo.ports import Ranking

Fusion = Literal["sum", "rank"]
WEIGHTS: dict[Channel, float] = {"semantic": 1.0, "keyword": 0.5, "verbatim": 0.8}
"""Weights of the normalised scores: flat between .4 and .8 for keyword on conversations, so the round value."""
RANK_K = 60


@dataclass(frozen=True)
class Fused:
    """A candidate after fusion: its score and where each channel had put it."""

    id: FactId
    score: float
    tokens: int
    channels: Mapping[Channel, Placing] = field(default_factory=dict[Channel, Placing])


def fuse(
    rankings: Mapping[Channel, Ranking], method: Fusion = "sum", weights: Mapping[Channel, float] = WEIGHTS
) -> list[Fused]:
    """All candidates, best first: a candidate found by several channels rises above one found by one."""
    scores: dict[FactId, float] = {}
    tokens: dict[FactId, int] = {}
    placings: dict[FactId, dict[Channel, Placing]] = {}
    for channel, ranking in rankings.items():
        points = by_sum(ranking) if method == "sum" else by_rank(ranking)
        for rank, (hit, point) in enumerate(zip(ranking.hits, points, strict=True), start=1):
            scores[hit.id] = scores.get(hit.id, 0.0) + weights.get(channel, 1.0) * point
            tokens[hit.id] = hit.tokens
            placing = Placing.model_construct(rank=rank, score=hit.score)
            placings.setdefault(hit.id, {})[channel] = placing
    order = sorted(scores, key=lambda id: scores[id], reverse=True)
    return [Fused(id, scores[id], tokens[id], placings[id]) for id in order]


def by_sum(ranking: Ranking) -> list[float]:
    """Scores from 0 (unrelated) to 1 (the channel's best).

    The low end is the ranking's ground and not its last candidate, so that the weight of a difference does not
    depend on how many candidates were asked for.
    """
    if not ranking.hits:
        return []
    span = ranking.hits[0].score - ranking.ground
    if span <= 0:
        return [1.0] * len(ranking.hits)
    return [max(0.0, (hit.score - ranking.ground) / span) for hit in ranking.hits]


def by_rank(ranking: Ranking) -> list[float]:
    """Reciprocal ranks: agreement between channels beats one channel's confidence."""
    return [1.0 / (RANK_K + rank) for rank in range(1, len(ranking.hits) + 1)]
