"""Reading the facts that a recall returns on PostgreSQL, with all that belongs to them, in one statement."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, Fact, FactId, Mention
from vmemo.stores.sql.conditions import storable
from vmemo.stores.sql.rows import fact_of, mentions_of
from vmemo.stores.sql.schema import BASIS, EPISODE, facts

_COLUMNS = ", ".join(f"facts.{column.name}" for column in facts.columns)
_WIDTH = len(facts.columns)
_LOAD = f"""
SELECT {_COLUMNS}, mentioned.listed, origins.listed
FROM facts
LEFT JOIN LATERAL (
    SELECT json_agg(json_build_array(entities.id, entities.name, entities.type, mentions.said)
        ORDER BY mentions.entity)::text AS listed
    FROM mentions JOIN entities ON entities.bank = $1 AND entities.seq = mentions.entity
    WHERE mentions.bank = $1 AND mentions.fact = facts.seq
) AS mentioned ON true
LEFT JOIN LATERAL (
    SELECT json_agg(json_build_array(sources.kind, coalesce(episodes.id, basis.id, messages.id), episodes.title)
        ORDER BY sources.kind, sources.source)::text AS listed
    FROM sources
    LEFT JOIN episodes ON sources.kind = {EPISODE} AND episodes.bank = $1 AND episodes.seq = sources.source
    LEFT JOIN facts AS basis ON sources.kind = {BASIS} AND basis.bank = $1 AND basis.seq = sources.source
    LEFT JOIN messages ON sources.kind NOT IN ({EPISODE}, {BASIS})
        AND messages.bank = $1 AND messages.seq = sources.source
    WHERE sources.bank = $1 AND sources.fact = facts.seq
) AS origins ON true
WHERE facts.bank = $1 AND facts.id = ANY($2::text[])
"""


def facts_with_titles(
    connection: Connection, number: int, bank: BankId, ids: Sequence[FactId]
) -> tuple[list[Fact], dict[EpisodeId, str]]:
    """Return facts in the order of the ids, and the titles of their episodes."""
    if not ids:
        return [], {}
    rows = connection.exec_driver_sql(_LOAD, (number, [id for id in ids if storable(id)])).all()
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
