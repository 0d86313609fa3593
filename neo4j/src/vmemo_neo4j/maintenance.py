"""Reads of maintenance: consecutive episodes that may be joined, and the retention scores of facts."""

from __future__ import annotations

from datetime import timedelta
from typing import LiteralString

from vmemo.models import Episode, FactId, RetentionScore, utc_now
from vmemo.models.select import EpisodeSelect
from vmemo.stores.values import UNPROCESSED, instant
from vmemo_neo4j import reads
from vmemo_neo4j.connection import Transaction
from vmemo_neo4j.nodes import micros
from vmemo_neo4j.selects import CURRENT, processed

_CONSECUTIVE: LiteralString = f"""
MATCH (later:Episode {{bank: $bank}})
WHERE $end IS NULL OR later.ended_at > $end OR (later.ended_at = $end AND later.id > $mark)
CALL (later) {{
    MATCH (later)-[:CONTAINS]->(m:Message) RETURN m AS first ORDER BY m.timestamp, m.seq LIMIT 1
}}
CALL (later, first) {{
    MATCH (m:Message {{bank: $bank}})<-[:CONTAINS]-(p:Episode)
    WHERE m.timestamp >= first.timestamp - $gap AND m.timestamp <= first.timestamp
    AND (m.timestamp < first.timestamp OR m.seq < first.seq)
    AND (m.document = first.document OR (m.document IS NULL AND first.document IS NULL)) AND p <> later
    RETURN p AS earlier ORDER BY m.timestamp DESC, m.seq DESC LIMIT 1
}}
WITH earlier, later
WHERE COUNT {{ (earlier)-[:CONTAINS]->() }} + COUNT {{ (later)-[:CONTAINS]->() }} <= $largest
AND {processed("earlier")} AND {processed("later")}
RETURN earlier.id AS first_id, later.id AS second_id ORDER BY later.ended_at, later.id LIMIT $limit
"""


async def consecutive(
    tx: Transaction, bank: str, *, gap: timedelta, largest: int, after: Episode | None, limit: int
) -> list[tuple[Episode, Episode]]:
    """Return pairs of processed episodes, the second of which continues the document of the first."""
    rows = await tx.rows(
        _CONSECUTIVE,
        bank=bank,
        gap=gap,
        largest=largest,
        end=None if after is None else after.ended_at,
        mark=None if after is None else after.id,
        unprocessed=list(UNPROCESSED),
        limit=limit,
    )
    ids = dict.fromkeys(id for row in rows for id in (row["first_id"], row["second_id"]))
    found = {each.id: each for each in await reads.episodes_of(tx, bank, EpisodeSelect(ids=list(ids)))}
    return [(found[row["first_id"]], found[row["second_id"]]) for row in rows]


_SCORES: LiteralString = f"""
OPTIONAL MATCH (mark:Fact {{bank: $bank, id: $after}}) WITH mark.mentioned_at AS time, mark.seq AS seq
MATCH (f:Fact {{bank: $bank}})
WHERE (time IS NULL OR f.mentioned_at > time OR (f.mentioned_at = time AND f.seq > seq))
AND {CURRENT} AND f.network IN ['world', 'experience'] AND f.pinned IS NULL
AND NOT EXISTS {{ MATCH (f)<-[:BASED_ON]-(holder:Fact) WHERE holder.expired_at IS NULL }}
WITH f ORDER BY f.mentioned_at, f.seq LIMIT $limit
CALL (f) {{ OPTIONAL MATCH (f)-[:SOURCE]->(m:Message) RETURN max(m.recorded_at) AS latest }}
WITH f, coalesce(latest, f.recorded_at) AS stated
RETURN f.id AS id, f.importance AS importance, f.access_count AS accesses, {micros("stated")} AS stated
ORDER BY f.mentioned_at, f.seq
"""


async def retention_scores(tx: Transaction, bank: str, after: FactId | None, limit: int) -> list[RetentionScore]:
    """Return the retention scores of current world and experience facts on which no other fact rests.

    Pinned facts have none.
    """
    rows = await tx.rows(_SCORES, bank=bank, after=after, now=utc_now(), limit=limit)
    return [
        RetentionScore(
            fact=FactId(row["id"]),
            importance=row["importance"],
            access_count=row["accesses"],
            stated_at=instant(row["stated"]),
        )
        for row in rows
    ]


async def damage(tx: Transaction) -> list[str]:
    """Return the indexes of the graph that failed, with their state."""
    found = await tx.rows(
        "SHOW INDEXES YIELD name, state WHERE name STARTS WITH 'vmemo_' AND state = 'FAILED' RETURN name ORDER BY name"
    )
    return [f"the index {row['name']} failed" for row in found]
