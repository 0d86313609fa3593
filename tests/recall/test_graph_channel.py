"""C4: activation spreads along the edges of the graph, strongest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from vmemo.models import BankId, EntityId, LinkKind, Mention
from vmemo.models.search import EdgeQuery, Edges, Ranking, Scope
from vmemo.ports import BankReader
from vmemo.recall.rank import DECAY, FLOOR, MULTIPLIERS, GraphRanking, spread_activation

SCOPE = Scope(bank=BankId("bank"))
VECTOR = np.ones(2, np.float32)


class Graph:
    """Edges in memory, and the queries for them."""

    def __init__(self, *edges: tuple[str, str, LinkKind, float]) -> None:
        self._edges = edges
        self._names = sorted({name for edge in edges for name in edge[:2]})
        self.queries: list[EdgeQuery] = []

    def number(self, name: str) -> int:
        """Return the number of a fact or entity."""
        return self._names.index(name) + 1 if name in self._names else 99

    def name(self, number: int) -> str:
        """Return the name of a fact or entity by its number."""
        return self._names[abs(number) - 1]

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the names of facts."""
        return {number: self.name(number) for number in numbers}

    def entity_names(self, entities: Sequence[int]) -> dict[int, str]:
        """Return the names of entities."""
        return self.ids(entities)

    def edges(self, query: EdgeQuery) -> list[Edges]:
        """Return the edges that leave the facts and entities of a query."""
        self.queries.append(query)
        sources = {**{self.name(n): n for n in query.facts}, **{self.name(n): -n for n in query.entities}}
        return [
            Edges(sources[a], kind, weight, [(self.number(b), 5, 0)], self.number(a))
            for a, b, kind, weight in self._edges
            if a in sources
        ]


def reached(
    graph: Graph, entries: Sequence[tuple[str, float]], names: Sequence[str] = (), expansions: int = 100
) -> GraphRanking:
    hits = Ranking.of((graph.number(name), 5, 0, score) for name, score in entries)
    base = EdgeQuery(scope=SCOPE, space="space", vector=VECTOR)
    return spread_activation(graph.edges, base, hits, map(graph.number, names), expansions=expansions, limit=1000)


def scores(found: GraphRanking, graph: Graph) -> dict[str, float]:
    ranking = zip(found.ranking.numbers, found.ranking.scores, strict=True)
    return {graph.name(number): round(score, 6) for number, score in ranking}


def path(found: GraphRanking, graph: Graph, name: str) -> list[tuple[str, str]]:
    fact, named = graph.number(name), {graph.number("Ana"): Mention(id=EntityId("Ana"), name="Ana")}
    steps = found.paths([fact], named, cast("BankReader", graph))[fact]
    return [(step.source, step.target) for step in steps]


def test_activation_is_multiplied_by_weight_decay_and_link_kind() -> None:
    graph = Graph(("a", "b", "semantic", 0.9))
    assert scores(reached(graph, [("a", 0.8)]), graph) == {"b": round(0.8 * 0.9 * DECAY * MULTIPLIERS["semantic"], 6)}


def test_entity_and_causal_links_count_more_than_others() -> None:
    assert min(MULTIPLIERS["entity"], MULTIPLIERS["causes"], MULTIPLIERS["caused_by"]) > 1
    assert max(MULTIPLIERS["semantic"], MULTIPLIERS["temporal"]) <= 1


def test_several_hops_are_followed_and_reported_as_a_path() -> None:
    graph = Graph(("Ana", "dog", "entity", 1.0), ("dog", "vet", "entity", 0.9), ("vet", "cello", "entity", 0.8))
    found = reached(graph, [], ["Ana"])
    assert list(scores(found, graph)) == ["dog", "vet", "cello"]
    assert path(found, graph, "cello") == [("Ana", "dog"), ("dog", "vet"), ("vet", "cello")]


def test_a_fact_below_the_minimum_activation_is_not_reached() -> None:
    graph = Graph(("a", "b", "temporal", 0.2))
    assert 0.6 * 0.2 * DECAY * MULTIPLIERS["temporal"] < FLOOR
    assert scores(reached(graph, [("a", 0.6)]), graph) == {}


def test_a_weak_semantic_hit_is_not_an_entry_point() -> None:
    graph = Graph(("a", "b", "semantic", 1.0))
    assert scores(reached(graph, [("a", 0.49)]), graph) == {}
    assert graph.queries == []


def test_of_two_paths_to_a_fact_the_stronger_counts() -> None:
    graph = Graph(("a", "c", "semantic", 0.7), ("b", "c", "semantic", 0.9))
    found = reached(graph, [("a", 0.9), ("b", 0.9)])
    assert scores(found, graph) == {"c": round(0.9 * 0.9 * DECAY, 6)}
    assert path(found, graph, "c") == [("b", "c")]


def test_an_entry_point_is_ranked_only_if_an_edge_leads_to_it() -> None:
    away, back = Graph(("a", "b", "semantic", 0.9)), Graph(("b", "a", "semantic", 0.9))
    assert "a" not in scores(reached(away, [("a", 0.9)]), away)
    assert "a" in scores(reached(back, [("a", 0.9), ("b", 0.9)]), back)


def test_cycles_end() -> None:
    graph = Graph(("a", "b", "entity", 1.0), ("b", "a", "entity", 1.0))
    found = reached(graph, [("a", 1.0)])
    assert set(scores(found, graph)) == {"b"}
    assert path(found, graph, "b") == [("a", "b")]


def test_activation_stops_after_the_allowed_expansions() -> None:
    chain = [(f"f{n}", f"f{n + 1}", "entity", 1.0) for n in range(40)]
    graph = Graph(*cast("list[tuple[str, str, LinkKind, float]]", chain))
    found = reached(graph, [("f0", 1.0)], expansions=3)
    assert len(found.ranking) == 3


def test_the_strongest_facts_are_expanded_first() -> None:
    many = [("a", f"b{n}", "semantic", 0.5 + n / 100) for n in range(40)]
    graph = Graph(*cast("list[tuple[str, str, LinkKind, float]]", many))
    reached(graph, [("a", 1.0)], expansions=2)
    assert graph.name(graph.queries[1].facts[0]) == "b39"
