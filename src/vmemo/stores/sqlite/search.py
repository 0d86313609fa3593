"""Searches on SQLite: rankings from the in-memory index of a bank, rows from the file.

Indexes and rows that recalls have read are kept until the bank changes.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
from pydantic import JsonValue
from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId, LinkKind, Mention, MessageId, utc_now
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    FactOutline,
    Ranking,
    RevisionEdge,
    Scope,
    Scored,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import Loaded
from vmemo.stores.search import ALL_COMPARED, SEEN_FROM_TARGET, BankSearch, EdgeSearch, accepts_messages, all_of
from vmemo.stores.sql import fact_rows, reads
from vmemo.stores.sql.bank_rows import NEW_VECTORS, BankState, bank_state
from vmemo.stores.sql.fact_rows import LINK_KINDS, REVISION_KINDS, outline_of
from vmemo.stores.sql.filters import Parameters, ScopeFilter, instruction_statement
from vmemo.stores.sql.schema import BASIS, EPISODE, REVISIONS
from vmemo.stores.sql.statements import fetch, listed
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.database import SqliteFile
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.vectors import ComparedVectors, Mask, Rows
from vmemo.stores.values import decode_tokens, dump, instant, micros, storable
from vmemo.text.tokens import query_terms

MOST_BYTES = 256 * 1024**2
"""Bytes of the indexes that are kept together; the one in use is kept however large it is."""


class IndexCache:
    """The indexes of the banks that were searched last. Every process's writes move the counter that refreshes one."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._indexes: OrderedDict[BankId, BankIndex] = OrderedDict()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._refreshing = Lock()

    def clear(self) -> None:
        # Without the lock, which a fork may have copied while another thread held it.
        self._indexes.clear()
        self._bytes = 0

    def get(self, connection: Connection, bank: BankId, *, space: str | None = None) -> BankIndex:
        """Return the bank's index as of this connection's transaction.

        Raise BankNotFound if there is no such bank, and EmbedderMismatch if its vectors are not of `space`.
        """
        state = bank_state(connection, bank)
        if space is not None:
            state.demand(space)
        index = self._indexes.get(bank)
        if index is not None and (index.number, index.revision, index.purges) == (
            state.seq,
            state.revision,
            state.purges,
        ):
            with suppress(KeyError):
                self._indexes.move_to_end(bank)
            return index
        with self._refreshing:
            return self._refreshed(connection, bank)

    def _refreshed(self, connection: Connection, bank: BankId) -> BankIndex:
        state = bank_state(connection, bank)
        index = self._indexes.get(bank)
        if index is not None and (index.number != state.seq or not 0 <= state.purges - index.purges < NEW_VECTORS):
            index = None
        if index is None or index.revision < state.revision:
            index = _read_index(connection, state) if index is None else _updated_index(connection, state, index)
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


def _read_index(connection: Connection, state: BankState) -> BankIndex:
    capacity = rows.count_facts(connection, state.seq)
    index = BankIndex.empty(state.dimension, state.seq, state.purges, capacity)
    return index.extended(state.revision, rows.read_blocks(connection, state.seq))


def _updated_index(connection: Connection, state: BankState, index: BankIndex) -> BankIndex:
    """Return an index with the facts that were added and closed since, and without those that were removed."""
    last, removes = index.last, index.purges != state.purges
    if removes:
        index = index.kept(state.purges, rows.fact_numbers(connection, state.seq, last=last))
    changed = rows.changed_columns(connection, state.seq, after=index.revision, last=last)
    if changed.size:
        index = index.patched(changed)
        if removes:
            # A fact whose context was removed has fewer words.
            index = index.reworded(changed[0], rows.postings_of(connection, state.seq, changed[0]))
    grown = index.extended(state.revision, rows.read_blocks(connection, state.seq, after=last))
    return grown.mentioned(rows.mentions_after(connection, state.seq, after=last))


MOST_BANKS = 8
"""Banks of which rows are kept."""
MOST_ROWS = 4096
"""Rows of one kind that are kept of a bank. A fact with its token vectors takes about 4 kB."""
_BANK_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"
Link = tuple[int, LinkKind, float]
"""The row of a linked fact, the kind of the link as seen from the other fact, and its weight."""
Revision = tuple[int, int, RevisionEdge]
"""The rows of a newer and an older fact, and the link between them."""


