"""What a recall consists of. Every part can be left out, which is also how each is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from vmemo.models import Channel, QueryType
from vmemo.ports import Reranker, TimeReader

Fusion = Literal["sum", "rank"]
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))
WEIGHTS: Mapping[Channel, float] = {"semantic": 1.0, "keyword": 0.5, "graph": 0.05, "temporal": 0.3, "verbatim": 0.8}
"""Weights of the channels' normalised scores, for questions of no special kind; chosen on conversations of our own."""
STEPS = 6
"""Facts whose edges are followed at least."""
BY_TYPE: Mapping[QueryType, Mapping[Channel, float]] = {
    "temporal": {"temporal": 0.4},
    "multi-hop": {"graph": 0.2},
}
"""What a type of question changes in the weights."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The channels that run, how they are fused, whether the question is analysed, and what reranks."""

    channels: frozenset[Channel] = CHANNELS
    fusion: Fusion = "sum"
    analysis: bool = True
    """Without it a question has no type, no time and no parts."""
    reranker: Reranker | Literal["late", "none"] = "late"
    times: TimeReader | None = None
    """Who reads a question's time in other languages."""

    def steps(self, type: QueryType, nodes: int) -> int:
        """Facts whose edges the graph channel follows: deeper for questions that need several facts joined."""
        return max(STEPS, nodes // 20) if type == "multi-hop" else max(STEPS, nodes // 50)

    def weights(self, type: QueryType) -> dict[Channel, float]:
        """Weights of the channels for a type of question."""
        return {**WEIGHTS, **BY_TYPE.get(type, {})}
