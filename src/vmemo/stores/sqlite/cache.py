"""Memory kept for the banks of one file: their indexes, and rows that recalls have read."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import BankId, EpisodeId, LinkKind, Mention
from vmemo.models.search import FactOutline, RevisionEdge
from vmemo.ports import BankNotFound
from vmemo.stores.sql.bank_rows import NEW_VECTORS, BankState, bank_state
from vmemo.stores.sql.statements import fetch
from vmemo.stores.sqlite import block_rows
from vmemo.stores.sqlite.index.bank import BankIndex

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


MOST_BANKS = 8
"""Banks of which rows are kept."""

MOST_ROWS = 4096
"""Rows of one kind that are kept of a bank. A fact with its token vectors takes about 4 kB."""

_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"

Link = tuple[int, LinkKind, float]
"""The row of a linked fact, and the kind and weight of the link."""

RevisionKey = tuple[int, int, int]
"""The rows of a newer and an older fact, and the kind of revision by number."""


@dataclass(frozen=True)
class BankCache:
    """Rows of a bank at one revision, by the numbers of facts. Threads may add to it at once, and add the same.

    Facts, links and revisions refer to rows of the index of that revision.
    """

    version: tuple[int, int]
    facts: dict[int, dict[str, object]] = field(default_factory=dict[int, dict[str, object]])
    """The fields of facts: models would be many more objects for garbage collection to visit."""
    tokens: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    """The width and the packed values of token vectors."""
    outlines: dict[int, FactOutline] = field(default_factory=dict[int, FactOutline])
    links: dict[int, list[Link]] = field(default_factory=dict[int, list[Link]])
    named: dict[int, list[tuple[int, str]]] = field(default_factory=dict[int, list[tuple[int, str]]])
    """The numbers and names of the entities that a fact mentions."""
    revisions: dict[int, dict[RevisionKey, RevisionEdge]] = field(
        default_factory=dict[int, dict[RevisionKey, RevisionEdge]]
    )
    entities: dict[int, tuple[str, str, str]] = field(default_factory=dict[int, tuple[str, str, str]])
    mentions: dict[tuple[int, str | None], Mention] = field(default_factory=dict[tuple[int, str | None], Mention])
    episodes: dict[int, EpisodeId] = field(default_factory=dict[int, EpisodeId])
    titles: dict[EpisodeId, str] = field(default_factory=dict[EpisodeId, str])

    @property
    def is_full(self) -> bool:
        """True if more rows of a kind are kept than `MOST_ROWS`."""
        return max(len(rows) for name, rows in vars(self).items() if name != "version") > MOST_ROWS


class BankCaches:
    """The rows of the banks that were searched last.

    One rule: the rows of a bank are dropped when its revision changes, when they are too many, and when enough other
    banks were searched since. Every change of a bank's memories changes the revision, except that of access counts.
    """

    def __init__(self) -> None:
        self._banks: OrderedDict[int, BankCache] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._banks.clear()

    def get(self, connection: Connection, index: BankIndex) -> BankCache:
        """Return the rows as of the connection's transaction; an empty cache of its own if the index is newer."""
        [version] = fetch(connection, _VERSION, index.number)
        if version != (index.revision, index.purges):
            return BankCache(version)
        with self._lock:
            known = self._banks.get(index.number)
            if known is None or known.version != version or known.is_full:
                known = self._banks[index.number] = BankCache(version)
            self._banks.move_to_end(index.number)
            while len(self._banks) > MOST_BANKS:
                self._banks.popitem(last=False)
            return known