@dataclass(frozen=True)
class BankRows:
    """Rows of a bank at one revision that recalls have read. Threads may add to it at once, and add the same.

    Links, revisions and entities are kept by the number of a fact, and refer to rows of the index of that revision.
    """

    version: tuple[int, int]
    facts: dict[FactId, dict[str, object]] = field(default_factory=dict[FactId, dict[str, object]])
    """The fields of facts: models would be many more objects for garbage collection to visit."""
    tokens: dict[FactId, tuple[int, bytes]] = field(default_factory=dict[FactId, tuple[int, bytes]])
    """The width and the packed values of token vectors."""
    outlines: dict[FactId, FactOutline] = field(default_factory=dict[FactId, FactOutline])
    titles: dict[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])
    links: dict[int, list[Link]] = field(default_factory=dict[int, list[Link]])
    entities: dict[int, list[tuple[int, str]]] = field(default_factory=dict[int, list[tuple[int, str]]])
    """The numbers and names of the entities that a fact mentions."""
    revisions: dict[int, set[Revision]] = field(default_factory=dict[int, set[Revision]])

    @property
    def is_full(self) -> bool:
        return max(len(rows) for name, rows in vars(self).items() if name != "version") > MOST_ROWS


class BankCaches:
    """The rows of the banks that were searched last.

    One rule: the rows of a bank are dropped when its revision changes, when they are too many, and when enough other
    banks were searched since. Every change of a bank's memories changes the revision, except that of access counts.
    """

    def __init__(self) -> None:
        self._banks: OrderedDict[int, BankRows] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        with self._lock:
            self._banks.clear()

    def get(self, connection: Connection, index: BankIndex) -> BankRows:
        """Return the rows as of the connection's transaction; none that are kept if the index is newer."""
        [version] = fetch(connection, _BANK_VERSION, index.number)
        if version != (index.revision, index.purges):
            return BankRows(version)
        with self._lock:
            known = self._banks.get(index.number)
            if known is None or known.version != version or known.is_full:
                known = self._banks[index.number] = BankRows(version)
            self._banks.move_to_end(index.number)
            while len(self._banks) > MOST_BANKS:
                self._banks.popitem(last=False)
            return known


OVERSAMPLE = 16
"""Facts of an entity that are chosen by sign bits for each one that it leads to."""
_ONWARD = "SELECT target, kind, weight FROM links WHERE bank = ? AND source = ? LIMIT ?"
_BACKWARD = "SELECT source, kind, weight FROM links INDEXED BY links_target WHERE bank = ? AND target = ? LIMIT ?"
"""Left to itself SQLite would read all links of the bank."""

_REVISIONS = f"""
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links INDEXED BY links_revised ON links.bank = ?1 AND links.target = given.value WHERE {REVISIONS}
UNION
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links ON links.bank = ?1 AND links.source = given.value WHERE {REVISIONS}
"""

_MENTIONED = "SELECT seq, mentioned_at FROM facts WHERE seq IN (SELECT value FROM json_each(?))"
_MENTIONING = """
SELECT fact FROM mentions INDEXED BY mentions_entity WHERE bank = ? AND entity = ? ORDER BY fact DESC LIMIT ?
"""

_ENTITIES = """
SELECT mentions.fact, entities.seq, entities.name FROM mentions JOIN entities ON entities.seq = mentions.entity
WHERE mentions.bank = ?1 AND mentions.fact IN (SELECT value FROM json_each(?2))
"""

_NAMES = "SELECT id, seq, name FROM entities WHERE bank = ? AND id IN (SELECT value FROM json_each(?))"
_TOKENS = """
SELECT id, width, vectors FROM facts JOIN token_vectors ON fact = seq
WHERE bank = ? AND id IN (SELECT value FROM json_each(?))
"""

