"""Searches on PostgreSQL: all channels of a recall on one connection, in one read transaction, and the search rows.

By vector: an exact scan over the vectors of a bank, or the HNSW index if the bank is large. By words: a GIN index finds
the texts that have a word of the query, and BM25 ranks them in the process. A statement writes all rows of a batch from
arrays, one for each column, so that every batch is one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sqlalchemy import Connection

from vmemo.models import BankId, Interval, MessageId
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Encoding,
    Ranking,
    RevisionEdge,
    Scope,
    Scored,
    TemporalSearch,
    Vector,
    Vectors,
)
from vmemo.ports import BankNotFound
from vmemo.stores.postgres.connection import execute, fetch, fetch_built
from vmemo.stores.postgres.schema import search, vector_index
from vmemo.stores.search import (
    COMPARED,
    LINKS,
    MOST_TEXTS,
    Collection,
    EntityFacts,
    Indexed,
    IndexedTexts,
    accepts_messages,
    by_entity,
    fact_words,
    is_wide,
    link_edge,
    rank_by_words,
    word_keys,
)
from vmemo.stores.sql import reads
from vmemo.stores.sql.bank_rows import BankState
from vmemo.stores.sql.reads import BEGAN, Parameters, ScopeFilter, SqlBankSearch, instruction_statement, occurred_in
from vmemo.stores.sql.rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.schema import REVISIONS
from vmemo.stores.sql.statements import Cells
from vmemo.stores.sqlite.index import SAMPLE
from vmemo.stores.values import encode_tokens, instant, micros
from vmemo.text.tokens import query_terms, terms

Kind = Literal["fact", "message"]
"""The records of a word index."""
PART = 1000
"""Facts whose vectors are replaced by one statement."""


class Sizes(NamedTuple):
    """The indexed facts and messages of a bank."""

    facts: Collection
    messages: Collection
    any_instruction: bool


_SIZES = """
SELECT seq, identity, revision, purges, dimension, embedder,
    coalesce(facts, 0), coalesce(fact_terms, 0), coalesce(messages, 0), coalesce(message_terms, 0),
    EXISTS (SELECT FROM facts WHERE facts.bank = banks.seq AND instruction = 1)
FROM banks LEFT JOIN search_sizes ON search_sizes.bank = banks.seq WHERE banks.id = $1
"""


def state_and_sizes(connection: Connection, bank: str) -> tuple[BankState, Sizes] | None:
    """Return the bank's state and the sizes of its indexes; None if there is no such bank."""
    rows = fetch(connection, _SIZES, bank)
    if not rows:
        return None
    *state, facts, fact_words, messages, message_words, any_instruction = rows[0]
    return BankState(*state), Sizes(Collection(facts, fact_words), Collection(messages, message_words), any_instruction)


