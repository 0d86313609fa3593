"""Searches on SQLite: rankings from the in-memory index of a bank, rows from the file, and the index in the file.

The index in the file changes in the transaction that changes the rows of facts and messages. Its full-text part has no
text, only words that are stemmed already, so that facts, messages and queries are read alike in every script.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from threading import Lock
from typing import Any

import numpy as np
from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select

from vmemo.models import BankId, MessageId, utc_now
from vmemo.models.search import (
    EdgeQuery,
    Edges,
    Encoding,
    Ranking,
    RevisionEdge,
    Scope,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
)
from vmemo.stores.search import COMPARED, LINKS, EntityFacts, Indexed, accepts_messages, all_of, fact_words, link_edge
from vmemo.stores.sql.bank_rows import BankState, bank_state
from vmemo.stores.sql.reads import LoadedRecords, Parameters, ScopeFilter, SqlBankSearch, instruction_statement
from vmemo.stores.sql.rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.schema import REVISIONS, fact_index, facts, messages, token_vectors
from vmemo.stores.sql.statements import OF_PAGES, Cells, among, fetch, insert_all, later, listed
from vmemo.stores.sqlite.index import (
    COLUMNS,
    EARLIEST,
    LATEST,
    NETWORKS,
    BankIndex,
    Columns,
    ComparedVectors,
    FactRows,
    Mask,
    Rows,
    hashed,
    quantised,
    scales_of,
)
from vmemo.stores.values import WORDLESS, demand_embedder, dump, encode_tokens, instant, micros, storable
from vmemo.text.tokens import query_terms, terms

PART = 20_000
"""Facts that are read at once."""

_BEGAN = "coalesce(occurred_start, min(mentioned_at, occurred_end - 1), mentioned_at)"
"""Open ends of an occurrence reach to the time of mention, and every occurrence takes at least a microsecond."""
_NETWORK = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(NETWORKS))
_COLUMNS = f"""
seq, tokens, mentioned_at, CASE network {_NETWORK} END,
coalesce(valid_at, {EARLIEST + 1} - 1), coalesce(invalid_at, {LATEST}),
recorded_at, coalesce(expired_at, {LATEST}), coalesce(expires_at, {LATEST}), {_BEGAN},
max(coalesce(occurred_end, mentioned_at + 1), {_BEGAN} + 1), revision
"""
_CHANGED = f"SELECT {_COLUMNS} FROM facts WHERE bank = ? AND revision > ? AND seq <= ? ORDER BY seq"
_NEW = f"""
SELECT {_COLUMNS}, vector, terms FROM facts CROSS JOIN fact_index ON fact = seq
WHERE bank = ? AND {OF_PAGES} AND seq > ? ORDER BY seq LIMIT ?
"""
_MENTIONS = "SELECT fact, entity FROM mentions WHERE bank = ? AND fact > ? AND fact <= ? ORDER BY fact, entity"


def changed_columns(connection: Connection, bank: int, *, after: int, last: int) -> Columns:
    """Return the columns of facts up to the number `last` that changed after a revision."""
    return _columns(fetch(connection, _CHANGED, bank, after, last))


def read_facts(connection: Connection, bank: int, dimension: int, *, after: int) -> FactRows:
    """Return at most `PART` facts of a bank with greater numbers than `after`."""
    found = fetch(connection, _NEW, bank, after, PART)
    vectors = np.frombuffer(b"".join([row[-2] for row in found]), np.int8)
    words = np.frombuffer(b"".join([row[-1] for row in found]), "<u4")
    lengths = np.array([len(row[-1]) // 4 for row in found], np.int64)
    mentions = fetch(connection, _MENTIONS, bank, after, found[-1][0]) if found else []
    return FactRows(
        _columns(found),
        vectors.reshape(len(found), dimension),
        words,
        lengths,
        np.array(mentions, np.int64).reshape(len(mentions), 2),
    )


def _columns(found: Sequence[Cells]) -> Columns:
    table = np.array([row[: len(COLUMNS)] for row in found], np.int64).reshape(len(found), len(COLUMNS))
    return np.ascontiguousarray(table.T)


def count_facts(connection: Connection, bank: int) -> int:
    return connection.execute(select(func.count()).where(facts.c.bank == bank)).scalar_one()


_m = messages.c
_ADD = "INSERT INTO message_words(rowid, bank, words) VALUES (?, ?, ?)"
_DROP = "INSERT INTO message_words(message_words, rowid, bank, words) VALUES ('delete', ?, ?, ?)"


class SqliteSearchIndex:
    """Implements `SearchIndex`: blocks of facts, token vectors, and the full-text index of messages."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        words = [hashed(fact_words(item.fact.text, item.fact.context)) for _, item in new]
        vectors = quantised(np.array([item.embedding for _, item in new], np.float32)) if new else ()
        rows = [
            (seq, vector.tobytes(), said.astype("<u4").tobytes())
            for (seq, _), vector, said in zip(new, vectors, words, strict=True)
        ]
        insert_all(connection, fact_index, rows)
        _save_tokens(connection, ((seq, item.tokens) for seq, item in new))

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        connection.execute(delete(fact_index).where(among(fact_index.c.fact, facts)))
        _drop_tokens(connection, facts)

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[int, Encoding]) -> None:
        if new:
            vectors = quantised(np.array([encoding.vector for encoding in new.values()], np.float32))
            rows = [(vector.tobytes(), seq) for vector, seq in zip(vectors, new, strict=True)]
            connection.exec_driver_sql("UPDATE fact_index SET vector = ? WHERE fact = ?", rows)
        _drop_tokens(connection, new)
        _save_tokens(connection, ((seq, encoding.tokens) for seq, encoding in new.items()))

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        known = select(fact_index.c.fact, fact_index.c.vector).where(among(fact_index.c.fact, seqs))
        found: dict[int, tuple[float, ...]] = {}
        for seq, stored in connection.execute(known):
            components = np.frombuffer(stored, np.int8)[None]
            found[seq] = tuple((components * scales_of(components)[:, None])[0].tolist())
        return found

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        _write_words(connection, _ADD, bank, new)

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        found = connection.execute(_CONTENTS, {"bank": bank, "ids": listed(messages)}).all()
        _write_words(connection, _DROP, bank, found)

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        _write_words(connection, _DROP, bank, _worded(connection, among(_m.seq, messages)))

    def drop_bank(self, connection: Connection, bank: int) -> None:
        own = select(facts.c.seq).where(facts.c.bank == bank).scalar_subquery()
        connection.execute(fact_index.delete().where(fact_index.c.fact.in_(own)))
        connection.execute(token_vectors.delete().where(token_vectors.c.fact.in_(own)))
        _write_words(connection, _DROP, bank, _worded(connection, _m.bank == bank))


