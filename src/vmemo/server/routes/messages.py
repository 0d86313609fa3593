"""Routes that keep and forget: messages, what is derived from them, and upkeep."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from fastapi import APIRouter, Request, Response

from vmemo.errors import EmbeddingFailed, InvalidInput, LLMFailed, OutcomeUnknown, StoreBusy, StoreError
from vmemo.models import Message, MessageId
from vmemo.models.results import Forgotten, Maintained, Retained
from vmemo.server import requests
from vmemo.server.dependencies import Making, Reading, Ruling, Token, Visit, Writing
from vmemo.server.paging import Cursor, Document, Limit
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import problem_of
from vmemo.server.responses import LOOKS, MODELS, WRITES, Page, one_more, paged, record, recorded

router = APIRouter(prefix="/v1/banks/{bank}", tags=["keep"], route_class=ExactRoute)


@router.post(
    "/messages", response_model=requests.Kept, status_code=200, responses={**WRITES, 202: {"model": requests.Kept}}
)
async def retain(request: Request, visit: Making, body: requests.Retain, token: Token) -> Response:
    """Store messages and derive facts from them; a bank that is not there is made.

    They are stored before anything else is done. 202 tells that they are stored and wait to be read.
    """
    most = visit.guest.house.limits.batch
    if len(body.messages) > most:
        raise InvalidInput(
            f"A request may hold {most:,} messages here, not {len(body.messages):,}. Nothing was stored."
        )
    return await visit.once(request, token, lambda: _retain(request, visit, body))


async def _retain(request: Request, visit: Visit, body: requests.Retain) -> Response:
    stored = await visit.memory.add_messages([new.message() for new in body.messages], infer=body.infer)
    kept = requests.Kept.of(stored.model_dump())
    if not body.infer:
        return record(kept)
    if not body.wait:
        return record(kept, 202)
    try:
        derived = await visit.memory.process(stored.stored)
    except (LLMFailed, EmbeddingFailed, StoreBusy, OutcomeUnknown) as error:
        told = {"pending": await _waiting(visit, stored), "problem": problem_of(request, error)}
        return record(kept.model_copy(update=told), 202)
    both = {"stored": stored.stored, "skipped": (*stored.skipped, *derived.skipped)}
    return record(requests.Kept.of({**derived.model_dump(), **both}))


async def _waiting(visit: Visit, stored: Retained) -> int:
    """How many messages are unread; of a database that is away only these are known of."""
    with suppress(StoreError):
        return (await visit.memory.status()).pending
    return len(stored.stored)


@router.get("/messages", response_model=Page[Message], responses=LOOKS)
async def messages(visit: Reading, document: Document = None, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """The archive in the order it was stored."""
    after = None if cursor is None else MessageId(cursor)
    found = await visit.memory.messages(document=document, after=after, limit=one_more(limit))
    return paged(Page[Message], found, limit, lambda message: message.id)


@router.post("/process", response_model=Retained, responses=MODELS)
async def process(request: Request, visit: Writing, token: Token, body: requests.Process | None = None) -> Response:
    """Derive facts from all unread messages, also from those that failed before."""
    awaited = [] if body is None else body.messages
    return await visit.once(request, token, lambda: recorded(visit.memory.process(awaited)))


@router.post("/forget", response_model=Forgotten, responses=MODELS)
async def forget(request: Request, visit: Writing, body: requests.Forget, token: Token) -> Response:
    """Delete messages, a document or an entity, with everything that rests on them."""
    named = {"document": body.document, "entity": body.entity}
    gone = partial(visit.memory.forget, messages=body.messages or (), **named)
    return await visit.once(request, token, lambda: recorded(gone()))


@router.post("/maintain", response_model=Maintained, responses=WRITES)
async def maintain(request: Request, visit: Writing, token: Token) -> Response:
    """Join episodes that belong together, shorten old ones, close what has faded, and tidy the indexes."""
    return await visit.once(request, token, lambda: recorded(visit.memory.maintain()))


@router.post("/reprocess", response_model=Retained, responses=MODELS)
async def reprocess(request: Request, visit: Ruling, token: Token) -> Response:
    """Derive everything from the messages again; the bank answers from what it has until that is done."""
    return await visit.once(request, token, lambda: recorded(visit.memory.reprocess()))