class PostgresSearchIndex:
    """The search index, written in the transaction that writes the rows."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        if new:
            _add_vectors(connection, bank, [(seq, item.encoding) for seq, item in new])
            words = [(seq, fact_words(item.fact.text, item.fact.context)) for seq, item in new]
            _add_words(connection, "fact", bank, words)

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _add_words(connection, "message", bank, [(seq, terms(content)) for seq, content in new])

    def drop_bank(self, connection: Connection, bank: int) -> None:
        for table in search.sorted_tables:
            connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE bank = $1", (bank,))

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[int, Encoding]) -> None:
        _drop_vectors(connection, bank, list(new))
        known = list(new.items())
        for start in range(0, len(known), PART):
            _add_vectors(connection, bank, known[start : start + PART])

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        statement = "SELECT seq FROM messages WHERE bank = $1 AND id = ANY($2::text[])"
        seqs = connection.exec_driver_sql(statement, (bank, list(messages))).scalars()
        _drop_words(connection, "message", bank, seqs)

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        _drop_words(connection, "fact", bank, facts)
        _drop_vectors(connection, bank, facts)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _drop_words(connection, "message", bank, messages)

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        statement = "SELECT seq, halfvec_send(embedding) FROM fact_vectors WHERE bank = $1 AND seq = ANY($2::bigint[])"
        found = connection.exec_driver_sql(statement, (bank, list(seqs)))
        # Two bytes of dimension and two unused ones stand before the numbers.
        return {seq: tuple(np.frombuffer(sent, ">f2", offset=4).astype(float).tolist()) for seq, sent in found}


_ADD_VECTORS = """
WITH given AS (
    SELECT seq, width, vectors, place::integer AS place
    FROM unnest($2::bigint[], $5::integer[], $6::bytea[]) WITH ORDINALITY AS rows(seq, width, vectors, place)
), tokens AS (
    INSERT INTO fact_tokens (bank, seq, width, vectors)
    SELECT $1, seq, width, vectors FROM given WHERE width IS NOT NULL
)
INSERT INTO fact_vectors (bank, seq, embedding)
SELECT $1, seq, ($3::real[])[(place - 1) * $4::integer + 1 : place * $4::integer]::halfvec FROM given
"""


def _add_vectors(connection: Connection, bank: int, new: Sequence[tuple[int, Encoding]]) -> None:
    """Store the vectors and token vectors of facts."""
    vectors = np.stack([encoding.vector for _, encoding in new])
    # Rounded here as SQLite's are, so that both databases hold the same numbers. One list is faster to send than many.
    numbers = vectors.astype(np.float16).astype(np.float32).ravel().tolist()
    texts = [encoding.tokens if encoding.tokens is not None and encoding.tokens.size else None for _, encoding in new]
    widths = [None if tokens is None else int(tokens.shape[1]) for tokens in texts]
    stored = iter(encode_tokens([tokens for tokens in texts if tokens is not None]))
    packed = [None if tokens is None else next(stored) for tokens in texts]
    seqs = [seq for seq, _ in new]
    connection.exec_driver_sql(_ADD_VECTORS, (bank, seqs, numbers, vectors.shape[1], widths, packed))


_DROP_VECTORS = """
WITH tokens AS (DELETE FROM fact_tokens WHERE bank = $1 AND seq = ANY($2::bigint[]))
DELETE FROM fact_vectors WHERE bank = $1 AND seq = ANY($2::bigint[])
"""


def _drop_vectors(connection: Connection, bank: int, seqs: Sequence[int]) -> None:
    connection.exec_driver_sql(_DROP_VECTORS, (bank, list(seqs)))


def _add_words(connection: Connection, kind: Kind, bank: int, texts: Sequence[tuple[int, Sequence[str]]]) -> None:
    """Index texts, given by number and words."""
    if not texts:
        return
    keys = [f"{{{','.join(map(str, word_keys(bank, words)))}}}" for _, words in texts]
    statement = f"""
WITH added AS (
    INSERT INTO {kind}_words (bank, seq, words)
    SELECT $1, seq, words::integer[] FROM unnest($2::bigint[], $3::text[]) AS given(seq, words)
    RETURNING cardinality(words) AS length
)
INSERT INTO search_sizes AS known (bank, {kind}s, {kind}_terms)
SELECT $1, count(*), coalesce(sum(length), 0) FROM added
ON CONFLICT (bank) DO UPDATE
SET {kind}s = known.{kind}s + excluded.{kind}s, {kind}_terms = known.{kind}_terms + excluded.{kind}_terms
"""
    connection.exec_driver_sql(statement, (bank, [seq for seq, _ in texts], keys))


def _drop_words(connection: Connection, kind: Kind, bank: int, seqs: Iterable[int]) -> None:
    """Remove texts from the index, those of them that are in it."""
    statement = f"""
WITH gone AS (
    DELETE FROM {kind}_words WHERE bank = $1 AND seq = ANY($2::bigint[]) RETURNING cardinality(words) AS length
)
UPDATE search_sizes
SET {kind}s = {kind}s - (SELECT count(*) FROM gone),
    {kind}_terms = {kind}_terms - (SELECT coalesce(sum(length), 0) FROM gone)
