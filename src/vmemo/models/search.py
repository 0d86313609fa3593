"""Search requests and results: the data that recall and a store exchange."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from operator import neg
from time import perf_counter
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, EntityId, EpisodeId, FactId, Interval, LinkKind, Mention, Network, RevisionKind
from vmemo.models.requests import FactFilters

Vector: TypeAlias = NDArray[np.float32]
"""One unit vector, shape (dimension,)."""
Vectors: TypeAlias = NDArray[np.float32]
"""Unit vectors as rows, shape (count, dimension)."""
TokenVectors: TypeAlias = NDArray[np.float32]
"""Short vectors of a text's tokens as rows. A document's have length one, a query's the weight of each token."""


class Encoding(NamedTuple):
    """The vector of a text, and its token vectors if the embedder computes them."""

    vector: Vector
    tokens: TokenVectors | None = None


class TokenTable(Sequence[TokenVectors | None]):
    """The token vectors of several texts in one array, and the rows of each text; None for a text without them.

    A recall compares those of a hundred texts at once, and joining a hundred arrays takes longer than that.
    """

    def __init__(self, rows: TokenVectors, counts: Sequence[int | None]) -> None:
        self.rows = rows
        self.counts = counts

    @staticmethod
    def of(texts: Sequence[TokenVectors | None]) -> TokenTable:
        if isinstance(texts, TokenTable):
            return texts
        known = [vectors for vectors in texts if vectors is not None]
        rows = np.concatenate(known) if known else np.zeros((0, 0), np.float32)
        return TokenTable(rows, [None if vectors is None else len(vectors) for vectors in texts])

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[TokenVectors | None]:
        end = 0
        for count in self.counts:
            end += count or 0
            yield None if count is None else self.rows[end - count : end]

    @overload
    def __getitem__(self, at: int) -> TokenVectors | None: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[TokenVectors | None]: ...
    def __getitem__(self, at: int | slice) -> TokenVectors | Sequence[TokenVectors | None] | None:
        return list(self)[at]


class Scope(FactFilters):
    """The filters of a request, the bank that is searched, and what the stages add.

    Without `at_time` and `known_at` only current facts are found, unless `include_expired` is set. With `former` also
    facts are found that are not true any more but were at some time of that interval. Facts past their expiry are found
    only with `past_expiry`, which nothing but forgetting needs.
    """

    bank: BankId
    former: Interval | None = None
    past_expiry: bool = False

    @staticmethod
    def of_request(bank: BankId, filters: FactFilters) -> Scope:
        return Scope.model_construct(bank=bank, **{name: getattr(filters, name) for name in FactFilters.model_fields})

    def replace(self, **fields: object) -> Scope:
        return self.model_copy(update=fields)

    def of_instructions(self) -> Scope:
        """Return the scope of standing instructions: who may see them, and when they applied, whatever the topic."""
        return self.replace(networks=(), entities=(), occurred=None, include_expired=False, former=None)


@dataclass(frozen=True, kw_only=True)
class TemporalSearch:
    """Facts that happened inside an interval and have at least the cosine `floor` with a vector.

    The score is the cosine, reduced by up to `edge_penalty` the farther a fact lies from the middle of the interval.
    The temporal links of the best `linked` facts to other facts of the interval are returned as well.
    """

    vector: Vector
    during: Interval
    floor: float = 0.0
    edge_penalty: float = 0.0
    linked: int = 0


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """The searches of one recall. A channel whose field is empty is not searched.

    `limit` applies to each ranking. A question that falls into parts has several semantic and keyword queries, the
    whole question first.
    """

    scope: Scope
    limit: int
    space: str = ""
    """The embedder of the vectors; a store refuses vectors of another embedder than the bank's."""
    semantic: Sequence[Vector] = ()
    floor: float = 0.0
    """The least cosine of a semantic hit."""
    keyword: Sequence[str] = ()
    verbatim: str = ""
    """Text to search in messages whose words no fact repeats."""
    temporal: TemporalSearch | None = None
    names_in: str = ""
    """Text in which the names of entities are looked up, as whole words."""
    instructions: int = 0
    """The newest standing instructions to return, at most."""

    @property
    def has_vectors(self) -> bool:
        """True if a search needs the bank's vectors."""
        return bool(self.semantic) or self.temporal is not None


@dataclass(frozen=True, kw_only=True)
class EdgeQuery:
    """Edges that leave some facts, along stored links in both directions and along shared entities.

    Without `kinds`, links of all kinds but revisions are followed. Of an entity with more facts than `fan`, those most
    similar to `vector` are taken, among the newest `compared`, of which a store may take 2,048. An entity with n facts
    weighs 1 / sqrt(n), and one with more than `common` facts no less than one with that many. Edges lighter than
    `least`, and those to facts of a lower cosine with `vector` than `floor`, are left out. Of a fact with very many
    links the weakest may be left out.
    """

    scope: Scope
    space: str
    vector: Vector
    facts: Sequence[FactId] = ()
    entities: Sequence[EntityId] = ()
    kinds: frozenset[LinkKind] = frozenset()
    fan: int = 8
    compared: int = 2048
    common: int = 25
    least: float = 0.0
    floor: float = -1.0


