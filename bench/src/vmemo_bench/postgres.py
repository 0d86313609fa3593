"""Direct SQL access to a PostgreSQL database: server settings, table sizes and processor time."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import urlsplit

from vmemo_bench.environment import cpu_seconds
from vmemo_bench.report import Setting, Table

_REPORTED_SETTINGS = (
    *("server_version", "fsync", "full_page_writes", "synchronous_commit", "wal_level", "autovacuum"),
    *("shared_buffers", "maintenance_work_mem", "work_mem"),
)
_TABLE_SIZES = """
SELECT relname AS name, pg_relation_size(oid) AS rows, pg_indexes_size(oid) AS indexes,
    coalesce(pg_total_relation_size(nullif(reltoastrelid, 0)), 0) AS toast
FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 1
"""
_BANK_TABLES = """
SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'bank'
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 1
"""
SIZE_PARTS = ("rows", "indexes", "toast")


def durable_settings() -> dict[str, str]:
    """Return settings of a measured server: nothing that keeps data safe is switched off."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "autovacuum": "on",
        "effective_cache_size": f"{memory // 2}MB",
        "fsync": "on",
        "full_page_writes": "on",
        "io_method": "worker",
        # The HNSW index of a million facts takes 1.2 GB while it is built.
        "maintenance_work_mem": f"{max(64, memory // 10)}MB",
        "max_wal_senders": "10",
        "max_wal_size": "4GB",
        # PostgreSQL's documentation recommends a quarter of the memory.
        "shared_buffers": f"{max(128, memory // 4)}MB",
        "wal_level": "replica",
    }


class SqlRow(Protocol):
    """A row of a result, its values by name."""

    def __getitem__(self, name: str, /) -> object: ...


class SqlConnection(Protocol):
    """The methods of an asyncpg connection that are used here."""

    async def fetch(self, query: str, *values: object) -> Sequence[SqlRow]: ...
    async def fetchval(self, query: str, *values: object) -> object: ...
    async def execute(self, query: str, *values: object) -> str: ...
    async def copy_from_query(self, query: str, *values: object, output: io.BytesIO, format: str) -> str: ...
    async def copy_to_table(self, name: str, *, source: io.BytesIO, format: str) -> str: ...
    async def close(self) -> None: ...


class _Driver(Protocol):
    async def connect(self, dsn: str) -> SqlConnection: ...


@dataclass(frozen=True)
class TableSizes:
    """Bytes of each table: rows, indexes and TOAST."""

    tables: Mapping[str, Mapping[str, int]]

    @property
    def total(self) -> int:
        return sum(sum(parts.values()) for parts in self.tables.values())

    def minus(self, other: TableSizes) -> TableSizes:
        """Return the growth since `other`; tables that did not grow are omitted."""
        growth = {
            name: {part: size - other.tables.get(name, {}).get(part, 0) for part, size in parts.items()}
            for name, parts in self.tables.items()
        }
        return TableSizes({name: parts for name, parts in growth.items() if any(parts.values())})


@dataclass(frozen=True)
class PostgresDatabase:
    """One database, by its URL; `local` if its server runs on this machine for this run."""

    url: str = field(repr=False)
    local: bool = False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[SqlConnection]:
        # Imported late: benchmarks on SQLite work without the driver.
        driver = cast("_Driver", importlib.import_module("asyncpg"))
        connection = await driver.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def describe(self) -> dict[str, Setting]:
        """Return the server settings that a report shows; never the address of the server."""
        async with self.connection() as connection:
            settings: dict[str, Setting] = {
                name: str(await connection.fetchval("SELECT current_setting($1)", name)) for name in _REPORTED_SETTINGS
            }
            vector = await connection.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            oid = await connection.fetchval("SELECT oid::text FROM pg_database WHERE datname = current_database()")
        # Identifies the database, so that the checkpoint of one is not used for another.
        identity = {} if self.local else {"database": f"{urlsplit(self.url).path[1:]} {oid}"}
        return {**settings, "pgvector": str(vector), **identity}

    async def vacuum(self) -> None:
        """Run now what autovacuum would run soon after many writes, so that it does not disturb a measurement."""
        async with self.connection() as connection:
            await connection.execute("VACUUM (ANALYZE)")

    async def bank_number(self, bank: str) -> int:
        """Return the number of a bank in the `bank` column of the tables."""
        async with self.connection() as connection:
            return cast("int", await connection.fetchval("SELECT seq FROM banks WHERE id = $1", bank))

    async def table_sizes(self) -> TableSizes:
        """Return the current size of every table."""
        async with self.connection() as connection:
            rows = await connection.fetch(_TABLE_SIZES)
        return TableSizes({str(row["name"]): {part: cast("int", row[part]) for part in SIZE_PARTS} for row in rows})

    async def bytes_per_fact(self, bank: str, growth: TableSizes, facts: int) -> Table:
        """Return rows and bytes per fact, table by table."""
        number = await self.bank_number(bank)
        async with self.connection() as connection:
            counts = {
                name: cast("int", await connection.fetchval(f'SELECT count(*) FROM "{name}" WHERE bank = $1', number))
                for name in await bank_tables(connection)
            }
        per_fact: dict[str, Mapping[str, float]] = {}
        for name, parts in sorted(growth.tables.items(), key=lambda item: -sum(item[1].values())):
            sizes = {part: parts[part] / facts for part in SIZE_PARTS}
            per_fact[name] = {"count": counts.get(name, 0) / facts, **sizes, "bytes": sum(sizes.values())}
        columns = ("count", *SIZE_PARTS, "bytes")
        return {**per_fact, "all": {column: sum(row[column] for row in per_fact.values()) for column in columns}}

    async def cpu_seconds(self) -> float | None:
        """Return the processor time of the whole server so far; None if it is not known."""
        if not self.local:
            return None
        async with self.connection() as connection:
            rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return _server_seconds([cast("int", row["pid"]) for row in rows])


async def bank_tables(connection: SqlConnection) -> list[str]:
    """Return the tables whose rows belong to banks."""
    return [str(row["relname"]) for row in await connection.fetch(_BANK_TABLES)]


def _server_seconds(pids: Sequence[int]) -> float | None:
    """Return the time of these processes, of their parent, and of the parent's children that have ended."""
    try:
        processes = [cpu_seconds(pid) for pid in pids]
        _, own, ended = cpu_seconds(processes[0][0])
    except (OSError, ValueError, IndexError):
        return None
    return sum(each for _, each, _ in processes) + own + ended
