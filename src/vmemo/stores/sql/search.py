"""A dialect's search: its index, written with the rows, and the searches of a recall in one read transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection

from vmemo.models import FactId, Mention, MessageId
from vmemo.models.changes import NewFact
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    Encoding,
    ExpandRequest,
    Expansion,
    FactOutline,
    Ranking,
    RevisionEdge,
    RevisionQuery,
    Scope,
    SearchRequest,
    SearchResult,
    StageTimer,
    TemporalSearch,
    TokenVectors,
    Vector,
    temporal_link_query,
)
from vmemo.ports import Loaded

Indexed = tuple[int, NewFact]
"""A stored fact with its row number."""


class SearchIndex(Protocol):
    """Vectors and words, written in the transaction that writes their rows."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        """Index new facts by vector and words."""
        ...

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        """Index messages, by row number and content."""
        ...

    def drop_bank(self, connection: Connection, bank: int) -> None:
        """Remove all facts and messages of a bank, before their rows are deleted."""
        ...

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        """Replace the vectors of all facts; return False, with nothing written, if one is missing."""
        ...

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        """Remove messages from the word index, because facts repeat their words."""
        ...

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        """Remove facts by row number, before their rows are deleted."""
        ...

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        """Remove messages by row number, before their rows are deleted; those that facts repeat are not indexed."""
        ...

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Return the vectors of facts by number."""
        ...


class BankSearch(Protocol):
    """Searches of one bank on one connection, all in the same read transaction."""

    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""
        ...

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

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        ...

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        ...

    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        ...

    def revisions(self, query: RevisionQuery) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        ...

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId]) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        ...

    def outline(self, facts: Sequence[FactId]) -> Sequence[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        ...


class SqlBankReader:
    """`BankReader` over the searches of a dialect."""

    def __init__(self, bank: BankSearch) -> None:
        self._bank = bank

    def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a request."""
        return run_search(self._bank, request)

    def expand(self, request: ExpandRequest) -> Expansion:
        """Return the edges, token vectors and revisions of candidates."""
        return run_expansion(self._bank, request)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        return self._bank.load(facts, messages)

    def outline(self, facts: Sequence[FactId]) -> Sequence[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        return self._bank.outline(facts)


def run_search(bank: BankSearch, request: SearchRequest) -> SearchResult:
    """Search every channel of a request, and time each of them."""
    timer, scope, limit = StageTimer(), request.scope, request.limit
    timer.run("filter", bank.prepare, scope, request.space if request.has_vectors else None)
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
    instructions = list[FactId]()
    if request.instructions:
        applicable = scope.of_instructions()
        instructions = timer.run("instructions", bank.instructions, applicable, limit=request.instructions)
    return SearchResult(
        semantic=semantic,
        keyword=keyword,
        verbatim=verbatim,
        temporal=temporal,
        temporal_links=links,
        entities=entities,
        instructions=instructions,
        timings=timer.stages,
    )


def run_expansion(bank: BankSearch, request: ExpandRequest) -> Expansion:
    """Read the edges, token vectors and revisions of a request, and time each of them."""
    timer, edges = StageTimer(), list[Edge]()
    if request.edges is not None:
        bank.prepare(request.edges.scope, request.edges.space)
        edges = timer.run("edges", bank.edges, request.edges)
    vectors: Sequence[TokenVectors | None] = ()
    if request.token_vectors:
        vectors = timer.run("token_vectors", bank.token_vectors, request.token_vectors)
    revisions = [] if request.revisions is None else timer.run("revisions", bank.revisions, request.revisions)
    return Expansion(edges=edges, token_vectors=vectors, revisions=revisions, timings=timer.stages)