_COUNTS = "SELECT id, access_count FROM facts WHERE bank = ? AND id IN (SELECT value FROM json_each(?))"
_TITLES = "SELECT id, title FROM episodes WHERE bank = ? AND id IN (SELECT value FROM json_each(?))"
_OUTLINES = f"""
SELECT id, network, tokens, engine, importance, mentioned_at, supersedes, supersedes IS NOT NULL AND EXISTS
    (SELECT 1 FROM sources WHERE sources.bank = ?1 AND sources.fact = facts.seq AND sources.kind = {BASIS}),
    (SELECT episodes.id FROM sources JOIN episodes ON episodes.seq = sources.source
    WHERE sources.bank = ?1 AND sources.fact = facts.seq AND sources.kind = {EPISODE} ORDER BY sources.source LIMIT 1)
FROM facts WHERE facts.bank = ?1 AND facts.id IN (SELECT value FROM json_each(?2))
"""


@dataclass(frozen=True)
class SqliteGraph:
    """`GraphReads` of one scope: the facts of an entity and their vectors are those of the index."""

    connection: Connection
    index: BankIndex
    rows: BankRows
    allowed: Mask
    compared: ComparedVectors

    def linked(self, query: EdgeQuery, limit: int) -> Iterator[Sequence[Any]]:
        index, known, ids = self.index, self.rows.links, self.index.numbers(query.facts)
        if new := [seq for seq in ids if seq not in known]:
            known.update(self._read_links(new, limit))
        for seq, id in ids.items():
            stored = [link for link in known[seq] if link[2] >= query.least]
            rows = np.array([row for row, _, _ in stored], np.int64)
            near = self._near_enough(rows, query.floor).tolist()
            for (fact, tokens), (_, kind, weight), reached in zip(shown(index, rows), stored, near, strict=True):
                if reached:
                    # The kind is the one that is seen from this fact already.
                    yield id, fact, tokens, kind, True, weight

    def _read_links(self, seqs: Sequence[int], limit: int) -> dict[int, list[Link]]:
        """Return the links of facts in both directions."""
        found: dict[int, list[tuple[int, LinkKind, float]]] = {}
        for seq in seqs:
            onward: list[tuple[int, int, float]] = fetch(self.connection, _ONWARD, self.index.number, seq, limit)
            backward: list[tuple[int, int, float]] = fetch(self.connection, _BACKWARD, self.index.number, seq, limit)
            found[seq] = [(target, LINK_KINDS[kind], weight) for target, kind, weight in onward]
            for source, number, weight in backward:
                kind = LINK_KINDS[number]
                found[seq].append((source, SEEN_FROM_TARGET.get(kind, kind), weight))
        places = self.index.places(target for links in found.values() for target, _, _ in links)
        return {
            seq: [(places[other], kind, weight) for other, kind, weight in links if other in places and other != seq]
            for seq, links in found.items()
        }

    def entities_of_nodes(self, query: EdgeQuery) -> Iterator[Sequence[Any]]:
        ids, known, bank = self.index.numbers(query.facts), self.rows.entities, self.index.number
        if new := {seq: list[tuple[int, str]]() for seq in ids if seq not in known}:
            for fact, entity, name in fetch(self.connection, _ENTITIES, bank, listed(new)):
                new[fact].append((entity, name))
            known.update(new)
        given = fetch(self.connection, _NAMES, bank, listed(query.entities)) if query.entities else []
        mentioned = [(ids[seq], entity, name) for seq in sorted(ids) for entity, name in known[seq]]
        for source, entity, name in (*given, *mentioned):
            weight = 1.0 / math.sqrt(min(max(1, len(self._mentioning(entity))), query.common))
            if weight >= query.least:
                yield source, entity, name, weight

    def _mentioning(self, entity: int) -> Rows:
        """Return the newest facts that mention an entity. The index keeps them, unless the transaction is older."""
        index = self.index
        if entity in index.mentions:
            return index.mentions[entity]
        newest = [fact for (fact,) in fetch(self.connection, _MENTIONING, index.number, entity, ALL_COMPARED)]
        rows = index.at(newest[::-1])
        if self.rows.version == (index.revision, index.purges):
            index.mentions[entity] = rows
        return rows

    def most_similar(self, query: EdgeQuery, entities: Sequence[int]) -> Iterator[Sequence[Any]]:
        """Yield the most similar facts of each entity: sign bits choose some, whose cosines are compared."""
        fan = query.fan
        for entity in entities:
            rows = self._mentioning(entity)[-query.compared :]
            rows = rows[self._near_enough(rows, query.floor)]
            if len(rows) > OVERSAMPLE * fan:
                rows = rows[np.argpartition(self.compared.distances[rows], OVERSAMPLE * fan)[: OVERSAMPLE * fan]]
            if len(rows) > fan:
                rows = rows[np.argpartition(-self.compared.cosines(rows), fan)[:fan]]
            for fact, tokens in shown(self.index, rows):
                yield entity, fact, tokens

    def mentioned_by(self, facts: Sequence[int], fan: int) -> Sequence[Sequence[Any]]:
        """Return nothing: the vectors that a search compares are compared once anyway."""
        return ()

    def _near_enough(self, rows: Rows, floor: float) -> Mask:
        """Return True for rows that the scope allows and whose cosine reaches the floor."""
        return self.allowed[rows] if floor <= -1.0 else self.allowed[rows] & (self.compared.cosines(rows) >= floor)


