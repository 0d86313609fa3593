"""Schema versions: upgrade an older database in the caller's transaction, refuse a newer one."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, inspect, text

from vmemo.errors import StoreError
from vmemo.stores import values

_ALEMBIC = Lock()
"""Alembic's context is global, so a process upgrades one database at a time."""
HEAD = "0001"
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
    values.refuse_newer_schema(version, HEAD)


def refuse_other(version: str | None) -> None:
    """Raise `NotFound` for a database without memories, and `StoreError` for one of an earlier release."""
    refuse_newer(version)
    values.refuse_other_schema(version, HEAD)


def upgrade(connection: Connection, target: str = HEAD) -> None:
    """Bring the schema to a version inside the connection's open transaction; one that another process made stays."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})
    refuse_newer(current(connection))
    with quiet_alembic():
        # A third of the time in which vmemo is imported, which a database of today's schema does not need.
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415
    config = Config()
    config.set_main_option("script_location", _path("migrations"))
    config.set_main_option("version_locations", _path("migrations/versions"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _ALEMBIC, quiet_alembic():
        command.upgrade(config, target)


def _path(below: str) -> str:
    # Alembic reads its options through configparser, where a percent sign starts an interpolation.
    return str(Path(__file__).parent / below).replace("%", "%%")


_LOGGERS = ("alembic.runtime.plugins", "alembic.runtime.migration")
"""Loggers that write on import and during an upgrade."""


@contextmanager
def quiet_alembic() -> Generator[None]:
    """Drop Alembic's lines below warnings in this thread; those of the application's own migrations stay."""
    thread = threading.get_ident()

    def keeps(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno >= logging.WARNING

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(keeps)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(keeps)
