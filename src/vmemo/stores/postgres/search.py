"""Searches on PostgreSQL: all channels of a recall on one connection, in one read transaction."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, Mention, MessageId
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    FactOutline,
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
from vmemo.stores.postgres import graph, load, rows, vectors as vector_rows, words
from vmemo.stores.postgres.driver import Parameters, execute, fetch, fetch_built
from vmemo.stores.postgres.filters import ScopeFilter
from vmemo.stores.sql import entity_rows, reads

_ANY_INSTRUCTION = "SELECT 1 FROM facts WHERE bank = $1 AND instruction = 1 LIMIT 1"
"""Most banks have none."""
_NAMED = """
SELECT entity_names.name, entities.id, entities.name, entities.type
FROM entity_names JOIN entities ON entities.bank = $1 AND entities.seq = entity_names.entity
WHERE entity_names.bank = $1 AND entity_names.name = ANY($2::text[])
ORDER BY entity_names.name, entity_names.entity
"""


class PostgresBankSearch:
    """`BankSearch` of one bank; banks of at least `index_from` facts are searched by the vector index.

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
        self._filter: ScopeFilter | None = None
        self._nearest: graph.NearestFacts | None = None
        self._edges: list[graph.EdgeSearch] = []
        self._plans_once = False
        self.searched = vector_rows.SearchedBank(
            bank=self._bank,
            dimension=self._state.dimension,
            count=self._sizes.facts.texts,
            large=self._sizes.facts.texts >= index_from,
        )

    @property
    def _by_search(self) -> Connection:
        """The connection for searches through a bank, whose plan depends on the bank and its size."""
        return self._planned(once=False)

    @property
    def _by_key(self) -> Connection:
        """The connection for rows that are looked up by key: planning takes longer, and one plan is good for all."""
        return self._planned(once=True)

    def _planned(self, *, once: bool) -> Connection:
        if once != self._plans_once:
            execute(self._connection, f"SET LOCAL plan_cache_mode = {'force_generic_plan' if once else 'auto'}")
            self._plans_once = once
        return self._connection

    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""
        if space is not None:
            self._state.demand(space)
        self.filter(scope)

    def filter(self, scope: Scope) -> ScopeFilter:
        """Return the filter of a scope; that of the last scope is kept, for it may take a query."""
        if self._filter is None or self._filter.scope is not scope:
            self._filter = ScopeFilter.of(self._by_search, self._bank, scope)
        return self._filter

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        filter = self.filter(scope)
        found = vector_rows.nearest(self._by_search, self.searched, filter, vector, limit=limit, floor=floor)
        # The first search is the one for the whole question, which following the graph compares with.
        self._nearest = self._nearest or graph.NearestFacts(scope, vector, found)
        return found.ranking(limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        return words.matching_facts(self._by_search, self._sizes.facts, self.filter(scope), text, limit=limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages by BM25."""
        return words.matching_messages(self._by_search, self._sizes.messages, self.filter(scope), text, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        return vector_rows.during(self._by_search, self.searched, self.filter(scope), query, limit=limit)

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""
        return entity_rows.mentions_in(text, lambda names: fetch(self._connection, _NAMED, self._bank, list(names)))

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        if not fetch(self._connection, _ANY_INSTRUCTION, self._bank):
            return []
        filter = ScopeFilter.of(self._connection, self._bank, scope)

        def statement(values: Parameters) -> str:
            bank = values.add(self._bank, "bigint")
            return (
                f"SELECT id FROM facts WHERE bank = {bank} AND instruction = 1 AND {filter.facts(values)} "
                f"ORDER BY mentioned_at DESC, seq DESC LIMIT {limit}"
            )

        return [FactId(id) for (id,) in fetch_built(self._connection, statement)]

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        found = next((known for known in self._edges if known.serves(query)), None)
        if found is None:
            found = graph.EdgeSearch(self.filter(query.scope), query, self._nearest)
            self._edges.append(found)
        return found.find(self._by_key, query)

    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        return rows.token_vectors(self._by_key, self._bank, facts)

    def revisions(self, query: RevisionQuery) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        return graph.revisions(self._by_key, self.filter(query.scope), query.facts)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId]) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        found, titles = load.facts_with_titles(self._by_key, self._bank, self._name, facts)
        said = reads.messages_of(self._connection, self._bank, MessageSelect(ids=messages)) if messages else []
        return Loaded(facts=found, messages=said, titles=titles)

    def outline(self, facts: Sequence[FactId]) -> list[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        return load.outlines(self._by_key, self._bank, facts)


def nearest(
    connection: Connection, bank: BankId, vectors: Vectors, *, limit: int, floor: float, index_from: int
) -> list[list[Scored]]:
    """Return for each vector the nearest current facts."""
    searched = PostgresBankSearch(connection, bank, index_from=index_from).searched
    return vector_rows.neighbours(connection, searched, vectors, limit=limit, floor=floor)
