"""Routes that ask a bank: recall, retrieve and reflect."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from vmemo import Memory
from vmemo.errors import InvalidInput, VmemoError
from vmemo.memory.reflect import ReflectOptions
from vmemo.models.recalled import Recalled
from vmemo.models.results import Answer, Event, MemoryLookup, Retracted, TextDelta
from vmemo.server import requests
from vmemo.server.dependencies import Reading, Visit
from vmemo.server.paths import ExactRoute
from vmemo.server.problems import of_vmemo
from vmemo.server.responses import MODELS, READS, record

router = APIRouter(prefix="/v1/banks/{bank}", tags=["ask"], route_class=ExactRoute)
_STREAM = "text/event-stream"
PING = 15
"""Seconds of silence after which a comment is sent, so that nobody on the way takes the connection for dead."""


@router.post("/recall", response_model=Recalled, responses=READS)
async def recall(visit: Reading, body: requests.Recall) -> Response:
    """Facts by relevance whose tokens sum to at most `max_tokens`."""
    _affordable(visit, body.max_tokens)
    found = await visit.memory.recall(body.query, body.max_tokens, body.budget, **body.options())
    return record(found)


@router.post("/retrieve", response_model=Recalled, responses=READS)
async def retrieve(visit: Reading, body: requests.Retrieve) -> Response:
    """The same as recall, with a count in place of the token budget."""
    return record(await visit.memory.retrieve(body.query, body.top_k, **body.options()))


@router.post(
    "/reflect",
    response_model=Answer,
    responses={**MODELS, 200: {"content": {_STREAM: {}}, "description": "The answer, or events with it as the last"}},
)
async def reflect(request: Request, visit: Reading, body: requests.Reflect) -> Response:
    """Answer from memory with citations.

    With `Accept: text/event-stream` it is told on the way: `looked`, `piece` and `withdrawn` events, then `answer`, or
    `problem` if it fails. The pieces since the beginning, or since the last `withdrawn`, are the answer's text.
    """
    _affordable(visit, body.max_tokens)
    options = _options(visit, body)
    if _STREAM in request.headers.get("accept", ""):
        return EventSourceResponse(_events(request, visit.memory, body.query, options), ping=PING)
    return record(await visit.memory.reflect(body.query, **options))


def _affordable(visit: Visit, tokens: int) -> None:
    most = visit.guest.house.limits.max_tokens
    if tokens > most:
        raise InvalidInput(f"max_tokens may be {most:,} here, not {tokens:,}.")


def _options(visit: Visit, body: requests.Reflect) -> ReflectOptions:
    """A guest who may not write gets an answer that forms no opinion."""
    return {
        **body.options(),
        "max_tokens": body.max_tokens,
        "budget": body.budget,
        "looks": body.looks,
        "schema": body.answer_schema,
        "opinions": body.opinions and visit.guest.may("write", visit.bank),
    }


async def _events(
    request: Request, memory: Memory, query: str, options: ReflectOptions
) -> AsyncGenerator[ServerSentEvent]:
    try:
        async with aclosing(memory.reflect_stream(query, **options)) as events:
            async for event in events:
                yield ServerSentEvent(event.model_dump_json(), event=_name(event))
    except VmemoError as error:
        # The response has begun, so that its status can't tell any more.
        problem = await of_vmemo(request, error)
        yield ServerSentEvent(bytes(problem.body).decode(), event="problem")


def _name(event: Event) -> str:
    match event:
        case MemoryLookup():
            return "looked"
        case TextDelta():
            return "piece"
        case Retracted():
            return "withdrawn"
        case Answer():
            return "answer"
