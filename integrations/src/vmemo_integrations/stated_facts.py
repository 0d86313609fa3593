"""Facts that another product derived: they are stored as they are, with their times and a message in their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from vmemo.lifecycle.entity_merges import observation_job
from vmemo.models import BankId, Message, MessageId
from vmemo.models.changes import ExtractionResult, FactDraft, FoundName
from vmemo.models.requests import NewMessage
from vmemo.models.results import Retained, Skipped
from vmemo.models.select import MessageSelect
from vmemo.retain.context import RetainContext
from vmemo.retain.pipeline import prepare, redact_messages, retained_by, stored_of
from vmemo.retain.write_plan import encode_drafts, plan_stated
from vmemo.text.names import find_names, merge_names
from vmemo.transfer.foreign import ForeignFormat

PAGE = 500
"""Facts that are committed together."""


@dataclass(frozen=True, kw_only=True)
class StatedFact:
    """A fact that another product derived. Its text is the message's, and is stored as it is."""

    message: NewMessage
    network: Literal["world", "experience"] = "world"
    names: tuple[str, ...] = ()
    occurred: tuple[datetime, datetime] | None = None
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    expired_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class StatedFacts:
    """The facts of a file; of several with one id, the last in the order of time is stored."""

    format: ForeignFormat
    facts: Sequence[StatedFact]

    async def __call__(self, bank: BankId, context: RetainContext) -> Retained:
        """Redact all facts, and store those that are new."""
        ordered = sorted(self.facts, key=lambda fact: str(fact.message.timestamp))
        kept = {fact.message.id: fact for fact in ordered}
        reason = "a later record of the file has the same id"
        others = (fact.message.id for fact in ordered if kept[fact.message.id] is not fact)
        skipped = tuple(Skipped(what=str(id), reason=reason) for id in others)
        messages, redacted = await redact_messages([fact.message for fact in kept.values()], context.redactor)
        facts = [replace(fact, message=message) for fact, message in zip(kept.values(), messages, strict=True)]
        pages = [facts[start : start + PAGE] for start in range(0, len(facts), PAGE)]
        stored = [await _store(page, self.format, bank, context) for page in pages]
        return Retained.combined([Retained(skipped=skipped, redacted=redacted), *stored])


async def _store(stated: Sequence[StatedFact], engine: str, bank: BankId, context: RetainContext) -> Retained:
    """Store facts that the bank does not have, each with a message in its words that is not processed again."""
    messages = [
        # A line that is said later may have the same words: it is not this one.
        message.model_copy(update={"state": "curated", "key": None, "expires_at": fact.expires_at})
        for message, fact in zip(prepare([each.message for each in stated], infer=True), stated, strict=True)
    ]
    by_id = {message.id: (message, fact) for message, fact in zip(messages, stated, strict=True)}
    while True:
        revision = await context.store.revision(bank)
        known = {each.id for each in await context.store.messages(bank, MessageSelect(ids=list(by_id)))}
        new = {id: pair for id, pair in by_id.items() if id not in known}
        if not new:
            return stored_of(messages, set())
        drafts = tuple([_draft(message, fact) for message, fact in new.values()])
        encoded = await encode_drafts(bank, revision, ExtractionResult(drafts=drafts, engine=engine), context)
        changes = await plan_stated(bank, revision, encoded, context)
        stated_by = [new[item.fact.messages[0]][1] for item in changes.facts]
        ends = [{"expired_at": each.expired_at, "expires_at": each.expires_at} for each in stated_by]
        written = zip(changes.facts, ends, strict=True)
        facts = [replace(item, fact=item.fact.model_copy(update=end)) for item, end in written]
        mentioned = dict.fromkeys(mention.id for item in facts for mention in item.fact.entities)
        changes = replace(
            changes,
            facts=facts,
            messages=[message for message, _ in new.values()],
            jobs=[] if context.llm is None else [observation_job(id) for id in mentioned],
        )
        if await context.store.commit(changes):
            context.entity_cache.committed(bank, revision, changes)
            return Retained.combined([stored_of(messages, new.keys()), retained_by(changes, encoded.result.usage)])


def _draft(message: Message, stated: StatedFact) -> FactDraft:
    return FactDraft(
        key=message.id,
        network=stated.network,
        text=message.content,
        mentioned_at=message.timestamp,
        recorded_at=message.recorded_at,
        messages=(MessageId(message.id),),
        occurred=stated.occurred,
        valid_at=stated.valid_at,
        invalid_at=stated.invalid_at,
        entities=_names(message, stated),
        tags=message.tags,
        metadata=message.metadata,
    )


def _names(message: Message, stated: StatedFact) -> tuple[FoundName, ...]:
    """Return the names that the export gives, those in the text, and the speaker unless that is a number or code."""
    given = [FoundName(name=name) for name in stated.names if name.strip()]
    speaker = message.speaker or ""
    own = [FoundName(name=speaker, type="PERSON")] if speaker.replace(" ", "").isalpha() else []
    return merge_names(merge_names(own, find_names(message.content)), given)
