"""Schema versions: upgrade an older database, refuse a newer one."""

from __future__ import annotations

from typing import Final

from vmemo.stores import values
from vmemo_neo4j.connection import Neo4jConnection, Transaction
from vmemo_neo4j.schema import MIGRATIONS

HEAD: Final = f"{len(MIGRATIONS):04}"
"""The schema that this release writes."""
INDEX_SECONDS: Final = 300
"""Seconds that the upgrade waits for new indexes to be filled."""


async def current(tx: Transaction) -> str | None:
    """Return the database's version, or None if it has no schema of vmemo."""
    row = await tx.one("MATCH (v:SchemaVersion {of: 'vmemo'}) RETURN max(v.version) AS version")
    return None if row is None else row["version"]


async def prepare(connection: Neo4jConnection, *, as_is: bool) -> None:
    """Upgrade the schema, or refuse one that would have to be changed if it is to be used as it is."""
    version = await connection.read(current)
    values.refuse_newer_schema(version, HEAD)
    if as_is:
        values.refuse_other_schema(version, HEAD)
    elif version != HEAD:
        await _upgrade(connection, 0 if version is None else int(version))


async def _upgrade(connection: Neo4jConnection, version: int) -> None:
    """Run the migrations after a version. Neo4j commits each statement on its own; all of them may run again."""
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            await connection.alone(statement)
    await connection.alone("CALL db.awaitIndexes($seconds)", seconds=INDEX_SECONDS)
    await connection.write(_note, repeatable=True)


async def _note(tx: Transaction) -> None:
    await tx.run("MERGE (v:SchemaVersion {of: 'vmemo'}) SET v.version = $version", version=HEAD)
