"""Searches on PostgreSQL: all channels of a recall on one connection, in one read transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection

from vmemo.models import BankId, FactId, Mention, MessageId
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    Ranking,
    RevisionEdge,
    RevisionQuery,
    Scope,
    Scored,
    TemporalSearch,
    TokenVectors,
    Vector,
    Vectors,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import BankNotFound, Loaded
from vmemo.stores.postgres import filters, graph, load, rows, vectors as vector_rows, words
from vmemo.stores.postgres.hnsw import Searched
from vmemo.stores.postgres.ranked_rows import Candidates
from vmemo.stores.sql import name_rows, reads, scope_conditions


class PostgresBankSearch:
    """`BankSearch` of one bank; banks of at least half of `index_from` facts may have a vector index.

    Raise BankNotFound if there is no such bank.
    """

    def __init__(self, connection: Connection, bank: BankId, *, index_from: int) -> None:
        found = rows.sized(connection, bank)
        if found is None:
            raise BankNotFound(bank)
        self._state, self._sizes = found
        self._connection = connection
        self._name = bank
        self._bank = self._state.seq
        self._filtered: tuple[Scope, list[ColumnElement[bool]]] | None = None
        self.searched = Searched(
            bank=self._bank,
            dimension=self._state.dimension,
            count=self._sizes.facts,
            indexed=2 * self._sizes.facts >= index_from,
        )

    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""
        if space is not None:
            self._state.demand(space)
        self.conditions(scope)

    def conditions(self, scope: Scope) -> list[ColumnElement[bool]]:
        """Return the conditions of a scope; those of the last scope are kept, for they may take a query."""
        if self._filtered is None or self._filtered[0] is not scope:
            self._filtered = scope, filters.conditions(self._connection, self._bank, scope)
        return self._filtered[1]

    def _candidates(self, scope: Scope) -> Candidates:
        return vector_rows.fact_candidates(self._bank, scope, self.conditions(scope))

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        candidates = self._candidates(scope)
        return vector_rows.nearest(self._connection, self.searched, candidates, vector, limit=limit, floor=floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        return words.matching_facts(self._connection, self._sizes, self._candidates(scope), text, limit=limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages by BM25."""
        return words.matching_messages(self._connection, self._bank, self._sizes, scope, text, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        return vector_rows.during(self._connection, self.searched, self._candidates(scope), query, limit=limit)

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""
        return name_rows.named(self._connection, self._bank, text)

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        conditions = filters.conditions(self._connection, self._bank, scope)
        found = self._connection.execute(scope_conditions.instructions(conditions, limit=limit))
        return [FactId(id) for id in found.scalars()]

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        return graph.find(self._connection, self._bank, self.conditions(query.scope), query)

    def token_vectors(self, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        return rows.token_vectors(self._connection, self._bank, facts)

    def revisions(self, query: RevisionQuery) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        return graph.revisions(self._connection, self._bank, self.conditions(query.scope), query.facts)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId]) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        found, titles = load.facts_with_titles(self._connection, self._bank, self._name, facts)
        said = reads.messages_of(self._connection, self._bank, MessageSelect(ids=messages)) if messages else []
        return Loaded(facts=found, messages=said, titles=titles)


def nearest(
    connection: Connection, bank: BankId, vectors: Vectors, *, limit: int, floor: float, index_from: int
) -> list[list[Scored]]:
    """Return for each vector the nearest current facts."""
    searched = PostgresBankSearch(connection, bank, index_from=index_from).searched
    return vector_rows.neighbours(connection, searched, vectors, limit=limit, floor=floor)
