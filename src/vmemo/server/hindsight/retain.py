"""Retain, as Hindsight's client asks for it.

An operation's messages have its id in theirs, so that nothing else must be kept to tell how far it is, and a repeated
operation stores nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Response

from vmemo.errors import EmbeddingFailed, InvalidInput, LLMFailed, NotFound, OutcomeUnknown, StoreBusy
from vmemo.memory.lookup import Lookup
from vmemo.models import Message, MessageId, new_id
from vmemo.server.dependencies import Visit
from vmemo.server.hindsight.dependencies import BANK, Making, Writing
from vmemo.server.hindsight.items import Item, Retain
from vmemo.server.hindsight.schemas import Deleted, Kept, Tokens
from vmemo.server.hindsight.unsupported import absent
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import Refused
from vmemo.server.responses import record

router = APIRouter(route_class=ExactRoute)
_FIRST = 16


@dataclass(frozen=True)
class Plan:
    """What a retain changes: messages to store, and messages of replaced documents that are no longer told.

    `clashing` are those of the latter whose line is told again with other tags or metadata; while they are there the
    new ones would be taken for repetitions.
    """

    fresh: Sequence[Message]
    clashing: Sequence[MessageId]
    gone: Sequence[MessageId]


async def messages_of(operation: str, lookup: Lookup) -> list[Message]:
    """The messages that an operation stored, in order."""
    found: list[Message] = []
    size = _FIRST
    while True:
        ids = [MessageId(f"{operation}.{n}") for n in range(len(found), len(found) + size)]
        page = {message.id: message for message in await lookup.messages(ids)}
        found += [page[id] for id in ids if id in page]
        if len(page) < size:
            return found
        size *= 2


async def planned(body: Retain, operation: str, lookup: Lookup) -> Plan:
    """Compare items with the documents that they replace: a line that is told again stays as it is."""
    named = dict.fromkeys(item.document_id for item in body.items if item.document_id)
    replaced = {document for document in named if body.mode(document) == "replace"}
    old = [message for document in named async for message in lookup.every_message(document)]
    left, fresh = list(old), list[Message]()
    for item in body.items:
        tags = body.document_tags or ()
        message = item.message(f"{operation}.{len(fresh)}", item.document_id or operation, tags)
        same = next((other for other in left if _same(item, message, other)), None)
        if same is None:
            fresh.append(message)
        else:
            left.remove(same)
    lines = {(message.document, message.content, message.timestamp) for message in fresh}
    gone = [message for message in left if message.document in replaced]
    clashing = [m.id for m in gone if (m.document, m.content, m.timestamp) in lines]
    return Plan(fresh, clashing, [message.id for message in gone if message.id not in clashing])


def _same(item: Item, new: Message, old: Message) -> bool:
    """Whether a stored line is what is told; one without a time of its own may have been told at any."""
    timed = item.said_at is None or new.timestamp == old.timestamp
    told = (new.document, new.content, new.tags, new.metadata)
    return timed and told == (old.document, old.content, old.tags, dict(old.metadata))


@router.post(f"{BANK}/memories")
async def retain(visit: Making, body: Retain) -> Response:
    """Store items and read them, at once or later. A document that is told again is replaced, unless appended to."""
    most = visit.guest.house.limits.batch
    if len(body.items) > most:
        raise InvalidInput(f"A request may hold {most:,} items here, not {len(body.items):,}. Nothing was stored.")
    body.check()
    await visit.memory.open()
    operation = body.operation_id or new_id()
    if body.operation_id and (known := await messages_of(operation, visit.memory.lookup)):
        return _again(visit, body, known)
    plan = await planned(body, operation, visit.memory.lookup)
    await _carry_out(visit, plan)
    return record(await _kept(visit, body, operation, plan))


async def _carry_out(visit: Visit, plan: Plan) -> None:
    """The new comes before the old goes, so that a failure in between loses as little as can be."""
    if plan.clashing:
        await _forget(visit, plan.clashing)
    if plan.fresh:
        await visit.memory.add_messages(plan.fresh)
    if plan.gone:
        await _forget(visit, plan.gone)


async def _forget(visit: Visit, ids: Sequence[MessageId]) -> None:
    """Forget messages, of which another request may have forgotten some meanwhile."""
    left = list(ids)
    while left:
        try:
            await visit.memory.forget(messages=left)
            return
        except NotFound:
            left = [message.id for message in await visit.memory.lookup.messages(left)]


async def _kept(visit: Visit, body: Retain, operation: str, plan: Plan) -> Kept:
    """Read what is stored. What can't be read now is read later, which the answer tells."""
    later = Kept(bank_id=visit.bank, items_count=len(body.items), is_async=True, operation_id=operation)
    if body.is_async and plan.fresh:
        return later
    try:
        usage = (await visit.memory.process()).usage
    except (LLMFailed, EmbeddingFailed, StoreBusy, OutcomeUnknown):
        return later if plan.fresh else later.model_copy(update={"operation_id": None})
    return later.model_copy(update={"is_async": False, "operation_id": None, "usage": Tokens.of(usage)})


def _again(visit: Visit, body: Retain, known: Sequence[Message]) -> Response:
    texts = {item.text for item in body.items}
    if any(message.content not in texts for message in known):
        raise Refused(409, "KeyReused", "This operation_id was used for other items; take a new one.")
    count = len(body.items)
    return record(Kept(bank_id=visit.bank, items_count=count, is_async=True, operation_id=body.operation_id))


@router.delete(f"{BANK}/memories")
async def clear(visit: Writing, type: str | None = None) -> Response:
    """Forget everything that the bank was told; the bank and its profile stay."""
    if type:
        raise absent("type", "Facts of one type rest on the same messages as others; forget documents, or all.")
    told = [message.id async for message in visit.memory.lookup.every_message()]
    gone = (await visit.memory.forget(messages=told)).facts if told else 0
    return record(Deleted(message=f"{len(told)} messages are forgotten.", deleted_count=gone))
