"""Search requests and results: the data that recall and a store exchange."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from vmemo.models import BankId, FactId, Interval, LinkKind, Mention, RevisionKind
from vmemo.models.requests import FactFilters

Vector: TypeAlias = NDArray[np.float32]
"""One unit vector, shape (dimension,)."""
Vectors: TypeAlias = NDArray[np.float32]
"""Unit vectors as rows, shape (count, dimension)."""
TokenVectors: TypeAlias = NDArray[np.float32]
"""Short vectors of a text's tokens as rows. A document's have length one, a query's the weight of each token."""


class StoredTokens(NamedTuple):
    """Token vectors of a document as stores keep them: small numbers, and the factor that gives a row length one."""

    components: NDArray[np.int8 | np.float32]
    scales: NDArray[np.float32]

    @property
    def vectors(self) -> TokenVectors:
        return self.components * self.scales[:, None]


@dataclass(frozen=True, eq=False)
class Reading:
    """The packaged reader's judgement of a text and of each of its tokens."""

    noise: float
    """The probability that the text holds nothing to remember."""
    tags: NDArray[np.float32]
    """The probability of each of `READING_TAGS` by token, shape (tokens, 5)."""
    spans: NDArray[np.int32]
    """The first character of each token in the text and the one after its last, shape (tokens, 2)."""


READING_TAGS = ("wish", "end", "person", "date", "change")
"""The columns of `Reading.tags`."""


class Encoding(NamedTuple):
    """The vector of a text, and the rest that the embedder computes: the packaged one all, most others nothing."""

    vector: Vector
    tokens: TokenVectors | None = None
    tense: float | None = None
    """Of a query: from -1 if it asks for the earliest statements to 1 if it asks for the latest."""
    reading: Reading | None = None
    """Of a document."""


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
    similar to `vector` are taken, among the newest 2,048. An entity with n facts
    weighs 1 / sqrt(n), and one with more than `common` facts no less than one with that many. Edges lighter than
    `least`, and those to facts of a lower cosine with `vector` than `floor`, are left out. Of a fact with very many
    links the weakest may be left out.
    """

    scope: Scope
    space: str
    vector: Vector
    facts: Sequence[int] = ()
    entities: Sequence[int] = ()
    kinds: frozenset[LinkKind] = frozenset()
    fan: int = 8
    common: int = 25
    least: float = 0.0
    floor: float = -1.0


class Edges(NamedTuple):
    """The edges of one kind and weight from a fact, or from an entity, whose number has a minus sign, to facts.

    Each target is the number, the tokens and the time of a fact. `via` is the number of the entity that all of them
    share with the source, or 0; the source itself may then be among them, and no edge leads to it.
    """

    source: int
    kind: LinkKind
    weight: float
    targets: Sequence[Sequence[int]]
    via: int = 0


SUSPECT = 0.29
"""Probability from which a claim is marked as maybe outdated; of held-out authors .06 of the true claims are."""
LINKED = 0.15
"""Probability from which a newer fact is a later statement on the same matter: both are linked, and the newer one is
recalled first; chosen on conversations of a held-out author."""


class RevisionEdge(NamedTuple):
    """A newer fact, an older one that it replaced or may have outdated, by number, and the probability of that."""

    newer: int
    older: int
    kind: RevisionKind
    probability: float
    newer_tokens: int
    older_tokens: int
    mentioned_at: datetime
    """The time of the newer fact's mention."""


class FactRevision(NamedTuple):
    """A revision edge by the ids of its facts."""

    newer: FactId
    older: FactId
    kind: RevisionKind
    probability: float


class StatementPair(NamedTuple):
    """An earlier statement and a later one, with the numbers by which a revision model judges them."""

    earlier: str
    later: str
    days: float
    """Days between the statements."""
    cosine: float
    shared: int = 0
    """Terms that both have."""
    rare: float = 0.0
    """The same, each divided by the number of earlier statements that were compared and have it."""
    earlier_terms: int = 0
    later_terms: int = 0
    rank: int = 0
    """Earlier statements that are nearer to the later one."""
    lead: float = 0.0
    """The cosine, less that of the fourth nearest statement."""


class ClaimPair(NamedTuple):
    """A claim of an earlier statement and a later statement, with the numbers by which a revision model judges them."""

    claim: str
    later: str
    probability: float
    """That the later statement makes the earlier one outdated, all of it or a claim."""
    numbers: Sequence[float]


class Scored(NamedTuple):
    """A fact and its similarity."""

    id: FactId
    score: float
    speaker: str = ""
    """The speaker of a fact in the words of a message, folded; empty if it has none, or if it was not read."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Candidates, best first, in arrays: no object is made for what a recall does not return.

    A fact is its number in the store, and a message is its number with a minus sign. `rows` has the number, the tokens
    and the time of mention in microseconds of each. `baseline` is the score of a fact that is unrelated to the query.
    """

    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    scores: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    baseline: float = 0.0

    @staticmethod
    def of(found: Iterable[tuple[int, int, int, float]], baseline: float = 0.0) -> Ranking:
        """Return the ranking of numbers, tokens, times and scores."""
        cells = list(found)
        rows = np.array([each[:3] for each in cells], np.int64).reshape(len(cells), 3)
        return Ranking(rows, np.array([each[3] for each in cells], np.float64), baseline)

    @property
    def numbers(self) -> NDArray[np.int64]:
        return self.rows[:, 0]

    @property
    def tokens(self) -> NDArray[np.int64]:
        return self.rows[:, 1]

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, places: NDArray[np.int64] | slice) -> Ranking:
        """Return the candidates at some places."""
        return Ranking(self.rows[places], self.scores[places], self.baseline)

    def scored(self, scores: NDArray[np.float64]) -> Ranking:
        """Return the candidates in the order of other scores; equal ones keep their order."""
        order = np.argsort(-scores, kind="stable")
        return Ranking(self.rows[order], scores[order], self.baseline)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The rankings of a search request, in the order of its queries."""

    semantic: Sequence[Ranking] = ()
    keyword: Sequence[Ranking] = ()
    verbatim: Ranking = field(default_factory=Ranking)
    temporal: Ranking = field(default_factory=Ranking)
    temporal_links: Sequence[Edges] = ()
    entities: Mapping[int, Mention] = field(default_factory=dict[int, Mention])
    """The entities that the text names, by number."""
    instructions: Sequence[int] = ()
    """The standing instructions that the scope's `of_instructions` accepts, newest first."""
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds by channel, measured in the store."""


def temporal_link_query(request: SearchRequest, temporal: TemporalSearch, found: Ranking) -> EdgeQuery | None:
    """Return the query for the temporal links of the best facts, or None if there is nothing to follow."""
    if not temporal.linked or not len(found):
        return None
    return EdgeQuery(
        scope=request.scope.replace(occurred=temporal.during),
        space=request.space,
        vector=temporal.vector,
        facts=found.numbers[: temporal.linked].tolist(),
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
        started = perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + (perf_counter() - started) * 1000

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
