"""Searches on Neo4j: all channels of a recall in one read transaction.

The function of a recall runs in a thread of its own, and its searches on the loop of the connections. By vector: the
index of a large bank, or an exact scan over the vectors of a bank. By words: a full-text index finds the texts that
have a word of the query, and BM25 ranks them in the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from vmemo.models import BankId, FactId, Mention, MessageId
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Ranking,
    RevisionEdge,
    Scope,
    Scored,
    StoredTokens,
    TemporalSearch,
    Vector,
    Vectors,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import BankNotFound, Loaded
from vmemo.stores.search import (
    MOST_TEXTS,
    BankSearch,
    Collection,
    EdgeSearch,
    IndexedTexts,
    accepts_messages,
    rank_by_words,
    word_keys,
)
from vmemo.stores.sql.rows import mentions_in
from vmemo.stores.sqlite.index import SAMPLE
from vmemo.stores.values import decode_tokens, micros as micros_of, storable
from vmemo.text.tokens import query_terms
from vmemo_neo4j import graph, reads
from vmemo_neo4j.banks import FIND, header_of
from vmemo_neo4j.connection import Row, Transaction
from vmemo_neo4j.filters import CypherFilter
from vmemo_neo4j.graph import COSINE, Neo4jGraph
from vmemo_neo4j.index import Kind, keys_of, length, word
from vmemo_neo4j.nodes import FACT_COLUMNS, Cells, fact_of, micros, titles_of

R = TypeVar("R")
LOST_SECONDS = 600.0
"""Seconds after which a search counts as lost; transactions end long before."""
_OPENED: Final = (
    f"{FIND} RETURN b {{.key, .revision, .dimension, .embedder, .last_seq, .vector_index}} AS bank, "
    "[coalesce(b.fact_count, 0), coalesce(b.fact_terms, 0)] AS facts, "
    "[coalesce(b.message_count, 0), coalesce(b.message_terms, 0)] AS messages"
)


async def opened(tx: Transaction, bank: BankId) -> Neo4jBankSearch:
    """Return the searches of a bank; raise BankNotFound if there is no such bank."""
    row = await tx.one(_OPENED, name=bank)
    if row is None:
        raise BankNotFound(bank)
    return Neo4jBankSearch(tx, bank, row)


class Neo4jBankSearch(BankSearch):
    """The searches of one bank in a read transaction, for a thread beside the loop of the connections."""

    def __init__(self, tx: Transaction, name: BankId, row: Row) -> None:
        self.state = header_of(row["bank"])
        self._tx = tx
        self._name = name
        self._bank = self.state.key
        self._last_seq: int = row["bank"]["last_seq"]
        self._vector_index: str | None = row["bank"]["vector_index"]
        self._facts, self._messages = Collection(*row["facts"]), Collection(*row["messages"])
        self._loop = asyncio.get_running_loop()
        self._filtered: list[tuple[Scope, CypherFilter]] = []
        self._baselines: list[tuple[Vector, float]] = []
        self._edges = EdgeSearch()

    def _wait(self, work: Coroutine[object, object, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LOST_SECONDS)

    def prepare(self, scope: Scope, space: str | None) -> None:
        if space is not None:
            self.state.demand(space)
        self._filter(scope)

    def _filter(self, scope: Scope) -> CypherFilter:
        """Return the filter of a scope, made once for each scope."""
        for known, filter in self._filtered:
            if known is scope:
                return filter
        filter = self._wait(CypherFilter.of(self._tx, self._bank, scope))
        self._filtered.append((scope, filter))
        return filter

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        found = nearest_rows(self._tx, self._filter(scope), vector[None], self._vector_index, limit=limit, floor=floor)
        [rows] = self._wait(found)
        return Ranking.of([(row[0], row[1], row[2], row[3]) for row in rows[:limit]], self._baseline(vector))

    def _baseline(self, vector: Vector) -> float:
        """Return the cosine of unrelated facts: two deviations under the mean of an even sample."""
        for known, baseline in self._baselines:
            if known is vector:
                return baseline
        found = self._wait(
            self._tx.one(
                "UNWIND range($step, $last, $step) AS seq "
                "MATCH (f:Fact {bank: $bank, seq: seq}) USING INDEX SEEK f:Fact(bank, seq) "
                f"WITH {COSINE} AS sample RETURN avg(sample) - 2 * stDevP(sample) AS baseline",
                bank=self._bank,
                vector=vector.tolist(),
                step=max(1, self._facts.texts // SAMPLE),
                last=self._last_seq,
            )
        )
        baseline = 0.0 if found is None else float(found["baseline"] or 0.0)
        self._baselines.append((vector, baseline))
        return baseline

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        index = _WordIndex(self, "fact", self._facts, self._filter(scope))
        return rank_by_words(index, word_keys(self._bank, query_terms(text)), limit=limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        if not accepts_messages(scope):
            return Ranking()
        index = _WordIndex(self, "message", self._messages, self._filter(scope))
        return rank_by_words(index, word_keys(self._bank, query_terms(text)), limit=limit, sign=-1)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        filter, start, end = self._filter(scope), query.during.start, query.during.end
        first, last = -(2**61) if start is None else micros_of(start), 2**61 if end is None else micros_of(end)
        closed = start is not None and end is not None
        away = "abs((f.began + f.ended) / 2.0 - $middle) / $half" if closed else "0.0"
        values = filter.parameters(
            first=first,
            last=last,
            vector=query.vector.tolist(),
            floor=query.floor,
            middle=(first + last) / 2,
            half=max(1.0, (last - first) / 2),
            penalty=query.edge_penalty,
            limit=limit,
        )
        rows = self.table(
            "MATCH (f:Fact {bank: $bank}) USING INDEX f:Fact(bank, began) WHERE f.began < $last AND f.ended > $first "
            f"WITH f WHERE {filter.facts(values)} WITH f, {COSINE} AS cosine WHERE cosine >= $floor "
            f"WITH f, cosine, {away} AS away "
            "WITH f, cosine * (1 - $penalty * CASE WHEN away < 1 THEN away ELSE 1 END) AS score "
            "ORDER BY score DESC, f.seq LIMIT $limit",
            f"f.seq, f.tokens, {micros('f.mentioned_at')}, score",
            **values,
        )
        return Ranking.of([(row[0], row[1], row[2], row[3]) for row in rows], self._baseline(query.vector))

    def table(self, statement: str, columns: str, **parameters: object) -> list[list[Any]]:
        """Run a statement and return the columns of its rows."""
        return self._wait(self._tx.table(statement, columns, **parameters))

    def named_entities(self, text: str) -> dict[int, Mention]:
        def find(names: AbstractSet[str]) -> list[list[Any]]:
            return self.table(
                "UNWIND $names AS name MATCH (n:EntityName {bank: $bank, name: name})<-[:KNOWN_AS]-(e:Entity) "
                "WITH name, e ORDER BY name, e.seq",
                "name, e.seq, e.id, e.name, e.type",
                bank=self._bank,
                names=sorted(name for name in names if storable(name)),
            )

        return mentions_in(text, find)

    def instructions(self, scope: Scope, *, limit: int) -> list[int]:
        filter = self._filter(scope)
        values = filter.parameters(limit=limit)
        rows = self.table(
            f"MATCH (f:Fact {{bank: $bank, instruction: true}}) WHERE {filter.facts(values)} "
            "WITH f ORDER BY f.mentioned_at DESC, f.seq DESC LIMIT $limit",
            "f.seq",
            **values,
        )
        return [seq for (seq,) in rows]

    def edges(self, query: EdgeQuery) -> list[Edges]:
        self.prepare(query.scope, query.space)
        return self._edges.find(Neo4jGraph(self._tx, self._filter(query.scope), self._wait), query)

    def token_vectors(self, facts: Sequence[int]) -> Sequence[StoredTokens | None]:
        rows = self._by_number("Fact", "n.token_width, n.token_vectors", facts)
        stored = {seq: (width, packed) for seq, width, packed in rows if packed is not None}
        return decode_tokens([stored.get(fact) for fact in facts])

    def _by_number(self, label: str, columns: str, numbers: Sequence[int]) -> list[list[Any]]:
        statement = f"UNWIND $seqs AS seq MATCH (n:{label} {{bank: $bank, seq: seq}})"
        return self.table(statement, f"seq, {columns}", bank=self._bank, seqs=list(numbers)) if numbers else []

    def revisions(self, scope: Scope, facts: Sequence[int]) -> list[RevisionEdge]:
        return self._wait(graph.revisions(self._tx, self._filter(scope), facts))

    def load(self, numbers: Sequence[int]) -> Loaded:
        ids = self.ids(numbers)
        facts = [FactId(ids[number]) for number in numbers if number > 0 and number in ids]
        messages = [MessageId(ids[number]) for number in numbers if number < 0 and number in ids]
        return self._wait(self._load(facts, messages, {id: number for number, id in ids.items()}))

    async def _load(self, facts: Sequence[FactId], messages: Sequence[MessageId], numbers: Mapping[str, int]) -> Loaded:
        tx, bank = self._tx, self._bank
        rows = await reads.by_ids(tx, bank, "f:Fact", FACT_COLUMNS, facts) if facts else []
        said = await reads.messages_of(tx, bank, MessageSelect(ids=messages)) if messages else []
        found = [fact_of(row, self._name) for row in rows]
        return Loaded(
            facts={numbers[fact.id]: fact for fact in found},
            messages={numbers[message.id]: message for message in said},
            titles={id: title for row in rows for id, title in titles_of(row).items()},
        )

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        facts = self._by_number("Fact", "n.id", [number for number in numbers if number > 0])
        said = self._by_number("Message", "n.id", [-number for number in numbers if number < 0])
        return {**dict(map(tuple, facts)), **{-seq: id for seq, id in said}}

    def numbers(self, facts: Sequence[FactId]) -> dict[FactId, int]:
        ids = [id for id in facts if storable(id)]
        rows = self.table(
            "UNWIND $ids AS id MATCH (f:Fact {bank: $bank, id: id})", "id, f.seq", bank=self._bank, ids=ids
        )
        return {FactId(id): seq for id, seq in rows}

    def entity_names(self, entities: Sequence[int]) -> dict[int, str]:
        return dict(map(tuple, self._by_number("Entity", "n.name", entities)))


async def neighbours(tx: Transaction, bank: str, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
    """Return for each vector the nearest current facts."""
    row = await tx.one("MATCH (b:Bank {key: $bank}) RETURN b.vector_index AS index", bank=bank)
    current = await CypherFilter.of(tx, bank, Scope(bank=BankId("")))
    index = None if row is None else row["index"]
    found = await nearest_rows(tx, current, vectors, index, limit=limit, floor=floor)
    return [[Scored(id, score) for _, _, _, score, id in rows[:limit]] for rows in found]


async def nearest_rows(
    tx: Transaction, filter: CypherFilter, vectors: Vectors, index: str | None, *, limit: int, floor: float
) -> list[list[Cells]]:
    """Return for each vector number, tokens, time, cosine and id of at least the best `limit` facts of a scope.

    The index is used if enough of its facts pass; otherwise all facts are compared, each of which is read once.
    """
    found: dict[int, list[Cells]] = {}
    if index is not None and len(vectors):
        values = filter.parameters(index=index, length=max(3 * limit, 200), vectors=vectors.tolist(), floor=floor)
        rows = await tx.table(
            "UNWIND range(0, size($vectors) - 1) AS place CALL (place) { "
            "CALL db.index.vector.queryNodes($index, $length, $vectors[place]) YIELD node AS f, score "
            f"WITH f, 2 * score - 1 AS score, {filter.facts(values)} AS passes ORDER BY score DESC, f.seq RETURN "
            f"collect(CASE WHEN passes AND score >= $floor "
            f"THEN [f.seq, f.tokens, {micros('f.mentioned_at')}, score, f.id] END) AS hits, "
            "min(score) AS least }",
            "place, hits, least",
            **values,
        )
        # The best facts are among those of the index if enough pass, or if it reaches down to the floor.
        found = {place: hits for place, hits, least in rows if len(hits) >= limit or (least or floor) < floor}
    unsure = [place for place in range(len(vectors)) if place not in found]
    if unsure:
        values = filter.parameters(vectors=vectors[unsure].tolist(), floor=floor, limit=limit)
        rows = await tx.table(
            f"MATCH (f:Fact {{bank: $bank}}) WHERE f.seq > 0 AND {filter.facts(values)} "
            "WITH f, f.embedding AS embedding UNWIND range(0, size($vectors) - 1) AS place "
            "WITH place, f, 2 * vector.similarity.cosine(embedding, $vectors[place]) - 1 AS score "
            "WHERE score >= $floor WITH place, f, score ORDER BY score DESC, f.seq "
            "WITH place, collect([f, score])[..$limit] AS best",
            f"place, [hit IN best | [hit[0].seq, hit[0].tokens, {micros('hit[0].mentioned_at')}, hit[1], hit[0].id]]",
            **values,
        )
        found |= {unsure[place]: hits for place, hits in rows}
    return [found.get(place, []) for place in range(len(vectors))]


_CALL_INDEX: Final = "CALL db.index.fulltext.queryNodes($index, $query, {limit: $most}) YIELD node"
EVERY: Final = 2**31 - 1
"""The limit of a search that returns all texts."""


@dataclass(frozen=True)
class _WordIndex:
    """`WordIndex` of a bank: a full-text index over the keys of the words of facts or messages."""

    search: Neo4jBankSearch
    kind: Kind
    size: Collection
    filter: CypherFilter

    @property
    def _index(self) -> str:
        return f"vmemo_{self.kind}_words"

    def frequencies(self, keys: Sequence[int]) -> Mapping[int, float]:
        rows = self.search.table(
            "UNWIND range(0, size($words) - 1) AS place CALL (place) { "
            "CALL db.index.fulltext.queryNodes($index, $words[place], {limit: $most}) YIELD node "
            "RETURN count(node) AS texts }",
            "place, texts",
            index=self._index,
            words=[word(key) for key in keys],
            most=EVERY,
        )
        return {keys[place]: float(texts) for place, texts in rows}

    def texts(self, keys: Sequence[int]) -> IndexedTexts:
        rows = self.search.table(
            f"{_CALL_INDEX} WITH node WHERE node.bank = $bank",
            "node.seq, node.words",
            index=self._index,
            query=" ".join(map(word, keys)),
            most=MOST_TEXTS,
            bank=self.filter.bank,
        )
        lengths = np.array([length(words) for _, words in rows], np.int64)
        return IndexedTexts(np.array([seq for seq, _ in rows], np.int64), lengths, keys_of(words for _, words in rows))

    def in_scope(self, seqs: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        values = self.filter.parameters(seqs=seqs)
        if self.kind == "fact":
            match = f"(f:Fact {{bank: $bank, seq: seq}}) WHERE {self.filter.facts(values)}"
            columns = f"f.tokens, {micros('f.mentioned_at')}"
        else:
            # The tokens of messages are estimated here; recall counts the few it keeps.
            match = f"(m:Message {{bank: $bank, seq: seq}}) WHERE {self.filter.messages(values)}"
            columns = f"size(m.content) / 4 + 1, {micros('m.timestamp')}"
        rows = self.search.table(f"UNWIND $seqs AS seq MATCH {match}", f"seq, {columns}", **values)
        return {seq: (tokens, time) for seq, tokens, time in rows}
