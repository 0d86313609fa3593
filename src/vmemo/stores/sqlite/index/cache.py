"""The in-memory indexes of the banks of one file, refreshed by the banks' change counters."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import BankId
from vmemo.ports import BankNotFound
from vmemo.stores.sql.message_rows import BankState, bank_state
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

_STATE = "SELECT seq, identity, revision, purges, dimension, embedder FROM banks WHERE id = ?"


MOST_BYTES = 512 * 1024**2
"""Bytes of the indexes that are kept together; the one in use is kept however large it is."""


class IndexCache:
    """The indexes of the banks that were searched last. Every process's writes move the counter that refreshes one."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._indexes: OrderedDict[BankId, BankIndex] = OrderedDict()
        self._most_bytes = most_bytes
        self._refreshing = Lock()

    def clear(self) -> None:
        """Drop all indexes; the next search reads them again."""
        self._indexes.clear()

    def get(self, connection: Connection, bank: BankId, *, space: str | None = None) -> BankIndex:
        """Return the bank's index as of this connection's transaction.

        Raise BankNotFound if there is no such bank, and EmbedderMismatch if its vectors are not of `space`.
        """
        state = _state(connection, bank)
        if space is not None:
            state.demand(space)
        index = self._indexes.get(bank)
        if index is not None and (index.number, index.revision, index.purges) == (
            state.seq,
            state.revision,
            state.purges,
        ):
            with suppress(KeyError):
                self._indexes.move_to_end(bank)
            return index
        with self._refreshing:
            return self._refreshed(connection, bank)

    def _refreshed(self, connection: Connection, bank: BankId) -> BankIndex:
        state = bank_state(connection, bank)
        index = self._indexes.get(bank)
        if index is None or (index.number, index.purges) != (state.seq, state.purges):
            index = BankIndex.empty(state.dimension, state.seq, state.purges)
        if index.revision < state.revision:
            changed = rows.index_rows(connection, state.seq, index.revision)
            index = index.refreshed(state.revision, changed)
            self._indexes[bank] = index
            self._indexes.move_to_end(bank)
            self._evict()
        return index

    def _evict(self) -> None:
        """Drop the indexes that were not used for longest; searches that run with one go on."""
        total = sum(index.nbytes for index in self._indexes.values())
        while total > self._most_bytes and len(self._indexes) > 1:
            total -= self._indexes.popitem(last=False)[1].nbytes


def _state(connection: Connection, bank: BankId) -> BankState:
    found = fetch(connection, _STATE, bank)
    if not found:
        raise BankNotFound(bank)
    return BankState(*found[0])
