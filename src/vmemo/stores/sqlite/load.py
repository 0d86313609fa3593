"""The facts that a recall returns, read with plain SQLite statements, which are faster than those of `reads`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId
from vmemo.stores.sql.conditions import listed
from vmemo.stores.sql.rows import fact_of, mentions_of
from vmemo.stores.sql.schema import BASIS, EPISODE, facts
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

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


def facts_with_titles(
    connection: Connection, index: BankIndex, bank: BankId, ids: Sequence[FactId]
) -> tuple[list[Fact], dict[EpisodeId, str]]:
    """Return facts in the order of the ids, and the titles of their episodes."""
    if not ids:
        return [], {}
    numbers = listed(index.numbers(ids))
    rows = fetch(connection, _FACTS, numbers)
    mentioned = mentions_of(fetch(connection, _MENTIONS, index.number, numbers))
    origins = _sources(connection, index.number, numbers)
    found = {row[2]: fact_of(row, bank, mentioned.get(row[0], ()), origins.get(row[0], _NONE), None) for row in rows}
    wanted = [found[id] for id in ids if id in found]
    return wanted, _titles(connection, index.number, wanted)


_NONE: tuple[list[str], ...] = ([], [], [], [])


def _sources(connection: Connection, bank: int, numbers: str) -> dict[int, tuple[list[str], ...]]:
    """Return the ids of the sources of each fact by kind: messages, context, episodes, facts that it rests on."""
    found: dict[int, tuple[list[str], ...]] = {}
    rows: list[tuple[int, int, str]] = fetch(connection, _SOURCES, bank, numbers)
    for fact, kind, id in rows:
        if fact not in found:
            found[fact] = ([], [], [], [])
        found[fact][kind].append(id)
    return found


def _titles(connection: Connection, bank: int, found: Iterable[Fact]) -> dict[EpisodeId, str]:
    episodes = {episode for fact in found for episode in fact.episodes}
    return {EpisodeId(id): title for id, title in fetch(connection, _TITLES, bank, listed(episodes))}
