"""The PostgreSQL dialect, with statements compiled once per process."""

from __future__ import annotations

from collections.abc import Hashable

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from vmemo.stores.sql.statements import SharedDialect

DRIVER = "postgresql+vmemo"
"""The first part of a URL that selects this dialect."""


class PostgresDialect(SharedDialect, PGDialect_asyncpg):
    """Compiles alike for every database of a server version; the first connection finds it out."""

    supports_statement_cache = True

    def compiled_for(self) -> Hashable:
        return self.server_version_info, vars(self).get("_backslash_escapes")


registry.register(DRIVER.replace("+", "."), __name__, PostgresDialect.__name__)
