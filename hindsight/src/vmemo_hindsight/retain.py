"""Routes that retain items and clear memories.

The ids of an operation's messages start with the operation's id. They show its progress, so nothing else is stored for
it, and a repeated operation stores nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response

from vmemo.memory.lookup import Lookup
from vmemo.models import Message, MessageId, new_id
from vmemo.models.requests import RetainRequest
from vmemo_hindsight.dependencies import BANK, CreateBank, WriteBank
from vmemo_hindsight.document_changes import DocumentChanges, document_changes
from vmemo_hindsight.items import HindsightRetain
from vmemo_hindsight.requests import unsupported_option
from vmemo_hindsight.schemas import DeleteResponse, HindsightRetainResponse, TokenUsage
from vmemo_server.dependencies import RequestSession
from vmemo_server.paths import ExactRoute
from vmemo_server.problems import HttpProblem
from vmemo_server.responses import record

router = APIRouter(include_in_schema=False, route_class=ExactRoute)
_FIRST_PAGE = 16


async def messages_of(operation: str, lookup: Lookup) -> list[Message]:
    """Return the messages that an operation stored, in order."""
    found: list[Message] = []
    size = _FIRST_PAGE
    while True:
        ids = [MessageId(f"{operation}.{n}") for n in range(len(found), len(found) + size)]
        page = {message.id: message for message in await lookup.messages(ids)}
        found += [page[id] for id in ids if id in page]
        if len(page) < size:
            return found
        size *= 2


@router.post(f"{BANK}/memories")
async def retain(session: CreateBank, body: HindsightRetain) -> Response:
    """Store items and derive facts from them, now or later. A repeated document is replaced, unless appended to."""
    session.principal.check_batch(len(body.items))
    body.check()
    await session.memory.open()
    operation = body.operation_id or new_id()
    if body.operation_id and (known := await messages_of(operation, session.memory.lookup)):
        return _repeated(session, body, known)
    changes = await document_changes(body, operation, session.memory.lookup)
    return record(await _retain(session, body, operation, changes))


async def _retain(
    session: RequestSession, body: HindsightRetain, operation: str, changes: DocumentChanges
) -> HindsightRetainResponse:
    """Store the messages in place of those they replace, in one transaction, and derive facts from them.

    Messages that stay pending are reported as an asynchronous operation.
    """
    wait = not (body.is_async and changes.added)
    request = RetainRequest(messages=(*changes.added, *changes.unchanged), wait=wait)
    if changes.removed:
        async with session.erasing():
            retained = await session.memory.replace_messages(request, changes.removed)
    else:
        retained = await session.memory.run(request)
    pending = not wait or retained.problem is not None
    return HindsightRetainResponse(
        bank_id=session.bank,
        items_count=len(body.items),
        is_async=pending,
        operation_id=operation if pending and changes.added else None,
        usage=None if pending else TokenUsage.of(retained.usage),
    )


def _repeated(session: RequestSession, body: HindsightRetain, known: Sequence[Message]) -> Response:
    texts = {item.text for item in body.items}
    if any(message.content not in texts for message in known):
        raise HttpProblem(409, "OperationIdReused", "This operation_id was used for other items; use a new one.")
    count = len(body.items)
    return record(
        HindsightRetainResponse(bank_id=session.bank, items_count=count, is_async=True, operation_id=body.operation_id)
    )


@router.delete(f"{BANK}/memories")
async def clear(session: WriteBank, type: str | None = None) -> Response:
    """Forget all messages; the bank and its profile stay."""
    if type:
        raise unsupported_option(
            "type", "Facts of different types are derived from the same messages; delete documents, or all memories."
        )
    messages = [message.id async for message in session.memory.lookup.every_message()]
    async with session.erasing():
        deleted = (await session.memory.forget(messages=messages)).facts if messages else 0
    return record(DeleteResponse(message=f"Deleted {len(messages)} messages.", deleted_count=deleted))
