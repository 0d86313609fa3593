"""A look at a PostgreSQL database past the store: how it is set, how large its tables are, what a bare COPY does."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import urlsplit

from vmemo_bench.report import Setting

_TOLD = (
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "wal_level",
    "autovacuum",
    "shared_buffers",
    "maintenance_work_mem",
    "work_mem",
)
"""Settings that numbers depend on."""
_DIVISOR = 4
"""A quarter of the machine's memory goes to the server's own buffers, as its documentation advises."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def usual_settings() -> dict[str, str]:
    """How a server is set that is to be measured: nothing that keeps data safe is switched off."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return {
        "autovacuum": "on",
        "effective_cache_size": f"{memory // 2}MB",
        "fsync": "on",
        "full_page_writes": "on",
        "io_method": "worker",
        "maintenance_work_mem": "1GB",
        "max_wal_senders": "10",
        "max_wal_size": "4GB",
        "shared_buffers": f"{max(128, memory // _DIVISOR)}MB",
        "wal_level": "replica",
    }


class Row(Protocol):
    """A row of a result, its values by name."""

    def __getitem__(self, name: str, /) -> object: ...


class Connection(Protocol):
    """What is used of the driver's connection."""

    async def fetch(self, query: str, *values: object) -> Sequence[Row]: ...
    async def fetchval(self, query: str, *values: object) -> object: ...
    async def execute(self, query: str, *values: object) -> str: ...
    async def copy_from_query(self, query: str, *values: object, output: io.BytesIO, format: str) -> str: ...
    async def copy_to_table(self, name: str, *, source: io.BytesIO, format: str) -> str: ...
    async def close(self) -> None: ...


class _Driver(Protocol):
    async def connect(self, dsn: str) -> Connection: ...


@dataclass(frozen=True)
class Database:
    """One database, by its URL; `local` if its server's processes are of this machine."""

    url: str = field(repr=False)
    local: bool = False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection of one's own."""
        # Late, because whoever measures SQLite need not have the driver; the store was opened before.
        driver = cast("_Driver", importlib.import_module("asyncpg"))
        connection = await driver.connect(self.url)
        try:
            yield connection
        finally:
            await connection.close()

    async def told(self) -> dict[str, Setting]:
        """What a report tells of the server; not where it is, but enough to know it again."""
        async with self.connection() as connection:
            settings: dict[str, Setting] = {
                name: str(await connection.fetchval("SELECT current_setting($1)", name)) for name in _TOLD
            }
            vector = await connection.fetchval("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            number = await connection.fetchval("SELECT oid::text FROM pg_database WHERE datname = current_database()")
        # What a run on one database has noted is not taken for another's.
        known = {} if self.local else {"database": f"{urlsplit(self.url).path[1:]} {number}"}
        return {**settings, "pgvector": str(vector), **known}

    async def settle(self) -> None:
        """Do at once what the server does by itself a minute after much was written, so that it is not measured."""
        async with self.connection() as connection:
            await connection.execute("VACUUM (ANALYZE)")

    async def number_of(self, bank: str) -> int:
        """The number under which tables know a bank."""
        async with self.connection() as connection:
            return cast("int", await connection.fetchval("SELECT seq FROM banks WHERE id = $1", bank))

    async def cpu_seconds(self) -> float | None:
        """Processor time of the whole server so far; None where it can't be known."""
        if not self.local:
            return None
        async with self.connection() as connection:
            rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        return _cpu_seconds([cast("int", row["pid"]) for row in rows])


def _cpu_seconds(pids: Sequence[int]) -> float | None:
    """Of these processes, and of their parent with all its children that have ended."""
    try:
        stats = {pid: _stat(pid) for pid in pids}
        parent = _stat(next(iter(stats.values())).parent)
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    return sum(stat.own for stat in stats.values()) + parent.own + parent.ended


@dataclass(frozen=True)
class _Stat:
    parent: int
    own: float
    ended: float


def _stat(pid: int) -> _Stat:
    # The program's name in the second field may hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    numbers = [int(value) for value in fields[1:15]]
    return _Stat(parent=numbers[0], own=sum(numbers[10:12]) / _TICKS, ended=sum(numbers[12:14]) / _TICKS)
