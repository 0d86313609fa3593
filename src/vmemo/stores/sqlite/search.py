"""Searches on SQLite: rankings from the in-memory index of a bank, rows from the file."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, Mention, MessageId, utc_now
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    ExpandRequest,
    Expansion,
    Ranking,
    RevisionEdge,
    RevisionQuery,
    Scope,
    Scored,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
    Vectors,
)
from vmemo.models.select import MessageSelect
from vmemo.models.timings import StageTimer
from vmemo.ports import Loaded
from vmemo.stores.sql import name_rows, reads
from vmemo.stores.sql.rows import micros
from vmemo.stores.sql.search import run_expansion, run_search
from vmemo.stores.sqlite import graph, load, rows
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.cache import IndexCache
from vmemo.stores.sqlite.index.postings import query_terms
from vmemo.stores.sqlite.index.vectors import Mask


class SqliteBankSearch:
    """`BankSearch` over an index and the connection that it was read with."""

    def __init__(self, connection: Connection, index: BankIndex) -> None:
        self._connection = connection
        self._index = index
        self._filtered: tuple[Scope, Mask] | None = None

    def allowed(self, scope: Scope) -> Mask:
        """Return the facts that a scope accepts; those of the last scope are kept."""
        if self._filtered is None or self._filtered[0] is not scope:
            only = rows.filtered(self._connection, self._index.number, scope)
            self._filtered = scope, self._index.allowed(scope, micros(utc_now()), only)
        return self._filtered[1]

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        return self._index.nearest(vector, self.allowed(scope), limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        return self._index.matching(query_terms(text), self.allowed(scope), limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages by BM25."""
        words = query_terms(text)
        return rows.matching_messages(self._connection, self._index.number, scope, words, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        return self._index.during(query, self.allowed(scope), limit)

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""
        return name_rows.named(self._connection, self._index.number, text)

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        return rows.instructions(self._connection, self._index.number, scope, limit=limit)

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        return graph.find(self._connection, self._index, self.allowed(query.scope), query)

    def token_vectors(self, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        return rows.tokens_of(self._connection, self._index.numbers(facts), facts)

    def revisions(self, query: RevisionQuery) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        return graph.revisions(self._connection, self._index, self.allowed(query.scope), query.facts)


def search(connection: Connection, indexes: IndexCache, request: SearchRequest) -> SearchResult:
    """Search all channels of a request."""
    timer, space = StageTimer(), request.space if request.has_vectors else None
    with timer.stage("filter"):
        bank = SqliteBankSearch(connection, indexes.get(connection, request.scope.bank, space=space))
        bank.allowed(request.scope)
    return run_search(bank, request, timer)


def expand(connection: Connection, indexes: IndexCache, request: ExpandRequest) -> Expansion:
    """Return the edges, token vectors and revisions of candidates."""
    space = None if request.edges is None else request.edges.space
    bank = SqliteBankSearch(connection, indexes.get(connection, request.bank, space=space))
    return run_expansion(bank, request)


def nearest(
    connection: Connection, indexes: IndexCache, bank: BankId, vectors: Vectors, *, limit: int, floor: float
) -> list[list[Scored]]:
    """Return for each vector the nearest current facts."""
    index = indexes.get(connection, bank)
    allowed = index.current(micros(utc_now()))
    return [index.neighbours(vector, allowed, limit, floor) for vector in vectors]


def load_hits(
    connection: Connection, indexes: IndexCache, bank: BankId, facts: Sequence[FactId], messages: Sequence[MessageId]
) -> Loaded:
    """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
    index = indexes.get(connection, bank)
    found, titles = load.facts_with_titles(connection, index, bank, facts)
    said = reads.messages_of(connection, index.number, MessageSelect(ids=messages)) if messages else []
    return Loaded(facts=found, messages=said, titles=titles)
