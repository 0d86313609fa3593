"""One order of the candidates: fusion of the channels' rankings, and reranking of the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vmemo.errors import RerankFailed, VmemoError
from vmemo.models import Channel, ChannelCandidate, ChannelPlacement, FactId
from vmemo.models.search import Ranking, StoredTokens, TokenVectors
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


def fuse(
    rankings: Sequence[ChannelRanking], others: Sequence[ChannelRanking], method: Fusion
) -> tuple[Ranking, Ranking]:
    """Return the candidates of rankings, and those of all with the others, by the sum of their weighted points."""
    every = [*rankings, *others]
    if not every:
        return Ranking(), Ranking()
    rows = np.concatenate([each.ranking.rows for each in every])
    weighted = np.concatenate([each.weight * points(each.ranking, method) for each in every])
    _, first, place = np.unique(rows[:, 0], return_index=True, return_inverse=True)
    by_first = np.argsort(first)
    first, place = first[by_first], np.argsort(by_first)[place]
    found: list[Ranking] = []
    for count in (sum([len(each.ranking) for each in rankings]), len(rows)):
        scores = np.bincount(place[:count], weighted[:count]).astype(np.float64)
        order = np.argsort(-scores, kind="stable")
        found.append(Ranking(rows[first[order]], scores[order]))
    return found[0], found[1]


def placements(rankings: Sequence[ChannelRanking], wanted: Sequence[int]) -> dict[int, dict[Channel, ChannelPlacement]]:
    """Return the rank and score of each candidate in each channel; of several rankings the best rank counts."""
    found: dict[int, dict[Channel, ChannelPlacement]] = {number: {} for number in wanted}
    for channel, ranking, _ in rankings:
        for rank, (number, score) in enumerate(zip(ranking.numbers.tolist(), ranking.scores.tolist(), strict=True), 1):
            channels = found.get(number)
            if channels is not None and (channel not in channels or rank < channels[channel].rank):
                channels[channel] = ChannelPlacement(rank, score)
    return found


def best_candidates(
    rankings: Sequence[ChannelRanking], limit: int, ids: Callable[[Sequence[int]], Mapping[int, str]]
) -> dict[Channel, tuple[ChannelCandidate, ...]]:
    """Return the first candidates of each channel by their rank; of several rankings the best rank counts."""
    placed = placements(rankings, sorted({n for each in rankings for n in each.ranking.numbers[:limit].tolist()}))
    known = ids(list(placed))
    found: dict[Channel, list[ChannelCandidate]] = {each.channel: [] for each in rankings}
    for number, channels in placed.items():
        for channel, place in channels.items():
            found[channel].append(ChannelCandidate(FactId(known[number]), place.rank, place.score))
    return {
        channel: tuple(sorted(candidates, key=lambda each: (each.rank, -each.score, each.id))[:limit])
        for channel, candidates in found.items()
    }


def points(ranking: Ranking, method: Fusion) -> NDArray[np.float64]:
    """Return the points of a ranking's candidates: from 0 (unrelated) to 1 (the channel's best), or reciprocal ranks.

    The low end is the ranking's baseline and not its last candidate, so that the weight of a difference does not
    depend on the number of candidates. With reciprocal ranks agreement between channels counts more than a score.
    """
    if method == "rank":
        return 1.0 / np.arange(RANK_CONSTANT + 1, RANK_CONSTANT + 1 + len(ranking), dtype=np.float64)
    span = ranking.scores[0] - ranking.baseline if len(ranking) else 0.0
    return np.maximum(ranking.scores - ranking.baseline, 0.0) / span if span > 0 else np.ones(len(ranking))


LATE_WEIGHT = 0.6
"""Weight of late interaction beside the fused score, whose best is about 1.5; chosen on conversations of our own."""
RERANKED_TEXTS = 50
"""Candidates whose texts a reranker of the caller compares, at most: each takes a model pass."""
ONE_THREAD = 1 << 18
"""Multiplications up to which a product is left to one thread."""
_FALLBACK = 'Nothing was changed; recall works without it: reranker="none".'


@dataclass(frozen=True, eq=False)
class RerankScores:
    """A reranker's scores of the candidates `numbers`, NaN for those that can't be compared.

    `weight` is that of the scores beside the fused ones; None lets them alone decide the order of what they score.
    """

    numbers: Sequence[int] = ()
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    weight: float | None = None
    matches: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """The matches of the first of them with each token of the question, if late interaction compared them."""

    @property
    def count(self) -> int:
        """The number of candidates that were reranked; 0 if none could be compared."""
        return 0 if np.isnan(self.scores).all() else len(self.numbers)

    def of(self, number: int) -> float | None:
        score = float(self.scores[self.numbers.index(number)]) if number in self.numbers else float("nan")
        return None if np.isnan(score) else score

    def merge(self, other: RerankScores) -> RerankScores:
        """Return these scores and those of more candidates."""
        weight = self.weight if self.numbers else other.weight
        return RerankScores(
            [*self.numbers, *other.numbers], np.concatenate([self.scores, other.scores]), weight, self.matches
        )


def fitting(tokens: Sequence[int] | NDArray[np.int64], max_tokens: int | None, top_k: int | None) -> int:
    """Return the number of first candidates whose tokens fit together."""
    count = len(tokens) if max_tokens is None else int(np.searchsorted(np.cumsum(tokens), max_tokens, side="right"))
    return count if top_k is None else min(count, top_k)


def late_shortlist(candidates: Ranking, run: RecallRun) -> list[int]:
    """Return the candidates to compare: those that fit, and those that reranking could lift above the last of them."""
    if not len(candidates):
        return []
    count = fitting(candidates.tokens, run.max_tokens, run.top_k)
    least = candidates.scores[max(0, count - 1)] - LATE_WEIGHT
    return candidates.numbers[: run.reranked][candidates.scores[: run.reranked] >= least].tolist()


async def score_texts(run: RecallRun, candidates: Ranking, reranker: Reranker) -> RerankScores:
    """Score the first candidates by a reranker that compares the question with each text, its date and its context."""
    numbers = candidates.numbers[: min(RERANKED_TEXTS, run.reranked)].tolist()
    loaded = await run.context.store.read(run.scope.bank, lambda reader: reader.load(numbers))
    known = [number for number in numbers if number in loaded.facts]
    # The date, the fact, and what was said before it.
    facts = [loaded.facts[number] for number in known]
    before = [f" (after: {fact.context})" if fact.context else "" for fact in facts]
    texts = [f"{f.mentioned_at.day} {f.mentioned_at:%B %Y}. {f.text}{b}" for f, b in zip(facts, before, strict=True)]
    scores = dict(zip(known, await _call(reranker, run.text, texts), strict=True)) if known else {}
    return RerankScores(numbers, np.array([scores.get(number, np.nan) for number in numbers]))


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


def token_matches(question: TokenVectors, documents: Sequence[StoredTokens | None]) -> NDArray[np.float32]:
    """Return for each document the best match of each of the question's tokens; NaN without token vectors."""
    counts = np.array([0 if document is None else len(document.scales) for document in documents], np.int64)
    matches = np.full((len(documents), len(question)), np.nan, np.float32)
    known = [document for document in documents if document is not None]
    if counts.any():
        similarity = _product(np.concatenate([each.components for each in known]), np.ascontiguousarray(question.T))
        similarity *= np.concatenate([each.scales for each in known])[:, None]
        starts = np.cumsum(counts[counts > 0]) - counts[counts > 0]
        matches[counts > 0] = np.maximum.reduceat(similarity, starts, axis=0)
    return matches


