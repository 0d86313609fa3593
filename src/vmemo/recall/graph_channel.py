"""The graph channel: activation spreads from entry points along links, strongest first."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vmemo.models import EntityId, FactId, GraphStep, LinkKind, Mention
from vmemo.models.search import Edge, EdgeQuery, Ranking, Scored, VectorQuery
from vmemo.ports import Search

DECAY = 0.8
"""What is left of activation after each step."""
LEAST = 0.1
"""Activation below which nothing is reached."""
ENTRY_FLOOR = 0.5
"""Cosine that makes a semantic hit an entry point."""
ENTRIES = 6
"""Semantic hits that activation starts from, at most."""
WAVE = 6
"""Facts whose edges are fetched together: the strongest that were not followed yet."""
MULTIPLIERS: Mapping[LinkKind, float] = {
    "entity": 1.2,
    "causes": 1.2,
    "caused_by": 1.2,
    "enables": 1.1,
    "prevents": 1.1,
    "semantic": 1.0,
    "temporal": 0.7,
}
Node = FactId | EntityId


@dataclass(frozen=True)
class Spread:
    """Facts by activation, and the edge by which each was reached."""

    ranking: Ranking = field(default_factory=Ranking)
    came_by: Mapping[FactId, Edge] = field(default_factory=dict[FactId, Edge])

    def path(self, fact: FactId) -> tuple[GraphStep, ...]:
        """The steps that led to a fact, the first one first."""
        steps: list[GraphStep] = []
        node: Node = fact
        while node in self.came_by and len(steps) < len(self.came_by):
            edge = self.came_by[FactId(node)]
            steps.append(GraphStep(edge.source, edge.target, edge.kind, edge.weight, edge.via))
            node = edge.source
        return tuple(reversed(steps))


@dataclass
class _State:
    """Activation so far. A fact counts as reached only by a step: entry points were found by other channels."""

    active: dict[Node, float] = field(default_factory=dict[Node, float])
    came_by: dict[FactId, Edge] = field(default_factory=dict[FactId, Edge])
    reached: dict[FactId, float] = field(default_factory=dict[FactId, float])
    waiting: list[tuple[float, Node]] = field(default_factory=list[tuple[float, Node]])
    followed: set[Node] = field(default_factory=set[Node])

    def enter(self, node: Node, activation: float) -> None:
        """An entry point."""
        self.active[node] = activation
        heapq.heappush(self.waiting, (-activation, node))

    def wave(self) -> list[Node]:
        """The strongest nodes that were not followed yet."""
        chosen: list[Node] = []
        while self.waiting and len(chosen) < WAVE:
            _, node = heapq.heappop(self.waiting)
            if node not in self.followed:
                self.followed.add(node)
                chosen.append(node)
        return chosen

    def least(self, wave: Sequence[Node]) -> float:
        """The weight under which no edge of a wave can carry enough activation."""
        return LEAST / (max(self.active[node] for node in wave) * DECAY * max(MULTIPLIERS.values()))

    def follow(self, edge: Edge) -> None:
        """Carry activation along an edge; only the strongest way to a fact counts."""
        activation = self.active[edge.source] * edge.weight * DECAY * MULTIPLIERS[edge.kind]
        if activation < LEAST or activation <= self.reached.get(edge.target, 0.0):
            return
        if edge.source in self.came_by and self._returns(edge):
            return
        self.reached[edge.target] = activation
        self.came_by[edge.target] = edge
        if activation > self.active.get(edge.target, 0.0):
            self.active[edge.target] = activation
            heapq.heappush(self.waiting, (-activation, edge.target))

    def _returns(self, edge: Edge) -> bool:
        """Whether the way to the edge's source already passed its target."""
        node: Node = edge.source
        while node in self.came_by:
            node = self.came_by[FactId(node)].source
            if node == edge.target:
                return True
        return False


async def spread(
    search: Search, query: VectorQuery, entries: Sequence[Scored], entities: Sequence[Mention], *, nodes: int
) -> Spread:
    """Spread from semantic hits and from entities named in the query, until `nodes` facts were followed."""
    state = _State()
    for entity in entities:
        state.enter(entity.id, 1.0)
    for hit in entries[:ENTRIES]:
        if hit.score >= ENTRY_FLOOR:
            state.enter(hit.id, hit.score)
    named = {entity.id for entity in entities}
    while len(state.followed) < nodes and (wave := state.wave()):
        facts = [FactId(node) for node in wave if node not in named]
        sources = [entity for entity in named if entity in wave]
        found = await search.edges(
            EdgeQuery(
                scope=query.scope,
                space=query.space,
                vector=query.vector,
                facts=facts,
                entities=sources,
                least=state.least(wave),
            )
        )
        for edge in found:
            state.follow(edge)
    order = sorted(state.reached, key=state.reached.__getitem__, reverse=True)[: query.limit]
    hits = [Scored(id, state.reached[id], state.came_by[id].tokens) for id in order]
    return Spread(Ranking(hits), state.came_by)
