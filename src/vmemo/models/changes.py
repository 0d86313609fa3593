"""What is handed to a store to be written, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from vmemo.models import (
    BankId,
    ConfidenceChange,
    Entity,
    EntityId,
    EntityType,
    Episode,
    EpisodeId,
    Fact,
    FactId,
    FormerProfile,
    JobKind,
    Link,
    Merge,
    Message,
    MessageId,
)
from vmemo.models.base import Instant, Record
from vmemo.models.results import Spending
from vmemo.models.search import Encoding, TokenVectors, Vector


@dataclass(frozen=True, kw_only=True)
class NewFact:
    """A fact with the vectors it is found and ranked by."""

    fact: Fact
    embedding: Vector
    tokens: TokenVectors | None = None

    @property
    def encoding(self) -> Encoding:
        """Its vectors together."""
        return Encoding(self.embedding, self.tokens)


@dataclass(frozen=True, kw_only=True)
class FactClosure:
    """The end of a stored fact: when it stopped being true, and when it stopped being believed."""

    fact: FactId
    invalid_at: datetime | None = None
    expired_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AddedSource:
    """Further messages and episodes that tell a stored fact."""

    fact: FactId
    messages: tuple[MessageId, ...] = ()
    episodes: tuple[EpisodeId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """Work to queue. Work of the same kind and key that waits already is asked for once more, and done once.

    Where it waits already, its detail stays and the earlier due time holds.
    """

    kind: JobKind
    key: str = ""
    detail: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    due: datetime | None = None
    """None is at once."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A job in this worker's hands. `asked` is how often it had been asked for when it was taken.

    `seconds` is for how long it is taken, and held on to while it is done.
    """

    job: int
    owner: str
    asked: int
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Everything derived from some unread messages; it lands whole, and only if all of them are still unread.

    `revision` is the bank's when the batch was begun: if facts were written since, nothing lands either, so that
    entities and links are never decided against an outdated bank. `space` is the embedder's name; a bank of another
    embedder refuses the batch. An episode whose id exists is replaced.
    `becomes` is the state of the messages afterwards: `derived` where the facts repeat their words; otherwise they
    stay searchable themselves. `successors` are stored facts that turned out to replace another, by that other.
    With `job` the batch lands only while that lease is held, and completes the job.
    """

    bank: BankId
    claims: Sequence[MessageId]
    episodes: Sequence[Episode] = ()
    facts: Sequence[NewFact] = ()
    entities: Sequence[Entity] = ()
    links: Sequence[Link] = ()
    closings: Sequence[FactClosure] = ()
    sourced: Sequence[AddedSource] = ()
    successors: Mapping[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    moves: Sequence[ConfidenceChange] = ()
    merges: Sequence[Merge] = ()
    spent: Sequence[Spending] = ()
    jobs: Sequence[NewJob] = ()
    job: Lease | None = None
    revision: int
    space: str
    becomes: Literal["derived", "extracted", "grouped"] = "derived"


@dataclass(frozen=True, kw_only=True)
class ForgetTarget:
    """What to forget: exactly one of these."""

    messages: Sequence[MessageId] = ()
    document: str | None = None
    entity: EntityId | None = None
    bank: bool = False


class HeldMention(Record):
    """A fact that mentioned an absorbed entity; `both` if it mentioned the keeping entity by itself too."""

    fact: FactId
    said: str | None = None
    both: bool = False


class ExportedMerge(Merge):
    """A merge with what its undoing needs: the entity that was absorbed, the facts that it was in, and what the keeping
    entity was before. `own` are those of the names that the keeping entity went by anyway."""

    names: tuple[str, ...] = Field(min_length=1)
    was: Entity | None = None
    own: tuple[str, ...] = ()
    mentions: tuple[HeldMention, ...] = ()
    type: EntityType | None = None
    first_seen: Instant | None = None
    last_seen: Instant | None = None

    @model_validator(mode="after")
    def _whole(self) -> ExportedMerge:
        if self.absorbed != (None if self.was is None else self.was.id):
            raise ValueError("the entity that was absorbed must be told whole")
        return self


RestoreRecord: TypeAlias = (
    FormerProfile | Message | Entity | Episode | NewFact | Link | ConfidenceChange | ExportedMerge | Spending
)
"""What an export is made of, in this order."""
