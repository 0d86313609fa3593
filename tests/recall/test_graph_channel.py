"""C4: activation spreads along the edges of the graph, strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from vmemo.models import BankId, EntityId, FactId, LinkKind, Mention
from vmemo.models.search import Edge, EdgeQuery, Scope, Scored
from vmemo.recall.graph_channel import DECAY, FLOOR, MULTIPLIERS, GraphActivation, GraphRanking

SCOPE = Scope(bank=BankId("bank"))
VECTOR = np.ones(2, np.float32)


class Graph:
    """Edges in memory, and the queries for them."""

    def __init__(self, *edges: tuple[str, str, LinkKind, float]) -> None:
        self._edges = edges
        self.queries: list[EdgeQuery] = []

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave the facts and entities of a query."""
        self.queries.append(query)
        sources = {*query.facts, *query.entities}
        return [
            Edge(FactId(a), FactId(b), 5, kind, weight, "Ana") for a, b, kind, weight in self._edges if a in sources
        ]


def reached(
    graph: Graph, entries: Sequence[tuple[str, float]], names: Sequence[str] = (), expansions: int = 100
) -> GraphRanking:
    hits = [Scored(FactId(id), score, 5) for id, score in entries]
    entities = [Mention(id=EntityId(name), name=name) for name in names]
    base = EdgeQuery(scope=SCOPE, space="space", vector=VECTOR)
    activation = GraphActivation(base, hits, entities, expansions=expansions)
    while (query := activation.next_query()) is not None:
        activation.follow(graph.edges(query))
    return activation.result(limit=1000)


def scores(found: GraphRanking) -> dict[str, float]:
    return {hit.id: round(hit.score, 6) for hit in found.ranking}


def test_activation_is_multiplied_by_weight_decay_and_link_kind() -> None:
    found = reached(Graph(("a", "b", "semantic", 0.9)), [("a", 0.8)])
    assert scores(found) == {"b": round(0.8 * 0.9 * DECAY * MULTIPLIERS["semantic"], 6)}


def test_entity_and_causal_links_count_more_than_others() -> None:
    assert min(MULTIPLIERS["entity"], MULTIPLIERS["causes"], MULTIPLIERS["caused_by"]) > 1
    assert max(MULTIPLIERS["semantic"], MULTIPLIERS["temporal"]) <= 1


def test_several_hops_are_followed_and_reported_as_a_path() -> None:
    graph = Graph(("Ana", "dog", "entity", 1.0), ("dog", "vet", "entity", 0.9), ("vet", "cello", "entity", 0.8))
    found = reached(graph, [], ["Ana"])
    assert [hit.id for hit in found.ranking] == ["dog", "vet", "cello"]
    path = found.path(FactId("cello"))
    assert [(step.source, step.target, step.kind, step.via) for step in path] == [
        ("Ana", "dog", "entity", "Ana"),
        ("dog", "vet", "entity", "Ana"),
        ("vet", "cello", "entity", "Ana"),
    ]


def test_a_fact_below_the_minimum_activation_is_not_reached() -> None:
    found = reached(Graph(("a", "b", "temporal", 0.2)), [("a", 0.6)])
    assert 0.6 * 0.2 * DECAY * MULTIPLIERS["temporal"] < FLOOR
    assert scores(found) == {}


def test_a_weak_semantic_hit_is_not_an_entry_point() -> None:
    graph = Graph(("a", "b", "semantic", 1.0))
    assert scores(reached(graph, [("a", 0.49)])) == {}
    assert graph.queries == []


def test_of_two_paths_to_a_fact_the_stronger_counts() -> None:
    graph = Graph(("a", "c", "semantic", 0.7), ("b", "c", "semantic", 0.9))
    found = reached(graph, [("a", 0.9), ("b", 0.9)])
    assert scores(found) == {"c": round(0.9 * 0.9 * DECAY, 6)}
    assert [step.source for step in found.path(FactId("c"))] == ["b"]


def test_an_entry_point_is_ranked_only_if_an_edge_leads_to_it() -> None:
    assert "a" not in scores(reached(Graph(("a", "b", "semantic", 0.9)), [("a", 0.9)]))
    assert "a" in scores(reached(Graph(("b", "a", "semantic", 0.9)), [("a", 0.9), ("b", 0.9)]))


def test_cycles_end() -> None:
    graph = Graph(("a", "b", "entity", 1.0), ("b", "a", "entity", 1.0))
    found = reached(graph, [("a", 1.0)])
    assert set(scores(found)) == {"b"}
    assert len(found.path(FactId("b"))) == 1


def test_activation_stops_after_the_allowed_expansions() -> None:
    chain = [(f"f{n}", f"f{n + 1}", "entity", 1.0) for n in range(40)]
    graph = Graph(*cast("list[tuple[str, str, LinkKind, float]]", chain))
    found = reached(graph, [("f0", 1.0)], expansions=3)
    assert len(found.ranking) == 3


def test_the_strongest_facts_are_expanded_first() -> None:
    many = [("a", f"b{n}", "semantic", 0.5 + n / 100) for n in range(40)]
    graph = Graph(*cast("list[tuple[str, str, LinkKind, float]]", many))
    reached(graph, [("a", 1.0)], expansions=2)
    assert graph.queries[1].facts[0] == "b39"
