"""Edges of the graph in SQLite: stored links in both directions, and the facts that share an entity."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import numpy as np
from sqlalchemy import Connection

from vmemo.models import EntityId, FactId, LinkKind
from vmemo.ports import Edge, EdgeQuery
from vmemo.stores.sql.among import listed
from vmemo.stores.sql.index.bank import BankIndex
from vmemo.stores.sql.index.vectors import Mask, Rows
from vmemo.stores.sql.raw import fetch
from vmemo.stores.sql.writing import LINK_KINDS

_OTHER_WAY: Mapping[LinkKind, LinkKind] = {"causes": "caused_by", "caused_by": "causes"}
"""What a link is from its other end, where that is something else."""
LINKS = 8
"""Links of a fact that are followed on the average, the strongest of all facts asked about."""
_LINKS = """
SELECT source, target, kind, weight, 0 FROM links
WHERE bank = ?1 AND source IN (SELECT value FROM json_each(?2)) AND kind IN (SELECT value FROM json_each(?3))
AND weight >= ?6 UNION ALL
SELECT target, source, kind, weight, 1 FROM links
WHERE bank = ?1 AND target IN (SELECT value FROM json_each(?2)) AND kind IN (SELECT value FROM json_each(?4))
AND weight >= ?6 ORDER BY 4 DESC LIMIT ?5
"""
_SHARED = """
SELECT mentions.fact, entities.seq, entities.name FROM mentions JOIN entities ON entities.seq = mentions.entity
WHERE mentions.bank = ?1 AND mentions.fact IN (SELECT value FROM json_each(?2))
"""
_NAMES = """
SELECT id, seq, name FROM entities WHERE bank = ?1 AND id IN (SELECT value FROM json_each(?2))
"""


def find(connection: Connection, index: BankIndex, allowed: Mask, query: EdgeQuery) -> list[Edge]:
    """Edges to facts that the scope lets through, in the order of their sources."""
    ids = index.numbers(query.facts)
    reach = _Reach(index, allowed, query)
    found = list(_linked(connection, index.number, ids, reach)) if ids else []
    if not query.kinds or "entity" in query.kinds:
        found += _entity_edges(connection, index.number, ids, reach)
    return found


class _Reach:
    """What of the bank may be reached, and which facts of an entity are worth reaching."""

    def __init__(self, index: BankIndex, allowed: Mask, query: EdgeQuery) -> None:
        self.query = query
        self._index = index
        self._allowed = allowed
        self._chosen: dict[int, tuple[list[tuple[FactId, int]], float]] = {}

    def of_entity(self, entity: int) -> tuple[list[tuple[FactId, int]], float]:
        """Facts of an entity, most like the query first, and how much sharing it says: the rarer, the more."""
        if entity not in self._chosen:
            rows = self._index.mentions.rows(entity)
            weight = 1.0 / math.sqrt(max(1, len(rows)))
            rows = rows[self._allowed[rows]] if weight >= self.query.least else rows[:0]
            if len(rows) > self.query.fan:
                likeness = self._index.vectors.cosines(rows, self.query.vector)
                rows = rows[np.argpartition(-likeness, self.query.fan)[: self.query.fan]]
            self._chosen[entity] = self._shown(rows), weight
        return self._chosen[entity]

    def among(self, seqs: Iterable[int]) -> dict[int, tuple[FactId, int]]:
        """Ids and tokens by number of those facts that may be reached."""
        rows = self._index.at(sorted(set(seqs)))
        rows = rows[self._allowed[rows]]
        return dict(zip(self._index.column("seq")[rows].tolist(), self._shown(rows), strict=True))

    def _shown(self, rows: Rows) -> list[tuple[FactId, int]]:
        tokens = self._index.column("tokens")[rows].tolist()
        return [
            (self._index.ids[row], count) for row, count in zip(cast("list[int]", rows.tolist()), tokens, strict=True)
        ]


def _linked(connection: Connection, bank: int, ids: Mapping[int, FactId], reach: _Reach) -> Iterator[Edge]:
    """Stored links, the strongest first. A causal link seen from its other end is the opposite kind."""
    wanted = reach.query.kinds or frozenset(LINK_KINDS)
    onward = [number for number, kind in enumerate(LINK_KINDS) if kind in wanted]
    backward = [number for number, kind in enumerate(LINK_KINDS) if _OTHER_WAY.get(kind, kind) in wanted]
    stored: list[tuple[int, int, int, float, int]] = fetch(
        connection, _LINKS, bank, listed(ids), listed(onward), listed(backward), LINKS * len(ids), reach.query.least
    )
    rows = reach.among(row[1] for row in stored)
    for source, target, number, weight, back in stored:
        if target in rows and target != source:
            kind = LINK_KINDS[number]
            if back and kind in _OTHER_WAY:
                kind = _OTHER_WAY[kind]
            yield Edge(ids[source], *rows[target], kind=kind, weight=weight)


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
