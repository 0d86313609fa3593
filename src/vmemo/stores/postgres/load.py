"""Reading the facts that a recall returns on PostgreSQL, with all that belongs to them, in one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId, Mention
from vmemo.models.search import FactOutline
from vmemo.stores.postgres.driver import fetch
from vmemo.stores.sql.entity_rows import mentions_of
from vmemo.stores.sql.fact_rows import fact_of, outline_of
from vmemo.stores.sql.schema import BASIS, EPISODE, facts
from vmemo.stores.values import storable

_COLUMNS = ", ".join(f"facts.{column.name}" for column in facts.columns)
_WIDTH = len(facts.columns)
# Each row is looked up by its key in a query of its own: joins would be planned for an average bank.
_LOAD = f"""
SELECT {_COLUMNS}, (
    SELECT json_agg((
        SELECT json_build_array(id, name, type, name_in_text) FROM entities WHERE bank = $1 AND seq = mentions.entity
    ) ORDER BY mentions.entity)::text
    FROM mentions WHERE mentions.bank = $1 AND mentions.fact = facts.seq
), (
    SELECT json_agg(CASE kind
        WHEN {EPISODE} THEN (SELECT json_build_array(kind, id, title) FROM episodes WHERE bank = $1 AND seq = source)
        WHEN {BASIS} THEN (SELECT json_build_array(kind, id, '') FROM facts AS own WHERE bank = $1 AND seq = source)
        ELSE (SELECT json_build_array(kind, id, '') FROM messages WHERE bank = $1 AND seq = source)
    END ORDER BY kind, source)::text
    FROM sources WHERE sources.bank = $1 AND sources.fact = facts.seq
)
FROM facts WHERE facts.bank = $1 AND facts.id = ANY($2::text[])
"""


_OUTLINES = f"""
SELECT id, network, tokens, engine, importance, mentioned_at, supersedes, supersedes IS NOT NULL AND EXISTS
    (SELECT 1 FROM sources WHERE sources.bank = $1 AND sources.fact = facts.seq AND sources.kind = {BASIS}),
    (SELECT id FROM episodes WHERE bank = $1 AND seq = (SELECT min(source) FROM sources
        WHERE sources.bank = $1 AND sources.fact = facts.seq AND sources.kind = {EPISODE}))
FROM facts WHERE facts.bank = $1 AND facts.id = ANY($2::text[])
"""


def outlines(connection: Connection, number: int, ids: Sequence[FactId]) -> list[FactOutline]:
    """Return the outlines of facts in the order of the ids."""
    rows = fetch(connection, _OUTLINES, number, [id for id in ids if storable(id)])
    found = {row[0]: outline_of(row[0], row[1:]) for row in rows}
    return [found[id] for id in ids if id in found]


def facts_with_titles(
    connection: Connection, number: int, bank: BankId, ids: Sequence[FactId]
) -> tuple[list[Fact], dict[EpisodeId, str]]:
    """Return facts in the order of the ids, and the titles of their episodes."""
    if not ids:
        return [], {}
    rows = fetch(connection, _LOAD, number, [id for id in ids if storable(id)])
    rows_of_mentions: list[tuple[int, Sequence[Any]]] = [
        (row[0], mention) for row in rows for mention in json.loads(row[_WIDTH] or "[]")
    ]
    mentioned = mentions_of((seq, *mention) for seq, mention in rows_of_mentions)
    titles: dict[EpisodeId, str] = {}
    found = {row[2]: _fact(row, bank, mentioned.get(row[0], ()), titles) for row in rows}
    return [found[id] for id in ids if id in found], titles


def _fact(row: Sequence[Any], bank: BankId, mentioned: Sequence[Mention], titles: dict[EpisodeId, str]) -> Fact:
    """A fact from its row; the titles of its episodes are added to those known."""
    origins: tuple[list[str], ...] = ([], [], [], [])
    for kind, id, title in json.loads(row[_WIDTH + 1] or "[]"):
        origins[int(kind)].append(id)
        if kind == EPISODE:
            titles[EpisodeId(id)] = title
    return fact_of(row[:_WIDTH], bank, mentioned, origins, None)
