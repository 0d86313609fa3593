"""The verbs that forget, merge entities, maintain and reprocess a bank, and configure webhooks."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from contextlib import suppress

from vmemo.errors import InvalidInput, LLMFailed, NotFound, Unsupported
from vmemo.lifecycle import entity_merges, forget as forgetting, maintain as maintenance
from vmemo.lifecycle.forget import forgotten_by, plan_forget
from vmemo.lifecycle.reprocess import derivation_label, staging_bank, swap_in
from vmemo.memory.inspect import by_any_id, entity_id
from vmemo.memory.retain import derive, derive_stored, process
from vmemo.memory.session import MemorySession
from vmemo.models import Entity, EntityId, Fact, Merge, Message, MessageId, new_id, requests as r
from vmemo.models.changes import Changes, Deletions, ForgetTarget
from vmemo.models.records import Record
from vmemo.models.results import Forgotten, Maintained, Retained
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect
from vmemo.models.webhooks import MAX_WEBHOOKS, SignedWebhook, Webhook, names_private_host, split_webhook_url
from vmemo.ports import BankNotFound, WebhookStore, dimension_of
from vmemo.retain.pipeline import prepare, redact_messages, stored_of


async def forget(session: MemorySession, request: r.ForgetRequest | r.DeleteFactRequest) -> Forgotten:
    """Delete a target, and process again the messages that shared an episode with deleted ones."""
    if isinstance(request, r.ForgetRequest) and request.entity is not None:
        # Pending messages may mention the entity too.
        await _process_pending(session)
    target = await _target(session, request)
    forgetting.clear_cache(session.context.embedder)
    forgotten = await forgetting.forget(session.store, session.bank, target)
    if target.bank:
        session.runtime.open_banks.discard(session.bank)
    elif forgotten.requeued:
        await _process_pending(session)
    return forgotten


async def _process_pending(session: MemorySession) -> None:
    """Process pending messages. A model's failure must not prevent forgetting; `status()` reports it."""
    with suppress(LLMFailed):
        await process(session, r.ProcessRequest())


async def replace_messages(session: MemorySession, request: r.RetainRequest, removed: Sequence[str]) -> Retained:
    """Store messages and forget others in one commit, then derive facts."""
    await session.open()
    given, redacted = await redact_messages(request.texts, session.context.redactor)
    messages = prepare(given, infer=request.infer)
    wanted = MessageSelect(ids=[message.id for message in messages])
    before = {message.id for message in await session.store.messages(session.bank, wanted)}
    forgetting.clear_cache(session.context.embedder)
    await forgetting.replace_messages(session.store, session.bank, [MessageId(id) for id in removed], messages)
    after = {message.id for message in await session.store.messages(session.bank, wanted)}
    return await derive_stored(
        session, request, stored_of(messages, after - before, skipped=request.skipped, redacted=redacted)
    )


async def merge_entities(session: MemorySession, request: r.MergeEntitiesRequest) -> Merge:
    keep, absorb = await entity_id(session, request.keep), await entity_id(session, request.absorb)
    reason, observe = request.reason or "requested by the caller", session.context.llm is not None
    merge = await entity_merges.merge_entities(session.store, session.bank, keep, absorb, reason, observe=observe)
    return merge.public()


async def undo_merge(session: MemorySession, request: r.UndoMergeRequest) -> EntityId:
    observe = session.context.llm is not None
    return await entity_merges.undo_merge(session.store, session.bank, request.merge, observe=observe)


async def maintain(session: MemorySession) -> Maintained:
    done = await maintenance.maintain(session.bank, session.context)
    if done.forgotten:
        await _process_pending(session)
    return done


async def reprocess(session: MemorySession) -> Retained:
    """Derive everything into a staging bank, and swap it in once no message is pending."""
    await session.store.open()
    context, done = session.context, list[Retained]()
    engine = derivation_label(context)
    while True:
        try:
            staging = await staging_bank(
                session.store,
                session.bank,
                engine,
                embedder=context.embedder.name,
                dimension=await dimension_of(context.embedder),
            )
            session.runtime.staging_banks[session.bank] = staging
            done.append(await derive(session.runtime, staging))
            swapped = await swap_in(session.store, session.bank, context.embedder)
        except BankNotFound as error:
            if error.bank == session.bank:
                raise
            # A forget dropped the staging bank, or another reprocess swapped it in: begin again.
            continue
        if swapped:
            session.runtime.open_banks.discard(session.bank)
            return Retained.combined(done)


