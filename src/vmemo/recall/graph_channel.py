"""The graph channel: activation spreads from entry points along edges, strongest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vmemo.models import EntityId, FactId, GraphStep, LinkKind, Mention, QueryType
from vmemo.models.search import Edge, EdgeQuery, Ranking, Scored

# Chosen on conversations of our own.
DECAY = 0.8
"""Share of activation that is left after each step."""
FLOOR = 0.1
"""Activation below which a fact is not reached."""
ENTRY_FLOOR = 0.5
"""Cosine from which a semantic hit is an entry point."""
ENTRIES = 6
"""Semantic hits that activation starts from, at most."""
LEAST_EXPANSIONS = 12
"""Nodes whose edges are followed, at least; larger budgets follow more."""
FAN = 8
"""Facts of an entity that are followed: those most similar to the question."""
COMMON = 25
"""Facts of an entity up to which its edges weigh less with each: an entity with n facts weighs 1 / sqrt(n)."""
MULTIPLIERS: Mapping[LinkKind, float] = {
    "entity": 1.2,
    "causes": 1.2,
    "caused_by": 1.2,
    "enables": 1.1,
    "prevents": 1.1,
    "semantic": 1.0,
    "temporal": 0.7,
}
"""Multipliers of activation by kind of link."""
WAVE_SIZE = 6
"""Nodes whose edges are fetched together: the strongest ones that are not expanded yet."""
Node = FactId | EntityId


def max_expansions(type: QueryType, nodes: int) -> int:
    """Return the number of nodes to expand: more for multi-hop questions."""
    return max(LEAST_EXPANSIONS, nodes // 10 if type == "multi-hop" else nodes // 25)


@dataclass(frozen=True)
class GraphRanking:
    """Facts by activation, and the edge by which each was reached."""

    ranking: Ranking = field(default_factory=Ranking)
    reached_by: Mapping[FactId, Edge] = field(default_factory=dict[FactId, Edge])

    def path(self, fact: FactId) -> tuple[GraphStep, ...]:
        """Return the steps from an entry point to a fact, in order."""
        steps: list[GraphStep] = []
        node: Node = fact
        while node in self.reached_by and len(steps) < len(self.reached_by):
            edge = self.reached_by[FactId(node)]
            steps.append(GraphStep(edge.source, edge.target, edge.kind, edge.weight, edge.via))
            node = edge.source
        return tuple(reversed(steps))


class GraphActivation:
    """Spreading activation, one wave of edges at a time.

    Each wave is fetched by the caller: `next_query()` names the nodes to expand and `follow()` takes their edges.
    A fact is reached only along an edge: entry points were found by other channels.
    """

    def __init__(
        self,
        base: EdgeQuery,
        entries: Sequence[Scored],
        entities: Sequence[Mention],
        *,
        expansions: int,
    ) -> None:
        self._base = base
        self._expansions = expansions
        self._named = {entity.id for entity in entities}
        self._activation: dict[Node, float] = {}
        self._scores: dict[FactId, float] = {}
        self._reached_by: dict[FactId, Edge] = {}
        self._queue: list[tuple[float, Node]] = []
        self._expanded: set[Node] = set()
        for entity in entities:
            self._activate(entity.id, 1.0)
        for hit in entries[:ENTRIES]:
            if hit.score >= ENTRY_FLOOR:
                self._activate(hit.id, hit.score)

    def next_query(self) -> EdgeQuery | None:
        """Return the query for the edges of the strongest nodes that are not expanded yet, or None at the end."""
        wave = self._next_wave() if len(self._expanded) < self._expansions else []
        if not wave:
            return None
        return replace(
            self._base,
            facts=[FactId(node) for node in wave if node not in self._named],
            entities=[EntityId(node) for node in wave if node in self._named],
            least=self._least_weight(wave),
        )

    def follow(self, edges: Iterable[Edge]) -> None:
        """Pass activation along edges; only the strongest path to a fact counts."""
        for edge in edges:
            activation = self._activation[edge.source] * edge.weight * DECAY * MULTIPLIERS[edge.kind]
            if activation < FLOOR or activation <= self._scores.get(edge.target, 0.0):
                continue
            if edge.source in self._reached_by and self._is_cycle(edge):
                continue
            self._scores[edge.target] = activation
            self._reached_by[edge.target] = edge
            if activation > self._activation.get(edge.target, 0.0):
                self._activate(edge.target, activation)

    def result(self, limit: int) -> GraphRanking:
        """Return the facts that were reached, by activation."""
        order = sorted(self._scores, key=self._scores.__getitem__, reverse=True)[:limit]
        ranking = Ranking(order, [self._scores[id] for id in order], [self._reached_by[id].tokens for id in order])
        return GraphRanking(ranking, self._reached_by)

    def _activate(self, node: Node, activation: float) -> None:
        self._activation[node] = activation
        heapq.heappush(self._queue, (-activation, node))

    def _next_wave(self) -> list[Node]:
        wave: list[Node] = []
        while self._queue and len(wave) < WAVE_SIZE:
            _, node = heapq.heappop(self._queue)
            if node not in self._expanded:
                self._expanded.add(node)
                wave.append(node)
        return wave

    def _least_weight(self, wave: Sequence[Node]) -> float:
        """Return the weight below which no edge of a wave can pass on enough activation."""
        strongest = max(self._activation[node] for node in wave)
        return FLOOR / max(strongest * DECAY * max(MULTIPLIERS.values()), 1e-9)

    def _is_cycle(self, edge: Edge) -> bool:
        """Return True if the path to the edge's source already passes its target."""
        node: Node = edge.source
        while node in self._reached_by:
            node = self._reached_by[FactId(node)].source
            if node == edge.target:
                return True
        return False
