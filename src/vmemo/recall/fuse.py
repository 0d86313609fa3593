"""Merging the channels' rankings into one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from vmemo.models import Channel, ChannelPlacement, FactId
from vmemo.models.search import Ranking
from vmemo.models.settings import Fusion

RANK_K = 60


class Strand(NamedTuple):
    """One ranking and what it weighs. A question in parts has several strands of one channel."""

    channel: Channel
    ranking: Ranking
    weight: float


class Fused(NamedTuple):
    """A candidate after fusion."""

    id: FactId
    score: float
    tokens: int


class Tally:
    """Scores so far: a candidate found by several channels rises above one found by one."""

    def __init__(self, method: Fusion = "sum") -> None:
        self._points = by_sum if method == "sum" else by_rank
        self._scores: dict[FactId, float] = {}
        self._tokens: dict[FactId, int] = {}

    def add(self, strands: Iterable[Strand]) -> None:
        """Add rankings."""
        scores, tokens = self._scores, self._tokens
        for _, ranking, weight in strands:
            for hit, point in zip(ranking.hits, self._points(ranking), strict=True):
                scores[hit.id] = scores.get(hit.id, 0.0) + weight * point
                tokens[hit.id] = hit.tokens

    def order(self) -> list[Fused]:
        """All candidates, best first."""
        ranked = sorted(self._scores, key=self._scores.__getitem__, reverse=True)
        return [Fused(id, self._scores[id], self._tokens[id]) for id in ranked]


def fuse(strands: Iterable[Strand], method: Fusion = "sum") -> list[Fused]:
    """The order that all rankings together give."""
    tally = Tally(method)
    tally.add(strands)
    return tally.order()


def placings(strands: Sequence[Strand], ids: Set[FactId]) -> dict[FactId, dict[Channel, ChannelPlacement]]:
    """Where each channel had put each of these candidates; of several strands of a channel the best rank counts."""
    found: dict[FactId, dict[Channel, ChannelPlacement]] = {id: {} for id in ids}
    for channel, ranking, _ in strands:
        for rank, hit in enumerate(ranking.hits, start=1):
            if hit.id in ids:
                known = found[hit.id].get(channel)
                if known is None or rank < known.rank:
                    found[hit.id][channel] = ChannelPlacement(rank, hit.score)
    return found


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
