"""Writes that are applied once, whatever becomes of the connection.

A transaction stores its own id. After an attempt whose outcome is not known the next one waits until the first has
ended, because both need the lock of that id, and returns the first one's result if it was committed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from vmemo.models import new_id, utc_now
from vmemo_neo4j.connection import Neo4jConnection, Transaction

R = TypeVar("R")
KEPT = timedelta(hours=1)
"""Time for which the ids of transactions are kept; no attempt takes as long."""


async def write_once(connection: Neo4jConnection, run: Callable[[Transaction], Awaitable[R]]) -> R:
    """Run in one transaction and commit it once."""
    id, results = new_id(), dict[str, R]()

    async def guarded(tx: Transaction) -> R:
        attempt = new_id()
        row = await tx.one(
            "MERGE (c:Commit {id: $id}) ON CREATE SET c.attempt = $attempt, c.at = $now RETURN c.attempt AS attempt",
            id=id,
            attempt=attempt,
            now=utc_now(),
        )
        assert row is not None
        if row["attempt"] != attempt:
            return results[row["attempt"]]
        results[attempt] = await run(tx)
        return results[attempt]

    return await connection.write(guarded, repeatable=True)


async def forget_old(tx: Transaction) -> None:
    """Delete the ids of transactions that ended long ago."""
    await tx.run("MATCH (c:Commit) WHERE c.at < $before DELETE c", before=utc_now() - KEPT)
