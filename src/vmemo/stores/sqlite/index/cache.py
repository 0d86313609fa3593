"""The in-memory indexes of the banks of one file, refreshed by the banks' change counters."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import BankId
from vmemo.ports import BankNotFound
from vmemo.stores.sql.message_rows import NEW_VECTORS, BankState, bank_state
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

_STATE = "SELECT seq, identity, revision, purges, dimension, embedder FROM banks WHERE id = ?"


MOST_BYTES = 256 * 1024**2
"""Bytes of the indexes that are kept together; the one in use is kept however large it is."""


class IndexCache:
    """The indexes of the banks that were searched last. Every process's writes move the counter that refreshes one."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._indexes: OrderedDict[BankId, BankIndex] = OrderedDict()
        self._bytes = 0
        self._most_bytes = most_bytes
        self._refreshing = Lock()

    def clear(self) -> None:
        """Drop all indexes; the next search reads them again."""
        # Without the lock, which a fork may have copied while another thread held it.
        self._indexes.clear()
        self._bytes = 0

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
        if index is not None and (index.number != state.seq or not 0 <= state.purges - index.purges < NEW_VECTORS):
            index = None
        if index is None or index.revision < state.revision:
            index = _read(connection, state) if index is None else _updated(connection, state, index)
            self._keep(bank, index)
        return index

    def _keep(self, bank: BankId, index: BankIndex) -> None:
        """Keep an index, and drop those that were not used for longest; searches that run with one go on."""
        former = self._indexes.get(bank)
        self._bytes += index.nbytes - (0 if former is None else former.nbytes)
        self._indexes[bank] = index
        self._indexes.move_to_end(bank)
        while self._bytes > self._most_bytes and len(self._indexes) > 1:
            self._bytes -= self._indexes.popitem(last=False)[1].nbytes


def _read(connection: Connection, state: BankState) -> BankIndex:
    """Return the index of a bank from its blocks."""
    capacity = block_rows.count(connection, state.seq)
    index = BankIndex.empty(state.dimension, state.seq, state.purges, capacity)
    return index.extended(state.revision, block_rows.read(connection, state.seq))


def _updated(connection: Connection, state: BankState, index: BankIndex) -> BankIndex:
    """Return an index with the facts that were added and closed since, and without those that were removed."""
    last, removes = index.last, index.purges != state.purges
    if removes:
        index = index.kept(state.purges, block_rows.numbers(connection, state.seq, last=last))
    changed = block_rows.changed_columns(connection, state.seq, after=index.revision, last=last)
    if changed.size:
        index = index.patched(changed)
        if removes:
            # A fact whose context was removed has fewer words.
            index = index.reworded(changed[0], block_rows.words(connection, state.seq, changed[0]))
    grown = index.extended(state.revision, block_rows.read(connection, state.seq, after=last))
    return grown.mentioned(block_rows.mentions(connection, state.seq, after=last))


def _state(connection: Connection, bank: BankId) -> BankState:
    found = fetch(connection, _STATE, bank)
    if not found:
        raise BankNotFound(bank)
    return BankState(*found[0])
