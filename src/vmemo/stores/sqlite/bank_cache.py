"""Caches of banks: parts that recalls have read, kept for the next ones until the bank changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from sqlalchemy import Connection

from vmemo.models import EpisodeId, LinkKind, Mention
from vmemo.models.search import FactOutline, RevisionEdge
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

V = TypeVar("V")
MOST_BANKS = 8
MOST_FACTS = 4096
MOST_SHARED = 8192
"""Banks of which something is kept, facts of each, and facts of all: about 4 kB for a fact with its token vectors."""
MOST_MENTIONS = 8192
"""Mentions that the facts of a bank share."""
MOST_NODES = 8192
"""Facts of a bank whose links, entities, revisions and outlines are kept: with more, those of the bank begin anew."""
_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"
Link = tuple[int, LinkKind, float]
"""The row of a linked fact, and the kind and weight of the link."""
RevisionKey = tuple[int, int, int]
"""The rows of a newer and an older fact, and the kind of revision by number."""


class KeptRows(Generic[V]):
    """Values by the number of a fact, of which those that were read first are dropped."""

    def __init__(self) -> None:
        self._rows: OrderedDict[int, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def known(self, numbers: Iterable[int]) -> dict[int, V]:
        """Return the values that are kept."""
        rows = self._rows
        return {number: value for number in numbers if (value := rows.get(number)) is not None}

    def keep(self, rows: Mapping[int, V]) -> None:
        """Keep more values."""
        with self._lock:
            self._rows.update(rows)
            while len(self._rows) > MOST_FACTS:
                self._rows.popitem(last=False)


@dataclass(frozen=True)
class BankCache:
    """Parts of a bank at one revision, by the numbers of facts. Threads may add to it at once, and add the same.

    Facts, links and revisions refer to rows of the index of that revision.
    """

    version: tuple[int, int]
    facts: KeptRows[dict[str, object]] = field(default_factory=KeptRows[dict[str, object]])
    """The fields of facts: models would be many more objects for garbage collection to visit."""
    tokens: KeptRows[tuple[int, bytes]] = field(default_factory=KeptRows[tuple[int, bytes]])
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
        """True if more is kept than memory is set aside for."""
        nodes = max(map(len, (self.outlines, self.links, self.named, self.revisions)))
        return nodes > MOST_NODES or len(self.mentions) > MOST_MENTIONS


class BankCaches:
    """The caches of the banks that were searched last.

    Every change of a bank's memories moves its revision, and only access counts change without one.
    """

    def __init__(self) -> None:
        self._banks: OrderedDict[int, BankCache] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._banks.clear()

    def get(self, connection: Connection, index: BankIndex) -> BankCache:
        """Return the cache of the connection's transaction; one of its own if the index is newer than that."""
        [version] = fetch(connection, _VERSION, index.number)
        if version != (index.revision, index.purges):
            return BankCache(version)
        with self._lock:
            known = self._banks.get(index.number)
            if known is None or known.version != version or known.is_full:
                known = self._banks[index.number] = BankCache(version)
            self._banks.move_to_end(index.number)
            while len(self._banks) > MOST_BANKS or self._has_too_many_facts:
                self._banks.popitem(last=False)
            return known

    @property
    def _has_too_many_facts(self) -> bool:
        return len(self._banks) > 1 and sum(len(bank.facts) for bank in self._banks.values()) > MOST_SHARED
