"""Facts as an extractor returns them, the changes to a bank that a store commits, and the events of a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from pydantic import Field, JsonValue, model_validator

from vmemo.models import (
    BankId,
    BankRevision,
    CauseKind,
    Claim,
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
    Network,
    Profile,
    Verdict,
    new_id,
)
from vmemo.models.records import Instant, Record
from vmemo.models.results import Skipped, Spending, Usage
from vmemo.models.search import Encoding, TokenVectors, Vector
from vmemo.models.webhooks import SignedWebhook, WebhookEvent


@dataclass(frozen=True, kw_only=True)
class FoundName:
    """An entity name found in a text, before resolution."""

    name: str
    type: EntityType = "OTHER"
    aliases: tuple[str, ...] = ()
    """Other names of the same entity that the text states."""


@dataclass(frozen=True, kw_only=True)
class DraftCause:
    """A causal relation to another draft of the same result."""

    target: str
    kind: CauseKind
    strength: float


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The relation of a new fact to a known one.

    `text` is the merged text, `words` the part of a superseded fact that ends, if not all of it does, and `end` when
    that stops being true, if it is stated; `mistaken` means that it was never true.
    """

    verdict: Verdict
    fact: FactId
    text: str = ""
    words: str = ""
    mistaken: bool = False
    end: datetime | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class DraftSource:
    """The words of a message that a draft repeats, for a reader that divides them."""

    message: Message
    words: str
    annotated: str
    """The words with the likely dates of their times, with which the embedded text ends."""
    to_agent: bool
    """True if a user says them to the agent, so that they may hold standing instructions."""
    speakers: frozenset[str]
    """The speakers of the conversation."""
    draft: Callable[[str], FactDraft]
    """Returns the draft of a part of the words."""
    date: Callable[[FactDraft, Callable[[int, int], float]], FactDraft]
    """Returns the draft with its dates, by the probability that words from one place to another are meant as a date."""


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
    ends_instruction: bool = False
    """True if it ends an earlier standing instruction."""
    source: DraftSource | None = None
    """The words that it repeats, if a reader may divide them."""
    key: str = ""
    """Identifies the draft in its bank; the fact's id is derived from it, so that repeated extraction is idempotent."""