WHERE bank = $1
"""
    connection.exec_driver_sql(statement, (bank, list(seqs)))


_TOKENS = "SELECT seq, width, vectors FROM fact_tokens WHERE bank = $1 AND seq = ANY($2::bigint[])"


def cosine(values: Parameters, vector: Sequence[float]) -> str:
    """Return the SQL of a fact's cosine with a vector. All vectors have length one: the inner product is enough.

    The server converts the vector once in a subquery; a cast alone would be repeated for each row.
    """
    return f"-(fact_vectors.embedding <#> (SELECT {values.add(vector, 'real[]')}::halfvec))"


@dataclass(frozen=True)
class PostgresGraph:
    """`GraphReads` of one scope, each in one statement."""

    connection: Connection
    filter: ScopeFilter

    def linked(self, query: EdgeQuery) -> list[Edges]:
        return self._edges(fetch_built(self.connection, lambda values: self._links(values, query)))

    def expand(self, query: EdgeQuery, chosen: Set[int]) -> tuple[Sequence[Edges], Sequence[Cells], EntityFacts]:
        def statement(values: Parameters) -> str:
            bank, vector = values.add(self.filter.bank, "bigint"), query.vector.tolist()
            return f"""
WITH nodes AS MATERIALIZED (
    SELECT node.source, node.entity, weight FROM (
        SELECT fact AS source, entity FROM mentions
        WHERE bank = {bank} AND fact = ANY({values.add(list(set(query.facts)), "bigint[]")})
        UNION ALL SELECT -given, given FROM unnest({values.add(list(query.entities), "bigint[]")}) AS given
    ) AS node CROSS JOIN LATERAL (
        SELECT 1 / sqrt(greatest(count(*), 1)::float8) AS weight FROM (
            SELECT FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = node.entity LIMIT {query.common}
        ) AS mentioned
    ) AS counted WHERE weight >= {values.add(query.least, "float8")}
)
({self._links(values, query)})
UNION ALL SELECT source, entity, NULL, NULL, NULL, NULL, weight FROM nodes
UNION ALL SELECT given.entity, chosen.seq, chosen.tokens, chosen.mentioned_at, NULL, NULL, NULL
FROM (
    SELECT DISTINCT entity FROM nodes WHERE entity <> ALL({values.add(list(chosen), "bigint[]")})
) AS given CROSS JOIN LATERAL (
    SELECT facts.seq, facts.tokens, facts.mentioned_at FROM (
        SELECT fact FROM mentions WHERE mentions.bank = {bank} AND mentions.entity = given.entity
        ORDER BY fact DESC LIMIT {COMPARED}
    ) AS newest
    JOIN facts ON facts.bank = {bank} AND facts.seq = newest.fact
    JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = newest.fact
    WHERE {self._reachable(values, query, vector)}
    ORDER BY {cosine(values, vector)} DESC, facts.seq LIMIT {query.fan}
) AS chosen
"""

        rows = fetch_built(self.connection, statement)
        links = [row for row in rows if row[4] is not None]
        nodes = [(row[0], row[1], row[6]) for row in rows if row[4] is None and row[6] is not None]
        return self._edges(links), nodes, by_entity([row[:4] for row in rows if row[6] is None])

    @staticmethod
    def _edges(rows: Sequence[Cells]) -> list[Edges]:
        return [link_edge(one, to, LINK_KINDS[int(kind)], weight, onward) for one, *to, kind, onward, weight in rows]

    def _links(self, values: Parameters, query: EdgeQuery) -> str:
        bank = values.add(self.filter.bank, "bigint")
        return f"""
SELECT given.seq, facts.seq, facts.tokens, facts.mentioned_at, found.kind::integer, found.onward, found.weight::float8
FROM unnest({values.add(list(set(query.facts)), "bigint[]")}) AS given(seq) CROSS JOIN LATERAL (
    (SELECT target AS other, kind, weight, true AS onward FROM links
        WHERE links.bank = {bank} AND links.source = given.seq ORDER BY target, kind LIMIT {LINKS})
    UNION ALL
    (SELECT source, kind, weight, false FROM links
        WHERE links.bank = {bank} AND links.target = given.seq ORDER BY source, kind LIMIT {LINKS})
) AS found
JOIN facts ON facts.bank = {bank} AND facts.seq = found.other
JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = found.other
WHERE found.other <> given.seq AND found.weight >= {values.add(query.least, "float8")}
    AND {self._reachable(values, query, query.vector.tolist())}
