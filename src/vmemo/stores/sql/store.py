"""The part that all SQL stores share: the port's methods over the shared statements.

A dialect says how a function runs on a connection, how facts and words are indexed, and how they are searched.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from time import monotonic
from typing import ParamSpec, TypeVar

from sqlalchemy import Connection

from vmemo.errors import StoreBusy
from vmemo.models import (
    Bank,
    BankId,
    Message,
    MessageId,
)
from vmemo.models.changes import Changes, ForgetTarget, NewJob
from vmemo.models.results import Forgotten, Status
from vmemo.ports import HiddenBank
from vmemo.stores.sql import (
    auth_rows,
    bank_rows,
    forget,
    message_rows,
    queue,
    statistics,
)
from vmemo.stores.sql.auth_store import SqlAuthStore
from vmemo.stores.sql.commit import BankHeld, commit
from vmemo.stores.sql.message_rows import bank_state
from vmemo.stores.sql.queue_store import QueueStore
from vmemo.stores.sql.read_store import ReadStore
from vmemo.stores.sql.search_index import SearchIndex

P = ParamSpec("P")
R = TypeVar("R")
HELD_SECONDS = 60.0
"""Seconds that a commit waits for a bank that another process holds."""
HELD_PAUSE = 0.02
"""Seconds between two attempts to commit to a held bank."""


class SqlStore(QueueStore, ReadStore, SqlAuthStore):
    """The shared part of every SQL store."""

    _search_index: SearchIndex

    @abstractmethod
    def _unindex(self, connection: Connection, bank: int, removal: forget.Removal) -> None:
        """Remove from the indexes what is about to be forgotten."""

    async def banks(self) -> list[Bank]:
        """Every bank by name."""
        return await self._read(message_rows.all_banks)

    async def bank(self, bank: BankId) -> Bank | None:
        """The bank, or None."""
        return await self._read(message_rows.find_bank, bank)

    async def create_bank(self, bank: Bank, *, replaces: BankId | None = None, note: str = "") -> Bank:
        """Create the bank unless it exists; return the stored one."""
        return await self._insist(bank_rows.create, bank, replaces, note)

    async def hidden_banks(self) -> list[HiddenBank]:
        """Return the hidden banks."""
        return await self._read(bank_rows.hidden)

    async def drop_bank(self, bank: BankId) -> bool:
        """Delete a bank with everything in it."""
        return await self._insist(bank_rows.drop, bank, self._search_index)

    async def revision(self, bank: BankId) -> int:
        """The bank's change counter."""
        return (await self._read(bank_state, bank)).revision

    async def append(self, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        """Store messages durably."""
        return await self._write(self._append, bank, messages)

    def _append(self, connection: Connection, bank: BankId, messages: Sequence[Message]) -> set[MessageId]:
        number = bank_state(connection, bank).seq
        stored = message_rows.append(connection, number, messages)
        worded = [(seq, message.content) for seq, message in stored if message.state != "derived"]
        self._search_index.add_words(connection, number, worded)
        if any(message.state == "pending" for _, message in stored):
            queue.enqueue(connection, number, [NewJob(kind="process")])
        return {message.id for _, message in stored}

    async def commit(self, changes: Changes) -> bool:
        """Write changes whole, or not at all, once no other process holds the bank."""
        deadline = monotonic() + HELD_SECONDS
        while True:
            try:
                return await self._commit(changes)
            except BankHeld:
                if monotonic() > deadline:
                    raise StoreBusy(
                        f"Another process holds the bank {changes.bank!r}. Nothing was written; try again."
                    ) from None
            await asyncio.sleep(HELD_PAUSE)

    async def _commit(self, changes: Changes) -> bool:
        return await self._write(commit, changes, self._search_index)

    async def forget(self, bank: BankId, target: ForgetTarget) -> Forgotten:
        """Delete a target with all that rests on it."""
        return await self._write(self._forget, bank, target)

    def _forget(self, connection: Connection, bank: BankId, target: ForgetTarget) -> Forgotten:
        number = bank_state(connection, bank).seq
        auth_rows.drop_replies(connection, bank)
        bank_rows.drop_derived(connection, number, self._search_index)
        removal = forget.plan(connection, number, target)
        self._unindex(connection, number, removal)
        if target.bank:
            forget.remove_bank(connection, number)
        else:
            forget.remove(connection, number, removal)
            message_rows.bump(connection, number, purge=True)
        return removal.counts()

    async def status(self, bank: BankId) -> Status:
        """Return the status of a bank."""
        return await self._read(statistics.status, bank)
