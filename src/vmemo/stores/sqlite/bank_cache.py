"""Rows of banks that recalls have read, kept for the next ones until the bank changes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import EpisodeId, LinkKind, Mention
from vmemo.models.search import FactOutline, RevisionEdge
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

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
