"""What an engine makes of messages, before it is embedded, resolved, revised and linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from vmemo.models import CauseKind, EntityType, FactId, MessageId, Network, Verdict
from vmemo.models.results import Skipped, Usage


@dataclass(frozen=True, kw_only=True)
class FoundName:
    """An entity as the text names it, before it is resolved."""

    name: str
    type: EntityType = "OTHER"


@dataclass(frozen=True, kw_only=True)
class DraftCause:
    """A causal relation to another draft of the same reading, by that draft's key."""

    target: str
    kind: CauseKind
    strength: float


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How a new fact relates to a known one.

    `text` is what a merge reads; `mistaken` tells that a superseded fact was never true.
    """

    verdict: Verdict
    fact: FactId
    text: str = ""
    mistaken: bool = False


@dataclass(frozen=True, kw_only=True)
class FactDraft:
    """A fact as an engine reads it."""

    network: Network
    text: str
    mentioned_at: datetime
    recorded_at: datetime
    messages: tuple[MessageId, ...]
    context: str = ""
    context_from: MessageId | None = None
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    """When it became true; without it, when it occurred or was mentioned, whichever was earlier."""
    confidence: float | None = None
    importance: float = 0.5
    entities: tuple[FoundName, ...] = ()
    causes: tuple[DraftCause, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    key: str = ""
    """Tells this draft from others of its bank; the fact's id follows from it, so reading again gives the same."""


@dataclass(frozen=True, kw_only=True)
class Restated:
    """A known fact that messages told again."""

    fact: FactId
    messages: tuple[MessageId, ...]


@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """What an engine made of one run of messages.

    `known` are the facts it was shown: about them it has said all it has to say. `engine` is what facts record of
    their origin.
    """

    drafts: tuple[FactDraft, ...]
    restated: tuple[Restated, ...] = ()
    known: frozenset[FactId] = frozenset()
    skipped: tuple[Skipped, ...] = ()
    usage: Usage = field(default_factory=Usage)
    engine: str = ""