_CONTENTS = select(_m.seq, _m.content).where(_m.bank == bindparam("bank"), among(_m.id, later("ids")))


def _worded(connection: Connection, condition: ColumnElement[bool]) -> Sequence[Cells]:
    """Return the numbers and texts of the messages that are in the word index."""
    return connection.execute(select(_m.seq, _m.content).where(condition, _m.state.not_in(WORDLESS))).all()


def _write_words(connection: Connection, statement: str, bank: int, batch: Sequence[Cells]) -> None:
    """Add messages to the word index, or remove them, for which it needs the very words that were added."""
    if batch:
        connection.exec_driver_sql(statement, [(seq, str(bank), " ".join(terms(text))) for seq, text in batch])


def _save_tokens(connection: Connection, new: Iterable[tuple[int, TokenVectors | None]]) -> None:
    """Store the token vectors of facts by number; a text without tokens has none."""
    known = [(seq, tokens) for seq, tokens in new if tokens is not None and tokens.size]
    packed = encode_tokens([tokens for _, tokens in known])
    rows = [(seq, int(tokens.shape[1]), stored) for (seq, tokens), stored in zip(known, packed, strict=True)]
    insert_all(connection, token_vectors, rows)


def _drop_tokens(connection: Connection, seqs: Iterable[int]) -> None:
    connection.execute(delete(token_vectors).where(among(token_vectors.c.fact, seqs)))


