"""Maintenance of a PostgreSQL database: planner statistics, vacuum, the vector index, size and integrity."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from vmemo.stores.postgres.schema import search, vector_index
from vmemo.stores.sql import schema

TABLES = tuple(
    table.name for table in (*schema.metadata.sorted_tables, *search.sorted_tables) if table is not schema.token_vectors
)


_CHANGED = """
SELECT counted.relname FROM pg_stat_user_tables AS counted JOIN pg_class ON pg_class.oid = counted.relid
WHERE relnamespace = current_schema()::regnamespace AND n_mod_since_analyze > reltuples / 10
"""


def changed(connection: Connection) -> list[str]:
    """Return the tables that changed by a tenth since their last analysis, or were never analysed."""
    found = set(connection.exec_driver_sql(_CHANGED).scalars())
    return [name for name in TABLES if name in found]


def analyse(tables: Sequence[str]) -> str:
    """Return the statement that updates planner statistics; locked tables are left to the next time."""
    return f"ANALYZE (SKIP_LOCKED) {', '.join(tables)}"


def vacuum(tables: Sequence[str]) -> str:
    """Return the statement that releases the space of deleted rows; locked tables are left to autovacuum."""
    return f"VACUUM (SKIP_LOCKED) {', '.join(tables)}"


WIDEST = 4_000
"""Dimensions that an HNSW index can hold."""
_UNINDEXED = """
SELECT DISTINCT dimension, to_regclass('fact_vectors_hnsw_' || dimension) IS NOT NULL
FROM search_sizes JOIN banks ON banks.seq = search_sizes.bank
WHERE facts >= $1::bigint AND dimension <= $2::integer
    AND NOT EXISTS (SELECT 1 FROM pg_index
        WHERE indexrelid = to_regclass('fact_vectors_hnsw_' || dimension) AND indisvalid)
    AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE datname = current_database())
"""


def index_statements(connection: Connection, index_from: int) -> list[str]:
    """Return the statements that build the vector index for dimensions with a large bank, each outside transactions.

    An index that is there but not valid was left by a crash. Nothing is returned while another process builds.
    """
    found: list[str] = []
    for dimension, unfinished in connection.exec_driver_sql(_UNINDEXED, (index_from, WIDEST)):
        name = vector_index(dimension)
        if unfinished:
            found.append(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        found.append(
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON fact_vectors "
            f"USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) WITH (m = 16, ef_construction = 200) "
            f"WHERE vector_dims(embedding) = {dimension}"
        )
    return found


_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace
"""


def size(connection: Connection) -> int:
    """Return the size of all tables and indexes in bytes."""
    return int(connection.exec_driver_sql(_SIZE).scalar_one())


_CHECKER = "SELECT 1 FROM pg_extension WHERE extname = 'amcheck'"
_INDEXES = """
SELECT indexrelid::regclass::text FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
WHERE amname = 'btree' AND relkind = 'i' AND indisvalid AND relnamespace = current_schema()::regnamespace
ORDER BY 1
"""


def damage(connection: Connection) -> list[str]:
    """Return the errors that amcheck finds in the indexes; empty if it is not installed or not permitted."""
    if connection.exec_driver_sql(_CHECKER).first() is None:
        return []
    found: list[str] = []
    for name in connection.exec_driver_sql(_INDEXES).scalars().all():
        try:
            with connection.begin_nested():
                connection.exec_driver_sql("SELECT bt_index_check($1::text::regclass)", (name,))
        except DBAPIError as error:
            if "permission denied" in str(error.orig):
                return []
            found.append(f"{name}: {error.orig}")
    return found
