"""Where the bytes of a bank are on PostgreSQL: table by table, apart from what was there before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from vmemo_bench.database import Connection, Database
from vmemo_bench.report import Table

_SIZES = """
SELECT coalesce(parent.relname, own.relname) AS name,
    sum(pg_relation_size(own.oid))::bigint AS rows,
    sum(pg_indexes_size(own.oid))::bigint AS indexes,
    sum(coalesce(pg_total_relation_size(nullif(own.reltoastrelid, 0)), 0))::bigint AS apart
FROM pg_class AS own
LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE own.relkind = 'r' AND own.relnamespace = current_schema()::regnamespace
GROUP BY 1 ORDER BY 1
"""
_OF_BANKS = """
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'bank'
WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace ORDER BY 1
"""
KINDS = ("rows", "indexes", "apart")
"""Rows in their table, its indexes, and long values that stand apart from their rows."""


@dataclass(frozen=True)
class Room:
    """Bytes of each table by kind."""

    tables: Mapping[str, Mapping[str, int]]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(sum(kinds.values()) for kinds in self.tables.values())

    def less(self, other: Room) -> Room:
        """What was added since; tables that did not grow are left out."""
        grown = {
            name: {kind: size - other.tables.get(name, {}).get(kind, 0) for kind, size in kinds.items()}
            for name, kinds in self.tables.items()
        }
        return Room({name: kinds for name, kinds in grown.items() if any(kinds.values())})


async def taken(database: Database) -> Room:
    """What every table takes at this moment, its parts together."""
    async with database.connection() as connection:
        rows = await connection.fetch(_SIZES)
    return Room({str(row["name"]): {kind: cast("int", row[kind]) for kind in KINDS} for row in rows})


async def tables_of_banks(connection: Connection) -> list[str]:
    """The tables whose rows belong to banks."""
    return [str(row["relname"]) for row in await connection.fetch(_OF_BANKS)]


async def by_table(database: Database, bank: str, grown: Room, facts: int) -> Table:
    """Rows and bytes for each fact, table by table."""
    counts = await _counts(database, bank)
    per_fact: dict[str, Mapping[str, float]] = {}
    for name, kinds in sorted(grown.tables.items(), key=lambda item: -sum(item[1].values())):
        bytes_each = {kind: kinds[kind] / facts for kind in KINDS}
        per_fact[name] = {"count": counts.get(name, 0) / facts, **bytes_each, "bytes": sum(bytes_each.values())}
    columns = ("count", *KINDS, "bytes")
    return {**per_fact, "all": {column: sum(row[column] for row in per_fact.values()) for column in columns}}


async def _counts(database: Database, bank: str) -> dict[str, int]:
    number = await database.number_of(bank)
    async with database.connection() as connection:
        return {
            name: cast("int", await connection.fetchval(f'SELECT count(*) FROM "{name}" WHERE bank = $1', number))
            for name in await tables_of_banks(connection)
        }
