"""Recalled facts with their scores, and a fact's provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from vmemo.models.base import Record
from vmemo.models.facts import ConfidenceChange, Fact
from vmemo.models.ids import Channel, EntityId, FactId, LinkKind
from vmemo.models.messages import Episode, Message


@dataclass(frozen=True, slots=True)
class ChannelPlacement:
    """Where a channel put a fact: rank from 1, and the channel's own score."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class GraphStep:
    """One step of the way through the graph: from a fact, or from an entity that the query names, to a fact."""

    source: FactId | EntityId
    target: FactId
    kind: LinkKind
    weight: float
    via: str = ""
    """The entity that both ends share."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """What the reranker did to a fact: its rank in the fused order, its rank after, and the reranker's own score."""

    before: int
    after: int
    score: float | None
    """None when there was nothing to compare the fact by, so that its fused score alone placed it."""


class Hit(Record):
    """One recalled fact with its score; `verbatim` marks a message's own words that no fact speaks for.

    `path` and `reranking` are there when the recall was asked to explain.
    """

    fact: Fact
    score: float
    channels: Mapping[Channel, ChannelPlacement] = Field(default_factory=dict[Channel, ChannelPlacement])
    verbatim: bool = False
    path: tuple[GraphStep, ...] = ()
    reranking: Reranking | None = None

    @property
    def id(self) -> FactId:
        """The id to cite and to ask `why` about."""
        return self.fact.id

    @property
    def text(self) -> str:
        """The fact's text."""
        return self.fact.text

    @property
    def tokens(self) -> int:
        """The cl100k count of the text."""
        return self.fact.tokens


class Provenance(Record):
    """Where a fact comes from, and what it became; for an opinion also how its confidence moved."""

    fact: Fact
    episodes: tuple[Episode, ...] = ()
    messages: tuple[Message, ...] = ()
    basis: tuple[Provenance, ...] = ()
    moves: tuple[ConfidenceChange, ...] = ()
    superseded_by: tuple[Fact, ...] = ()
