"""HNSW indexes of the few large banks on PostgreSQL: how a search asks one, and how maintenance builds and drops them.

Small banks have none: every search of a partition locks all its indexes, and every new row is a search in its index.
An index covers one bank and one dimension, so that vectors of another dimension can be written beside it. It is built
without holding up writers, by one maintainer at a time: two that build in one partition would wait for each other.
A running build is visible in the server's progress view, and a note claims the time before it starts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection

from vmemo.errors import StoreBusy, StoreError
from vmemo.models import new_id
from vmemo.stores.postgres.pool import PostgresPool
from vmemo.stores.postgres.schema import vector_version

LARGE = 50_000
"""Facts from which on a bank gets an index; with half as many it loses it again."""
MOST = 256
"""Indexes in a database."""
MOST_IN_PART = 16
"""Indexes in a partition."""
WIDEST = 4_000
"""Dimensions that an index can hold."""
SHARE = 60
"""An index is asked for at most one row in so many; beyond that a scan is as fast."""
HELD = 60
"""Seconds for which a note keeps others from beginning to build, until a build is seen; a crash leaves it behind."""
NEEDS = (0, 8)
"""The first pgvector whose indexes are read on until there are enough rows."""
_BUILT = "m = 16, ef_construction = 200"
_LEAST_SEEN, _MOST_SEEN, _SEEN = 300, 1_000, 3
_NAME = "fact_vectors_hnsw"
_OURS = re.compile(rf"{_NAME}_(\d+_\d+|left_\d+)")


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A bank as a search by vector sees it; `indexed` says that it is large enough to have an index."""

    bank: int
    dimension: int
    count: int
    indexed: bool


_USE = """
SELECT set_config('hnsw.ef_search', $2, true), set_config('hnsw.iterative_scan', 'relaxed_order', true)
FROM pg_index WHERE indexrelid = to_regclass($1) AND indisvalid
"""


def usable(connection: Connection, searched: Searched, length: int) -> bool:
    """Return True if an index can return this many rows, and widen its search for this transaction."""
    if not searched.indexed or length * SHARE > searched.count:
        return False
    seen = max(_LEAST_SEEN, min(_MOST_SEEN, _SEEN * length))
    asked = (name(searched.bank, searched.dimension), str(seen))
    return connection.exec_driver_sql(_USE, asked).first() is not None


def name(bank: int, dimension: int) -> str:
    """The name of a bank's index."""
    return f"{_NAME}_{bank}_{dimension}"


@dataclass(frozen=True)
class Standing:
    """An index that is there; one that is not valid was not built to its end."""

    name: str
    part: str
    valid: bool


@dataclass(frozen=True)
class Large:
    """A bank that may have an index."""

    bank: int
    dimension: int
    facts: int
    part: str

    @property
    def name(self) -> str:
        """The name of its index."""
        return name(self.bank, self.dimension)

    def building(self) -> str:
        """The statement that builds its index."""
        return (
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.name} ON {self.part} "
            f"USING hnsw ((embedding::halfvec({self.dimension})) halfvec_ip_ops) WITH ({_BUILT}) "
            f"WHERE bank = {self.bank} AND vector_dims(embedding) = {self.dimension}"
        )


@dataclass(frozen=True)
class Due:
    """The indexes to drop, the invalid ones to rename, and the banks to index, largest first."""

    drop: Sequence[str] = ()
    aside: Sequence[Standing] = ()
    build: Sequence[Large] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.aside or self.build)


def due(standing: Sequence[Standing], banks: Sequence[Large], large: int) -> Due:
    """Return the changes after which the largest banks have an index.

    A bank that has its index counts twice, so that it keeps it until it is half as large as it would have to be.
    """
    have = {index.name for index in standing}
    weights = {bank: bank.facts * (2 if bank.name in have else 1) for bank in banks}
    wanted: list[Large] = []
    parts = Counter[str]()
    for bank in sorted(banks, key=lambda bank: (-weights[bank], bank.bank)):
        if weights[bank] >= large and len(wanted) < MOST and parts[bank.part] < MOST_IN_PART:
            wanted.append(bank)
            parts[bank.part] += 1
    names = {bank.name for bank in wanted}
    return Due(
        drop=[index.name for index in standing if index.name not in names],
        aside=[index for index in standing if index.name in names and not index.valid],
        build=[bank for bank in wanted if bank.name not in have],
    )


