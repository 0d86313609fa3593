"""Recalled facts with their scores, and a fact's provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from vmemo.models.base import Record, Share
from vmemo.models.display import html_table, shortened
from vmemo.models.facts import ConfidenceChange, Fact
from vmemo.models.ids import Channel, EntityId, FactId, HitStatus, LinkKind, RevisionKind
from vmemo.models.messages import Episode, Message
from vmemo.models.truncate import truncate


@dataclass(frozen=True, slots=True)
class ChannelPlacement:
    """A fact's rank (from 1) and score in one channel."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class ChannelCandidate:
    """A candidate of one channel, its rank (from 1) and its score; the verbatim channel has ids of messages."""

    id: FactId
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class GraphStep:
    """An edge on the graph channel's path: from a fact, or an entity in the query, to a fact."""

    source: FactId | EntityId
    target: FactId
    kind: LinkKind
    weight: float
    via: str = ""
    """The entity that both ends share."""


@dataclass(frozen=True, slots=True)
class Reranking:
    """A fact's rank before and after reranking, and the reranker's score."""

    before: int
    after: int
    score: float | None
    """None if the fact could not be compared, so that only its fused score counted."""


class NewerFact(Record):
    """A newer fact that replaced another or may have outdated it, and the revision model's probability."""

    fact: FactId
    kind: RevisionKind
    probability: Share


class Hit(Record):
    """A recalled fact with its score; `verbatim` marks a message that has no fact of its own.

    `status` is the fact's status at the time of the question, or at the time of the recall (`at_time`, `known_at`).
    `truncated` is set if the text of `fact` was cut to fit the budget; `why` returns all of it.
    `path`, `reranking` and `newer` are set if the recall was requested with an explanation.
    """

    fact: Fact
    score: float
    channels: Mapping[Channel, ChannelPlacement] = Field(default_factory=dict[Channel, ChannelPlacement])
    verbatim: bool = False
    status: HitStatus = "current"
    truncated: bool = False
    path: tuple[GraphStep, ...] = ()
    reranking: Reranking | None = None
    newer: tuple[NewerFact, ...] = ()

    @property
    def id(self) -> FactId:
        """The fact's id, for citations and `why`."""
        return self.fact.id

    @property
    def short_id(self) -> str:
        """The fact's short id, which prompts show and `why` accepts."""
        return self.fact.short_id

    @property
    def text(self) -> str:
        """The fact's text."""
        return self.fact.text

    @property
    def tokens(self) -> int:
        """The cl100k count of the text."""
        return self.fact.tokens

    @property
    def status_note(self) -> str:
        """The status in words, such as "former, until 1 June 2022"; empty for a current fact."""
        if self.status == "current":
            return ""
        until = self.fact.invalid_at if self.status == "former" else None
        words = self.status.replace("_", " ")
        return words if until is None else f"{words}, until {until.day} {until:%B %Y}"

    def __repr__(self) -> str:
        return f"<Hit {self.line}>"

    def __str__(self) -> str:
        return repr(self)

    @property
    def line(self) -> str:
        """The score, short id, status and text on one line."""
        note = f" ({self.status_note})" if self.status_note else ""
        return f"{self.score:.3f} [{self.short_id}]{note} {shortened(self.text)!r}"

    def truncate(self, max_tokens: int, count: Callable[[str], int]) -> Hit | None:
        """Return the hit with its text cut to `max_tokens`, or None if not even a word fits."""
        text = truncate(self.text, max_tokens, count)
        if text is None:
            return None
        fact = self.fact.model_copy(update={"text": text, "tokens": count(text)})
        return self.model_copy(update={"fact": fact, "truncated": True})


def hits_table(caption: str, hits: Sequence[Hit]) -> str:
    """Return hits as a table for a notebook."""
    columns = ("score", "id", "date", "status", "fact")
    rows = [(f"{h.score:.3f}", h.short_id, f"{h.fact.mentioned_at:%Y-%m-%d}", h.status_note, h.text) for h in hits]
    return html_table(caption, columns, rows)


class Provenance(Record):
    """The sources of a fact, the facts that superseded it and, for an opinion, its confidence changes.

    `newer` are the decisions of the revision model: facts that replaced this one, or may have outdated it.
    """

    fact: Fact
    episodes: tuple[Episode, ...] = ()
    messages: tuple[Message, ...] = ()
    basis: tuple[Provenance, ...] = ()
    confidence_changes: tuple[ConfidenceChange, ...] = ()
    superseded_by: tuple[Fact, ...] = ()
    newer: tuple[NewerFact, ...] = ()
