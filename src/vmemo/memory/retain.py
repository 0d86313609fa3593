"""The verbs that store messages, or the content of another product's export, and derive facts from them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path

from vmemo import errors
from vmemo.lifecycle.forget import ungroup
from vmemo.memory.session import MemoryRuntime, MemorySession
from vmemo.models import BankId, MessageId, utc_now
from vmemo.models.requests import ProcessRequest, RetainRequest
from vmemo.models.results import DerivationProblem, Retained
from vmemo.models.select import FactSelect
from vmemo.retain import pipeline
from vmemo.retain.pipeline import prepare, redact_messages, store_messages
from vmemo.transfer.foreign import ForeignFormat, read_foreign

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
    if result.processing_error is not None:
        raise result.processing_error
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
    known = session.context.derived_messages.facts_of(session.bank, messages)
    if known is None:
        facts = await session.store.facts(session.bank, FactSelect(messages=[MessageId(id) for id in messages]))
        # Facts without an episode were not derived from messages directly.
        known = tuple(fact.id for fact in facts if fact.episodes)
    return derived.model_copy(update={"derived": known})


PAGE = 500
"""Messages that are committed together."""


async def import_from(session: MemorySession, path: Path, format: ForeignFormat | None) -> Retained:
    """Validate and redact the records of a foreign export, store those that are new, and derive facts from them."""
    found = await asyncio.to_thread(read_foreign, path, format)
    spoken, redacted = await redact_messages(found.messages, session.context.redactor)
    verbatim, more = await redact_messages(found.verbatim, session.context.redactor)
    await session.open()
    messages = [*prepare(verbatim, infer=False), *prepare(spoken, infer=True)]
    parts = [Retained(skipped=tuple(found.skipped), redacted=redacted + more)]
    if found.store_facts is not None:
        parts.append(await found.store_facts(session.bank, session.context))
    for start in range(0, len(messages), PAGE):
        parts.append(await store_messages(session.bank, messages[start : start + PAGE], session.store))
    everything = Retained.combined(parts)
    if not found.messages:
        return everything
    processed = await derive_facts(session, everything)
    if processed.problem is not None:
        return processed
    return processed.model_copy(update={"derived": tuple(dict.fromkeys((*everything.derived, *processed.derived)))})
