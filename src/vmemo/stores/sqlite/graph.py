"""Edges of the graph in SQLite: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

import numpy as np
from sqlalchemy import Connection

from vmemo.models import EntityId, FactId, LinkKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge
from vmemo.stores.sql.batch_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.schema import REVISIONS
from vmemo.stores.sqlite.bank_cache import BankCache, Link, RevisionKey
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.vectors import ComparedVectors, Mask, Rows
from vmemo.stores.sqlite.raw import fetch
from vmemo.stores.values import instant

S = TypeVar("S", Mask, list[tuple[FactId, int]])
_CAUSES, _CAUSED_BY = map(LINK_KINDS.index, ("causes", "caused_by"))
_OTHER_WAY = {_CAUSES: _CAUSED_BY, _CAUSED_BY: _CAUSES}
"""The kind of a link seen from its target, where it differs."""
_ALL: frozenset[LinkKind] = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
OVERSAMPLE = 16
"""Facts of an entity that are chosen by sign bits for each one that it leads to."""
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""
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


@dataclass(frozen=True)
class BankGraph:
    """The graph of a bank in one transaction: its rows, and what is known of them in memory."""

    connection: Connection
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


class Expander:
    """Follows edges for queries that differ in their facts, entities, kinds and least weight alone."""

    def __init__(self, graph: BankGraph, allowed: Mask, compared: ComparedVectors) -> None:
        self._graph = graph
        self._index = graph.index
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
        links, wanted, least = self._graph.links(ids), query.kinds or _ALL, query.least
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
        connection, bank = self._graph.connection, self._index.number
        for id, seq, name in fetch(connection, _NAMES, bank, listed(query.entities)) if query.entities else ():
            shared[EntityId(id)].append((seq, name))
        named = self._graph.entities(ids)
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
                rows = self._graph.mentioning(entity)
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
    """Return the ids and tokens of rows."""
    return list(zip(index.ids.get(rows.tolist()), index.column("tokens")[rows].tolist(), strict=True))


def _divided(joined: S, parts: Iterable[Rows]) -> list[S]:
    """Return the parts of a sequence that are as long as these."""
    ends = [*accumulate(map(len, parts), initial=0)]
    return [joined[first:last] for first, last in pairwise(ends)]
