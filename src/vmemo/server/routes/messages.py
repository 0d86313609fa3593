"""Routes that retain and forget messages, derive facts from them, and maintain the bank."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from fastapi import APIRouter, Request, Response

from vmemo.errors import EmbeddingFailed, LLMFailed, OutcomeUnknown, StoreBusy, StoreError
from vmemo.models import Message, MessageId
from vmemo.models.results import Forgotten, Maintained, Retained
from vmemo.server import requests
from vmemo.server.dependencies import AdminBank, CreateBank, Idempotent, ReadBank, RequestSession, WriteBank
from vmemo.server.paging import Cursor, Document, Limit
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import problem_of
from vmemo.server.responses import (
    BODY_ERRORS,
    LLM_ERRORS,
    READ_ERRORS,
    CursorPage,
    one_more,
    page_up_to,
    record,
    record_of,
)

router = APIRouter(prefix="/v1/banks/{bank}", tags=["messages"], route_class=ExactRoute)


@router.post(
    "/messages",
    response_model=requests.RetainResponse,
    status_code=200,
    responses={**BODY_ERRORS, 202: {"model": requests.RetainResponse}},
)
async def retain(request: Request, session: CreateBank, body: requests.Retain, idempotency: Idempotent) -> Response:
    """Store messages and derive facts from them; create the bank if it does not exist.

    Messages are stored before anything else. 202 means that they are stored and still pending.
    """
    session.principal.check_batch(len(body.messages))
    return await idempotency.run(session, lambda: _retain(request, session, body))


async def _retain(request: Request, session: RequestSession, body: requests.Retain) -> Response:
    stored = await session.memory.add_messages([new.message() for new in body.messages], infer=body.infer)
    kept = requests.RetainResponse.of(stored.model_dump())
    if not body.infer:
        return record(kept)
    if not body.wait:
        return record(kept, 202)
    try:
        derived = await session.memory.process(stored.stored)
    except (LLMFailed, EmbeddingFailed, StoreBusy, OutcomeUnknown) as error:
        told = {"pending": await _waiting(session, stored), "problem": problem_of(request, error)}
        return record(kept.model_copy(update=told), 202)
    both = {"stored": stored.stored, "skipped": (*stored.skipped, *derived.skipped)}
    return record(requests.RetainResponse.of({**derived.model_dump(), **both}))


async def _waiting(session: RequestSession, stored: Retained) -> int:
    with suppress(StoreError):
        return (await session.memory.status()).pending
    return len(stored.stored)


@router.get("/messages", response_model=CursorPage[Message], responses=READ_ERRORS)
async def messages(session: ReadBank, document: Document = None, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List messages in the order they were stored."""
    after = None if cursor is None else MessageId(cursor)
    found = await session.memory.messages(document=document, after=after, limit=one_more(limit))
    return page_up_to(CursorPage[Message], found, limit, lambda message: message.id)


@router.post("/process", response_model=Retained, responses=LLM_ERRORS)
async def process(session: WriteBank, idempotency: Idempotent, body: requests.Process | None = None) -> Response:
    """Derive facts from all pending messages, including those that failed before."""
    awaited = [] if body is None else body.messages
    return await idempotency.run(session, lambda: record_of(session.memory.process(awaited)))


@router.post("/forget", response_model=Forgotten, responses=LLM_ERRORS)
async def forget(session: WriteBank, body: requests.Forget, idempotency: Idempotent) -> Response:
    """Delete messages, a document or an entity, with everything derived from them."""
    named = {"document": body.document, "entity": body.entity}
    forgotten = partial(session.memory.forget, messages=body.messages or (), **named)
    return await idempotency.run(session, lambda: record_of(forgotten()))


@router.post("/maintain", response_model=Maintained, responses=BODY_ERRORS)
async def maintain(session: WriteBank, idempotency: Idempotent) -> Response:
    """Join related episodes, shorten old ones, close faded facts, and optimise the indexes."""
    return await idempotency.run(session, lambda: record_of(session.memory.maintain()))


@router.post("/reprocess", response_model=Retained, responses=LLM_ERRORS)
async def reprocess(session: AdminBank, idempotency: Idempotent) -> Response:
    """Derive everything from the messages again; the bank serves its current facts until that is done."""
    return await idempotency.run(session, lambda: record_of(session.memory.reprocess()))
