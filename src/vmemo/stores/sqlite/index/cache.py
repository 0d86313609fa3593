"""The in-memory indexes of the banks of one file, refreshed by the banks' change counters."""

from __future__ import annotations

from threading import Lock

from sqlalchemy import Connection

from vmemo.models import BankId
from vmemo.ports import BankNotFound
from vmemo.stores.sql.message_rows import BankState, bank_state
from vmemo.stores.sqlite import rows
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

_STATE = "SELECT seq, identity, revision, purges, dimension, embedder FROM banks WHERE id = ?"


class IndexCache:
    """One index for each bank that was searched. Every process's writes move the counter that refreshes it."""

    def __init__(self) -> None:
        self._indexes: dict[BankId, BankIndex] = {}
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
        return index


def _state(connection: Connection, bank: BankId) -> BankState:
    found = fetch(connection, _STATE, bank)
    if not found:
        raise BankNotFound(bank)
    return BankState(*found[0])
