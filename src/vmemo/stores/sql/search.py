"""A dialect's search: its index, written with the rows, and the searches of a recall in one read transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection

from vmemo.models import FactId, Mention, MessageId
from vmemo.models.changes import NewFact
from vmemo.models.search import (
    Edge,
    EdgeQuery,
    Encoding,
    FactOutline,
    Ranking,
    RevisionEdge,
    Scope,
    SearchRequest,
    SearchResult,
    StageTimer,
    TemporalSearch,
    TokenVectors,
    Vector,
    temporal_link_query,
)
from vmemo.ports import Loaded

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

    def drop_facts(self, connection: Connection, bank: int, facts: Sequence[int]) -> None:
        """Remove facts by row number, before their rows are deleted."""
        ...

    def drop_messages(self, connection: Connection, bank: int, messages: Sequence[int]) -> None:
        """Remove messages by row number, before their rows are deleted; those that facts repeat are not indexed."""
        ...

    def embeddings(self, connection: Connection, bank: int, seqs: Sequence[int]) -> dict[int, tuple[float, ...]]:
        """Return the vectors of facts by number."""
        ...


class BankSearch(ABC):
    """The searches of one bank, all in the same read transaction. It is the `BankReader` of a recall."""

    @abstractmethod
    def prepare(self, scope: Scope, space: str | None) -> None:
        """Apply the filters of a scope; raise EmbedderMismatch if the bank's vectors are not of `space`."""

    @abstractmethod
    def nearest(self, scope: Scope, vector: Vector, *, limit: int, floor: float) -> Ranking:
        """Rank facts by cosine."""

    @abstractmethod
    def matching_facts(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank facts by BM25."""

    @abstractmethod
    def matching_messages(self, scope: Scope, text: str, *, limit: int) -> Ranking:
        """Rank messages whose words no fact repeats by BM25."""

    @abstractmethod
    def during(self, scope: Scope, query: TemporalSearch, *, limit: int) -> Ranking:
        """Rank facts of an interval."""

    @abstractmethod
    def named_entities(self, text: str) -> list[Mention]:
        """Return the entities that a text names."""

    @abstractmethod
    def instructions(self, scope: Scope, *, limit: int) -> list[FactId]:
        """Return the standing instructions of a scope, newest first."""

    @abstractmethod
    def edges(self, query: EdgeQuery) -> list[Edge]:
        """Return the edges that leave some facts and entities."""

    @abstractmethod
    def token_vectors(self, facts: Sequence[FactId]) -> Sequence[TokenVectors | None]:
        """Return token vectors in the order of the facts."""

    @abstractmethod
    def revisions(self, scope: Scope, facts: Sequence[FactId]) -> list[RevisionEdge]:
        """Return the links by which facts of a scope replace or outdate others."""

    @abstractmethod
    def load(self, facts: Sequence[FactId], messages: Sequence[MessageId] = ()) -> Loaded:
        """Return facts and messages in the order of the ids, with the titles of the facts' episodes."""

    @abstractmethod
    def outline(self, facts: Sequence[FactId]) -> Sequence[FactOutline]:
        """Return the outlines of facts in the order of the ids."""

    def search(self, request: SearchRequest) -> SearchResult:
        """Search every channel of a request, and time each of them."""
        timer, scope, limit = StageTimer(), request.scope, request.limit
        timer.run("filter", self.prepare, scope, request.space if request.has_vectors else None)
        semantic = [
            timer.run("semantic", self.nearest, scope, vector, limit=limit, floor=request.floor)
            for vector in request.semantic
        ]
        keyword = [timer.run("keyword", self.matching_facts, scope, text, limit=limit) for text in request.keyword]
        verbatim = Ranking()
        if request.verbatim:
            verbatim = timer.run("verbatim", self.matching_messages, scope, request.verbatim, limit=limit)
        temporal, links = Ranking(), list[Edge]()
        if request.temporal is not None:
            temporal = timer.run("temporal", self.during, scope, request.temporal, limit=limit)
            query = temporal_link_query(request, request.temporal, temporal)
            links = [] if query is None else timer.run("temporal", self.edges, query)
        entities = timer.run("entities", self.named_entities, request.names_in) if request.names_in else []
        instructions = list[FactId]()
        if request.instructions:
            applicable = scope.of_instructions()
            instructions = timer.run("instructions", self.instructions, applicable, limit=request.instructions)
        return SearchResult(
            semantic=semantic,
            keyword=keyword,
            verbatim=verbatim,
            temporal=temporal,
            temporal_links=links,
            entities=entities,
            instructions=instructions,
            timings=timer.stages,
        )
