"""The transactions of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

R = TypeVar("R")


class Database(Protocol):
    """Runs functions on connections to one database, each in a transaction of its own."""

    async def read(self, run: Callable[[Connection], R]) -> R:
        """Run a function that sees one state of the database."""
        ...

    async def write(self, run: Callable[[Connection], R], *, repeatable: bool = False) -> R:
        """Run a function and commit.

        One that is repeatable does no harm when it was run before: it is run again where the outcome of its commit is
        not known.
        """
        ...
