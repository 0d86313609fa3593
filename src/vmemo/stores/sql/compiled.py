"""Compiled SQL statements, shared by all databases that a process opens.

SQLAlchemy compiles a statement once for each engine, which takes longer than running it on a small bank. A process with
many databases, such as one file per user, compiles each statement once: all engines share one cache, and their dialects
are equal where they compile alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable

from sqlalchemy.util import LRUCache

STATEMENTS: LRUCache[object, object] = LRUCache(1000)
"""The execution option `compiled_cache` of every engine. The dialect is part of each key."""


class SharedDialect(ABC):
    """Mixin of a dialect that equals the others of its class that compile alike."""

    @abstractmethod
    def compiled_for(self) -> Hashable:
        """Return the properties of driver and server that decide how statements are compiled."""

    def __hash__(self) -> int:
        return hash((type(self), self.compiled_for()))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SharedDialect)
            and type(other) is type(self)
            and other.compiled_for() == self.compiled_for()
        )
