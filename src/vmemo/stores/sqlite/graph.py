"""Edges of the graph in SQLite: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from sqlalchemy import Connection

from vmemo.models import EntityId, FactId, LinkKind
from vmemo.models.search import Edge, EdgeQuery, RevisionEdge
from vmemo.stores.sql.batch_rows import LINK_KINDS, REVISION_KINDS
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.rows import instant
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.index.vectors import Mask, Rows
from vmemo.stores.sqlite.raw import fetch

_OTHER_WAY: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""The kind of a link seen from its target, where it differs."""
_ALL = frozenset(LINK_KINDS) - frozenset(REVISION_KINDS.values())
LINKS = 16
"""Links of a fact that are read in each direction: a fact that very many resemble leads to all of them a little."""
_ONWARD = "SELECT target, kind, weight FROM links WHERE bank = ? AND source = ? LIMIT ?"
_BACKWARD = "SELECT source, kind, weight FROM links INDEXED BY links_target WHERE bank = ? AND target = ? LIMIT ?"
"""Left to itself SQLite would read all links of the bank."""
_REVISES = f"links.kind IN ({', '.join(map(str, REVISION_KINDS))})"
_REVISIONS = f"""
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links INDEXED BY links_target ON links.bank = ?1 AND links.target = given.value WHERE {_REVISES}
UNION
SELECT links.source, links.target, links.kind, links.weight FROM json_each(?2) AS given
CROSS JOIN links ON links.bank = ?1 AND links.source = given.value WHERE {_REVISES}
"""
_MENTIONING = "SELECT fact FROM mentions INDEXED BY mentions_entity WHERE bank = ? AND entity = ? ORDER BY fact"
_REVISION = "SELECT revision FROM banks WHERE seq = ?"
_MENTIONED = "SELECT seq, mentioned_at FROM facts WHERE seq IN (SELECT value FROM json_each(?))"
_SHARED = """
SELECT mentions.fact, entities.seq, entities.name FROM mentions JOIN entities ON entities.seq = mentions.entity
WHERE mentions.bank = ?1 AND mentions.fact IN (SELECT value FROM json_each(?2))
"""
_NAMES = """
SELECT id, seq, name FROM entities WHERE bank = ?1 AND id IN (SELECT value FROM json_each(?2))
"""


Chosen = dict[int, tuple[list[tuple[FactId, int]], float]]
"""The facts that each entity leads to, and the weight of sharing it."""


def find(connection: Connection, index: BankIndex, allowed: Mask, query: EdgeQuery, chosen: Chosen) -> list[Edge]:
    """Edges to facts that the scope lets through, in the order of their sources.

    Queries that differ in their facts, entities and least weight alone share `chosen`.
    """
    ids = index.numbers(query.facts)
    reach = _Reach(connection, index, allowed, query, chosen)
    found = _linked(connection, index.number, ids, reach) if ids else []
    if not query.kinds or "entity" in query.kinds:
        found += _entity_edges(connection, index.number, ids, reach)
    return found


class _Reach:
    """The facts that an expansion may reach, and the selection among an entity's facts."""

    def __init__(
        self, connection: Connection, index: BankIndex, allowed: Mask, query: EdgeQuery, chosen: Chosen
    ) -> None:
        self.query = query
        self._connection = connection
        self._index = index
        self._allowed = allowed
        self._chosen = chosen

    def of_entity(self, entity: int) -> tuple[list[tuple[FactId, int]], float]:
        """Facts of an entity, most like the query first, and how much sharing it says: the rarer, the more."""
        if entity not in self._chosen:
            rows = mentioning(self._connection, self._index, entity)
            weight = 1.0 / math.sqrt(min(max(1, len(rows)), self.query.common))
            if weight < self.query.least:
                return [], weight
            rows = self._near_enough(rows[-self.query.compared :])
            if len(rows) > self.query.fan:
                likeness = self._index.vectors.cosines(rows, self.query.vector)
                rows = rows[np.argpartition(-likeness, self.query.fan)[: self.query.fan]]
            self._chosen[entity] = _shown(self._index, rows), weight
        return self._chosen[entity]

    def among(self, seqs: Iterable[int]) -> dict[int, tuple[FactId, int]]:
        """Ids and tokens by number of those facts that may be reached."""
        rows = self._near_enough(self._index.at(sorted(set(seqs))))
        return dict(zip(self._index.column("seq")[rows].tolist(), _shown(self._index, rows), strict=True))

    def _near_enough(self, rows: Rows) -> Rows:
        """Rows that the scope allows and whose cosine reaches the floor."""
        rows = rows[self._allowed[rows]]
        if self.query.floor <= -1.0:
            return rows
        return rows[self._index.vectors.cosines(rows, self.query.vector) >= self.query.floor]


