"""Schema versions: upgrade an older database in the caller's transaction, refuse a newer one."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, inspect, text

from vmemo.errors import NotFound, SchemaTooNew, StoreError
from vmemo.stores.postgres.schema import PARTITIONS
from vmemo.stores.sql.alembic_log import quiet_alembic

with quiet_alembic():
    from alembic import command
    from alembic.config import Config

_ALEMBIC = Lock()
"""Alembic's context is global, so a process upgrades one database at a time."""
HEAD = "0012"
"""The schema that this release writes. Versions are numbered, so a greater one is newer."""
_TURN = 0x766D656D6F
"""The lock under which processes upgrade a PostgreSQL database; a SQLite file is locked by its transaction."""


def current(connection: Connection) -> str | None:
    """Return the database's version, or None if it has no vmemo tables."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def refuse_newer(version: str | None) -> None:
    """Raise `SchemaTooNew` for a database from the future, and `StoreError` for another program's."""
    if version is not None and not re.fullmatch(r"\d{4}", version):
        raise StoreError(
            f"The database is at version {version} of another program. Nothing was touched. "
            "Give vmemo a database of its own."
        )
    if version is not None and version > HEAD:
        raise SchemaTooNew(
            f"The database has schema {version}, this vmemo knows up to {HEAD}. "
            "Nothing was touched. Upgrade vmemo to open it."
        )


def refuse_other(version: str | None) -> None:
    """Raise `NotFound` for a database without memories, and `StoreError` for one of an earlier release."""
    refuse_newer(version)
    if version is None:
        raise NotFound("There are no memories in this database. Nothing was made; correct its URL.")
    if version != HEAD:
        raise StoreError(
            f"The database has schema {version} of an earlier release, and would have to be upgraded to {HEAD}. "
            "Nothing was touched. Open it once with this release to upgrade it, for example with `vmemo doctor`."
        )


def upgrade(connection: Connection, target: str = HEAD, *, partitions: int = PARTITIONS) -> None:
    """Bring the schema to a version inside the connection's open transaction; one that another process made stays."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})
    refuse_newer(current(connection))
    config = Config()
    config.set_main_option("script_location", _path("migrations"))
    config.set_main_option("version_locations", _path("migrations/versions"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    config.attributes["partitions"] = partitions
    with _ALEMBIC, quiet_alembic():
        command.upgrade(config, target)


def _path(below: str) -> str:
    # Alembic reads its options through configparser, where a percent sign starts an interpolation.
    return str(Path(__file__).parent / below).replace("%", "%%")