"""

    def _reachable(self, values: Parameters, query: EdgeQuery, vector: Sequence[float]) -> str:
        """Return the condition of facts that edges may lead to: in the scope and similar enough."""
        condition = self.filter.facts(values)
        if query.floor <= -1.0:
            return condition
        return f"{condition} AND {cosine(values, vector)} >= {values.add(query.floor, 'float8')}"


def revisions(connection: Connection, filter: ScopeFilter, facts: Sequence[int]) -> list[RevisionEdge]:
    """Return the links by which facts replace or outdate others, with an end given and both ends in the scope."""
    rows = fetch_built(connection, lambda values: _revision_statement(values, filter, facts))
    return [
        RevisionEdge(newer, older, REVISION_KINDS[kind], weight, newer_tokens, older_tokens, instant(mentioned_at))
        for newer, newer_tokens, mentioned_at, older, older_tokens, kind, weight in rows
    ]


def _revision_statement(values: Parameters, filter: ScopeFilter, facts: Sequence[int]) -> str:
    bank = values.add(filter.bank, "bigint")
    links = " UNION ".join(
        f"SELECT source, target, kind, weight FROM given JOIN links ON links.bank = {bank} AND links.{end} = given.seq "
        f"WHERE {REVISIONS}"
        for end in ("source", "target")
    )
    return f"""
