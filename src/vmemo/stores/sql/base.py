"""Execution of statements in SQL stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.models import BankId
from vmemo.stores.sql.message_rows import bank_state

P = ParamSpec("P")
R = TypeVar("R")


class Running(ABC):
    """Runs functions over a connection; a dialect says how."""

    @abstractmethod
    async def _read(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function on a connection that sees one state of the database."""

    @abstractmethod
    async def _write(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in one transaction."""

    async def _insist(self, run: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `_write`, for what does no harm when it was done before: it is run again if its outcome is not known."""
        return await self._write(run, *args, **kwargs)

    @staticmethod
    def _with_bank(
        run: Callable[Concatenate[Connection, int, P], R],
    ) -> Callable[Concatenate[Connection, BankId, P], R]:
        def resolved(connection: Connection, bank: BankId, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return run(connection, bank_state(connection, bank).seq, *args, **kwargs)

        return resolved
