"""SQL statements compiled once per process: tests open many databases, and each would compile its own."""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import Compiled, Dialect


class SharedStatements(dict[tuple[object, ...], Compiled]):
    """A compiled cache for all engines of one kind. SQLAlchemy's key begins with the dialect of one engine."""

    def get(self, key: tuple[object, ...], default: Compiled | None = None) -> Compiled | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().get(_shared(key), default)

    def __setitem__(self, key: tuple[object, ...], compiled: Compiled) -> None:
        super().__setitem__(_shared(key), compiled)


def _shared(key: tuple[object, ...]) -> tuple[object, ...]:
    dialect = cast(Dialect, key[0])
    return (type(dialect), dialect.server_version_info, *key[1:])


_statements = SharedStatements()


def share_statements() -> None:
    """Let every connection of this process use the same compiled statements."""
    event.listen(Engine, "engine_connect", _use)


def _use(connection: Connection) -> None:
    connection.execution_options(compiled_cache=_statements)