@dataclass(frozen=True, kw_only=True)
class ExpectedStatement:
    """A statement that was expected of an episode: predicted, or known before, at a time."""

    text: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """The result of extracting a run of messages.

    `known` are the facts that the extractor was shown and has judged. The importance of the drafts is computed from
    their distance to what was `expected`, if anything was. `engine` is recorded on the facts.
    """

    drafts: tuple[FactDraft, ...]
    restated: tuple[AddedSource, ...] = ()
    """Known facts that messages repeat."""
    known: frozenset[FactId] = frozenset()
    expected: tuple[ExpectedStatement, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    usage: Usage = field(default_factory=Usage)
    engine: str = ""

    @staticmethod
    def combined(results: Sequence[ExtractionResult]) -> ExtractionResult:
        return ExtractionResult(
            drafts=tuple(draft for result in results for draft in result.drafts),
            restated=tuple(each for result in results for each in result.restated),
            known=frozenset[FactId]().union(*(result.known for result in results)),
            expected=tuple(dict.fromkeys(each for result in results for each in result.expected)),
            skipped=tuple(each for result in results for each in result.skipped),
            usage=sum((result.usage for result in results), Usage()),
            engine=results[0].engine if results else "",
        )


@dataclass(frozen=True, kw_only=True)
class NewFact:
    """A fact with the vectors it is found and ranked by."""

    fact: Fact
    embedding: Vector
    tokens: TokenVectors | None = None

    @property
    def encoding(self) -> Encoding:
        return Encoding(self.embedding, self.tokens)


@dataclass(frozen=True, kw_only=True)
class FactClosure:
    """The end of a stored fact: when it stopped being true, and when it stopped being believed.

    A time that is not given stays as it is.
    """

    fact: FactId
    invalid_at: datetime | None = None
    expired_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AddedSource:
    """Further messages and episodes that state a stored fact."""

    fact: FactId
    messages: tuple[MessageId, ...] = ()
    episodes: tuple[EpisodeId, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MessageFailure:
    """The reason why messages could not be processed; it is noted on those that are still pending."""

    messages: Sequence[MessageId]
    error: str


@dataclass(frozen=True, kw_only=True)
class ProfileChange:
    """A bank's new profile; the present one moves to its history, with the reason. An equal profile changes nothing."""

    profile: Profile
    reason: str = ""
    expected: Profile | None = None
    """The commit is refused unless this is the present profile; None accepts any."""


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """Work to queue. If a job of the same kind and key is queued already, it is requested again, and done once.

    A queued job keeps its detail, and the earlier due time holds.
    """

    kind: JobKind
    key: str = ""
    detail: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    due: datetime | None = None
    """None is at once."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A worker's hold on a job. `requests` is how often the job had been requested when it was leased.

    `seconds` is the length of the lease, by which it is also renewed.
    """

    job: int
    owner: str
    requests: int
    seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class JobFailure:
    """The end of a job that failed. It is ignored if the lease was lost.

    The error is noted on the job, which is due again at `retry_at`, and on those of its messages that are pending.
    """

    lease: Lease
    error: str
    retry_at: datetime
    messages: Sequence[MessageId] = ()


class AbsorbedMention(Record):
    """A fact that mentioned an absorbed entity; `both` if it also mentioned the keeping entity on its own."""

    fact: FactId
    name_in_text: str | None = None
    both: bool = False


class MergeRecord(Merge):
    """A merge with what undoing it needs."""

    names: tuple[str, ...] = Field(min_length=1)
    was: Entity | None = Field(default=None, description="the absorbed entity as it was; None for bare names")
    own: tuple[str, ...] = Field(default=(), description="names that the keeping entity had before the merge")
    mentions: tuple[AbsorbedMention, ...] = ()
    type: EntityType | None = Field(default=None, description="the keeping entity's type before the merge")
    first_seen: Instant | None = None
    last_seen: Instant | None = None
    parted: EntityId | None = Field(default=None, description="the entity that bare names became by the undoing")

    @model_validator(mode="after")
    def _names_the_absorbed_entity(self) -> MergeRecord:
        if self.absorbed != (None if self.was is None else self.was.id):
            raise ValueError("`absorbed` must be the id of the entity in `was`")
        return self

    def public(self) -> Merge:
        return self.as_a(Merge)


@dataclass(frozen=True, kw_only=True)
class EntityMention:
    """A fact's mention of an entity. `name_in_text` is empty for the entity's own name."""

    fact: FactId
    entity: EntityId
    name_in_text: str = ""
    mentioned_at: datetime | None = None
    """The fact's time; filled when mentions are read."""


@dataclass(frozen=True, kw_only=True)
class NewEmbeddings:
    """Vectors of another embedder for every fact of a bank; the commit is refused if a fact has none here."""

    embedder: str
    dimension: int
    vectors: Mapping[FactId, Encoding]


@dataclass(frozen=True, kw_only=True)
class NoteChange:
    """The new note of a hidden bank; the commit is refused unless the present note is `expected`."""

    note: str
    expected: str


@dataclass(frozen=True, kw_only=True)
class Rename:
    """A name for a hidden bank, which is visible from then on.

    A bank that has the name is replaced. The commit is refused if that bank holds a message which the hidden bank
    lacks, or if its revision is another than `revision`, where that is given. A bank that was derived from the one it
    replaces takes over its profile, the history of its profile, its age, its costs and its webhooks, with the
    deliveries that are queued.
    """

    to: BankId
    revision: BankRevision | None = None


@dataclass(frozen=True, kw_only=True)
class Deletions:
    """Stored records to delete; one that does not exist any more is ignored.

    An episode that followed a deleted one follows its predecessor. A deleted fact is evidence of no confidence change
    any more; those that it was evidence of lose their reasons, which may quote it.
    """

    messages: Sequence[MessageId] = ()
    episodes: Sequence[EpisodeId] = ()
    facts: Sequence[FactId] = ()
    entities: Sequence[EntityId] = ()
    mentions: Sequence[EntityMention] = ()
    merges: Sequence[str] = ()
    jobs: Sequence[int] = ()
    """Queued jobs by number; their leases are lost."""
    webhooks: Sequence[str] = ()

    def __bool__(self) -> bool:
        """True if memories are deleted; jobs and webhooks are none."""
        return bool(self.messages or self.episodes or self.facts or self.entities or self.mentions or self.merges)


_MEMORIES = (
    *("pending", "requeued", "curated", "episodes", "entities", "facts", "links", "merges", "mentions", "closures"),
    *("sources", "successors", "reopened", "rewired", "without_context", "claims", "pinned", "expiries", "metadata"),
    *("confidence", "confidence_history", "deleted", "erase", "embeddings"),
)
"""The changes of memories; the others are of messages, counts, the queue and the bank itself."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """One unit of work on a bank. A store commits all of it in one transaction, or none of it.

    The commit is refused, and nothing changes, if a precondition no longer holds: the bank has another `revision`, the
    job of `lease` or of a `finished` lease is no longer held, a message in `pending` was processed meanwhile, a
    document in `without_pending` has a pending message, or the profile is another than `profile.expected`. A bank whose
    vectors are of another `embedder` raises EmbedderMismatch. While another process holds the bank, the commit waits.
    """

    bank: BankId
    revision: BankRevision | None = None
    embedder: str | None = None
    lease: Lease | None = None
    """A job, or the bank itself, that must be held, and stays held."""
    without_pending: Sequence[str | None] = ()

    pending: Sequence[MessageId] = ()
    becomes: Literal["derived", "extracted", "grouped"] = "derived"
    """The state of the `pending` messages afterwards: `derived` if facts repeat their words, `extracted` if they stay
    searchable themselves, `grouped` if they were only placed in an episode."""
    unrepeated: Sequence[MessageId] = ()
    """Those of the `pending` messages that become `extracted` where the others become `derived`: they have no facts."""
    requeued: Sequence[MessageId] = ()
    """Messages to process again: they are pending afterwards, unless they are kept verbatim."""
    curated: Sequence[MessageId] = ()
    """Messages that are neither processed again nor searched by their words from now on."""
    failures: Sequence[MessageFailure] = ()
    messages: Sequence[Message] = ()
    """Messages to append; one whose id, or whose key in its document, is stored already is left out."""

    episodes: Sequence[Episode] = ()
    """New episodes, or new versions of stored ones."""
    entities: Sequence[Entity] = ()
    """New entities, or new versions of stored ones."""
    facts: Sequence[NewFact] = ()
    links: Sequence[Link] = ()
    """Links between facts; one whose end does not exist any more is left out."""
    merges: Sequence[Merge] = ()
    """New merges, or new versions of stored ones. One without a record was of bare names."""
    mentions: Sequence[EntityMention] = ()
    """Mentions that stored facts gain, after others are deleted."""

    closures: Sequence[FactClosure] = ()
    sources: Sequence[AddedSource] = ()
    successors: Mapping[FactId, FactId] = field(default_factory=dict[FactId, FactId])
    """Stored facts that replace another, by the fact they replace as value."""
    reopened: Sequence[FactId] = ()
    """Facts that are believed and true again: their ends are removed."""
    rewired: Mapping[FactId, FactId | None] = field(default_factory=dict[FactId, FactId | None])
    """Stored facts that replace another fact than before, or none."""
    without_context: Sequence[NewFact] = ()
    """Stored facts that lose the message they were extracted with as context."""
    claims: Mapping[FactId, tuple[Claim, ...]] = field(default_factory=dict[FactId, tuple[Claim, ...]])
    """The claims of stored facts, in place of those that they had."""
    pinned: Mapping[FactId, bool] = field(default_factory=dict[FactId, bool])
    """Stored facts to pin, or to unpin."""
    metadata: Mapping[FactId, Mapping[str, JsonValue]] = field(default_factory=dict[FactId, Mapping[str, JsonValue]])
    """The metadata of stored facts, in place of what they had."""
    expiries: Mapping[FactId, datetime | None] = field(default_factory=dict[FactId, datetime | None])
    """The new expiry of stored facts; None for never."""
    confidence: Sequence[ConfidenceChange] = ()
    confidence_history: Sequence[ConfidenceChange] = ()
    """Earlier confidence changes, to be recorded without effect on the opinions; their evidence may be gone."""
    deleted: Deletions = field(default_factory=Deletions)
    erase: bool = False
    """Leave no copy of what is deleted: idempotent responses, banks that were derived from this one, errors of jobs and
    of `requeued` messages, errors that deleted messages share with others, and the deleted bytes themselves."""
    accesses: Mapping[FactId, int] = field(default_factory=dict[FactId, int])
    """Recalls to add to the access counts of facts."""

    profile: ProfileChange | None = None
    former_profiles: Sequence[FormerProfile] = ()
    """Profiles to add to the bank's history."""
    embeddings: NewEmbeddings | None = None
    note: NoteChange | None = None
    rename: Rename | None = None
    spending: Sequence[Spending] = ()

    webhooks: Sequence[SignedWebhook] = ()
    """Webhooks to add. A commit also queues a delivery of its events for every webhook that wants them."""
    disabled_webhooks: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """Webhooks that get no more events, by the time of that."""

    jobs: Sequence[NewJob] = ()
    finished: Sequence[Lease] = ()
    """Jobs to take off the queue; one that was requested again since it was leased waits again. A bank that was held
    is free again."""
    failed: Sequence[JobFailure] = ()
    released: Sequence[Lease] = ()
    """Jobs to free as they were leased; a lost lease is ignored."""

    @property
    def derives(self) -> bool:
        """True if the bank's memories change, and with them its revision; counts and the queue are no memories."""
        return any(getattr(self, name) for name in _MEMORIES)

    @property
    def leases(self) -> list[Lease]:
        return [*self.finished] if self.lease is None else [self.lease, *self.finished]

    @property
    def repeatable(self) -> bool:
        """True if a second commit changes nothing more, so that one of unknown outcome may be tried again."""
        if self.rename is not None or self.erase:
            return False
        guarded = bool(self.finished or self.note) or (self.revision is not None and self.derives)
        return guarded or not (self.spending or self.accesses or self.profile or self.former_profiles)


@dataclass(frozen=True, kw_only=True)
class ForgetTarget:
    """The target of a forget: exactly one of these."""

    messages: Sequence[MessageId] = ()
    document: str | None = None
    entity: EntityId | None = None
    fact: FactId | None = None
    bank: bool = False


RestoreRecord: TypeAlias = (
    FormerProfile | Message | Entity | Episode | NewFact | Link | ConfidenceChange | MergeRecord | Spending
)
"""The records of an export, in this order."""


MAX_FACTS = 100
"""Facts of one delivery."""


class FactEvent(NamedTuple):
    """Facts that one commit retained, revised or forgot; each revised one with the fact that replaced it, if any."""

    event: WebhookEvent
    facts: Mapping[FactId, FactId | None]


def events_of(changes: Changes) -> list[FactEvent]:
    """Return the events of a commit, those of many facts in parts."""
    replaced_by: dict[FactId, FactId] = {link.target: link.source for link in changes.links if link.kind == "replaces"}
    replaced_by |= {old: new for new, old in changes.successors.items()}
    replaced_by |= {item.fact.supersedes: item.fact.id for item in changes.facts if item.fact.supersedes is not None}
    forgotten = dict.fromkeys(changes.deleted.facts)
    retained = dict.fromkeys((*(item.fact.id for item in changes.facts), *changes.reopened))
    revised = {closure.fact: replaced_by.get(closure.fact) for closure in changes.closures}
    found: dict[WebhookEvent, Mapping[FactId, FactId | None]] = {
        "retained": {id: None for id in retained if id not in forgotten},
        "revised": {id: by for id, by in revised.items() if id not in forgotten},
        "forgotten": forgotten,
    }
    return [
        FactEvent(event, dict(list(facts.items())[start : start + MAX_FACTS]))
        for event, facts in found.items()
        for start in range(0, len(facts), MAX_FACTS)
    ]


def delivery_jobs(webhooks: Sequence[SignedWebhook], events: Sequence[FactEvent]) -> list[NewJob]:
    """Return a job for each event and each active webhook that wants it. Jobs hold ids, never texts."""
    found: list[NewJob] = []
    for each in events:
        for webhook in webhooks:
            if webhook.disabled_at is None and each.event in webhook.events:
                facts: JsonValue = {**each.facts}
                detail = {"webhook": webhook.id, "event": each.event, "facts": facts}
                found.append(NewJob(kind="webhook", key=new_id(), detail=detail))
    return found
