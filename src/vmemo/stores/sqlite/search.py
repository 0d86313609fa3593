"""Searches on SQLite: rankings from the in-memory index of a bank, rows from the file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from sqlalchemy import Connection

from vmemo.models import BankId, FactId, Mention, MessageId, utc_now
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    ExpandRequest,
    Expansion,
    FactOutline,
    Ranking,
    RevisionEdge,
    RevisionQuery,
    Scope,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import Loaded
from vmemo.stores.sql import name_rows, reads
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.search import run_expansion, run_search
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.bank_cache import BankCache, BankCaches
from vmemo.stores.sqlite.file import SqliteFile
from vmemo.stores.sqlite.graph import BankGraph, Expander
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.cache import IndexCache
from vmemo.stores.sqlite.index.postings import query_terms
from vmemo.stores.sqlite.index.vectors import ComparedVectors, Mask
from vmemo.stores.sqlite.load import FactLoader
from vmemo.stores.sqlite.raw import fetch
from vmemo.stores.values import micros

_NAMED = """
SELECT entity_names.name, entities.id, entities.name, entities.type
FROM entity_names JOIN entities ON entities.seq = entity_names.entity
WHERE entity_names.bank = ? AND entity_names.name IN (SELECT value FROM json_each(?))
ORDER BY entity_names.name, entity_names.entity
"""


class SqliteBankReader:
    """`BankReader` and `BankSearch` over the index of a bank and the connection that it is read with.

    It explains the errors of its own statements, and not those of the function that uses it.
    """

    def __init__(
        self, file: SqliteFile, connection: Connection, indexes: IndexCache, caches: BankCaches, bank: BankId
    ) -> None:
        self._reading = file.reading
        self._connection = connection
        self._indexes = indexes
        self._caches = caches
        self._bank = bank
        self._space: str | None = None
        self._loaded: BankIndex | None = None
        self._filtered: list[tuple[Scope, Mask]] = []
        self._compared: list[tuple[Vector, ComparedVectors]] = []
        self._expanders: list[tuple[EdgeQuery, Expander]] = []

    @property
    def _index(self) -> BankIndex:
        """The index, the same for the whole transaction: what was filtered refers to its rows."""
        if self._loaded is None:
            self._loaded = self._indexes.get(self._connection, self._bank)
        return self._loaded

    @cached_property
    def _cache(self) -> BankCache:
        return self._caches.get(self._connection, self._index)

    @cached_property
    def _graph(self) -> BankGraph:
        return BankGraph(self._connection, self._index, self._cache)

    @cached_property
    def _loader(self) -> FactLoader:
        return FactLoader(self._connection, self._index, self._bank, self._cache)

    def _compare(self, vector: Vector) -> ComparedVectors:
        """Return the vectors of the bank, compared with a query once in the whole transaction."""
        for known, compared in self._compared:
            if known is vector:
                return compared
        self._compared.append((vector, self._index.compared(vector)))
        return self._compared[-1][1]

    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""
        if space is not None and space != self._space:
            checked = self._indexes.get(self._connection, self._bank, space=space)
            self._loaded, self._space = self._loaded or checked, space
        self.allowed(scope)

    def allowed(self, scope: Scope) -> Mask:
        """Return the facts that a scope accepts, found once for each scope."""
        for known, mask in self._filtered:
            if known is scope:
                return mask
        only = rows.filtered(self._connection, self._index.number, scope)
        mask = self._index.allowed(scope, micros(utc_now()), only)
        self._filtered.append((scope, mask))
        return mask

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        return self._index.nearest(self._compare(vector), self.allowed(scope), limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        return self._index.matching(query_terms(text), self.allowed(scope), limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages by BM25."""
        words = query_terms(text)
        return rows.matching_messages(self._connection, self._index.number, scope, words, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        return self._index.during(query, self._compare(query.vector), self.allowed(scope), limit)

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""
        number = self._index.number
        return name_rows.mentions_in(text, lambda names: fetch(self._connection, _NAMED, number, listed(names)))

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        return rows.instructions(self._connection, self._index.number, scope, limit=limit)

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        for known, expander in self._expanders:
            if _leads_alike(known, query):
                return expander.find(query)
        expander = Expander(self._graph, self.allowed(query.scope), self._compare(query.vector))
        self._expanders.append((query, expander))
        return expander.find(query)

    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        return rows.tokens_of(self._connection, self._cache, self._index.numbers(facts), facts)

    def revisions(self, query: RevisionQuery) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        return self._graph.revisions(self.allowed(query.scope), query.facts)

    def search(self, request: SearchRequest) -> SearchResult:
        """Search all channels of a request."""
        with self._reading():
            return run_search(self, request)

    def expand(self, request: ExpandRequest) -> Expansion:
        """Return the edges, token vectors and revisions of candidates."""
        with self._reading():
            return run_expansion(self, request)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        with self._reading():
            found, titles = self._loader.load(facts)
            by_id = MessageSelect(ids=messages)
            said = reads.messages_of(self._connection, self._index.number, by_id) if messages else []
            return Loaded(facts=found, messages=said, titles=titles)

    def outline(self, facts: Sequence[FactId]) -> list[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        with self._reading():
            return self._loader.outlines(facts)


def _leads_alike(one: EdgeQuery, other: EdgeQuery) -> bool:
    """Return True if both queries choose the same facts of an entity."""
    numbers = one.fan, one.compared, one.common, one.floor
    return (
        one.scope is other.scope
        and one.vector is other.vector
        and numbers == (other.fan, other.compared, other.common, other.floor)
    )
