"""The verbs that store messages, or the content of another product's export, and derive facts from them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from vmemo import errors
from vmemo.lifecycle.entity_merges import observation_job
from vmemo.lifecycle.forget import ungroup
from vmemo.memory.session import MemoryRuntime, MemorySession
from vmemo.models import BankId, FactId, Message, MessageId, utc_now
from vmemo.models.changes import ExtractionResult, FactDraft, FoundName
from vmemo.models.requests import ProcessRequest, RetainRequest
from vmemo.models.results import DerivationProblem, Retained, Skipped
from vmemo.models.select import FactSelect, MessageSelect
from vmemo.retain import pipeline
from vmemo.retain.pipeline import prepare, redact_messages, retained_by, store_messages, stored_of
from vmemo.retain.write_plan import encode_drafts, plan_stated
from vmemo.text.names import find_names, merge_names
from vmemo.transfer.foreign import ForeignFormat, ForeignRecords, StatedFact, read_foreign

OWN_TIME = timedelta(seconds=5)
"""Time in which a call that waits for facts derives them itself, before a worker also tries."""


async def retain(session: MemorySession, request: RetainRequest) -> Retained:
    """Store messages, then derive facts from them; a failure to derive is reported as `problem`."""
    await session.recheck()
    given, redacted = await redact_messages(request.texts, session.context.redactor)
    messages = pipeline.prepare(given, infer=request.infer)
    session.context.derived_messages.drop(session.bank, (message.id for message in messages))
    stored = await pipeline.store_messages(
        session.bank,
        messages,
        session.store,
        skipped=request.skipped,
        redacted=redacted,
        process_at=utc_now() + OWN_TIME if request.wait else None,
    )
    return await derive_stored(session, request, stored)


async def derive_stored(session: MemorySession, request: RetainRequest, stored: Retained) -> Retained:
    """Derive facts from messages that were stored, if the request wants to wait for them."""
    return await derive_facts(session, stored) if request.infer and request.wait else stored


async def derive_facts(session: MemorySession, stored: Retained) -> Retained:
    """Derive facts from messages that were stored; a failure is reported as `problem`."""
    pending = len(stored.stored)
    try:
        derived = await _process(session, stored.stored)
    except errors.EmbedderMismatch as error:
        # Another process finished `reembed` after the messages were stored.
        error.stored = stored.stored
        raise
    except (errors.DatabaseReplaced, errors.NotFound):
        # The messages are in the former file or bank.
        raise
    except Exception as error:
        # Also an error of the caller's own extractor or model: the messages are stored all the same.
        with suppress(errors.StoreError):
            pending = (await session.store.status(session.bank)).pending
        return stored.model_copy(update={"pending": pending, "problem": DerivationProblem.caused_by(error)})
    skipped = (*stored.skipped, *derived.skipped)
    return derived.model_copy(update={"stored": stored.stored, "skipped": skipped, "redacted": stored.redacted})


async def process(session: MemorySession, request: ProcessRequest) -> Retained:
    session.context.derived_messages.drop(session.bank, request.messages)
    try:
        return await _process(session, request.messages)
    except (errors.LLMFailed, errors.EmbeddingFailed) as error:
        raise DerivationProblem.caused_by(error).to_error() from error
    except errors.VmemoError:
        raise
    except Exception as error:
        raise DerivationProblem.caused_by(error).to_error() from error


async def derive(runtime: MemoryRuntime, bank: BankId, messages: Sequence[str] = ()) -> Retained:
    """Derive facts from a bank's pending messages; raise the first error after everything else is processed.

    Nothing is left to do if another call has derived all of these `messages` meanwhile. Errors of other jobs do not
    raise: `status()` reports them.
    """
    context = runtime.context
    if context.llm is None:
        async with context.bank_lock(bank):
            known = context.derived_messages.facts_of(bank, messages)
            return await _derive_locally(runtime, bank) if known is None else Retained(derived=known)
    result = await runtime.worker.drain(bank)
    if result.processing_errors:
        raise result.processing_errors[0]
    return result.retained


async def _derive_locally(runtime: MemoryRuntime, bank: BankId) -> Retained:
    context = runtime.context
    async with nullcontext() if runtime.requests is None else runtime.requests.derivation():
        if await context.store.jobs(bank, ["extract"]):
            # A language model began to process these messages; the local engine starts over.
            await ungroup(context.store, bank)
        return await pipeline.process(bank, context)


async def _process(session: MemorySession, messages: Sequence[str]) -> Retained:
    """Process all pending messages; if another worker was faster, report its facts of these messages."""
    try:
        derived = await derive(session.runtime, session.bank, messages)
    finally:
        session.runtime.start_background_jobs(session.bank)
    if not messages or derived.derived or derived.revised:
        return derived
    return derived.model_copy(update={"derived": await _facts_of(session, messages)})


async def _facts_of(session: MemorySession, messages: Sequence[str]) -> tuple[FactId, ...]:
    known = session.context.derived_messages.facts_of(session.bank, messages)
    if known is not None:
        return known
    facts = await session.store.facts(session.bank, FactSelect(messages=[MessageId(id) for id in messages]))
    # Facts without an episode were not derived from messages directly.
    return tuple(fact.id for fact in facts if fact.episodes)


PAGE = 500
"""Messages or facts that are committed together."""
R = TypeVar("R")


async def import_from(session: MemorySession, path: Path, format: ForeignFormat | None) -> Retained:
    """Validate and redact the records of a foreign export, store those that are new, and derive facts from them."""
    chosen, found = await asyncio.to_thread(read_foreign, path, format)
    facts, superseded = _newest(found.facts)
    records, redacted = await _redacted(session, replace(found, facts=facts, skipped=(*found.skipped, *superseded)))
    await session.open()
    messages = [*prepare(records.verbatim, infer=False), *prepare(records.messages, infer=True)]
    everything = Retained.combined(
        [
            Retained(skipped=tuple(records.skipped), redacted=redacted),
            *[await _store_facts(session, page, chosen) for page in _pages(records.facts)],
            *[await store_messages(session.bank, page, session.store) for page in _pages(messages)],
        ]
    )
    if not records.messages:
        return everything
    processed = await derive_facts(session, everything)
    if processed.problem is not None:
        return processed
    return processed.model_copy(update={"derived": tuple(dict.fromkeys((*everything.derived, *processed.derived)))})


def _newest(facts: Sequence[StatedFact]) -> tuple[list[StatedFact], list[Skipped]]:
    """Return the last of the facts with one id, which are in the order of time, and a report of the others."""
    kept = {fact.message.id: fact for fact in facts}
    reason = "a later record of the file has the same id"
    others = (fact.message.id for fact in facts if kept[fact.message.id] is not fact)
    return list(kept.values()), [Skipped(what=str(id), reason=reason) for id in others]


def _pages(records: Sequence[R]) -> list[Sequence[R]]:
    return [records[start : start + PAGE] for start in range(0, len(records), PAGE)]


async def _redacted(session: MemorySession, records: ForeignRecords) -> tuple[ForeignRecords, int]:
    given = records.messages, records.verbatim, [fact.message for fact in records.facts]
    redacted = [await redact_messages(each, session.context.redactor) for each in given]
    messages, verbatim, stated = (each for each, _ in redacted)
    facts = [replace(fact, message=message) for fact, message in zip(records.facts, stated, strict=True)]
    return replace(records, messages=messages, verbatim=verbatim, facts=facts), sum(count for _, count in redacted)


async def _store_facts(session: MemorySession, stated: Sequence[StatedFact], engine: str) -> Retained:
    """Store facts that the bank does not have, each with a message in its words that is not processed again."""
    context, bank = session.context, session.bank
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
