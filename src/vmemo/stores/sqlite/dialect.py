"""The SQLite dialect, with statements compiled once per process."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from vmemo.stores.sql.compiled import SharedDialect

DRIVER = "sqlite+vmemo"
"""The first part of a URL that selects this dialect."""


class SqliteDialect(SharedDialect, SQLiteDialect_pysqlite):
    """Compiles alike for every file that the same driver opens."""

    supports_statement_cache = True

    def compiled_for(self) -> Hashable:
        return self.dbapi


registry.register(DRIVER.replace("+", "."), __name__, SqliteDialect.__name__)