SHOWN = 20
"""Records of each kind that a preview holds."""


class ForgetPreview(Record):
    """The counts of what a request would delete, and the first records of each kind."""

    counts: Forgotten
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()


async def preview_forget(session: MemorySession, request: r.ForgetRequest | r.DeleteFactRequest) -> ForgetPreview:
    """Return what a request would delete. Pending messages are not processed first, as forgetting an entity does."""
    await session.open()
    store, bank = session.store, session.bank
    if isinstance(request, r.ForgetRequest) and request.bank:
        status = await store.status(bank)
        names = ("messages", "facts", "episodes", "entities")
        return ForgetPreview(counts=Forgotten.of({name: getattr(status, name) for name in names}))
    changes = await plan_forget(store, bank, await _target(session, request))
    deleted = changes.deleted
    return ForgetPreview(
        counts=forgotten_by(changes),
        messages=tuple(await store.messages(bank, MessageSelect(ids=list(deleted.messages[:SHOWN])))),
        facts=tuple(await store.facts(bank, FactSelect(ids=list(deleted.facts[:SHOWN])))),
        entities=tuple(await store.entities(bank, EntitySelect(ids=list(deleted.entities[:SHOWN])))),
    )


async def _target(session: MemorySession, request: r.ForgetRequest | r.DeleteFactRequest) -> ForgetTarget:
    if isinstance(request, r.DeleteFactRequest):
        found = await by_any_id(session, request.fact)
        return ForgetTarget(fact=found.id) if isinstance(found, Fact) else ForgetTarget(messages=[found.id])
    if request.entity is not None:
        return ForgetTarget(entity=await entity_id(session, request.entity))
    return ForgetTarget(
        messages=[MessageId(id) for id in request.messages], document=request.document, bank=request.bank
    )


async def add_webhook(session: MemorySession, request: r.AddWebhookRequest) -> SignedWebhook:
    host = split_webhook_url(request.url).hostname or ""
    if names_private_host(host) and not session.context.settings.webhook_private:
        raise InvalidInput(
            f"A webhook can't reach the private host {host!r}. Nothing was stored. Use a public one, or set "
            "VMEMO_WEBHOOK_PRIVATE=true (Settings(webhook_private=True)) where workers may call private addresses."
        )
    stored = await stored_webhooks(session)
    if (known := next((each for each in stored if each.id == request.id), None)) is not None:
        return known
    if len(stored) >= MAX_WEBHOOKS:
        raise InvalidInput(f"A bank has at most {MAX_WEBHOOKS} webhooks. Nothing was stored. Delete one first.")
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    events = tuple(dict.fromkeys(request.events))
    new = SignedWebhook(id=request.id or new_id(), url=request.url, events=events, secret=secret)
    await session.store.commit(Changes(bank=session.bank, webhooks=[new]))
    return new


async def delete_webhook(session: MemorySession, request: r.DeleteWebhookRequest) -> Webhook:
    found = next((each.public() for each in await stored_webhooks(session) if each.id == request.webhook), None)
    if found is None:
        raise NotFound(f"There is no webhook {request.webhook!r} in bank {session.bank!r}.")
    queued = await session.store.jobs(session.bank, ["webhook"])
    gone = Deletions(webhooks=[found.id], jobs=[job.id for job in queued if job.detail["webhook"] == found.id])
    await session.store.commit(Changes(bank=session.bank, deleted=gone))
    return found


async def stored_webhooks(session: MemorySession) -> list[SignedWebhook]:
    if not isinstance(session.store, WebhookStore):
        raise Unsupported(
            f"{type(session.store).__name__} can't store webhooks: it does not implement the WebhookStore port."
        )
    return await session.store.webhooks(session.bank)