MOST_BYTES = 256 * 1024**2
"""Bytes of the indexes that are kept together; the one in use is kept however large it is."""


class IndexCache:
    """The indexes of the banks that were searched last. Every process's writes move the counter that refreshes one."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.loaded = LoadedRecords()
        self._indexes: OrderedDict[BankId, BankIndex] = OrderedDict()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._refreshing = Lock()

    def clear(self) -> None:
        # Without the lock, which a fork may have copied while another thread held it.
        self._indexes.clear()
        self.loaded = LoadedRecords()
        self._bytes = 0

    def get(self, connection: Connection, bank: BankId) -> BankIndex:
        """Return the bank's index as of this connection's transaction; raise BankNotFound if there is no such bank."""
        state = bank_state(connection, bank)
        index = self._indexes.get(bank)
        if index is not None and _version(index) == (state.seq, state.revision, state.purges):
            with suppress(KeyError):
                self._indexes.move_to_end(bank)
            return index
        with self._refreshing:
            return self._refreshed(connection, bank)

    def _refreshed(self, connection: Connection, bank: BankId) -> BankIndex:
        state = bank_state(connection, bank)
        index = self._indexes.get(bank)
        if index is None or (index.number, index.purges) != (state.seq, state.purges):
            capacity = count_facts(connection, state.seq)
            index = BankIndex.empty(state.dimension, state.seq, state.purges, capacity, state.embedder)
            # What was deleted does not stay in memory.
            self.loaded = LoadedRecords()
        if index.revision < state.revision:
            index = _updated(connection, state, index)
            self._keep(bank, index)
        return index

    def _keep(self, bank: BankId, index: BankIndex) -> None:
        """Keep an index, and drop those that were not used for longest; searches that run with one go on."""
        former = self._indexes.get(bank)
        self._bytes += index.nbytes - (0 if former is None else former.nbytes)
        self._indexes[bank] = index
        self._indexes.move_to_end(bank)
        while self._bytes > self._most_bytes and len(self._indexes) > 1:
            self._bytes -= self._indexes.popitem(last=False)[1].nbytes


def _version(index: BankIndex) -> tuple[int, int, int]:
    return index.number, index.revision, index.purges


def _updated(connection: Connection, state: BankState, index: BankIndex) -> BankIndex:
    """Return an index with the facts that were added and closed since."""
    changed = changed_columns(connection, state.seq, after=index.revision, last=index.last)
    if changed.size:
        index = index.patched(changed)
    while True:
        new = read_facts(connection, state.seq, state.dimension, after=index.last)
        index = index.extended(state.revision, new)
        if new.columns.shape[1] < PART:
            return index


OVERSAMPLE = 16
"""Facts of an entity that are chosen by sign bits for each one that it leads to."""
_LINKED = """
SELECT * FROM (SELECT target, kind, weight, 1 FROM links WHERE bank = ?1 AND source = ?2 LIMIT ?3)
UNION ALL SELECT * FROM (
    SELECT source, kind, weight, 0 FROM links INDEXED BY links_target WHERE bank = ?1 AND target = ?2 LIMIT ?3)
