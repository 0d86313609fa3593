"""Searches on Neo4j: all channels of a recall in one read transaction.

The function of a recall runs in a thread of its own, and its searches on the loop of the connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence, Set as AbstractSet
from typing import Final, LiteralString, NamedTuple, TypeVar

from vmemo.models import BankId, EpisodeId, FactId, Mention, MessageId
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    FactOutline,
    Ranking,
    RevisionEdge,
    Scope,
    TemporalSearch,
    TokenVectors,
    Vector,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import BankNotFound, Loaded
from vmemo.stores.sql.entity_rows import mentions_in
from vmemo.stores.sql.search import BankSearch
from vmemo.stores.values import instant, storable, unpacked_tokens
from vmemo_neo4j import graph, reads, vectors, words
from vmemo_neo4j.bank_state import FIND, BankHeader, header_of
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.filters import Filter, filter_of, message_filter_of
from vmemo_neo4j.nodes import FACT, Cells, fact_of, micros, titles_of
from vmemo_neo4j.vectors import IndexedVectors, Nearest
from vmemo_neo4j.words import Corpus

R = TypeVar("R")
LOST_SECONDS = 600.0
"""Seconds after which a search counts as lost; transactions end long before."""
_OPENED: Final[LiteralString] = (
    f"{FIND} RETURN b {{.key, .revision, .purges, .dimension, .embedder}} AS bank, "
    "coalesce(b.fact_count, 0) AS facts, coalesce(b.fact_terms, 0) AS fact_terms, "
    "coalesce(b.message_count, 0) AS messages, coalesce(b.message_terms, 0) AS message_terms, "
    "b.last_seq AS last_seq, b.vector_index AS vector_index"
)
_FACTS: Final[LiteralString] = "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id})"
_OUTLINE: Final[LiteralString] = (
    f"id, f.network, f.tokens, f.engine, f.importance, {micros('f.mentioned_at')}, f.supersedes, "
    "EXISTS { (f)-[:BASED_ON]->() }, [(f)-[:IN_EPISODE]->(p) | [p.seq, p.id]]"
)


class IndexSizes(NamedTuple):
    """The number of indexed facts and messages of a bank, and of their words; its last number and vector index."""

    facts: int
    fact_terms: int
    messages: int
    message_terms: int
    last_seq: int
    vector_index: str | None


async def opened(tx: Transaction, bank: BankId) -> Neo4jBankSearch:
    """Return the searches of a bank; raise BankNotFound if there is no such bank."""
    row = await tx.one(_OPENED, name=bank)
    if row is None:
        raise BankNotFound(bank)
    sizes = IndexSizes(*(row[name] for name in IndexSizes._fields))
    return Neo4jBankSearch(tx, bank, header_of(row["bank"]), sizes)


class Neo4jBankSearch(BankSearch):
    """The searches of one bank in a read transaction, for a thread beside the loop of the connections."""

    def __init__(self, tx: Transaction, name: BankId, state: BankHeader, sizes: IndexSizes) -> None:
        self.state = state
        self._tx = tx
        self._name = name
        self._bank = state.key
        self._sizes = sizes
        self._loop = asyncio.get_running_loop()
        self._filtered: list[tuple[Scope, Filter]] = []
        self._vectors = IndexedVectors(count=sizes.facts, last=sizes.last_seq, index=sizes.vector_index)
        self._nearest: list[tuple[Scope, Nearest]] = []

    def _wait(self, work: Coroutine[object, object, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LOST_SECONDS)

    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""
        if space is not None:
            self.state.demand(space)
        self._filter(scope)

    def _filter(self, scope: Scope) -> Filter:
        """Return the filter of a scope, made once for each scope."""
        for known, filter in self._filtered:
            if known is scope:
                return filter
        filter = self._wait(filter_of(self._tx, self._bank, scope))
        self._filtered.append((scope, filter))
        return filter

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""
        passes = self._filter(scope)
        found = self._wait(vectors.nearest(self._tx, self._vectors, passes, vector, limit=limit, floor=floor))
        self._nearest.append((scope, found))
        return found.ranking

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""
        corpus = Corpus(self._bank, "facts", self._sizes.facts, self._sizes.fact_terms)
        return self._wait(words.matching(self._tx, corpus, self._filter(scope), text, limit=limit))

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages by BM25. Networks and entities are properties of facts, so such filters accept no message."""
        if scope.entities or (scope.networks and "world" not in scope.networks):
            return Ranking()
        corpus = Corpus(self._bank, "messages", self._sizes.messages, self._sizes.message_terms)
        return self._wait(self._matching_messages(corpus, scope, text, limit))

    async def _matching_messages(self, corpus: Corpus, scope: Scope, text: str, limit: int) -> Ranking:
        passes = await message_filter_of(self._tx, self._bank, scope)
        return await words.matching(self._tx, corpus, passes, text, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""
        known = (found.baseline for _, found in self._nearest if found.vector is query.vector)
        during = vectors.during(
            self._tx, self._vectors, self._filter(scope), query, limit=limit, baseline=next(known, None)
        )
        return self._wait(during)

    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""

        def find(names: AbstractSet[str]) -> list[list[str]]:
            wanted = sorted(name for name in names if storable(name))
            named = (
                "UNWIND $names AS name MATCH (n:EntityName {bank: $bank, name: name})<-[:KNOWN_AS]-(e:Entity) "
                "WITH name, e ORDER BY name, e.seq"
            )
            return self._wait(self._tx.table(named, "name, e.id, e.name, e.type", bank=self._bank, names=wanted))

        return mentions_in(text, find)

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""
        passes = self._filter(scope)
        statement = (
            f"MATCH (f:Fact {{bank: $bank, instruction: true}}) WHERE {passes.condition} "
            "WITH f ORDER BY f.mentioned_at DESC, f.seq DESC LIMIT $limit"
        )
        rows = self._wait(self._tx.table(statement, "f.id", **passes.parameters, limit=limit))
        return [FactId(id) for (id,) in rows]

    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""
        self.prepare(query.scope, query.space)
        near = (
            found.cosines for scope, found in self._nearest if scope is query.scope and found.vector is query.vector
        )
        return self._wait(graph.find(self._tx, self._filter(query.scope), query, next(near, dict[str, float]())))

    def token_vectors(self, facts: Sequence[FactId]) -> list[TokenVectors | None]:
        """Return token vectors in the order of the facts."""
        wanted = [id for id in facts if storable(id)]
        rows = self._tx.table(_FACTS, "id, f.token_width, f.token_vectors", bank=self._bank, ids=wanted)
        found = unpacked_tokens((id, width, packed) for id, width, packed in self._wait(rows) if packed is not None)
        return [found.get(id) for id in facts]

    def revisions(self, scope: Scope, facts: Sequence[FactId]) -> list[RevisionEdge]:
        """Return the links by which facts replace or outdate others."""
        return self._wait(graph.revisions(self._tx, self._filter(scope), facts))

    def outline(self, facts: Sequence[FactId]) -> list[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        wanted = [id for id in facts if storable(id)]
        rows = self._wait(self._tx.table(_FACTS, _OUTLINE, bank=self._bank, ids=wanted))
        found = {row[0]: _outline(row) for row in rows}
        return [found[id] for id in facts if id in found]

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""
        return self._wait(self._load(facts, messages))

    async def _load(self, facts: Sequence[FactId], messages: Sequence[MessageId]) -> Loaded:
        tx, bank = self._tx, self._bank
        rows = await reads.by_ids(tx, bank, "(f:Fact {bank: $bank, id: id})", FACT, facts) if facts else []
        said = await reads.messages_of(tx, bank, MessageSelect(ids=messages)) if messages else []
        return Loaded(
            facts=[fact_of(row, self._name) for row in rows],
            messages=said,
            titles={id: title for row in rows for id, title in titles_of(row).items()},
        )


def _outline(row: Cells) -> FactOutline:
    id, network, tokens, engine, importance, mentioned_at, supersedes, has_basis, episodes = row
    return FactOutline(
        id=FactId(id),
        network=network,
        tokens=tokens,
        engine=engine,
        importance=importance,
        mentioned_at=instant(mentioned_at),
        supersedes=supersedes,
        has_basis=has_basis,
        episodes=tuple(EpisodeId(id) for _, id in sorted(episodes)[:1]),
    )