_BUILT_NOW = """
SELECT 1 FROM pg_stat_progress_create_index WHERE datname = current_database() AND (
    relid IS NULL OR relid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('fact_vectors'))
)
"""
_CLAIM = """
INSERT INTO notes AS held (name, value)
VALUES ('hnsw', $1::text || ' ' || (extract(epoch FROM clock_timestamp()) + $2::integer)::bigint)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE split_part(held.value, ' ', 1) = $1
    OR split_part(held.value, ' ', 2)::bigint < extract(epoch FROM clock_timestamp())
RETURNING 1
"""
_RELEASE = "DELETE FROM notes WHERE name = 'hnsw' AND split_part(value, ' ', 1) = $1"


async def tend(pool: PostgresPool, large: int, *, build: bool = True, without: str | None = None) -> None:
    """Drop unneeded indexes, rebuild unfinished ones, and build missing ones, one after another.

    If another process is doing so, leave it to that one. An index named by `without` counts as unneeded.
    """
    owner = new_id()

    def survey(connection: Connection) -> Due:
        if connection.exec_driver_sql(_BUILT_NOW).first() is not None:
            return Due()
        banks = [bank for bank in _banks(connection, large) if bank.name != without]
        found = due(_standing(connection), banks, large)
        return found if build else Due(drop=found.drop)

    def claim(connection: Connection) -> Due:
        claimed = connection.exec_driver_sql(_CLAIM, (owner, HELD)).first() is not None
        return survey(connection) if claimed else Due()

    if not await pool.read(survey):
        return
    try:
        while await _step(pool, await pool.write(claim, repeatable=True)):
            pass
    finally:
        # An abandoned claim expires by itself.
        with suppress(StoreError):
            await pool.write(lambda connection: connection.exec_driver_sql(_RELEASE, (owner,)), repeatable=True)


async def _step(pool: PostgresPool, work: Due) -> bool:
    """Do the first step that is due; return False if there is none, or another process blocked it."""
    for each in work.drop:
        await pool.alone(f"DROP INDEX CONCURRENTLY IF EXISTS {each}")
        return True
    for index in work.aside:
        return await _set_aside(pool, index)
    for bank in work.build:
        await pool.alone(bank.building())
        return True
    return False


_STANDING = """
SELECT index.relname, part.relname, indisvalid FROM pg_index
JOIN pg_class AS index ON index.oid = indexrelid JOIN pg_class AS part ON part.oid = indrelid
WHERE index.relnamespace = current_schema()::regnamespace AND starts_with(index.relname::text, $1) ORDER BY 1
"""


def _standing(connection: Connection) -> list[Standing]:
    found = connection.exec_driver_sql(_STANDING, (_NAME,)).all()
    return [Standing(*row) for row in found if _OURS.fullmatch(row[0])]


_BANKS = """
SELECT banks.seq, banks.dimension, sizes.facts, part.relname
FROM search_sizes AS sizes JOIN banks ON banks.seq = sizes.bank
JOIN pg_inherits ON inhparent = to_regclass('fact_vectors') JOIN pg_class AS part ON part.oid = inhrelid
WHERE 2 * sizes.facts >= $1::bigint AND banks.dimension <= $2::integer AND satisfies_hash_partition(
    inhparent,
    (SELECT count(*)::integer FROM pg_inherits AS parts WHERE parts.inhparent = to_regclass('fact_vectors')),
    substring(pg_get_expr(part.relpartbound, part.oid) FROM 'remainder ([0-9]+)')::integer,
    banks.seq
)
"""


def _banks(connection: Connection, large: int) -> list[Large]:
    if vector_version(connection) < NEEDS:
        return []
    return [Large(*row) for row in connection.exec_driver_sql(_BANKS, (large, WIDEST))]


_BUILD_SECONDS = "SELECT set_config('lock_timeout', '3s', true)"
_LEFT = "SELECT indexrelid::bigint FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid"


async def _set_aside(pool: PostgresPool, index: Standing) -> bool:
    """Rename an unfinished index, to be dropped by its new name; return False if another process is building there.

    A build holds this lock from beginning to end: no index is dropped while it is built.
    """

    def rename(connection: Connection) -> None:
        connection.exec_driver_sql(_BUILD_SECONDS)
        connection.exec_driver_sql(f"LOCK TABLE {index.part} IN SHARE UPDATE EXCLUSIVE MODE")
        left = connection.exec_driver_sql(_LEFT, (index.name,)).scalar_one_or_none()
        if left is not None:
            connection.exec_driver_sql(f"ALTER INDEX {index.name} RENAME TO {_NAME}_left_{left}")

    try:
        await pool.write(rename)
    except StoreBusy:
        return False
    return True