"""
"""Left to itself SQLite would read all links of the bank."""

_REVISIONS = f"""
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links INDEXED BY links_revised ON links.bank = ?1 AND links.target = given.value WHERE {REVISIONS}
UNION
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links ON links.bank = ?1 AND links.source = given.value WHERE {REVISIONS}
"""

Neighbours = tuple[Sequence[Edges], Sequence[tuple[int, int]]]
"""The edges along the links of a fact, and the entities that it mentions, each with the number of facts that do."""
IndexedRevision = tuple[int, int, int, RevisionEdge]
"""The rows of a newer and an older fact, the number of the kind, and their edge."""

_TOKENS = "SELECT fact, width, vectors FROM token_vectors WHERE fact IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class SqliteGraph:
    """`GraphReads` of one scope: mentions and vectors are those of the index."""

    index: BankIndex
    allowed: Mask
    compared: ComparedVectors
    around: Callable[[Sequence[int]], Mapping[int, Neighbours]]

    def linked(self, query: EdgeQuery) -> list[Edges]:
        least = query.least
        found = [edge for edges, _ in self.around(query.facts).values() for edge in edges if edge.weight >= least]
        if self._filters(query.floor) and found:
            near = self._near_enough(self.index.at([edge.targets[0][0] for edge in found]), query.floor)
            found = [edge for edge, kept in zip(found, near.tolist(), strict=True) if kept]
        return found

    def expand(self, query: EdgeQuery, chosen: Set[int]) -> tuple[Sequence[Edges], Sequence[Cells], EntityFacts]:
        links = self.linked(query) if query.facts else []
        named = self.index.mentions.counts(query.entities)
        nodes = [(-entity, entity, count) for entity, count in zip(query.entities, named, strict=True)]
        nodes += [(fact, *each) for fact, (_, mentioned) in self.around(query.facts).items() for each in mentioned]
        weighed = [(source, entity, min(max(1, count), query.common) ** -0.5) for source, entity, count in nodes]
        weighed = [each for each in weighed if each[2] >= query.least]
        new = sorted({entity for _, entity, _ in weighed} - chosen)
        return links, weighed, self._most_similar(query, new) if new else {}

    def _most_similar(self, query: EdgeQuery, entities: Sequence[int]) -> EntityFacts:
        """Return the most similar facts of each entity: sign bits choose some, whose cosines are compared."""
        fan, several = query.fan, [rows[-COMPARED:] for rows in self.index.mentions.of_entities(entities)]
        if self._filters(query.floor):
            every, ends = np.concatenate(several), np.cumsum([0, *map(len, several)])
            kept = np.flatnonzero(self._near_enough(every, query.floor))
            several = [every[kept[start:end]] for start, end in pairwise(np.searchsorted(kept, ends).tolist())]
        for place, rows in enumerate(several):
            if len(rows) > OVERSAMPLE * fan:
                chosen = np.argpartition(self.compared.distances[rows], OVERSAMPLE * fan)
                several[place] = rows[chosen[: OVERSAMPLE * fan]]
        # All at once, so that each is found below.
        self.compared.cosines(np.concatenate([rows for rows in several if len(rows) > fan] or [several[0][:0]]))
        for place, rows in enumerate(several):
            if len(rows) > fan:
                several[place] = rows[np.argpartition(-self.compared.cosines(rows), fan)[:fan]]
        facts = iter(self.index.ranked(np.concatenate(several)).tolist())
        return {entity: list(islice(facts, len(rows))) for entity, rows in zip(entities, several, strict=True)}

    def _filters(self, floor: float) -> bool:
        return floor > -1.0 or not self.allowed.all()

    def _near_enough(self, rows: Rows, floor: float) -> Mask:
        """Return True for rows that the scope allows and whose cosine reaches the floor."""
        return self.allowed[rows] if floor <= -1.0 else self.allowed[rows] & (self.compared.cosines(rows) >= floor)


class SqliteParameters(Parameters):
    """Parameters of SQLite. A list is one parameter in JSON."""

    def placeholder(self, number: int, type: str) -> str:
        return f"?{number}"

    def among(self, column: str, values: Iterable[str] | Iterable[int], type: str) -> str:
        return f"{column} IN (SELECT value FROM json_each({self.add(listed(values), 'json')}))"

    def has_tag(self, tags: str, tag: str) -> str:
        return f"EXISTS (SELECT 1 FROM json_each({tags}) WHERE value = {self.add(tag, 'text')})"

    def tag_count(self, tags: str) -> str:
        return f"json_array_length({tags})"

    def has_value(self, metadata: str, key: str, value: JsonValue) -> str:
        if not storable(key) or (isinstance(value, str) and not storable(value)):
            return "false"
        if isinstance(value, bool) or value is None:
            same = f"type = '{json.dumps(value)}'"
        elif isinstance(value, str):
            same = f"type = 'text' AND value = {self.add(value, 'text')}"
        elif isinstance(value, int | float):
            same = f"type IN ('integer', 'real') AND value = {self.add(value, 'number')}"
        else:
            same = f"type IN ('object', 'array') AND value = json({self.add(dump(value), 'json')})"
        return f"EXISTS (SELECT 1 FROM json_each({metadata}) WHERE key = {self.add(key, 'text')} AND {same})"


def filtered(connection: Connection, bank: int, scope: Scope) -> list[int] | None:
    """Return the facts that pass the filters only the database can answer, by number; None without such filters."""
    if not (scope.tags or scope.metadata or scope.entities or scope.speakers):
        return None
    values = SqliteParameters()
    conditions = ScopeFilter.of(connection, bank, scope).references(values)
    statement = f"SELECT seq FROM facts WHERE bank = {values.add(bank, 'bigint')} AND {all_of(conditions)}"
    return [seq for (seq,) in fetch(connection, statement, *values.values)]


_ANY_INSTRUCTION = "SELECT 1 FROM facts WHERE bank = ? AND instruction = 1 LIMIT 1"
"""Most banks have none, and this takes a tenth of the time of the search."""
_ANY_WORDED = "SELECT 1 FROM messages WHERE bank = ? AND state IN ('pending', 'grouped', 'extracted', 'raw') LIMIT 1"
"""If facts repeat all words, as with the local engine, there is nothing to search."""
Reading = Callable[[], AbstractContextManager[None]]
"""Translates the errors of the statements inside."""


class SqliteBankReader(SqlBankSearch):
    """The searches of a bank over its index in memory and the connection that it is read with.

    It explains the errors of its own statements, and not those of the function that uses it.
    """

    def __init__(
        self, connection: Connection, bank: BankId, index: BankIndex, loaded: LoadedRecords, reading: Reading
    ) -> None:
        super().__init__(connection, bank, index.number, loaded)
        self._revision, self._purges = index.revision, index.purges
        self._translated = reading
        self._index = index
        # By identity; each keeps its key.
        self._filtered: dict[int, tuple[Scope, Mask]] = {}
        self._compared: dict[int, tuple[Vector, ComparedVectors]] = {}

    def _reading(self) -> AbstractContextManager[None]:
        return self._translated()

    def _versions(self, facts: Sequence[int]) -> Mapping[int, int]:
        rows = self._index.at(facts)
        seqs, versions = self._index.column("seq")[rows], self._index.column("revision")[rows]
        return dict(zip(seqs.tolist(), versions.tolist(), strict=True))

    def _compare(self, vector: Vector) -> ComparedVectors:
        """Return the vectors of the bank, compared with a query once in the whole transaction."""
        if id(vector) not in self._compared:
            self._compared[id(vector)] = vector, ComparedVectors(self._index.vectors, vector)
        return self._compared[id(vector)][1]

    def prepare(self, scope: Scope, space: str | None) -> None:
        if space is not None:
            demand_embedder(self._index.embedder, space)
        self.allowed(scope)

    def allowed(self, scope: Scope) -> Mask:
        """Return the facts that a scope accepts, found once for each scope."""
        if id(scope) not in self._filtered:
            only = filtered(self._connection, self._bank, scope)
            self._filtered[id(scope)] = scope, self._index.allowed(scope, micros(utc_now()), only)
        return self._filtered[id(scope)][1]

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        return self._index.nearest(self._compare(vector), self.allowed(scope), limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        return self._index.matching(query_terms(text), self.allowed(scope), limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        words, bank, values = query_terms(text), self._bank, SqliteParameters()
        if not words or not accepts_messages(scope) or not fetch(self._connection, _ANY_WORDED, bank):
            return Ranking()
        quoted = " OR ".join(f'"{word}"' for word in words)
        match = values.add(f'bank : "{bank}" AND words : ({quoted})', "text")
        # Tokens are estimated here; recall counts the few it keeps.
        statement = f"""