def shown(index: BankIndex, rows: Rows) -> list[tuple[FactId, int]]:
    """Return the ids and tokens of facts."""
    return list(zip(index.ids.get(rows.tolist()), index.column("tokens")[rows].tolist(), strict=True))


def _read_revisions(connection: Connection, index: BankIndex, seqs: Sequence[int]) -> dict[int, set[Revision]]:
    """Return the links by which facts replace or outdate others, by the numbers of facts at either end."""
    stored: list[tuple[int, int, int, float]] = fetch(connection, _REVISIONS, index.number, listed(seqs))
    places = index.places(seq for newer, older, _, _ in stored for seq in (newer, older))
    known = dict(zip(places, shown(index, np.array([*places.values()], np.int64)), strict=True))
    mentioned: dict[int, int] = dict(fetch(connection, _MENTIONED, listed({newer for newer, *_ in stored})))
    found: dict[int, set[Revision]] = {seq: set() for seq in seqs}
    for newer, older, kind, weight in stored:
        if newer in places and older in places:
            (new, new_tokens), (old, old_tokens) = known[newer], known[older]
            at = instant(mentioned[newer])
            edge = RevisionEdge(new, old, REVISION_KINDS[kind], weight, new_tokens, old_tokens, at)
            for seq in {newer, older} & found.keys():
                found[seq].add((places[newer], places[older], edge))
    return found


def _fact(fields: dict[str, object], access_count: int | None) -> Fact:
    """Return a fact of cached fields. Metadata is copied, because a caller might change it."""
    own = fields.copy()
    if access_count is not None:
        own["access_count"] = access_count
    own["metadata"] = dict(cast("dict[str, object]", fields["metadata"]))
    return Fact.trusted(own)


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


def instructions(connection: Connection, bank: int, scope: Scope, *, limit: int) -> list[FactId]:
    if not fetch(connection, _ANY_INSTRUCTION, bank):
        return []
    values = SqliteParameters()
    statement = instruction_statement(ScopeFilter.of(connection, bank, scope), values, limit=limit)
    return [FactId(id) for (id,) in fetch(connection, statement, *values.values)]


_ANY_WORDED = "SELECT 1 FROM messages WHERE bank = ? AND state IN ('pending', 'grouped', 'extracted', 'raw') LIMIT 1"
"""If facts repeat all words, as with the local engine, there is nothing to search."""


def matching_messages(connection: Connection, bank: int, scope: Scope, words: Sequence[str], *, limit: int) -> Ranking:
    """Rank messages by BM25."""
    if not words or not accepts_messages(scope) or not fetch(connection, _ANY_WORDED, bank):
        return Ranking()
    quoted = " OR ".join(f'"{word}"' for word in words)
    values = SqliteParameters()
    match = values.add(f'bank : "{bank}" AND words : ({quoted})', "text")
    # Tokens are estimated here; recall counts the few it keeps.
    statement = f"""
SELECT messages.id, -bm25(message_words, 0.0, 1.0) AS score, length(messages.content) / 4 + 1
FROM message_words JOIN messages ON messages.seq = message_words.rowid
WHERE message_words MATCH {match} AND messages.bank = {values.add(bank, "bigint")}
    AND {ScopeFilter.of(connection, bank, scope).messages(values)}
ORDER BY score DESC, messages.seq LIMIT {limit}
"""
    return Ranking.of(
        Scored(FactId(id), score, tokens) for id, score, tokens in fetch(connection, statement, *values.values)
    )


