"""What a search is asked for and what it answers: the data between recall and a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from vmemo.models import BankId, EntityId, FactId, Interval, LinkKind, Network

Vector: TypeAlias = NDArray[np.float32]
"""One unit vector, shape (dimension,)."""
Vectors: TypeAlias = NDArray[np.float32]
"""Unit vectors as rows, shape (count, dimension)."""
TokenVectors: TypeAlias = NDArray[np.float32]
"""Short vectors of a text's tokens as rows: unit ones of a document, a query's as long as each token counts."""


class Encoding(NamedTuple):
    """What a text is found by: its vector, and its tokens' vectors where the embedder gives them."""

    vector: Vector
    tokens: TokenVectors | None = None


TagsMatch = Literal["all", "any", "exact", "all_or_none", "any_or_none"]
"""Which of the tags that are asked for a fact must have: all, one at least, or these and no other. The last two let
facts through as well that have no tags, though no beliefs: one that was formed has none, whatever it rests on."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which facts of which bank a search may see. Empty filters let everything through.

    Without `at_time` and `known_at` only current facts are seen, unless `include_expired` is set.
    """

    bank: BankId
    networks: frozenset[Network] = frozenset()
    tags: frozenset[str] = frozenset()
    tags_match: TagsMatch = "all"
    entities: frozenset[str] = frozenset()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    occurred: Interval | None = None
    at_time: datetime | None = None
    known_at: datetime | None = None
    include_expired: bool = False


@dataclass(frozen=True, kw_only=True)
class VectorQuery:
    """Facts by cosine with one vector of an embedder's space, best first, none below the floor."""

    scope: Scope
    space: str
    vector: Vector
    limit: int
    floor: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TextQuery:
    """Facts or messages by BM25 with a text's words, best first."""

    scope: Scope
    text: str
    limit: int


@dataclass(frozen=True, kw_only=True)
class TimeQuery:
    """Facts that happened inside a stretch of time and have at least this cosine with a vector.

    The score is the cosine, lessened by up to `fading` the farther a fact lies from the middle of the stretch.
    """

    scope: Scope
    space: str
    vector: Vector
    during: Interval
    limit: int
    floor: float = 0.0
    fading: float = 0.0


@dataclass(frozen=True, kw_only=True)
class EdgeQuery:
    """Edges that leave some facts, along stored links in both directions and along shared entities.

    Of an entity with more facts than `fan`, those most like `vector` are taken. Edges lighter than `least` are left
    out, and so may be the weakest links where there are very many.
    """

    scope: Scope
    space: str
    vector: Vector
    facts: Sequence[FactId] = ()
    entities: Sequence[EntityId] = ()
    kinds: frozenset[LinkKind] = frozenset()
    fan: int = 8
    least: float = 0.0


class Edge(NamedTuple):
    """A way from a fact, or from an entity itself, to a fact. `via` names the entity that both share."""

    source: FactId | EntityId
    target: FactId
    tokens: int
    kind: LinkKind
    weight: float
    via: str = ""


class Scored(NamedTuple):
    """A candidate: enough to rank and pack it without loading it. Recall makes hundreds of them, so it is a tuple."""

    id: FactId
    score: float
    tokens: int


@dataclass(frozen=True)
class Ranking:
    """A channel's candidates, best first. `ground` is the score of what has nothing to do with the query."""

    hits: Sequence[Scored] = ()
    ground: float = 0.0