SELECT -messages.seq, length(messages.content) / 4 + 1, messages.timestamp, -bm25(message_words, 0.0, 1.0) AS score
FROM message_words JOIN messages ON messages.seq = message_words.rowid
WHERE message_words MATCH {match} AND messages.bank = {values.add(bank, "bigint")}
    AND {ScopeFilter.of(self._connection, bank, scope).messages(values)}
ORDER BY score DESC, messages.seq LIMIT {limit}
"""
        return Ranking.of(fetch(self._connection, statement, *values.values))

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        return self._index.during(query, self._compare(query.vector), self.allowed(scope), limit)

    def instructions(self, scope: Scope, *, limit: int) -> list[int]:
        connection, bank, values = self._connection, self._bank, SqliteParameters()
        if not fetch(connection, _ANY_INSTRUCTION, bank):
            return []
        statement = instruction_statement(ScopeFilter.of(connection, bank, scope), values, limit=limit)
        return [seq for (seq,) in fetch(connection, statement, *values.values)]

    def edges(self, query: EdgeQuery) -> list[Edges]:
        with self._reading():
            self.prepare(query.scope, query.space)
            allowed, compared = self.allowed(query.scope), self._compare(query.vector)
            return self._edges.find(SqliteGraph(self._index, allowed, compared, self._around), query)

    def _around(self, facts: Sequence[int]) -> Mapping[int, Neighbours]:
        return self._known(self._loaded.around, dict.fromkeys(facts, self._revision), self._load_around)

    def _load_around(self, facts: Sequence[int]) -> Mapping[int, Neighbours]:
        index, mentions = self._index, self._index.mentions
        stored = {fact: fetch(self._connection, _LINKED, self._bank, fact, LINKS) for fact in facts}
        rows = index.at(sorted({other for links in stored.values() for other, *_ in links}))
        known = {to[0]: to for to in index.ranked(rows).tolist()}
        rows = index.at(facts)
        found: dict[int, Neighbours] = {}
        for fact, mentioned in zip(index.column("seq")[rows].tolist(), mentions.of_facts(rows), strict=True):
            edges = [
                link_edge(fact, known[other], LINK_KINDS[int(kind)], weight, bool(onward))
                for other, kind, weight, onward in stored[fact]
                if other in known and other != fact
            ]
            found[fact] = edges, list(zip(mentioned.tolist(), mentions.counts(mentioned), strict=True))
        return found

    def _stored_tokens(self, facts: Sequence[int]) -> Sequence[Sequence[Any]]:
        return fetch(self._connection, _TOKENS, listed(facts))

    def revisions(self, scope: Scope, facts: Sequence[int]) -> list[RevisionEdge]:
        with self._reading():
            wanted, allowed = dict.fromkeys(facts, self._revision), self.allowed(scope)
            of_each = self._known(self._loaded.revisions, wanted, self._load_revisions).values()
            found = {each[:3]: each[3] for edges in of_each for each in edges if allowed[each[0]] and allowed[each[1]]}
            return [found[key] for key in sorted(found)]

    def _load_revisions(self, facts: Sequence[int]) -> Mapping[int, Sequence[IndexedRevision]]:
        found: dict[int, list[IndexedRevision]] = {fact: [] for fact in facts}
        stored = fetch(self._connection, _REVISIONS, self._bank, listed(facts))
        rows = self._index.at(sorted({seq for newer, older, *_ in stored for seq in (newer, older)}))
        ranked = zip(rows.tolist(), self._index.ranked(rows).tolist(), strict=True)
        known = {each[0]: (row, *each) for row, each in ranked}
        for newer, older, kind, weight in stored:
            if newer not in known or older not in known:
                continue
            (row, _, tokens, time), (older_row, _, older_tokens, _) = known[newer], known[older]
            edge = RevisionEdge(newer, older, REVISION_KINDS[kind], weight, tokens, older_tokens, instant(time))
            for fact in found.keys() & {newer, older}:
                found[fact].append((row, older_row, kind, edge))
        return found

    def search(self, request: SearchRequest) -> SearchResult:
        with self._reading():
            return super().search(request)
