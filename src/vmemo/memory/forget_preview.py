"""A preview of forgetting: what a request would delete, without deleting it."""

from __future__ import annotations

from vmemo.lifecycle.forget import plan_forget
from vmemo.memory.inspect import by_any_id, entity_id
from vmemo.memory.session import MemorySession
from vmemo.models import Entity, Fact, Message, MessageId
from vmemo.models.base import Record
from vmemo.models.changes import ForgetTarget
from vmemo.models.requests import DeleteFactRequest, ForgetRequest
from vmemo.models.results import Forgotten
from vmemo.models.select import EntitySelect, FactSelect, MessageSelect

SHOWN = 20
"""Records of each kind that a preview holds."""


class ForgetPreview(Record):
    """The counts of what a request would delete, and the first records of each kind."""

    counts: Forgotten
    messages: tuple[Message, ...] = ()
    facts: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()


async def preview_forget(session: MemorySession, request: ForgetRequest | DeleteFactRequest) -> ForgetPreview:
    """Return what a request would delete. Pending messages are not processed first, as forgetting an entity does."""
    await session.open()
    store, bank = session.store, session.bank
    if isinstance(request, ForgetRequest) and request.bank:
        status = await store.status(bank)
        names = ("messages", "facts", "episodes", "entities")
        return ForgetPreview(counts=Forgotten.of({name: getattr(status, name) for name in names}))
    plan = await plan_forget(store, bank, await _target(session, request))
    deleted = plan.changes.deleted
    return ForgetPreview(
        counts=plan.counts,
        messages=tuple(await store.messages(bank, MessageSelect(ids=list(deleted.messages[:SHOWN])))),
        facts=tuple(await store.facts(bank, FactSelect(ids=list(deleted.facts[:SHOWN])))),
        entities=tuple(await store.entities(bank, EntitySelect(ids=list(deleted.entities[:SHOWN])))),
    )


async def _target(session: MemorySession, request: ForgetRequest | DeleteFactRequest) -> ForgetTarget:
    if isinstance(request, DeleteFactRequest):
        found = await by_any_id(session, request.fact)
        return ForgetTarget(fact=found.id) if isinstance(found, Fact) else ForgetTarget(messages=[found.id])
    if request.entity is not None:
        return ForgetTarget(entity=await entity_id(session, request.entity))
    return ForgetTarget(messages=[MessageId(id) for id in request.messages], document=request.document)
