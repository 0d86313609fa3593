"""The graph channel: activation spreads from entry points along edges, strongest first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vmemo.models import EntityId, FactId, GraphStep, LinkKind, Mention, QueryType
from vmemo.models.search import Edge, EdgeQuery, Ranking
from vmemo.ports import BankReader

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


def max_expansions(type: QueryType, nodes: int) -> int:
    """Return the number of nodes to expand: more for multi-hop questions."""
    return max(LEAST_EXPANSIONS, nodes // 10 if type == "multi-hop" else nodes // 25)


@dataclass(frozen=True, eq=False)
class GraphRanking:
    """Facts by activation, and the edge by which each was reached."""

    ranking: Ranking = field(default_factory=Ranking)
    reached_by: Mapping[int, Edge] = field(default_factory=dict[int, Edge])

    def paths(
        self, facts: Sequence[int], named: Mapping[int, Mention], reader: BankReader
    ) -> dict[int, tuple[GraphStep, ...]]:
        """Return for each fact the steps from an entry point to it, in order."""
        edges = {fact: self._path(fact) for fact in facts}
        every = [edge for path in edges.values() for edge in path]
        ids = reader.ids(sorted({node for edge in every for node in edge[:2] if node > 0}))
        names = reader.entity_names(sorted({edge.via for edge in every if edge.via}))

        def step(edge: Edge) -> GraphStep:
            source = FactId(ids[edge.source]) if edge.source > 0 else EntityId(named[-edge.source].id)
            return GraphStep(source, FactId(ids[edge.target]), edge.kind, edge.weight, names.get(edge.via, ""))

        return {fact: tuple(map(step, path)) for fact, path in edges.items()}

    def _path(self, fact: int) -> list[Edge]:
        steps: list[Edge] = []
        while fact in self.reached_by and len(steps) < len(self.reached_by):
            steps.append(self.reached_by[fact])
            fact = steps[-1].source
        return steps[::-1]


class GraphActivation:
    """Spreading activation, one wave of edges at a time. A node is the number of a fact, or of an entity with a minus.

    Each wave is fetched by the caller: `next_query()` names the nodes to expand and `follow()` takes their edges.
    A fact is reached only along an edge: entry points were found by other channels.
    """

    def __init__(self, base: EdgeQuery, entries: Ranking, entities: Iterable[int], *, expansions: int) -> None:
        self._base = base
        self._expansions = expansions
        self._activation: dict[int, float] = {}
        self._scores: dict[int, float] = {}
        self._reached_by: dict[int, Edge] = {}
        self._queue: list[tuple[float, int]] = []
        self._expanded: set[int] = set()
        for entity in entities:
            self._activate(-entity, 1.0)
        for fact, score in zip(entries.numbers[:ENTRIES].tolist(), entries.scores[:ENTRIES].tolist(), strict=True):
            if score >= ENTRY_FLOOR:
                self._activate(fact, score)

    def next_query(self) -> EdgeQuery | None:
        """Return the query for the edges of the strongest nodes that are not expanded yet, or None at the end."""
        wave = self._next_wave() if len(self._expanded) < self._expansions else []
        if not wave:
            return None
        # No edge of a lower weight can pass on enough activation.
        strongest = max(self._activation[node] for node in wave)
        least = FLOOR / max(strongest * DECAY * max(MULTIPLIERS.values()), 1e-9)
        facts, entities = [node for node in wave if node > 0], [-node for node in wave if node < 0]
        return replace(self._base, facts=facts, entities=entities, least=least)

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
        edges = [self._reached_by[fact] for fact in order]
        found = ((edge.target, edge.tokens, edge.time, self._scores[edge.target]) for edge in edges)
        return GraphRanking(Ranking.of(found), self._reached_by)

    def _activate(self, node: int, activation: float) -> None:
        self._activation[node] = activation
        heapq.heappush(self._queue, (-activation, node))

    def _next_wave(self) -> list[int]:
        wave: list[int] = []
        while self._queue and len(wave) < WAVE_SIZE:
            _, node = heapq.heappop(self._queue)
            if node not in self._expanded:
                self._expanded.add(node)
                wave.append(node)
        return wave

    def _is_cycle(self, edge: Edge) -> bool:
        """Return True if the path to the edge's source already passes its target."""
        node: int = edge.source
        while node in self._reached_by and node != edge.target:
            node = self._reached_by[node].source
        return node == edge.target
