"""Ranking metrics of one question, means over many, and percentiles of times.

A piece of evidence counts at its first position: its rank (from 1), and the number of tokens from the top through that
position. All ranking metrics follow from these two numbers.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

RANKS = (1, 5, 10, 20, 50)
TOKENS = (500, 1000, 2000, 4000, 8000)
NDCG_DEPTH = 10
BOOTSTRAP_DRAWS = 2_000

Metrics = dict[str, float]
Timings = dict[str, dict[str, float]]
"""`percentiles` of each stage, by its name."""
Outcome = tuple[str, bool]
"""A metric that one annotation counts towards, and its result."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RankedItem:
    """One position of a ranking: the evidence ids it covers, and its length in tokens."""

    sources: frozenset[str]
    tokens: int


@dataclass(frozen=True, slots=True)
class EvidencePosition:
    """First position of a piece of evidence: its rank, and the tokens from the top through that rank."""

    rank: int
    tokens: int


def positions(evidence: Iterable[str], ranking: Sequence[RankedItem]) -> list[EvidencePosition | None]:
    """Return the first position of each piece of evidence; None where the ranking does not contain it."""
    first: dict[str, EvidencePosition] = {}
    tokens = 0
    for rank, item in enumerate(ranking, start=1):
        tokens += item.tokens
        for source in item.sources:
            first.setdefault(source, EvidencePosition(rank, tokens))
    return [first.get(each) for each in sorted(set(evidence))]


def rank_metrics(evidence: Iterable[str], ranking: Sequence[RankedItem]) -> Metrics:
    """Return recall, recall_any and recall_all at k, NDCG and reciprocal rank; empty if there is no evidence."""
    found = positions(evidence, ranking)
    if not found:
        return {}
    ranks = [position.rank if position else math.inf for position in found]
    scores: Metrics = {"mrr": 1.0 / min(ranks), f"ndcg@{NDCG_DEPTH}": _ndcg(ranks, NDCG_DEPTH)}
    for k in RANKS:
        within = [rank <= k for rank in ranks]
        scores[f"recall@{k}"] = sum(within) / len(within)
        scores[f"recall_any@{k}"] = float(any(within))
        scores[f"recall_all@{k}"] = float(all(within))
    return scores


def token_metrics(evidence: Iterable[str], ranking: Sequence[RankedItem]) -> Metrics:
    """Return evidence@N: the share of evidence inside the longest prefix of at most N tokens."""
    found = positions(evidence, ranking)
    if not found:
        return {}
    depths = [position.tokens if position else math.inf for position in found]
    return {f"evidence@{n}": sum(depth <= n for depth in depths) / len(depths) for n in TOKENS}


def _ndcg(ranks: Sequence[float], depth: int) -> float:
    # One fact may cover several pieces of evidence and exceed the ideal of one piece per rank.
    gain = sum(1.0 / math.log2(rank + 1) for rank in ranks if rank <= depth)
    ideal = sum(1.0 / math.log2(rank + 1) for rank in range(1, min(len(ranks), depth) + 1))
    return min(1.0, gain / ideal)


def means(scores: Sequence[Mapping[str, float]]) -> Metrics:
    """Return the mean of each metric over the questions that have it."""
    names = sorted({name for score in scores for name in score})
    return {name: float(np.mean([score[name] for score in scores if name in score])) for name in names}


def shares(outcomes: Iterable[Outcome]) -> Metrics:
    """Return the share of true results of each metric, in the order in which the metrics appear."""
    results: defaultdict[str, list[bool]] = defaultdict(list)
    for name, result in outcomes:
        results[name].append(result)
    return {name: sum(each) / len(each) for name, each in results.items()}


def bootstrap_interval(groups: Sequence[Sequence[bool]]) -> tuple[float, float]:
    """Return the 95 % interval of the share of true results, by drawing whole groups with replacement."""
    counts = np.array([(sum(group), len(group)) for group in groups if group])
    chosen = np.random.default_rng(0).integers(len(counts), size=(BOOTSTRAP_DRAWS, len(counts)))
    drawn = counts[chosen].sum(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], (0.025, 0.975))
    return float(low), float(high)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share (0..1) of the values lies, interpolated."""
    return float(np.quantile(np.asarray(values, dtype=np.float64), share))


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, 95th and 99th percentile of milliseconds under the names that reports use."""
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return {name: percentile(values, share) for name, share in shares.items()}


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """Await the work; return its result and the milliseconds it took."""
    began = time.perf_counter()
    result = await work
    return result, (time.perf_counter() - began) * 1000
