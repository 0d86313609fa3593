"""The part of a commit that differs between databases: what facts and messages are found by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection

from vmemo.models import FactId, MessageId
from vmemo.models.changes import NewFact
from vmemo.models.search import Encoding

Indexed = tuple[int, NewFact]
"""A stored fact with its row number."""


class SearchIndex(Protocol):
    """Vectors and words, written in the transaction that writes their rows."""

    def add_facts(self, connection: Connection, bank: int, new: Sequence[Indexed]) -> None:
        """Index new facts by vector and words."""
        ...

    def add_words(self, connection: Connection, bank: int, new: Sequence[tuple[int, str]]) -> None:
        """Index messages, by row number and content."""
        ...

    def drop_bank(self, connection: Connection, bank: int) -> None:
        """Remove all facts and messages of a bank, before their rows are deleted."""
        ...

    def replace_vectors(self, connection: Connection, bank: int, new: Mapping[FactId, Encoding]) -> bool:
        """Replace the vectors of all facts; return False, with nothing written, if one is missing."""
        ...

    def drop_words(self, connection: Connection, bank: int, messages: Sequence[MessageId]) -> None:
        """Remove messages from the word index, because facts repeat their words."""
        ...
