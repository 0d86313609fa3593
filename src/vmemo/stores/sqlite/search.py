"""Searches on SQLite: rankings from the in-memory index of a bank, rows from the file.

Indexes and rows that recalls have read are kept until the bank changes.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from threading import Lock
from typing import TypeVar, cast

import numpy as np
from sqlalchemy import Connection

from vmemo.models import BankId, EntityId, EpisodeId, Fact, FactId, LinkKind, Mention, MessageId, utc_now
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    FactOutline,
    Ranking,
    RevisionEdge,
    Scope,
    SearchRequest,
    SearchResult,
    TemporalSearch,
    TokenVectors,
    Vector,
)
from vmemo.models.select import MessageSelect
from vmemo.ports import Loaded
from vmemo.stores.sql import entity_rows, reads
from vmemo.stores.sql.bank_rows import NEW_VECTORS, BankState, bank_state
from vmemo.stores.sql.fact_rows import LINK_KINDS, REVISION_KINDS, fact_fields, outline_of
from vmemo.stores.sql.schema import BASIS, EPISODE, REVISIONS, facts
from vmemo.stores.sql.search import BankSearch
from vmemo.stores.sql.statements import fetch, listed
from vmemo.stores.sqlite import block_rows, rows
from vmemo.stores.sqlite.database import SqliteFile
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.vectors import ComparedVectors, Mask, Rows
from vmemo.stores.values import decode_tokens, instant, micros
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
    capacity = block_rows.count(connection, state.seq)
    index = BankIndex.empty(state.dimension, state.seq, state.purges, capacity)
    return index.extended(state.revision, block_rows.read(connection, state.seq))


def _updated_index(connection: Connection, state: BankState, index: BankIndex) -> BankIndex:
    """Return an index with the facts that were added and closed since, and without those that were removed."""
    last, removes = index.last, index.purges != state.purges
    if removes:
        index = index.kept(state.purges, block_rows.numbers(connection, state.seq, last=last))
    changed = block_rows.changed_columns(connection, state.seq, after=index.revision, last=last)
    if changed.size:
        index = index.patched(changed)
        if removes:
            # A fact whose context was removed has fewer words.
            index = index.reworded(changed[0], block_rows.words(connection, state.seq, changed[0]))
    grown = index.extended(state.revision, block_rows.read(connection, state.seq, after=last))
    return grown.mentioned(block_rows.mentions(connection, state.seq, after=last))


MOST_BANKS = 8
"""Banks of which rows are kept."""
MOST_ROWS = 4096
"""Rows of one kind that are kept of a bank. A fact with its token vectors takes about 4 kB."""
_BANK_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"
Link = tuple[int, LinkKind, float]
"""The row of a linked fact, and the kind and weight of the link."""
RevisionKey = tuple[int, int, int]
"""The rows of a newer and an older fact, and the kind of revision by number."""


@dataclass(frozen=True)
class BankCache:
    """Rows of a bank at one revision, by the numbers of facts. Threads may add to it at once, and add the same.

    Facts, links and revisions refer to rows of the index of that revision.
    """

    version: tuple[int, int]
    facts: dict[int, dict[str, object]] = field(default_factory=dict[int, dict[str, object]])
    """The fields of facts: models would be many more objects for garbage collection to visit."""
    tokens: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    """The width and the packed values of token vectors."""
    outlines: dict[int, FactOutline] = field(default_factory=dict[int, FactOutline])
    links: dict[int, list[Link]] = field(default_factory=dict[int, list[Link]])
    named: dict[int, list[tuple[int, str]]] = field(default_factory=dict[int, list[tuple[int, str]]])
    """The numbers and names of the entities that a fact mentions."""
    revisions: dict[int, dict[RevisionKey, RevisionEdge]] = field(
        default_factory=dict[int, dict[RevisionKey, RevisionEdge]]
    )
    entities: dict[int, tuple[str, str, str]] = field(default_factory=dict[int, tuple[str, str, str]])
    mentions: dict[tuple[int, str | None], Mention] = field(default_factory=dict[tuple[int, str | None], Mention])
    episodes: dict[int, EpisodeId] = field(default_factory=dict[int, EpisodeId])
    titles: dict[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])

    @property
    def is_full(self) -> bool:
        """True if more rows of a kind are kept than `MOST_ROWS`."""
        return max(len(rows) for name, rows in vars(self).items() if name != "version") > MOST_ROWS


class BankCaches:
    """The rows of the banks that were searched last.

    One rule: the rows of a bank are dropped when its revision changes, when they are too many, and when enough other
    banks were searched since. Every change of a bank's memories changes the revision, except that of access counts.
    """

    def __init__(self) -> None:
        self._banks: OrderedDict[int, BankCache] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        with self._lock:
            self._banks.clear()

    def get(self, connection: Connection, index: BankIndex) -> BankCache:
        """Return the rows as of the connection's transaction; an empty cache of its own if the index is newer."""
        [version] = fetch(connection, _BANK_VERSION, index.number)
        if version != (index.revision, index.purges):
            return BankCache(version)
        with self._lock:
            known = self._banks.get(index.number)
            if known is None or known.version != version or known.is_full:
                known = self._banks[index.number] = BankCache(version)
            self._banks.move_to_end(index.number)
            while len(self._banks) > MOST_BANKS:
                self._banks.popitem(last=False)
            return known


