"""The searches of one recall over one bank, the same for every SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from vmemo.models import FactId, Mention
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    ExpandRequest,
    Expansion,
    Ranking,
    Scope,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
    temporal_link_query,
)
from vmemo.models.timings import StageTimer


class BankSearch(Protocol):
    """Searches of one bank on one connection, all in the same read transaction."""

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        ...

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        ...

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages whose words no fact repeats by BM25."""
        ...

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        ...

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""
        ...

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        ...

    def token_vectors(self, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        ...


def run_search(bank: BankSearch, request: SearchRequest, timer: StageTimer) -> SearchResult:
    """Search every channel of a request, and time each of them."""
    scope, limit = request.scope, request.limit
    semantic = [
        timer.run("semantic", bank.nearest, scope, vector, limit=limit, floor=request.floor)
        for vector in request.semantic
    ]
    keyword = [timer.run("keyword", bank.matching_facts, scope, text, limit=limit) for text in request.keyword]
    verbatim = Ranking()
    if request.verbatim:
        verbatim = timer.run("verbatim", bank.matching_messages, scope, request.verbatim, limit=limit)
    temporal, links = Ranking(), list[Edge]()
    if request.temporal is not None:
        temporal = timer.run("temporal", bank.during, scope, request.temporal, limit=limit)
        query = temporal_link_query(request, request.temporal, temporal)
        links = [] if query is None else timer.run("temporal", bank.edges, query)
    entities = timer.run("entities", bank.named_entities, request.names_in) if request.names_in else []
    return SearchResult(
        semantic=semantic,
        keyword=keyword,
        verbatim=verbatim,
        temporal=temporal,
        temporal_links=links,
        entities=entities,
        timings=timer.stages,
    )


def run_expansion(bank: BankSearch, request: ExpandRequest) -> Expansion:
    """Read the edges and token vectors of a request, and time both."""
    timer = StageTimer()
    edges = [] if request.edges is None else timer.run("edges", bank.edges, request.edges)
    vectors = list[TokenVectors | None]()
    if request.token_vectors:
        vectors = timer.run("token_vectors", bank.token_vectors, request.token_vectors)
    return Expansion(edges=edges, token_vectors=vectors, timings=timer.stages)
