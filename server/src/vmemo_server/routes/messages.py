"""Routes that retain and forget messages, derive facts from them, and maintain the bank."""

from __future__ import annotations

from fastapi import Request, Response

from vmemo.models import Message
from vmemo.models.requests import (
    ForgetContentRequest,
    MaintainRequest,
    MessagesRequest,
    ProcessRequest,
    ReprocessRequest,
    RetainRequest,
)
from vmemo.models.results import Forgotten, Maintained, Retained
from vmemo_server import openapi
from vmemo_server.dependencies import AdminBank, CreateBank, Idempotent, ReadBank, WriteBank
from vmemo_server.idempotency import retain_once
from vmemo_server.problems import ProblemDetails, derivation_problem
from vmemo_server.responses import (
    BODY_ERRORS,
    LLM_ERRORS,
    READ_ERRORS,
    Cursor,
    CursorPage,
    Document,
    Limit,
    one_more,
    page_up_to,
    record,
)
from vmemo_server.state import IdempotentRequest

router = openapi.rest_router("messages", "/v1/banks/{bank}")


class RetainResponse(Retained):
    """The result of a retain. With a `problem` the messages are stored and queued, but not processed yet."""

    problem: ProblemDetails | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


@router.post(
    "/messages",
    response_model=RetainResponse,
    status_code=200,
    responses={**BODY_ERRORS, 202: {"model": RetainResponse}},
    openapi_extra=openapi.RETAIN,
)
async def retain(request: Request, session: CreateBank, body: RetainRequest, idempotency: Idempotent) -> Response:
    """Store messages and derive facts from them; create the bank if it does not exist.

    Messages are stored before anything else. 202 means that they are stored and still pending.
    """
    session.principal.check_batch(len(body.messages))

    async def execute(same: IdempotentRequest | None) -> Retained:
        return await (session.run(body) if same is None else retain_once(session.run, body, same))

    return await idempotency.execute(session, execute, lambda retained: _retain_response(request, body, retained))


def _retain_response(request: Request, body: RetainRequest, retained: Retained) -> Response:
    problem = None if retained.problem is None else derivation_problem(request, retained.problem)
    pending = body.infer and (not body.wait or problem is not None or retained.pending > 0)
    values = retained.model_dump(exclude={"problem"})
    return record(RetainResponse.of({**values, "problem": problem}), 202 if pending else 200)


@router.get("/messages", response_model=CursorPage[Message], responses=READ_ERRORS)
async def messages(session: ReadBank, document: Document = None, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List messages in the order they were stored."""
    request = MessagesRequest(document=document, after=cursor, limit=one_more(limit))
    return page_up_to(CursorPage[Message], await session.memory.run(request), limit, lambda message: message.id)


@router.post("/process", response_model=Retained, responses=LLM_ERRORS)
async def process(session: WriteBank, idempotency: Idempotent, body: ProcessRequest | None = None) -> Response:
    """Derive facts from all pending messages, including those that failed before."""
    return await idempotency.run(session, body or ProcessRequest(), record)


@router.post("/forget", response_model=Forgotten, responses=LLM_ERRORS, openapi_extra=openapi.FORGET)
async def forget(session: WriteBank, body: ForgetContentRequest, idempotency: Idempotent) -> Response:
    """Delete messages, a document or an entity, with everything derived from them."""
    return await idempotency.run(session, body, record)


@router.post("/maintain", response_model=Maintained, responses=BODY_ERRORS)
async def maintain(session: WriteBank, idempotency: Idempotent) -> Response:
    """Forget expired messages, join and shorten episodes, close faded facts, and optimise the indexes."""
    return await idempotency.run(session, MaintainRequest(), record)


@router.post("/reprocess", response_model=Retained, responses=LLM_ERRORS)
async def reprocess(session: AdminBank, idempotency: Idempotent) -> Response:
    """Derive everything from the messages again; the bank serves its current facts until that is done."""
    return await idempotency.run(session, ReprocessRequest(), record)