WITH given AS MATERIALIZED (
    SELECT seq FROM unnest({values.add(facts, "bigint[]")}) AS given(seq)
), found AS MATERIALIZED ({links}), visible AS MATERIALIZED (
    SELECT facts.seq, facts.tokens, facts.mentioned_at
    FROM (SELECT source AS seq FROM found UNION SELECT target FROM found) AS ends
    JOIN facts ON facts.bank = {bank} AND facts.seq = ends.seq WHERE {filter.facts(values)}
)
SELECT newer.seq, newer.tokens, newer.mentioned_at, older.seq, older.tokens, found.kind::integer, found.weight
FROM found JOIN visible AS newer ON newer.seq = found.source JOIN visible AS older ON older.seq = found.target
ORDER BY found.source, found.target
"""


class PostgresBankSearch(SqlBankSearch):
    """The searches of one bank; banks of at least `index_from` facts are searched by the vector index.

    Raise BankNotFound if there is no such bank.
    """

    def __init__(self, connection: Connection, bank: BankId, *, index_from: int) -> None:
        found = state_and_sizes(connection, bank)
        if found is None:
            raise BankNotFound(bank)
        self._state, self._sizes = found
        super().__init__(connection, bank, self._state.seq)
        self._large = self._sizes.facts.texts >= index_from
        self._filter: ScopeFilter | None = None
        self._baselines: list[tuple[Vector, float]] = []
        self._generic_plans = False

    @property
    def _by_search(self) -> Connection:
        """The connection for searches through a bank, whose plan depends on the bank and its size."""
        return self._planned(generic=False)

    @property
    def _by_key(self) -> Connection:
        """The connection for rows that are looked up by key: one plan is good for all, and planning takes longer."""
        return self._planned(generic=True)

    def _planned(self, *, generic: bool) -> Connection:
        if generic != self._generic_plans:
            execute(self._connection, f"SET LOCAL plan_cache_mode = {'force_generic_plan' if generic else 'auto'}")
            self._generic_plans = generic
        return self._connection

    def prepare(self, scope: Scope, space: str | None) -> None:
        if space is not None:
            self._state.demand(space)
        self._filter_of(scope)

    def _filter_of(self, scope: Scope) -> ScopeFilter:
        """Return the filter of a scope; that of the last scope is kept, for it may take a query."""
        if self._filter is None or self._filter.scope is not scope:
            self._filter = ScopeFilter.of(self._by_search, self._bank, scope)
        return self._filter

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        numbers = vector.tolist()
        found = self._nearest_rows(self._filter_of(scope), numbers, limit=limit, floor=floor)
        return _ranking(found, limit, floor, self._baseline(vector))

    def neighbours(self, vectors: Vectors, *, limit: int, floor: float) -> list[list[Scored]]:
        """Return for each vector the nearest current facts."""
        filter = self._filter_of(Scope(bank=self._name))
        found = [
            _ranking(self._nearest_rows(filter, vector.tolist(), limit=limit, floor=floor), limit, floor)
            for vector in vectors
        ]
        given = [(each.numbers.tolist(), each.scores.tolist()) for each in found]
        return reads.scored(self._connection, self._bank, given)

    def _nearest_rows(
        self, filter: ScopeFilter, vector: Sequence[float], *, limit: int, floor: float
    ) -> list[Sequence[Any]]:
        """Return number, tokens, time and cosine of at least the best `limit` facts of a scope, best first.

        Where nearly every fact passes, twice as many as wanted are ranked before the scope is applied, which saves
        reading the row of every fact. If too few of these pass, the facts of the scope are ranked alone.
        """
        connection = self._by_search
        if is_wide(filter.scope):
            length = 2 * limit + 16
            indexed = self._use_index(length)
            ranked = fetch_built(connection, lambda values: self._shortlist(values, filter, vector, length, indexed))
            passing = [row for row in ranked if row[4]]
            complete = len(ranked) < length and not indexed
            if complete or len(passing) >= limit or (len(ranked) == length and ranked[-1][3] < floor):
                return passing
        return fetch_built(connection, lambda values: _exact(values, filter, vector, limit))

    def _use_index(self, length: int) -> bool:
        """Return True if the index can return this many rows, and widen its search for this transaction."""
        if not self._large or length * INDEX_SHARE > self._sizes.facts.texts:
            return False
        candidates = max(300, min(1_000, 3 * length))
        asked = vector_index(self._state.dimension), str(candidates), float(OTHER_BANKS * self._sizes.facts.texts)
        return bool(fetch(self._connection, _USE_INDEX, *asked))

    def _shortlist(
        self, values: Parameters, filter: ScopeFilter, vector: Sequence[float], length: int, indexed: bool
    ) -> str:
        """Return the statement for the nearest facts, each with the result of the scope's conditions."""
        bank = values.add(self._bank, "bigint")
        if indexed:
            halfvec = f"halfvec({self._state.dimension})"
            nearest = f"""
SELECT seq, -distance AS score FROM (
    SELECT seq, embedding::{halfvec} <#> (SELECT {values.add(vector, "real[]")}::{halfvec}) AS distance
    FROM fact_vectors WHERE bank = {self._bank} AND vector_dims(embedding) = {self._state.dimension}
    ORDER BY distance LIMIT {length}
) AS near"""
        else:
            nearest = (
                f"SELECT seq, {cosine(values, vector)} AS score FROM fact_vectors WHERE bank = {bank} "
                f"ORDER BY score DESC, seq LIMIT {length}"
            )
        # Each row is looked up by its key; all rows of the bank would be read to join so few.
        return f"""
SELECT nearest.seq, row.tokens, row.mentioned_at, nearest.score, row.passes
FROM ({nearest}) AS nearest CROSS JOIN LATERAL (
    SELECT facts.tokens, facts.mentioned_at, {filter.facts(values)} AS passes
    FROM facts WHERE facts.bank = {bank} AND facts.seq = nearest.seq OFFSET 0
) AS row
ORDER BY nearest.score DESC, nearest.seq
"""

    def _baseline(self, vector: Vector) -> float:
        """Return the cosine of unrelated facts: two deviations under the mean of an even sample."""
        for known, baseline in self._baselines:
            if known is vector:
                return baseline
        numbers = vector.tolist()

        def statement(values: Parameters) -> str:
            bank = values.add(self._bank, "bigint")
            sample = f"SELECT {cosine(values, numbers)} AS cosine FROM fact_vectors WHERE bank = {bank}"
            if self._sizes.facts.texts >= 2 * SAMPLE:
                # A few facts at each of some places at even distances; each place is one look at the key.
                sample = f"""
SELECT cosine FROM (
    SELECT min(seq) AS first, max(seq) AS last FROM fact_vectors WHERE bank = {bank}
) AS ends CROSS JOIN generate_series(0, {PLACES - 1}) AS place CROSS JOIN LATERAL (
    {sample} AND seq >= ends.first + (ends.last - ends.first) * place / {PLACES} ORDER BY seq LIMIT {SAMPLE // PLACES}
) AS following"""
            return f"SELECT avg(cosine) - 2 * stddev_pop(cosine) FROM ({sample}) AS sample"

        [(found,)] = fetch_built(self._by_search, statement)
        self._baselines.append((vector, float(found or 0.0)))
        return self._baselines[-1][1]

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        index = _WordIndex(self._by_search, "fact", self._sizes.facts, self._filter_of(scope))
        return rank_by_words(index, word_keys(self._bank, query_terms(text)), limit=limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        if not accepts_messages(scope):
            return Ranking()
        index = _WordIndex(self._by_search, "message", self._sizes.messages, self._filter_of(scope))
        return rank_by_words(index, word_keys(self._bank, query_terms(text)), limit=limit, sign=-1)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        filter, vector = self._filter_of(scope), query.vector.tolist()
        found = fetch_built(self._by_search, lambda values: _during(values, filter, query, vector, limit))
        return Ranking.of([(*row,) for row in found], self._baseline(query.vector))

    def instructions(self, scope: Scope, *, limit: int) -> list[int]:
        if not self._sizes.any_instruction:
            return []
        filter = ScopeFilter.of(self._connection, self._bank, scope)
        found = fetch_built(self._connection, lambda values: instruction_statement(filter, values, limit=limit))
        return [seq for (seq,) in found]

    def edges(self, query: EdgeQuery) -> list[Edges]:
        self.prepare(query.scope, query.space)
        filter = self._filter_of(query.scope)
        return self._edges.find(PostgresGraph(self._by_key, filter), query)

    def _stored_tokens(self, facts: Sequence[int]) -> Sequence[Sequence[Any]]:
        return fetch(self._by_key, _TOKENS, self._bank, list(facts))

    def revisions(self, scope: Scope, facts: Sequence[int]) -> list[RevisionEdge]:
        return revisions(self._by_key, self._filter_of(scope), facts)


PLACES = 64
"""Places of a bank that are looked at for a sample of its facts."""
INDEX_SHARE = 60
"""The index is asked for at most one fact of the bank in so many; beyond that a scan is as fast."""
OTHER_BANKS = 10
"""The index is used for a bank with at least one of so many of its vectors: it reads those of other banks as well."""
_USE_INDEX = """
SELECT set_config('hnsw.ef_search', $2, true), set_config('hnsw.iterative_scan', 'relaxed_order', true)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indexrelid = to_regclass($1) AND indisvalid AND reltuples <= $3
"""


def _ranking(found: Sequence[Sequence[Any]], limit: int, floor: float, baseline: float = 0.0) -> Ranking:
    rows = [(number, tokens, time, score) for number, tokens, time, score, *_ in found[:limit] if score >= floor]
    return Ranking.of(rows, baseline)


def _exact(values: Parameters, filter: ScopeFilter, vector: Sequence[float], limit: int) -> str:
    """Return the statement that ranks all facts of a scope."""
    bank = values.add(filter.bank, "bigint")
    return f"""
SELECT facts.seq, facts.tokens, facts.mentioned_at, {cosine(values, vector)} AS score
FROM fact_vectors JOIN facts ON facts.bank = {bank} AND facts.seq = fact_vectors.seq
WHERE fact_vectors.bank = {bank} AND {filter.facts(values)}
ORDER BY score DESC, facts.seq LIMIT {limit}
"""


def _during(values: Parameters, filter: ScopeFilter, query: TemporalSearch, vector: Sequence[float], limit: int) -> str:
    bank, floor = values.add(filter.bank, "bigint"), values.add(query.floor, "float8")
    conditions = " AND ".join([filter.facts(values), *occurred_in(values, query.during)])
    share = f"1 - {values.add(query.edge_penalty, 'float8')} * {_off_centre(values, query.during)}"
    # The offset keeps the floor from being asked of every fact of the bank.
    return f"""
SELECT seq, tokens, mentioned_at, cosine * share AS score FROM (
    SELECT facts.seq, facts.tokens, facts.mentioned_at, {cosine(values, vector)} AS cosine, {share} AS share
    FROM facts JOIN fact_vectors ON fact_vectors.bank = {bank} AND fact_vectors.seq = facts.seq
    WHERE facts.bank = {bank} AND {conditions} OFFSET 0
) AS close
WHERE cosine >= {floor} ORDER BY score DESC, seq LIMIT {limit}
"""


def _off_centre(values: Parameters, interval: Interval) -> str:
    """Return each fact's distance from the interval's middle: 0 there, 1 at the ends; 0 for an open interval."""
    if interval.start is None or interval.end is None:
        return "0::float8"
    start, end = micros(interval.start), micros(interval.end)
    middle = values.add((start + end) / 2, "float8")
    half = values.add(max(1.0, (end - start) / 2), "float8")
    ended = f"greatest(coalesce(facts.occurred_end, facts.mentioned_at + 1), {BEGAN} + 1)"
    return f"least(1::float8, abs(({BEGAN} + {ended})::float8 / 2 - {middle}) / {half})"


SAMPLED_TEXTS = 1_000
"""Newest texts of a bank by which the frequency of a word in very many texts is estimated."""
_MESSAGE_TOKENS = "length(messages.content) / 4 + 1"
"""Tokens are estimated here; recall counts the few it keeps."""
_ARRAY = np.dtype([("bytes", ">i4"), ("value", ">i4")])
_ARRAY_HEAD = 20
"""Bytes before the elements of an array in PostgreSQL's binary format, where each has its length before it."""


@dataclass(frozen=True)
class _WordIndex:
    """`WordIndex` of a bank: a GIN index over the keys of the words of facts or messages."""

    connection: Connection
    kind: Kind
    size: Collection
    filter: ScopeFilter

    def frequencies(self, keys: Sequence[int]) -> Mapping[int, float]:
        """Return how many texts have each word; above `MOST_TEXTS`, as estimated by the newest texts."""
        statement = f"""
SELECT key, (
    SELECT count(*) FROM (
        SELECT FROM {self.kind}_words WHERE bank = $1 AND words @> ARRAY[key] LIMIT {MOST_TEXTS}
    ) AS held
), (
    SELECT count(*) FILTER (WHERE words @> ARRAY[key])::float8 / count(*) FROM (
        SELECT words FROM {self.kind}_words WHERE bank = $1 ORDER BY seq DESC LIMIT {SAMPLED_TEXTS}
    ) AS newest
) FROM unnest($2::integer[]) AS given(key)
"""
        found = fetch(self.connection, statement, self.filter.bank, list(keys))
        return {
            key: count if count < MOST_TEXTS else max(MOST_TEXTS, share * self.size.texts)
            for key, count, share in found
        }

    def texts(self, keys: Sequence[int]) -> IndexedTexts:
        statement = (
            f"SELECT seq, array_send(words) FROM {self.kind}_words WHERE bank = $1 AND words && $2::integer[] LIMIT $3"
        )
        found = fetch(self.connection, statement, self.filter.bank, list(keys), MOST_TEXTS)
        elements = np.frombuffer(b"".join([words[_ARRAY_HEAD:] for _, words in found]), _ARRAY)
        lengths = [(len(words) - _ARRAY_HEAD) // _ARRAY.itemsize for _, words in found]
        seqs = np.array([seq for seq, _ in found], np.int64)
        return IndexedTexts(seqs, np.array(lengths, np.int64), elements["value"].astype(np.int32))

    def in_scope(self, seqs: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        columns, condition = "tokens, mentioned_at", self.filter.facts
        if self.kind == "message":
            columns, condition = f"{_MESSAGE_TOKENS}, timestamp", self.filter.messages

        def statement(values: Parameters) -> str:
            bank, given = values.add(self.filter.bank, "bigint"), values.add(seqs, "bigint[]")
            return (
                f"SELECT seq, {columns} FROM {self.kind}s "
                f"WHERE bank = {bank} AND seq = ANY({given}) AND {condition(values)}"
            )

        return {seq: (tokens, time) for seq, tokens, time in fetch_built(self.connection, statement)}