S = TypeVar("S", Mask, list[tuple[FactId, int]])
_CAUSES, _CAUSED_BY = map(LINK_KINDS.index, ("causes", "caused_by"))
_OTHER_WAY = {_CAUSES: _CAUSED_BY, _CAUSED_BY: _CAUSES}
"""The kind of a link seen from its target, where it differs."""
_ALL: frozenset[LinkKind] = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
OVERSAMPLE = 16
"""Facts of an entity that are chosen by sign bits for each one that it leads to."""
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""
_TOKENS = "SELECT fact, width, vectors FROM token_vectors WHERE fact IN (SELECT value FROM json_each(?))"
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

COMPARED = 2048
"""Facts of an entity that are read, the newest ones; queries compare no more of them."""

_MENTIONING = """
SELECT fact FROM mentions INDEXED BY mentions_entity WHERE bank = ? AND entity = ? ORDER BY fact DESC LIMIT ?
"""

_MENTIONED = "SELECT seq, mentioned_at FROM facts WHERE seq IN (SELECT value FROM json_each(?))"

_SHARED = """
SELECT mentions.fact, entities.seq, entities.name FROM mentions JOIN entities ON entities.seq = mentions.entity
WHERE mentions.bank = ?1 AND mentions.fact IN (SELECT value FROM json_each(?2))
"""

_NAMES = """
SELECT id, seq, name FROM entities WHERE bank = ?1 AND id IN (SELECT value FROM json_each(?2))
"""


_COUNTS = "SELECT seq, access_count FROM facts WHERE seq IN (SELECT value FROM json_each(?))"

_FACTS = f"""
SELECT {", ".join(column.name for column in facts.columns)} FROM facts
WHERE seq IN (SELECT value FROM json_each(?))
"""

_MENTIONS = (
    "SELECT fact, entity, name_in_text FROM mentions WHERE bank = ? AND fact IN (SELECT value FROM json_each(?))"
)

_ENTITIES = "SELECT seq, id, name, type FROM entities WHERE seq IN (SELECT value FROM json_each(?))"

_SOURCES = f"""
SELECT fact, kind, source, CASE kind
    WHEN {EPISODE} THEN NULL
    WHEN {BASIS} THEN (SELECT id FROM facts WHERE seq = source)
    ELSE (SELECT id FROM messages WHERE seq = source) END
FROM sources WHERE bank = ? AND fact IN (SELECT value FROM json_each(?))
"""

_EPISODES = "SELECT seq, id, title FROM episodes WHERE seq IN (SELECT value FROM json_each(?))"

_OUTLINES = f"""
SELECT seq, network, tokens, engine, importance, mentioned_at, supersedes, supersedes IS NOT NULL AND EXISTS
    (SELECT 1 FROM sources WHERE sources.bank = ?1 AND sources.fact = facts.seq AND sources.kind = {BASIS}),
    (SELECT episodes.id FROM sources JOIN episodes ON episodes.seq = sources.source
    WHERE sources.bank = ?1 AND sources.fact = facts.seq AND sources.kind = {EPISODE} ORDER BY sources.source LIMIT 1)
FROM facts WHERE seq IN (SELECT value FROM json_each(?2))
"""

