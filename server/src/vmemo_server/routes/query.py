"""Routes that query a bank: recall, retrieve, context and reflect."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from vmemo import Memory
from vmemo.errors import InvalidInput, VmemoError
from vmemo.models.prompt_context import PromptContext
from vmemo.models.recalled import Recalled
from vmemo.models.requests import ContextRequest, RecallRequest, ReflectRequest, RetrieveRequest
from vmemo.models.results import Answer, Event, MemoryLookup, Retracted, TextDelta
from vmemo_server import openapi
from vmemo_server.dependencies import Idempotent, ReadBank, RequestSession, SearchBank, begin_write
from vmemo_server.problems import problem_of
from vmemo_server.responses import BODY_ERRORS, LLM_ERRORS, PROMPT_RESPONSE, Format, formatted, record

router = openapi.rest_router("query", "/v1/banks/{bank}")
PING_SECONDS = 15
"""Seconds of silence after which a comment is sent, so that no proxy closes the connection."""
EVENT_STREAM = "text/event-stream"
_FORMATS = {**BODY_ERRORS, **PROMPT_RESPONSE}


@router.post("/recall", response_model=Recalled, responses=_FORMATS, openapi_extra=openapi.RECALL)
async def recall(session: SearchBank, body: RecallRequest, format: Format) -> Response:
    """Return facts by relevance whose tokens sum to at most `max_tokens`; the last one may be cut (`truncated`).

    Each has a `status`. A prompt has at most `max_tokens` in all. With `banks`, these are searched together in place of
    the bank of the path, which only has to exist; the key needs read permission for each of them.
    """
    session.principal.check_max_tokens(body.max_tokens)
    found = await _found(session, body)
    return await formatted(found, format, found.to_prompt)


@router.post("/retrieve", response_model=Recalled, responses=_FORMATS, openapi_extra=openapi.RETRIEVE)
async def retrieve(session: SearchBank, body: RetrieveRequest, format: Format) -> Response:
    """Return the `top_k` most relevant facts."""
    found = await _found(session, body)
    return await formatted(found, format, found.to_prompt)


async def _found(session: RequestSession, body: RecallRequest | RetrieveRequest) -> Recalled:
    session.principal.check_banks(body)
    return await session.memory.run(body)


@router.post(
    "/context",
    response_model=PromptContext,
    responses=_FORMATS,
    openapi_extra=openapi.CONTEXT,
)
async def context(session: ReadBank, body: ContextRequest, format: Format) -> Response:
    """Return one block of memories for a system prompt: who the user is, instructions, constraints, relevant facts.

    `text` has at most `max_tokens` in all, and no fact twice. With a `session`, its start is the same at every turn.
    """
    session.principal.check_max_tokens(body.max_tokens)
    session.principal.check_banks(body)
    found = await session.memory.without_creation().run(body)
    return await formatted(found, format, found.__str__)


@router.post(
    "/reflect",
    response_model=Answer,
    responses={
        **LLM_ERRORS,
        200: {"content": {EVENT_STREAM: {}}, "description": "The answer, or a stream of events that ends with it"},
    },
    openapi_extra=openapi.REFLECT,
)
async def reflect(request: Request, session: ReadBank, body: ReflectRequest, idempotency: Idempotent) -> Response:
    """Answer a question from memory with citations.

    With `Accept: text/event-stream` the answer is streamed: `lookup`, `delta` and `retracted` events, then `answer`, or
    `problem` if it fails. The deltas since the start, or since the last `retracted`, are the answer's text. A key
    without write permission gets an answer that stores no opinion.
    """
    session.principal.check_max_tokens(body.max_tokens)
    if not session.principal.allows("write", session.bank):
        body = body.model_copy(update={"opinions": False})
    elif body.opinions and session.memory.forms_opinions:
        await begin_write(request, "rest", session.bank)
    if EVENT_STREAM in request.headers.get("accept", ""):
        if idempotency.key is not None:
            raise InvalidInput(
                "A streamed answer can't be returned again; send no Idempotency-Key, or no Accept header."
            )
        return EventSourceResponse(_events(request, session.memory, body), ping=PING_SECONDS)
    if not body.opinions:
        return record(await session.memory.run(body))
    return await idempotency.run(session, body, record, has_effect=_changes_opinions)


def _changes_opinions(answer: Answer) -> bool:
    return bool(answer.formed or answer.confidence_changes)


async def _events(request: Request, memory: Memory, body: ReflectRequest) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(memory.stream(body)) as events:
            async for event in events:
                yield ServerSentEvent(event.model_dump_json(), event=_event_name(event))
    except VmemoError as error:
        # The response has started, so its status can't report the error.
        yield ServerSentEvent(problem_of(request, error).model_dump_json(), event="problem")


def _event_name(event: Event) -> str:
    match event:
        case MemoryLookup():
            return "lookup"
        case TextDelta():
            return "delta"
        case Retracted():
            return "retracted"
        case Answer():
            return "answer"
