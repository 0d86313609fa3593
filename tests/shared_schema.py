"""The schema of SQLite as the statements that the migrations have run: each test would run them through Alembic."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection

from vmemo.stores.sql import migrate

Upgrade = Callable[[Connection, str], None]
STATEMENTS = """SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' AND name NOT IN
(SELECT name FROM pragma_table_list WHERE type = 'shadow') ORDER BY rowid"""


class SharedSchema:
    """Upgrades databases; an empty one by the statements that have made the first."""

    def __init__(self, upgrade: Upgrade) -> None:
        self._upgrade = upgrade
        self._statements: list[str] = []

    def upgrade(self, connection: Connection, target: str = migrate.HEAD) -> None:
        """Bring the schema to a version, as `migrate.upgrade` does."""
        if connection.dialect.name != "sqlite" or target != migrate.HEAD or self._made(connection):
            self._upgrade(connection, target)
            return
        if not self._statements:
            self._upgrade(connection, target)
            self._statements = self._made(connection)
            return
        for statement in self._statements:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (target,))

    def _made(self, connection: Connection) -> list[str]:
        return list(connection.exec_driver_sql(STATEMENTS).scalars())


def share_schema() -> None:
    """Let every new SQLite database of this process have the schema of the first."""
    migrate.upgrade = SharedSchema(migrate.upgrade).upgrade