def _product(rows: NDArray[np.int8 | np.float32], columns: TokenVectors) -> TokenVectors:
    """Return the matrix product in parts so small that BLAS stays in this thread: waking others takes longer."""
    size = max(1, ONE_THREAD // max(1, columns.size))
    product = np.empty((len(rows), columns.shape[1]), np.float32)
    for start in range(0, len(rows), size):
        np.matmul(rows[start : start + size].astype(np.float32), columns, out=product[start : start + size])
    return product


def reorder(candidates: Ranking, reranking: RerankScores) -> Ranking:
    """Return candidates in the order that follows from the reranker's scores.

    With a weight, the normalised scores are added to the fused ones: a reranked candidate that could not be compared
    counts as an average one. Without, the scored candidates are sorted by the reranker alone, and share the places and
    fused scores that they had.
    """
    if not reranking.count:
        return candidates
    scores = reranking.scores
    known = scores[~np.isnan(scores)]
    by_number = np.argsort(candidates.numbers)
    places = by_number[np.searchsorted(candidates.numbers, np.array(reranking.numbers), sorter=by_number)]
    if reranking.weight is None:
        places = places[~np.isnan(scores)]
        order = np.argsort(-known[np.argsort(places)], kind="stable")
        rows = candidates.rows.copy()
        rows[np.sort(places)] = candidates.rows[np.sort(places)[order]]
        return Ranking(rows, candidates.scores)
    average = float(known.mean())
    baseline = average - 2 * float(known.std())
    share = reranking.weight / max(float(known.max()) - baseline, 1e-6)
    sums = candidates.scores.copy()
    sums[places] += share * np.maximum(np.where(np.isnan(scores), average, scores) - baseline, 0.0)
    return candidates.scored(sums)
