"""The schema on PostgreSQL and its maintenance: the shared tables, the tables of its searches, the vector index.

The bank is the first column of the keys of large tables. Numbers come from one sequence per table and are unique in the
database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import UserDefinedType

from vmemo.errors import StoreError
from vmemo.stores.sql import schema

MENTIONS_KEY = ("bank", "entity", "fact")
"""The newest facts of an entity are read from the key of mentions, in order."""
MENTIONS_BY_FACT = "mentions_fact"
"""The index in place of SQLite's by entity. It takes half of the space that one by entity and fact would."""
BY_NUMBER = frozenset({"banks", "jobs", "profiles", "webhooks"})
"""Tables with the number alone as their key: they are small, or are read across banks, as the queue is."""

search = sa.MetaData()
"""The tables that only PostgreSQL has."""


class Halfvec(UserDefinedType[object]):
    """pgvector's vectors of 16-bit numbers, of any dimension; statements convert them."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "halfvec"


def _key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


fact_vectors = Table(
    "fact_vectors",
    search,
    _key("bank"),
    _key("seq"),
    sa.Column("embedding", Halfvec, nullable=False),
)
"""The vector of a fact, which a scan reads without token vectors in between."""

fact_tokens = Table(
    "fact_tokens",
    search,
    _key("bank"),
    _key("seq"),
    sa.Column("width", sa.Integer, nullable=False),
    sa.Column("vectors", sa.LargeBinary, nullable=False),
)
"""The token vectors of a fact, if it has some, three bits per component."""


def _words_of(table: str) -> Table:
    return Table(
        table,
        search,
        _key("bank"),
        _key("seq"),
        sa.Column("words", sa.ARRAY(sa.Integer), nullable=False),
        # Entries are not put off: a search would read the list of those that wait from start to end.
        sa.Index(f"{table}_gin", "words", postgresql_using="gin", postgresql_with={"fastupdate": "off"}),
    )


fact_words, message_words = _words_of("fact_words"), _words_of("message_words")
"""The hashes of the words of facts, and of the messages that the verbatim channel searches."""

search_sizes = Table(
    "search_sizes",
    search,
    _key("bank"),
    *(
        sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        for name in ("facts", "fact_terms", "messages", "message_terms")
    ),
)
"""The number of facts and messages of a bank in the word index, and of their words."""

_STORAGE = (
    # A scan by vector reads embeddings beside their keys, five times as fast as apart from them when they are long.
    "ALTER TABLE fact_vectors ALTER COLUMN embedding SET STORAGE MAIN",
    # Token vectors do not get smaller by compression.
    "ALTER TABLE fact_tokens ALTER COLUMN vectors SET STORAGE EXTERNAL",
    # Every recall changes the access counts of facts, which needs no index entries if their page has space.
    "ALTER TABLE facts SET (fillfactor = 90)",
)


def create(connection: Connection) -> None:
    """Make every table of this release in an empty database, with pgvector."""
    _demand_vectors(connection)
    _tables().create_all(connection, checkfirst=False)
    for statement in _STORAGE:
        connection.execute(sa.text(statement))


def _tables() -> sa.MetaData:
    """The tables as PostgreSQL has them; statements use those of `schema`, which name the same columns."""
    metadata = sa.MetaData()
    for table in (*schema.metadata.sorted_tables, *search.sorted_tables):
        if table is not schema.token_vectors:
            _adapt(table.to_metadata(metadata))
    return metadata


def _adapt(table: Table) -> None:
    if table.name == schema.mentions.name:
        table.indexes.clear()
        sa.Index(MENTIONS_BY_FACT, table.c.bank, table.c.fact)
        table.append_constraint(sa.PrimaryKeyConstraint(*(table.c[name] for name in MENTIONS_KEY)))
    for column in table.columns:
        if isinstance(column.type, sa.String):
            # Text is compared and ordered byte by byte, as SQLite does, whatever the server's language is.
            column.type = (sa.Text if isinstance(column.type, sa.Text) else sa.String)(
                column.type.length, collation="C"
            )
        elif isinstance(column.type, sa.Float):
            column.type = sa.Double()
    if table.name not in BY_NUMBER and list(table.primary_key.columns.keys()) == ["seq"]:
        table.c.bank.primary_key = True
        table.append_constraint(sa.PrimaryKeyConstraint(table.c.bank, table.c.seq))


def vector_index(dimension: int) -> str:
    """Return the name of the HNSW index over vectors of a dimension, which maintenance builds."""
    return f"fact_vectors_hnsw_{dimension}"


def _demand_vectors(connection: Connection) -> None:
    """Install pgvector in the database, or raise StoreError with the way to install it."""
    if connection.scalar(sa.text("SELECT 1 FROM pg_extension WHERE extname = 'vector'")) is None:
        offered = connection.scalar(
            sa.text("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        )
        if offered is None:
            raise StoreError(
                "This PostgreSQL server has no pgvector. Nothing was written. Install pgvector 0.8 or newer on it, "
                "then open the memory again."
            )
        _demand_permission(connection)
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    version = str(connection.scalar(sa.text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")))
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < (0, 8):
        raise StoreError(
            f"This database has pgvector {version}. Nothing was written. Install 0.8 or newer on the server and run "
            "ALTER EXTENSION vector UPDATE, then open the memory again."
        )


def _demand_permission(connection: Connection) -> None:
    """Raise StoreError if this user may not install pgvector; the server's own error would not name the remedy."""
    allowed = sa.text(
        "SELECT rolsuper OR (has_database_privilege(current_database(), 'CREATE') AND EXISTS (SELECT 1 "
        "FROM pg_available_extension_versions WHERE name = 'vector' AND trusted)) "
        "FROM pg_roles WHERE rolname = current_user"
    )
    if not connection.scalar(allowed):
        raise StoreError(
            "pgvector is on this server, but not in this database, and this user may not add it. Nothing was written. "
            "Let an administrator run CREATE EXTENSION vector in the database, then open the memory again."
        )


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