_NONE: tuple[list[str], ...] = ([], [], [], [])


@dataclass(frozen=True)
class BankRows:
    """Rows of a bank in one transaction: those in the cache, and the others from the file."""

    connection: Connection
    bank: BankId
    index: BankIndex
    cache: BankCache

    def links(self, seqs: Iterable[int]) -> Mapping[int, Sequence[Link]]:
        """Return the links of facts in both directions; from its other end a link may be of another kind."""
        known = self.cache.links
        new = {seq: list(self._read_links(seq)) for seq in seqs if seq not in known}
        if new:
            rows = self.index.at(sorted({target for stored in new.values() for target, _, _ in stored}))
            places = dict(zip(self.index.column("seq")[rows].tolist(), rows.tolist(), strict=True))
            for seq, stored in new.items():
                known[seq] = [
                    (places[target], LINK_KINDS[kind], weight)
                    for target, kind, weight in stored
                    if target in places and target != seq
                ]
        return known

    def _read_links(self, seq: int) -> Iterator[tuple[int, int, float]]:
        bank = self.index.number
        yield from fetch(self.connection, _ONWARD, bank, seq, LINKS)
        backward: list[tuple[int, int, float]] = fetch(self.connection, _BACKWARD, bank, seq, LINKS)
        for source, kind, weight in backward:
            yield source, _OTHER_WAY.get(kind, kind), weight

    def entities(self, seqs: Collection[int]) -> Mapping[int, Sequence[tuple[int, str]]]:
        """Return the numbers and names of the entities that facts mention."""
        known = self.cache.named
        new: dict[int, list[tuple[int, str]]] = {seq: [] for seq in seqs if seq not in known}
        for fact, seq, name in fetch(self.connection, _SHARED, self.index.number, listed(new)) if new else ():
            new[fact].append((seq, name))
        known.update(new)
        return known

    def revisions(self, allowed: Mask, ids: Sequence[FactId]) -> list[RevisionEdge]:
        """Links by which facts replace or outdate others, with at least one end given and both ends allowed."""
        known, numbers = self.cache.revisions, self.index.numbers(ids)
        if new := [seq for seq in numbers if seq not in known]:
            known.update(self._read_revisions(new))
        found: dict[RevisionKey, RevisionEdge] = {}
        for seq in numbers:
            found.update(known[seq])
        if not found:
            return []
        keys = sorted(found)
        newer, older, _ = np.array(keys).T
        visible: list[bool] = (allowed[newer] & allowed[older]).tolist()
        return [found[key] for key, both in zip(keys, visible, strict=True) if both]

    def _read_revisions(self, seqs: Sequence[int]) -> dict[int, dict[RevisionKey, RevisionEdge]]:
        index, read = self.index, dict[int, dict[RevisionKey, RevisionEdge]]({seq: {} for seq in seqs})
        stored: list[tuple[int, int, int, float]] = fetch(self.connection, _REVISIONS, index.number, listed(seqs))
        rows = index.at(sorted({seq for newer, older, _, _ in stored for seq in (newer, older)}))
        ends = zip(rows.tolist(), shown(index, rows), strict=True)
        seen = dict(zip(index.column("seq")[rows].tolist(), ends, strict=True))
        mentioned: dict[int, int] = dict(fetch(self.connection, _MENTIONED, listed({newer for newer, *_ in stored})))
        for newer, older, kind, weight in stored:
            if newer in seen and older in seen:
                (new_row, (new, new_tokens)), (old_row, (old, old_tokens)) = seen[newer], seen[older]
                at = instant(mentioned[newer])
                edge = RevisionEdge(new, old, REVISION_KINDS[kind], weight, new_tokens, old_tokens, at)
                for seq in (newer, older):
                    if seq in read:
                        read[seq][new_row, old_row, kind] = edge
        return read

    def mentioning(self, entity: int) -> Rows:
        """Return the facts that mention an entity. The index keeps them, unless it is newer than the transaction."""
        index = self.index
        if entity in index.mentions:
            return index.mentions[entity]
        newest = [fact for (fact,) in fetch(self.connection, _MENTIONING, index.number, entity, COMPARED)]
        rows = index.at(newest[::-1])
        if self.cache.version == (index.revision, index.purges):
            index.mentions[entity] = rows
        return rows

    def token_vectors(self, ids: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        """Return the token vectors of facts in the order of the ids."""
        numbers, known = self.index.numbers(ids), self.cache.tokens
        if new := [seq for seq in numbers if seq not in known]:
            known.update((seq, (width, packed)) for seq, width, packed in fetch(self.connection, _TOKENS, listed(new)))
        stored = {id: known[seq] for seq, id in numbers.items() if seq in known}
        return decode_tokens([stored.get(id) for id in ids])

    def load(self, ids: Sequence[FactId]) -> tuple[list[Fact], dict[EpisodeId, str]]:
        """Return facts in the order of the ids, and the titles of their episodes."""
        numbers, known, titles = self.index.numbers(ids), self.cache.facts, self.cache.titles
        cached = [seq for seq in numbers if seq in known]
        counts: dict[int, int] = dict(fetch(self.connection, _COUNTS, listed(cached))) if cached else {}
        self._read_facts([seq for seq in numbers if seq not in known])
        by_id = {id: _fact(known[seq], counts.get(seq)) for seq, id in numbers.items() if seq in known}
        wanted = [by_id[id] for id in ids if id in by_id]
        return wanted, {episode: titles[episode] for fact in wanted for episode in fact.episodes}

    def outlines(self, ids: Sequence[FactId]) -> list[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        numbers, known = self.index.numbers(ids), self.cache.outlines
        new = [seq for seq in numbers if seq not in known]
        for row in fetch(self.connection, _OUTLINES, self.index.number, listed(new)) if new else ():
            known[row[0]] = outline_of(numbers[row[0]], row[1:])
        found = {id: known[seq] for seq, id in numbers.items() if seq in known}
        return [found[id] for id in ids if id in found]

    def _read_facts(self, seqs: Sequence[int]) -> None:
        """Add the fields of facts to the cache."""
        if not seqs:
            return
        wanted = listed(seqs)
        mentioned, origins = self._mentions(wanted), self._sources(wanted)
        for row in fetch(self.connection, _FACTS, wanted):
            seq = row[0]
            fields = fact_fields(row, self.bank, mentioned.get(seq, ()), origins.get(seq, _NONE))
            self.cache.facts[seq] = fields

    def _mentions(self, facts: str) -> Mapping[int, Sequence[Mention]]:
        rows: list[tuple[int, int, str | None]] = fetch(self.connection, _MENTIONS, self.index.number, facts)
        entities, mentions = self.cache.entities, self.cache.mentions
        unknown = {entity for _, entity, _ in rows}.difference(entities)
        if unknown:
            entities.update((row[0], row[1:]) for row in fetch(self.connection, _ENTITIES, listed(unknown)))
        found: dict[int, list[Mention]] = defaultdict(list)
        for fact, entity, said in rows:
            key = entity, said
            if key not in mentions:
                id, name, type = entities[entity]
                mentions[key] = Mention.trusted({"id": id, "name": name, "type": type, "name_in_text": said or ""})
            found[fact].append(mentions[key])
        return found

    def _sources(self, facts: str) -> Mapping[int, tuple[list[str], ...]]:
        """Return the ids of the sources of each fact by kind: messages, context, episodes, facts that it rests on."""
        rows: list[tuple[int, int, int, str]] = fetch(self.connection, _SOURCES, self.index.number, facts)
        episodes = self.cache.episodes
        unknown = {source for _, kind, source, _ in rows if kind == EPISODE}.difference(episodes)
        for seq, id, title in fetch(self.connection, _EPISODES, listed(unknown)) if unknown else ():
            self.cache.titles[EpisodeId(id)] = title
            episodes[seq] = EpisodeId(id)
        found: dict[int, tuple[list[str], ...]] = {}
        for fact, kind, source, id in rows:
            if fact not in found:
                found[fact] = ([], [], [], [])
            found[fact][kind].append(episodes[source] if kind == EPISODE else id)
        return found


class Expander:
    """Follows edges for queries that differ in their facts, entities, kinds and least weight alone."""

    def __init__(self, rows: BankRows, allowed: Mask, compared: ComparedVectors) -> None:
        self._rows = rows
        self._index = rows.index
        self._allowed = allowed
        self._compared = compared
        self._chosen: dict[int, tuple[float, Sequence[tuple[FactId, int]]]] = {}
        """The weight of sharing each entity, and the facts that it leads to."""

    def find(self, query: EdgeQuery) -> list[Edge]:
        """Edges to facts that the scope lets through, in the order of their sources."""
        ids = self._index.numbers(query.facts)
        found = self._linked(ids, query) if ids else []
        if not query.kinds or "entity" in query.kinds:
            found += self._through_entities(ids, query)
        return found

    def _linked(self, ids: Mapping[int, FactId], query: EdgeQuery) -> list[Edge]:
        """Stored links in both directions."""
        links, wanted, least = self._rows.links(ids), query.kinds or _ALL, query.least
        stored = [(id, *link) for seq, id in ids.items() for link in links[seq] if link[2] >= least]
        rows = np.array([row for _, row, _, _ in stored], np.int64)
        tokens: list[int] = self._index.column("tokens")[rows].tolist()
        near = self._near_enough(rows, query.floor).tolist()
        reached = [
            (*link, count) for link, count, near in zip(stored, tokens, near, strict=True) if near and link[2] in wanted
        ]
        targets = self._index.ids.get([row for _, row, _, _, _ in reached])
        return [
            Edge(id, target, count, kind, weight)
            for (id, _, kind, weight, count), target in zip(reached, targets, strict=True)
        ]

    def _through_entities(self, ids: Mapping[int, FactId], query: EdgeQuery) -> list[Edge]:
        """Edges to the facts that share an entity with a fact, or that mention a given one."""
        shared: dict[FactId | EntityId, list[tuple[int, str]]] = defaultdict(list)
        connection, bank = self._rows.connection, self._index.number
        for id, seq, name in fetch(connection, _NAMES, bank, listed(query.entities)) if query.entities else ():
            shared[EntityId(id)].append((seq, name))
        named = self._rows.entities(ids)
        for seq in sorted(ids):
            shared[ids[seq]] += named[seq]
        self._choose({entity for joined in shared.values() for entity, _ in joined}, query)
        return [
            Edge(source, target, tokens, "entity", weight, name)
            for source, joined in shared.items()
            for entity, name in joined
            for weight, reached in [self._chosen.get(entity, (0.0, ()))]
            if weight >= query.least
            for target, tokens in reached
            if target != source
        ]

    def _choose(self, entities: Iterable[int], query: EdgeQuery) -> None:
        """Note the weight of sharing each entity, the rarer, the more, and its facts, those most like the query."""
        weights: list[float] = []
        new: dict[int, Rows] = {}
        for entity in entities:
            if entity not in self._chosen:
                rows = self._rows.mentioning(entity)
                weight = 1.0 / math.sqrt(min(max(1, len(rows)), query.common))
                if weight >= query.least:
                    new[entity] = rows[-query.compared :]
                    weights.append(weight)
        if not new:
            return
        near = _divided(self._near_enough(np.concatenate([*new.values()]), query.floor), new.values())
        chosen = [self._most_similar(rows[mask], query.fan) for rows, mask in zip(new.values(), near, strict=True)]
        facts = _divided(shown(self._index, np.concatenate(chosen)), chosen)
        self._chosen.update(zip(new, zip(weights, facts, strict=True), strict=True))

    def _most_similar(self, rows: Rows, fan: int) -> Rows:
        """Rows most similar to the query: sign bits choose some of them, whose cosines are compared."""
        if len(rows) > OVERSAMPLE * fan:
            rows = rows[np.argpartition(self._compared.distances[rows], OVERSAMPLE * fan)[: OVERSAMPLE * fan]]
        if len(rows) > fan:
            rows = rows[np.argpartition(-self._compared.cosines(rows), fan)[:fan]]
        return rows

    def _near_enough(self, rows: Rows, floor: float) -> Mask:
        """True for rows that the scope allows and whose cosine reaches the floor."""
        return self._allowed[rows] if floor <= -1.0 else self._allowed[rows] & (self._compared.cosines(rows) >= floor)


def shown(index: BankIndex, rows: Rows) -> list[tuple[FactId, int]]:
    return list(zip(index.ids.get(rows.tolist()), index.column("tokens")[rows].tolist(), strict=True))


def _divided(joined: S, parts: Iterable[Rows]) -> list[S]:
    """Return the parts of a sequence that are as long as these."""
    ends = [*accumulate(map(len, parts), initial=0)]
    return [joined[first:last] for first, last in pairwise(ends)]


def _fact(fields: dict[str, object], access_count: int | None) -> Fact:
    """Return a fact of cached fields. Metadata is copied, because a caller might change it."""
    own = fields.copy()
    if access_count is not None:
        own["access_count"] = access_count
    own["metadata"] = dict(cast("dict[str, object]", fields["metadata"]))
    return Fact.trusted(own)


_NAMED = """
SELECT entity_names.name, entities.id, entities.name, entities.type
FROM entity_names JOIN entities ON entities.seq = entity_names.entity
WHERE entity_names.bank = ? AND entity_names.name IN (SELECT value FROM json_each(?))
ORDER BY entity_names.name, entity_names.entity
"""


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
        self._expanders: list[tuple[EdgeQuery, Expander]] = []

    @property
    def _index(self) -> BankIndex:
        """The index, the same for the whole transaction: what was filtered refers to its rows."""
        if self._loaded is None:
            self._loaded = self._indexes.get(self._connection, self._bank)
        return self._loaded

    @cached_property
    def _rows(self) -> BankRows:
        cache = self._caches.get(self._connection, self._index)
        return BankRows(self._connection, self._bank, self._index, cache)

    def _compare(self, vector: Vector) -> ComparedVectors:
        """Return the vectors of the bank, compared with a query once in the whole transaction."""
        for known, compared in self._compared:
            if known is vector:
                return compared
        self._compared.append((vector, self._index.compared(vector)))
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
        only = rows.filtered(self._connection, self._index.number, scope)
        mask = self._index.allowed(scope, micros(utc_now()), only)
        self._filtered.append((scope, mask))
        return mask

    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        return self._index.nearest(self._compare(vector), self.allowed(scope), limit, floor)

    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        return self._index.matching(query_terms(text), self.allowed(scope), limit)

    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        words = query_terms(text)
        return rows.matching_messages(self._connection, self._index.number, scope, words, limit=limit)

    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        return self._index.during(query, self._compare(query.vector), self.allowed(scope), limit)

    def named_entities(self, text: str) -> list[Mention]:
        number = self._index.number
        return entity_rows.mentions_in(text, lambda names: fetch(self._connection, _NAMED, number, listed(names)))

    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        return rows.instructions(self._connection, self._index.number, scope, limit=limit)

    def edges(self, query: EdgeQuery) -> list[Edge]:
        with self._reading():
            self.prepare(query.scope, query.space)
            for known, expander in self._expanders:
                if _leads_alike(known, query):
                    return expander.find(query)
            expander = Expander(self._rows, self.allowed(query.scope), self._compare(query.vector))
            self._expanders.append((query, expander))
            return expander.find(query)

    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        with self._reading():
            return self._rows.token_vectors(facts)

    def revisions(self, scope: Scope, facts: Sequence[FactId]) -> list[RevisionEdge]:
        with self._reading():
            return self._rows.revisions(self.allowed(scope), facts)

    def search(self, request: SearchRequest) -> SearchResult:
        with self._reading():
            return super().search(request)

    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        with self._reading():
            found, titles = self._rows.load(facts)
            by_id = MessageSelect(ids=messages)
            said = reads.messages_of(self._connection, self._index.number, by_id) if messages else []
            return Loaded(facts=found, messages=said, titles=titles)

    def outline(self, facts: Sequence[FactId]) -> list[FactOutline]:
        with self._reading():
            return self._rows.outlines(facts)


def _leads_alike(one: EdgeQuery, other: EdgeQuery) -> bool:
    """Return True if both queries choose the same facts of an entity."""
    numbers = one.fan, one.compared, one.common, one.floor
    return (
        one.scope is other.scope
        and one.vector is other.vector
        and numbers == (other.fan, other.compared, other.common, other.floor)
    )