def mentioning(connection: Connection, index: BankIndex, entity: int) -> Rows:
    """Return the facts that mention an entity. The index keeps them, unless it is newer than the transaction."""
    if entity in index.mentions:
        return index.mentions[entity]
    rows = index.at([fact for (fact,) in fetch(connection, _MENTIONING, index.number, entity)])
    if fetch(connection, _REVISION, index.number) == [(index.revision,)]:
        index.mentions[entity] = rows
    return rows


def _shown(index: BankIndex, rows: Rows) -> list[tuple[FactId, int]]:
    tokens = index.column("tokens")[rows].tolist()
    return [(index.ids[row], count) for row, count in zip(cast("list[int]", rows.tolist()), tokens, strict=True)]


def revisions(connection: Connection, index: BankIndex, allowed: Mask, ids: Sequence[FactId]) -> list[RevisionEdge]:
    """Links by which facts replace or outdate others, with at least one end given and both ends allowed."""
    given = listed(index.numbers(ids))
    stored: list[tuple[int, int, int, float]] = fetch(connection, _REVISIONS, index.number, given)
    if not stored:
        return []
    rows = index.at(sorted({seq for newer, older, _, _ in stored for seq in (newer, older)}))
    rows = rows[allowed[rows]]
    seen = dict(zip(index.column("seq")[rows].tolist(), _shown(index, rows), strict=True))
    mentioned: dict[int, int] = dict(fetch(connection, _MENTIONED, listed({newer for newer, *_ in stored})))
    found: list[RevisionEdge] = []
    for newer, older, kind, weight in stored:
        if newer in seen and older in seen:
            (new, new_tokens), (old, old_tokens), at = seen[newer], seen[older], instant(mentioned[newer])
            found.append(RevisionEdge(new, old, REVISION_KINDS[kind], weight, new_tokens, old_tokens, at))
    return found


def _linked(connection: Connection, bank: int, ids: Mapping[int, FactId], reach: _Reach) -> list[Edge]:
    """Stored links in both directions."""
    stored = [(seq, target, kind, weight) for seq in ids for target, kind, weight in _links(connection, bank, seq)]
    rows = reach.among(target for _, target, _, _ in stored)
    wanted, least = reach.query.kinds or _ALL, reach.query.least
    return [
        Edge(ids[seq], *rows[target], kind, weight)
        for seq, target, kind, weight in stored
        if target in rows and target != seq and kind in wanted and weight >= least
    ]


def _links(connection: Connection, bank: int, seq: int) -> Iterator[tuple[int, LinkKind, float]]:
    """Links of one fact; from its other end a link may be of another kind."""
    onward: list[tuple[int, int, float]] = fetch(connection, _ONWARD, bank, seq, LINKS)
    for target, number, weight in onward:
        yield target, LINK_KINDS[number], weight
    backward: list[tuple[int, int, float]] = fetch(connection, _BACKWARD, bank, seq, LINKS)
    for source, number, weight in backward:
        kind = LINK_KINDS[number]
        if kind in _OTHER_WAY:
            kind = _OTHER_WAY[kind]
        yield source, kind, weight


def _entity_edges(connection: Connection, bank: int, ids: Mapping[int, FactId], reach: _Reach) -> Iterator[Edge]:
    shared: dict[FactId | EntityId, list[tuple[int, str]]] = defaultdict(list)
    if reach.query.entities:
        for id, seq, name in fetch(connection, _NAMES, bank, listed(reach.query.entities)):
            shared[EntityId(id)].append((seq, name))
    if ids:
        for fact, seq, name in fetch(connection, _SHARED, bank, listed(ids)):
            shared[ids[fact]].append((seq, name))
    for source, joined in shared.items():
        for entity, name in joined:
            reached, weight = reach.of_entity(entity)
            for target, tokens in reached:
                if target != source:
                    yield Edge(source, target, tokens, "entity", weight, name)