class SqliteBankReader(BankSearch):
    """The searches of a bank over the index of a bank and the connection that it is read with.

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
        self._edges = EdgeSearch()

    @property
    def _index(self) -> BankIndex:
        """The index, the same for the whole transaction: what was filtered refers to its rows."""
        if self._loaded is None:
            self._loaded = self._indexes.get(self._connection, self._bank)
        return self._loaded

    @cached_property
    def _rows(self) -> BankRows:
        return self._caches.get(self._connection, self._index)

    def _fetch(self, statement: str, ids: Iterable[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a statement with two parameters, the bank and some ids."""
        wanted = list(ids)
        return fetch(self._connection, statement, self._index.number, listed(wanted)) if wanted else []

    def _compare(self, vector: Vector) -> ComparedVectors:
        """Return the vectors of the bank, compared with a query once in the whole transaction."""
        for known, compared in self._compared:
            if known is vector:
                return compared
        self._compared.append((vector, ComparedVectors(self._index.vectors, vector)))
        return self._compared[-1][1]

    def prepare(self, scope: Scope, space: str | None) -> None:
        if space is not None and space != self._space:
            checked = self._indexes.get(self._connection, self._bank, space=space)
            self._loaded, self._space = self._loaded or checked, space
        self.allowed(scope)

    def allowed(self, scope: Scope) -> Mask:
        """Return the facts that a scope accepts, found once for each scope."""
        for known, mask in self._filtered:
            if known is scope:
                return mask
        only = filtered(self._connection, self._index.number, scope)
        mask = self._index.allowed(scope, micros(utc_now()), only)
        self._filtered.append((scope, mask))
        return mask

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        return self._index.nearest(self._compare(vector), self.allowed(scope), limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        return self._index.matching(query_terms(text), self.allowed(scope), limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        words = query_terms(text)
        return matching_messages(self._connection, self._index.number, scope, words, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        return self._index.during(query, self._compare(query.vector), self.allowed(scope), limit)

    def named_entities(self, text: str) -> list[Mention]:
        return fact_rows.named_entities(self._connection, self._index.number, text)

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        return instructions(self._connection, self._index.number, scope, limit=limit)

    def edges(self, query: EdgeQuery) -> list[Edge]:
        with self._reading():
            self.prepare(query.scope, query.space)
            allowed, compared = self.allowed(query.scope), self._compare(query.vector)
            graph = SqliteGraph(self._connection, self._index, self._rows, allowed, compared)
            return self._edges.find(graph, query)

    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        with self._reading():
            known = self._rows.tokens
            for id, width, packed in self._fetch(_TOKENS, (id for id in facts if id not in known)):
                known[id] = width, packed
            return decode_tokens([known.get(id) for id in facts])

    def revisions(self, scope: Scope, facts: Sequence[FactId]) -> list[RevisionEdge]:
        with self._reading():
            allowed, known, numbers = self.allowed(scope), self._rows.revisions, self._index.numbers(facts)
            if new := [seq for seq in numbers if seq not in known]:
                known.update(_read_revisions(self._connection, self._index, new))
            found = sorted({revision for seq in numbers for revision in known[seq]})
            return [edge for newer, older, edge in found if allowed[newer] and allowed[older]]

    def search(self, request: SearchRequest) -> SearchResult:
        with self._reading():
            return super().search(request)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        with self._reading():
            number, known, titles = self._index.number, self._rows.facts, self._rows.titles
            counts: dict[FactId, int] = dict(self._fetch(_COUNTS, (id for id in facts if id in known)))
            new = [id for id in facts if id not in known]
            if new:
                known.update(reads.fact_fields_by_id(self._connection, number, self._bank, new))
            found = [_fact(known[id], counts.get(id)) for id in facts if id in known]
            episodes = {episode for fact in found for episode in fact.episodes}
            titles.update(self._fetch(_TITLES, episodes - titles.keys()))
            said = reads.messages_of(self._connection, number, MessageSelect(ids=messages)) if messages else []
            return Loaded(facts=found, messages=said, titles={episode: titles[episode] for episode in episodes})

    def outline(self, facts: Sequence[FactId]) -> list[FactOutline]:
        with self._reading():
            known = self._rows.outlines
            for id, *row in self._fetch(_OUTLINES, (id for id in facts if id not in known)):
                known[id] = outline_of(id, row)
            return [known[id] for id in facts if id in known]
