"""The facts that a recall returns, and their outlines, from the rows in memory or from the file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId, Mention
from vmemo.models.search import FactOutline
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.rows import fact_fields, outline_of
from vmemo.stores.sql.schema import BASIS, EPISODE, facts
from vmemo.stores.sqlite.bank_cache import BankCache
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

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


class FactLoader:
    """Loads facts of a bank in a transaction, those that are cached without reading them again."""

    def __init__(self, connection: Connection, index: BankIndex, bank: BankId, cache: BankCache) -> None:
        self._connection = connection
        self._index = index
        self._bank = bank
        self._cache = cache

    def load(self, ids: Sequence[FactId]) -> tuple[list[Fact], dict[EpisodeId, str]]:
        """Return facts in the order of the ids, and the titles of their episodes."""
        numbers, known, titles = self._index.numbers(ids), self._cache.facts, self._cache.titles
        cached = [seq for seq in numbers if seq in known]
        counts: dict[int, int] = dict(fetch(self._connection, _COUNTS, listed(cached))) if cached else {}
        self._read([seq for seq in numbers if seq not in known])
        by_id = {id: _fact(known[seq], counts.get(seq)) for seq, id in numbers.items() if seq in known}
        wanted = [by_id[id] for id in ids if id in by_id]
        return wanted, {episode: titles[episode] for fact in wanted for episode in fact.episodes}

    def outlines(self, ids: Sequence[FactId]) -> list[FactOutline]:
        """Return the outlines of facts in the order of the ids."""
        numbers, known = self._index.numbers(ids), self._cache.outlines
        new = [seq for seq in numbers if seq not in known]
        for row in fetch(self._connection, _OUTLINES, self._index.number, listed(new)) if new else ():
            known[row[0]] = outline_of(numbers[row[0]], row[1:])
        found = {id: known[seq] for seq, id in numbers.items() if seq in known}
        return [found[id] for id in ids if id in found]

    def _read(self, seqs: Sequence[int]) -> None:
        """Add the fields of facts to the cache."""
        if not seqs:
            return
        wanted = listed(seqs)
        mentioned, origins = self._mentions(wanted), self._sources(wanted)
        for row in fetch(self._connection, _FACTS, wanted):
            seq = row[0]
            fields = fact_fields(row, self._bank, mentioned.get(seq, ()), origins.get(seq, _NONE))
            self._cache.facts[seq] = fields

    def _mentions(self, facts: str) -> Mapping[int, Sequence[Mention]]:
        rows: list[tuple[int, int, str | None]] = fetch(self._connection, _MENTIONS, self._index.number, facts)
        entities, mentions = self._cache.entities, self._cache.mentions
        unknown = {entity for _, entity, _ in rows}.difference(entities)
        if unknown:
            entities.update((row[0], row[1:]) for row in fetch(self._connection, _ENTITIES, listed(unknown)))
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
        rows: list[tuple[int, int, int, str]] = fetch(self._connection, _SOURCES, self._index.number, facts)
        episodes = self._cache.episodes
        unknown = {source for _, kind, source, _ in rows if kind == EPISODE}.difference(episodes)
        for seq, id, title in fetch(self._connection, _EPISODES, listed(unknown)) if unknown else ():
            self._cache.titles[EpisodeId(id)] = title
            episodes[seq] = EpisodeId(id)
        found: dict[int, tuple[list[str], ...]] = {}
        for fact, kind, source, id in rows:
            if fact not in found:
                found[fact] = ([], [], [], [])
            found[fact][kind].append(episodes[source] if kind == EPISODE else id)
        return found


def _fact(fields: dict[str, object], access_count: int | None) -> Fact:
    """Return a fact of cached fields. Metadata is copied, because a caller might change it."""
    own = fields.copy()
    if access_count is not None:
        own["access_count"] = access_count
    own["metadata"] = dict(cast("dict[str, object]", fields["metadata"]))
    return Fact.trusted(own)