class Edge(NamedTuple):
    """An edge from a fact or an entity to a fact. `via` is the name of the entity that both share."""

    source: FactId | EntityId
    target: FactId
    tokens: int
    kind: LinkKind
    weight: float
    via: str = ""


SUSPECT = 0.3
"""Probability from which a newer fact marks an older one as maybe outdated; chosen on conversations of our own."""


class RevisionEdge(NamedTuple):
    """A newer fact, an older one that it replaced or may have outdated, and the probability of that."""

    newer: FactId
    older: FactId
    kind: RevisionKind
    probability: float
    newer_tokens: int
    older_tokens: int
    mentioned_at: datetime
    """The time of the newer fact's mention."""


class StatementPair(NamedTuple):
    """Two statements with their speakers in front, the days between them, and the cosine of their vectors."""

    earlier: str
    later: str
    days: int
    cosine: float


class Scored(NamedTuple):
    """A candidate: enough to rank and pack it without loading it."""

    id: FactId
    score: float
    tokens: int


@dataclass(frozen=True)
class Ranking(Sequence[Scored]):
    """Candidates, best first, in columns: a recall ranks hundreds, and most are only counted or summed.

    `baseline` is the score of a fact that is unrelated to the query.
    """

    ids: Sequence[FactId] = ()
    scores: Sequence[float] = ()
    tokens: Sequence[int] = ()
    baseline: float = 0.0

    @staticmethod
    def of(hits: Iterable[Scored], baseline: float = 0.0) -> Ranking:
        if isinstance(hits, Ranking):
            return hits
        found = list(hits)
        return Ranking([hit.id for hit in found], [hit.score for hit in found], [hit.tokens for hit in found], baseline)

    def best(self, limit: int, floor: float) -> Ranking:
        """Return the best candidates, at most `limit`, of at least the score `floor`."""
        count = bisect_right(self.scores, -floor, hi=min(limit, len(self)), key=neg)
        return self if count == len(self) else self[:count]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Scored]:
        return map(Scored, self.ids, self.scores, self.tokens)

    @overload
    def __getitem__(self, at: int) -> Scored: ...
    @overload
    def __getitem__(self, at: slice) -> Ranking: ...
    def __getitem__(self, at: int | slice) -> Scored | Ranking:
        if isinstance(at, slice):
            return Ranking(self.ids[at], self.scores[at], self.tokens[at], self.baseline)
        return Scored(self.ids[at], self.scores[at], self.tokens[at])


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The rankings of a search request, in the order of its queries."""

    semantic: Sequence[Ranking] = ()
    keyword: Sequence[Ranking] = ()
    verbatim: Ranking = field(default_factory=Ranking)
    """The ids of these hits are message ids."""
    temporal: Ranking = field(default_factory=Ranking)
    temporal_links: Sequence[Edge] = ()
    entities: Sequence[Mention] = ()
    instructions: Sequence[FactId] = ()
    """The standing instructions that the scope's `of_instructions` accepts, newest first."""
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds by channel, measured in the store."""


class FactOutline(NamedTuple):
    """The properties of a fact by which recall weighs it. A recall weighs several times the facts that it returns."""

    id: FactId
    network: Network
    tokens: int
    engine: str
    importance: float
    mentioned_at: datetime
    supersedes: FactId | None
    has_basis: bool
    episodes: tuple[EpisodeId, ...]
    """The fact's first episode, if it has one."""

    @property
    def is_rest(self) -> bool:
        """True for what still holds of a superseded fact."""
        return self.supersedes is not None and self.has_basis and self.network in ("world", "experience")


def temporal_link_query(request: SearchRequest, temporal: TemporalSearch, found: Ranking) -> EdgeQuery | None:
    """Return the query for the temporal links of the best facts, or None if there is nothing to follow."""
    if not temporal.linked or not found.ids:
        return None
    return EdgeQuery(
        scope=request.scope.replace(occurred=temporal.during),
        space=request.space,
        vector=temporal.vector,
        facts=found.ids[: temporal.linked],
        kinds=frozenset({"temporal"}),
        floor=temporal.floor,
    )


P = ParamSpec("P")
R = TypeVar("R")


class StageTimer:
    """Milliseconds by stage. Stages that run concurrently overlap, so their sum may exceed the total."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        started = perf_counter()
        try:
            yield
        finally:
            self.add({name: (perf_counter() - started) * 1000})

    def run(self, name: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with self.stage(name):
            return function(*args, **kwargs)

    def add(self, stages: Mapping[str, float]) -> None:
        for name, milliseconds in stages.items():
            self._stages[name] = self._stages.get(name, 0.0) + milliseconds

    @property
    def stages(self) -> dict[str, float]:
        return dict(self._stages)

    @property
    def timings(self) -> dict[str, float]:
        """Milliseconds by stage, and in total since the timer was made."""
        return {**self._stages, "total": (perf_counter() - self._started) * 1000}
