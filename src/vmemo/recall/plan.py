"""Channel weights and graph depth by type of question."""

from __future__ import annotations

from collections.abc import Mapping

from vmemo.models import Channel, QueryType

WEIGHTS: Mapping[Channel, float] = {"semantic": 1.0, "keyword": 0.5, "graph": 0.05, "temporal": 0.3, "verbatim": 0.8}
"""Weights of the channels' normalised scores; chosen on conversations of our own."""
WEIGHTS_BY_TYPE: Mapping[QueryType, Mapping[Channel, float]] = {
    "temporal": {"temporal": 0.4},
    "multi-hop": {"graph": 0.2},
}
"""Weights that differ for a type of question."""
MIN_EXPANSIONS = 6
"""Facts whose edges the graph channel follows at least."""


def graph_expansions(type: QueryType, nodes: int) -> int:
    """Return the number of facts whose edges the graph channel follows: more for multi-hop questions."""
    return max(MIN_EXPANSIONS, nodes // 20 if type == "multi-hop" else nodes // 50)


def channel_weights(type: QueryType) -> dict[Channel, float]:
    """Return the channels' weights for a type of question."""
    return {**WEIGHTS, **WEIGHTS_BY_TYPE.get(type, {})}
