"""One order of the candidates: fusion of the channels' rankings, and reranking of the best."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from vmemo.errors import RerankFailed, VmemoError
from vmemo.models import Channel, ChannelCandidate, ChannelPlacement, Fact, FactId
from vmemo.models.search import Ranking, TokenTable, TokenVectors
from vmemo.models.settings import Fusion
from vmemo.ports import Reranker
from vmemo.recall.run import RecallRun

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


LATE_WEIGHT = 1.0
"""Weight of late interaction beside the fused score, whose best is about 1.5; chosen on conversations of our own."""
RERANKED_TEXTS = 50
"""Candidates whose texts a reranker of the caller compares, at most: each takes a model pass."""
ONE_THREAD = 1 << 18
"""Multiplications up to which a product is left to one thread."""
_FALLBACK = 'Nothing was changed; recall works without it: reranker="none".'


@dataclass(frozen=True)
class RerankScores:
    """A reranker's scores of the candidates `ids`; those that can't be compared have no score.

    `weight` is that of the scores beside the fused ones; None lets them alone decide the order of what they score.
    """

    ids: Sequence[FactId] = ()
    scores: Mapping[FactId, float] = field(default_factory=dict[FactId, float])
    weight: float | None = None

    @property
    def count(self) -> int:
        """The number of candidates that were reranked; 0 if none could be compared."""
        return len(self.ids) if self.scores else 0

    def merge(self, other: RerankScores) -> RerankScores:
        """Return these scores and those of more candidates."""
        weight = self.weight if self.ids else other.weight
        return RerankScores([*self.ids, *other.ids], {**self.scores, **other.scores}, weight)


def shortlist(candidates: Sequence[Fused], run: RecallRun, weight: float, limit: int) -> list[FactId]:
    """Return the candidates to rerank: those that fit, and those that reranking could lift above the last of them."""
    if not candidates:
        return []
    fitting = len(candidates)
    if run.max_tokens is not None:
        used = list(accumulate([candidate.tokens for candidate in candidates]))
        fitting = bisect_right(used, run.max_tokens)
    if run.top_k is not None:
        fitting = min(fitting, run.top_k)
    least = candidates[max(0, min(fitting, len(candidates)) - 1)].score - weight
    return [candidate.id for candidate in candidates[:limit] if candidate.score >= least]


def late_shortlist(candidates: Sequence[Fused], run: RecallRun) -> list[FactId]:
    """Return the candidates whose token vectors are compared with the question's."""
    return shortlist(candidates, run, LATE_WEIGHT, run.reranked)


def score_tokens(ids: Sequence[FactId], question: TokenVectors, stored: Sequence[TokenVectors | None]) -> RerankScores:
    """Score candidates by late interaction: for each token of the question its best match in a fact, summed."""
    # A few hundred candidates take less time than a hop to another thread and back.
    scores = zip(ids, late_interaction(question, stored), strict=True)
    return RerankScores(ids, {id: score for id, score in scores if score is not None}, LATE_WEIGHT)


async def score_texts(run: RecallRun, candidates: Sequence[Fused], reranker: Reranker) -> RerankScores:
    """Score the first candidates by a reranker that compares the question with each text, its date and its context."""
    ids = [candidate.id for candidate in candidates[: min(RERANKED_TEXTS, run.reranked)]]
    loaded = await run.context.store.read(run.scope.bank, lambda reader: reader.load(ids))
    texts = {fact.id: reranker_text(fact) for fact in loaded.facts}
    known = [id for id in ids if id in texts]
    scores = await _call(reranker, run.text, [texts[id] for id in known]) if known else []
    return RerankScores(ids, dict(zip(known, scores, strict=True)))


async def _call(reranker: Reranker, question: str, texts: Sequence[str]) -> list[float]:
    try:
        answer = await reranker.rerank(question, texts)
        scores = np.asarray(answer, np.float64)
    except VmemoError:
        raise
    # A reranker is a plug-in, so nothing is known about what it raises or returns.
    except Exception as error:
        raise RerankFailed(
            f"The reranker {reranker.name!r} failed on {len(texts)} texts: {error!r}. {_FALLBACK}"
        ) from error
    if scores.shape != (len(texts),) or not np.isfinite(scores).all():
        raise RerankFailed(
            f"The reranker {reranker.name!r} must return one finite number for each of {len(texts)} texts, and "
            f"returned something else. {_FALLBACK}"
        )
    return scores.tolist()


def reranker_text(fact: Fact) -> str:
    """Return the text that a reranker compares: the date, the fact, and what was said before it."""
    before = f" (after: {fact.context})" if fact.context else ""
    return f"{fact.mentioned_at.day} {fact.mentioned_at:%B %Y}. {fact.text}{before}"


def late_interaction(question: TokenVectors, documents: Sequence[TokenVectors | None]) -> list[float | None]:
    """Return the late-interaction score of each document; None for one without token vectors."""
    table = TokenTable.of(documents)
    if not len(table.rows):
        return [None] * len(documents)
    counts = np.array([count or 0 for count in table.counts])
    starts = (np.cumsum(counts) - counts)[counts > 0]
    similarity = _product(table.rows, np.ascontiguousarray(question.T))
    sums = iter(np.maximum.reduceat(similarity, starts, axis=0).sum(axis=1).tolist())
    return [next(sums) if count else None for count in table.counts]


def _product(rows: TokenVectors, columns: TokenVectors) -> TokenVectors:
    """Return the matrix product, computed in parts that are small enough for BLAS to stay in this thread.

    Waking its other threads would take longer than the product itself, above all while processors are busy.
    """
    size = max(1, ONE_THREAD // max(1, columns.size))
    product = np.empty((len(rows), columns.shape[1]), np.float32)
    for start in range(0, len(rows), size):
        np.matmul(rows[start : start + size], columns, out=product[start : start + size])
    return product


def reorder(candidates: Sequence[Fused], reranking: RerankScores) -> Sequence[Fused]:
    """Return candidates in the order that follows from the reranker's scores."""
    if not reranking.scores:
        return candidates
    return _by_reranker(candidates, reranking) if reranking.weight is None else _by_sum(candidates, reranking)


def _by_reranker(candidates: Sequence[Fused], reranking: RerankScores) -> list[Fused]:
    """Sort the scored candidates by the reranker alone; they share the places and fused scores that they had.

    A candidate without a score keeps its place.
    """
    scored = [candidate for candidate in candidates if candidate.id in reranking.scores]
    best_first = iter(sorted(scored, key=lambda candidate: reranking.scores[candidate.id], reverse=True))
    return [
        next(best_first)._replace(score=place.score) if place.id in reranking.scores else place for place in candidates
    ]


def _by_sum(candidates: Sequence[Fused], reranking: RerankScores) -> list[Fused]:
    """Sort by fused score plus normalised reranking score.

    A reranked candidate without a score counts as an average one; candidates that were not reranked keep their fused
    score.
    """
    known = np.array(list(reranking.scores.values()))
    average = float(known.mean())
    baseline = average - 2 * float(known.std())
    share = (reranking.weight or 0.0) / max(float(known.max()) - baseline, 1e-6)
    points = dict.fromkeys(reranking.ids, share * (average - baseline))
    points.update((id, share * max(0.0, score - baseline)) for id, score in reranking.scores.items())
    lifted = [
        Fused(each.id, each.score + points[each.id], each.tokens) if each.id in points else each for each in candidates
    ]
    return sorted(lifted, key=_SCORE, reverse=True)
