"""Fusion of the channels' rankings into one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from vmemo.models import Channel, ChannelCandidate, ChannelPlacement, FactId
from vmemo.models.search import Ranking
from vmemo.models.settings import Fusion

RANK_CONSTANT = 60.0
"""The constant k of reciprocal rank fusion, 1 / (k + rank), as in its paper."""


class ChannelRanking(NamedTuple):
    """One ranking of a channel and its weight. A question in parts has several rankings of one channel."""

    channel: Channel
    ranking: Ranking
    weight: float


class Fused(NamedTuple):
    """A candidate after fusion."""

    id: FactId
    score: float
    tokens: int


_SCORE = itemgetter(1)
_fused = partial(tuple.__new__, Fused)  # pyright: ignore[reportUnknownMemberType]
"""Makes a candidate of its three values, without a call of Python code: a recall makes a thousand."""


class Fuser:
    """Sums the weighted points of each candidate, so that one found by several channels ranks higher."""

    def __init__(self, method: Fusion) -> None:
        self._method: Fusion = method
        self._scores: dict[FactId, float] = {}
        self._tokens: dict[FactId, int] = {}

    def add(self, rankings: Iterable[ChannelRanking]) -> None:
        """Add the points of some rankings."""
        scores, tokens = self._scores, self._tokens
        for _, ranking, weight in rankings:
            for id, point in zip(ranking.ids, points(ranking, self._method), strict=True):
                scores[id] = scores.get(id, 0.0) + weight * point
            tokens.update(zip(ranking.ids, ranking.tokens, strict=True))

    def order(self) -> list[Fused]:
        """Return all candidates, best first."""
        scores, tokens = self._scores, self._tokens
        candidates = zip(scores, scores.values(), map(tokens.__getitem__, scores), strict=True)
        return sorted(map(_fused, candidates), key=_SCORE, reverse=True)


def fuse(rankings: Iterable[ChannelRanking], method: Fusion) -> list[Fused]:
    """Return the candidates of all rankings, best first."""
    fuser = Fuser(method)
    fuser.add(rankings)
    return fuser.order()


def placements(rankings: Sequence[ChannelRanking], ids: Set[FactId]) -> dict[FactId, dict[Channel, ChannelPlacement]]:
    """Return the rank and score of each candidate in each channel; of several rankings the best rank counts."""
    found: dict[FactId, dict[Channel, ChannelPlacement]] = {id: {} for id in ids}
    for channel, ranking, _ in rankings:
        for rank, id in enumerate(ranking.ids, start=1):
            if id in ids:
                known = found[id].get(channel)
                if known is None or rank < known.rank:
                    found[id][channel] = ChannelPlacement(rank, ranking.scores[rank - 1])
    return found


def best_candidates(rankings: Sequence[ChannelRanking], limit: int) -> dict[Channel, tuple[ChannelCandidate, ...]]:
    """Return the first candidates of each channel by their rank; of several rankings the best rank counts."""
    placed = placements(rankings, {id for each in rankings for id in each.ranking.ids[:limit]})
    found: dict[Channel, list[ChannelCandidate]] = {each.channel: [] for each in rankings}
    for id, channels in placed.items():
        for channel, place in channels.items():
            found[channel].append(ChannelCandidate(id, place.rank, place.score))
    return {
        channel: tuple(sorted(candidates, key=lambda each: (each.rank, -each.score, each.id))[:limit])
        for channel, candidates in found.items()
    }


def points(ranking: Ranking, method: Fusion) -> list[float]:
    """Return the points of a ranking's candidates by the chosen method."""
    return score_points(ranking) if method == "sum" else rank_points(ranking)


def score_points(ranking: Ranking) -> list[float]:
    """Return points from 0 (unrelated) to 1 (the channel's best).

    The low end is the ranking's baseline and not its last candidate, so that the weight of a difference does not
    depend on the number of candidates.
    """
    if not ranking.scores:
        return []
    baseline = ranking.baseline
    span = ranking.scores[0] - baseline
    if span <= 0:
        return [1.0] * len(ranking.scores)
    return [(score - baseline) / span if score > baseline else 0.0 for score in ranking.scores]


def rank_points(ranking: Ranking) -> list[float]:
    """Return reciprocal ranks: agreement between channels counts more than one channel's score."""
    return [1.0 / (RANK_CONSTANT + rank) for rank in range(1, len(ranking.ids) + 1)]
