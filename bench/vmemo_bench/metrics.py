"""How well one ranked list answers one question, and means over many. Pure arithmetic.

Each piece of evidence counts where it is found first: at a rank (from 1), and after so many tokens read from
the top. Everything else follows from those two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RANKS = (1, 5, 10, 20, 50)
TOKENS = (500, 1000, 2000, 4000, 8000)
NDCG_DEPTH = 10

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One place of a ranking: the evidence ids it stands for, and what it costs to read."""

    sources: frozenset[str]
    tokens: int


@dataclass(frozen=True, slots=True)
class Spotted:
    """Where a piece of evidence is found first: its rank, and the tokens from the top through that place."""

    rank: int
    tokens: int


def spot(evidence: Iterable[str], ranking: Sequence[Ranked]) -> list[Spotted | None]:
    """The first place of each piece of evidence; None where the ranking does not hold it."""
    first: dict[str, Spotted] = {}
    read = 0
    for rank, place in enumerate(ranking, start=1):
        read += place.tokens
        for source in place.sources:
            first.setdefault(source, Spotted(rank, read))
    return [first.get(piece) for piece in sorted(set(evidence))]


def rank_metrics(evidence: Iterable[str], ranking: Sequence[Ranked]) -> Metrics:
    """recall, recall_any and recall_all at k, NDCG and reciprocal rank; nothing when there is no evidence."""
    spots = spot(evidence, ranking)
    if not spots:
        return {}
    ranks = [place.rank if place else math.inf for place in spots]
    scores: Metrics = {"mrr": 1.0 / min(ranks), f"ndcg@{NDCG_DEPTH}": _ndcg(ranks, NDCG_DEPTH)}
    for k in RANKS:
        found = [rank <= k for rank in ranks]
        scores[f"recall@{k}"] = sum(found) / len(found)
        scores[f"recall_any@{k}"] = float(any(found))
        scores[f"recall_all@{k}"] = float(all(found))
    return scores


def token_metrics(evidence: Iterable[str], ranking: Sequence[Ranked]) -> Metrics:
    """evidence@N: the share of evidence inside the longest prefix of at most N tokens."""
    spots = spot(evidence, ranking)
    if not spots:
        return {}
    read = [place.tokens if place else math.inf for place in spots]
    return {f"evidence@{n}": sum(tokens <= n for tokens in read) / len(read) for n in TOKENS}


def _ndcg(ranks: Sequence[float], depth: int) -> float:
    # One fact may hold several pieces of evidence and so beat the ideal of one piece per rank.
    gain = sum(1.0 / math.log2(rank + 1) for rank in ranks if rank <= depth)
    ideal = sum(1.0 / math.log2(place + 1) for place in range(1, min(len(ranks), depth) + 1))
    return min(1.0, gain / ideal)


def means(scores: Sequence[Mapping[str, float]]) -> Metrics:
    """The mean of each metric over the questions that have it."""
    names = sorted({name for score in scores for name in score})
    return {name: float(np.mean([score[name] for score in scores if name in score])) for name in names}


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share (0..1) of the values lies, interpolated."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), share))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile of milliseconds, under the names that reports use."""
    return {"p50_ms": percentile(values, 0.5), "p95_ms": percentile(values, 0.95)}
