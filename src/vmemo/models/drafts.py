"""Drafts: facts that an extractor returns, before embedding, entity resolution, revision and linking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from vmemo.models import CauseKind, EntityType, FactId, MessageId, Network, Verdict
from vmemo.models.results import Skipped, Usage


@dataclass(frozen=True, kw_only=True)
class FoundName:
    """An entity name found in a text, before resolution."""

    name: str
    type: EntityType = "OTHER"


@dataclass(frozen=True, kw_only=True)
class DraftCause:
    """A causal relation to another draft of the same result, by its key."""

    target: str
    kind: CauseKind
    strength: float


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The relation of a new fact to a known one.

    `text` is the merged text, `keep` what still holds of a superseded fact; `mistaken` means that it was never true.
    """

    verdict: Verdict
    fact: FactId
    text: str = ""
    keep: tuple[str, ...] = ()
    mistaken: bool = False


@dataclass(frozen=True, kw_only=True)
class FactDraft:
    """A fact as an extractor returns it."""

    network: Network
    text: str
    mentioned_at: datetime
    recorded_at: datetime
    messages: tuple[MessageId, ...]
    likely_dates: str | None = None
    """The text with the likely dates of its times, which is embedded; None if these were not found yet."""
    context: str = ""
    context_from: MessageId | None = None
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    """When it became true; by default the earlier of its occurrence and its mention."""
    invalid_at: datetime | None = None
    """When it stops being true, if that is stated."""
    confidence: float | None = None
    importance: float = 0.5
    entities: tuple[FoundName, ...] = ()
    causes: tuple[DraftCause, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    instruction: bool = False
    """True for a standing instruction of the user to the agent."""
    key: str = ""
    """Identifies the draft in its bank; the fact's id is derived from it, so that repeated extraction is idempotent."""


@dataclass(frozen=True, kw_only=True)
class ExpectedStatement:
    """A statement that was expected of an episode: predicted, or known before, at a time."""

    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class RestatedFact:
    """A known fact that messages repeat."""

    fact: FactId
    messages: tuple[MessageId, ...]


@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """The result of extracting a run of messages.

    `known` are the facts that the extractor was shown and has judged. The importance of the drafts is computed from
    their distance to what was `expected`, if anything was. `engine` is recorded on the facts.
    """

    drafts: tuple[FactDraft, ...]
    restated: tuple[RestatedFact, ...] = ()
    known: frozenset[FactId] = frozenset()
    expected: tuple[ExpectedStatement, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    usage: Usage = field(default_factory=Usage)
    engine: str = ""

    @staticmethod
    def combined(results: Sequence[ExtractionResult]) -> ExtractionResult:
        """Return several results of one engine as one."""
        return ExtractionResult(
            drafts=tuple(draft for result in results for draft in result.drafts),
            restated=tuple(each for result in results for each in result.restated),
            known=frozenset[FactId]().union(*(result.known for result in results)),
            expected=tuple(dict.fromkeys(each for result in results for each in result.expected)),
            skipped=tuple(each for result in results for each in result.skipped),
            usage=sum((result.usage for result in results), Usage()),
            engine=results[0].engine if results else "",
        )
