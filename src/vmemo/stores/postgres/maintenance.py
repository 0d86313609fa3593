"""Maintenance of a PostgreSQL database: planner statistics, vacuum, size and integrity."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from vmemo.stores.postgres.schema import search
from vmemo.stores.sql import schema

TABLES = tuple(
    table.name for table in (*schema.metadata.sorted_tables, *search.sorted_tables) if table is not schema.token_vectors
)


_CHANGED = """
SELECT DISTINCT coalesce(parent.relname, own.relname) FROM pg_stat_user_tables AS counted
JOIN pg_class AS own ON own.oid = counted.relid
LEFT JOIN pg_inherits ON inhrelid = own.oid LEFT JOIN pg_class AS parent ON parent.oid = inhparent
WHERE own.relnamespace = current_schema()::regnamespace AND n_mod_since_analyze > own.reltuples / 10
"""


def changed(connection: Connection) -> list[str]:
    """Return the tables with a partition that changed by a tenth since its last analysis, or was never analysed."""
    found = set(connection.exec_driver_sql(_CHANGED).scalars())
    return [name for name in TABLES if name in found]


def analyse(tables: Sequence[str]) -> str:
    """Return the statement that updates planner statistics; locked tables are left to the next time."""
    return f"ANALYZE (SKIP_LOCKED) {', '.join(tables)}"


def vacuum(tables: Sequence[str]) -> str:
    """Return the statement that releases the space of deleted rows; locked tables are left to autovacuum."""
    return f"VACUUM (SKIP_LOCKED) {', '.join(tables)}"


_PARTS = """
SELECT child.relname FROM pg_inherits
JOIN pg_class AS parent ON parent.oid = inhparent JOIN pg_class AS child ON child.oid = inhrelid
WHERE parent.relname = ANY($2::text[]) AND parent.relnamespace = current_schema()::regnamespace
    AND satisfies_hash_partition(
        parent.oid,
        (SELECT count(*)::integer FROM pg_inherits AS all_parts WHERE all_parts.inhparent = parent.oid),
        substring(pg_get_expr(child.relpartbound, child.oid) FROM 'remainder ([0-9]+)')::integer,
        $1::bigint
    )
"""


def parts(connection: Connection, bank: int) -> list[str]:
    """Return the partitions that contain a bank's rows."""
    return list(connection.exec_driver_sql(_PARTS, (bank, list(TABLES))).scalars())


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
