"""Caches of banks: parts that recalls have read, kept for the next ones until the bank changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from sqlalchemy import Connection

from vmemo.models import EpisodeId, LinkKind, Mention
from vmemo.models.search import FactOutline, RevisionEdge
from vmemo.stores.sqlite.index.bank import BankIndex
from vmemo.stores.sqlite.raw import fetch

MOST_BANKS = 8
MOST_FACTS = 1024
"""Banks of which something is kept, and facts of each: about 2 MB for a bank."""
MOST_MENTIONS = 8192
"""Mentions that the facts of a bank share."""
MOST_NODES = 8192
"""Facts of a bank whose links, entities, revisions and outlines are kept: with more, those of the bank begin anew."""
_VERSION = "SELECT revision, purges FROM banks WHERE seq = ?"
Link = tuple[int, LinkKind, float]
"""The row of a linked fact, and the kind and weight of the link."""
RevisionKey = tuple[int, int, int]
"""The rows of a newer and an older fact, and the kind of revision by number."""


@dataclass(frozen=True)
class BankCache:
    """Parts of a bank at one revision, by the numbers of facts. Threads may add to it at once, and add the same.

    Facts, links and revisions refer to rows of the index of that revision.
    """

    version: tuple[int, int]
    facts: OrderedDict[int, dict[str, object]] = field(default_factory=OrderedDict[int, dict[str, object]])
    """The fields of facts: models would be many more objects for garbage collection to visit."""
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
    _lock: Lock = field(default_factory=Lock)

    def keep(self, facts: Mapping[int, dict[str, object]]) -> None:
        """Keep the fields of facts, and drop those that were read first."""
        with self._lock:
            self.facts.update(facts)
            while len(self.facts) > MOST_FACTS:
                self.facts.popitem(last=False)

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
            while len(self._banks) > MOST_BANKS:
                self._banks.popitem(last=False)
            return known
