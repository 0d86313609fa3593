"""The facts that a recall returns, read with plain SQLite statements, which are faster than those of `reads`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.rows import fact_of, mentions_of
from vmemo.stores.sql.schema import BASIS, EPISODE, facts
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

MOST_BANKS = 8
MOST_FACTS = 1024
"""Banks whose facts are cached, and facts of each: about 2 MB for a bank."""
_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"
_COUNTS = "SELECT seq, access_count FROM facts WHERE seq IN (SELECT value FROM json_each(?))"
_FACTS = f"""
SELECT {", ".join(column.name for column in facts.columns)} FROM facts
WHERE seq IN (SELECT value FROM json_each(?))
"""
_MENTIONS = """
SELECT mentions.fact, entities.id, entities.name, entities.type, mentions.said
FROM mentions JOIN entities ON entities.seq = mentions.entity
WHERE mentions.bank = ? AND mentions.fact IN (SELECT value FROM json_each(?))
"""
_SOURCES = f"""
SELECT fact, kind, CASE kind
    WHEN {EPISODE} THEN (SELECT id FROM episodes WHERE seq = source)
    WHEN {BASIS} THEN (SELECT id FROM facts WHERE seq = source)
    ELSE (SELECT id FROM messages WHERE seq = source) END
FROM sources WHERE bank = ? AND fact IN (SELECT value FROM json_each(?))
"""
_TITLES = "SELECT id, title FROM episodes WHERE bank = ? AND id IN (SELECT value FROM json_each(?))"


@dataclass(frozen=True)
class _BankFacts:
    """Facts by number and titles of episodes, as of one revision of a bank."""

    version: tuple[int, int]
    facts: OrderedDict[int, Fact] = field(default_factory=OrderedDict[int, Fact])
    titles: dict[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])


class FactCache:
    """The facts that recalls of some banks returned last.

    Every change of a bank's memories moves its revision, and only access counts change without one.
    """

    def __init__(self) -> None:
        self._banks: OrderedDict[int, _BankFacts] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        """Drop all facts."""
        with self._lock:
            self._banks.clear()

    def load(
        self, connection: Connection, index: BankIndex, bank: BankId, ids: Sequence[FactId]
    ) -> tuple[list[Fact], dict[EpisodeId, str]]:
        """Return facts in the order of the ids, and the titles of their episodes."""
        if not ids:
            return [], {}
        numbers = index.numbers(ids)
        [version] = fetch(connection, _VERSION, index.number)
        with self._lock:
            known = self._of(index.number, (version[0], version[1]))
            found = {seq: known.facts[seq] for seq in numbers if seq in known.facts}
        counts: dict[int, int] = dict(fetch(connection, _COUNTS, listed(found))) if found else {}
        read = _read(connection, index.number, bank, [seq for seq in numbers if seq not in found])
        found |= read
        episodes = {episode for fact in found.values() for episode in fact.episodes}
        titles = _titles(connection, index.number, [episode for episode in episodes if episode not in known.titles])
        with self._lock:
            known.titles.update(titles)
            known.facts.update(read)
            while len(known.facts) > MOST_FACTS:
                known.facts.popitem(last=False)
        by_id = {fact.id: _counted(fact, counts.get(seq, fact.access_count)) for seq, fact in found.items()}
        wanted = [by_id[id] for id in ids if id in by_id]
        return wanted, {episode: known.titles[episode] for episode in episodes if episode in known.titles}

    def _of(self, bank: int, version: tuple[int, int]) -> _BankFacts:
        known = self._banks.get(bank)
        if known is None or known.version != version:
            known = self._banks[bank] = _BankFacts(version)
        self._banks.move_to_end(bank)
        while len(self._banks) > MOST_BANKS:
            self._banks.popitem(last=False)
        return known


def _counted(fact: Fact, count: int) -> Fact:
    """Return a fact with its present access count; metadata is copied, because a caller might change it."""
    return Fact.trusted({**fact.__dict__, "access_count": count, "metadata": dict(fact.metadata)})


def _read(connection: Connection, number: int, bank: BankId, seqs: Sequence[int]) -> dict[int, Fact]:
    """Return facts by number."""
    if not seqs:
        return {}
    wanted = listed(seqs)
    mentioned = mentions_of(fetch(connection, _MENTIONS, number, wanted))
    origins = _sources(connection, number, wanted)
    rows = fetch(connection, _FACTS, wanted)
    return {row[0]: fact_of(row, bank, mentioned.get(row[0], ()), origins.get(row[0], _NONE), None) for row in rows}


_NONE: tuple[list[str], ...] = ([], [], [], [])


def _sources(connection: Connection, bank: int, numbers: str) -> Mapping[int, tuple[list[str], ...]]:
    """Return the ids of the sources of each fact by kind: messages, context, episodes, facts that it rests on."""
    found: dict[int, tuple[list[str], ...]] = {}
    rows: list[tuple[int, int, str]] = fetch(connection, _SOURCES, bank, numbers)
    for fact, kind, id in rows:
        if fact not in found:
            found[fact] = ([], [], [], [])
        found[fact][kind].append(id)
    return found


def _titles(connection: Connection, bank: int, episodes: Sequence[EpisodeId]) -> dict[EpisodeId, str]:
    found = fetch(connection, _TITLES, bank, listed(episodes)) if episodes else []
    return {EpisodeId(id): title for id, title in found}
