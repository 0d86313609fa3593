"""Routes for one fact: read it and its history, edit, pin and delete it."""

from __future__ import annotations

from fastapi import APIRouter, Response

from vmemo.models import Fact
from vmemo.models.base import Name
from vmemo.models.requests import DeleteFactRequest, FactText, PinFactRequest, PinState, UpdateFactRequest
from vmemo.models.results import Forgotten
from vmemo_server import examples
from vmemo_server.dependencies import Idempotent, ReadBank, WriteBank
from vmemo_server.openapi import operation_id
from vmemo_server.paths import ExactRoute
from vmemo_server.responses import BODY_ERRORS, LLM_ERRORS, READ_ERRORS, CursorPage, page, record

router = APIRouter(
    generate_unique_id_function=operation_id,
    prefix="/v1/banks/{bank}/facts/{fact}",
    tags=["facts"],
    route_class=ExactRoute,
)


@router.get("", response_model=Fact, responses=READ_ERRORS)
async def get(session: ReadBank, fact: Name) -> Response:
    """Return one fact, given by its id or short id."""
    return record(await session.memory.get(fact))


@router.patch("", response_model=Fact, responses=BODY_ERRORS, openapi_extra=examples.UPDATE_FACT)
async def update(session: WriteBank, fact: Name, body: FactText, idempotency: Idempotent) -> Response:
    """Write a new version of a fact; the old one is closed and stays in its history."""
    request = UpdateFactRequest(fact=fact, text=body.text, reason=body.reason, valid_at=body.valid_at)
    return await idempotency.run(session, request, record)


@router.delete("", response_model=Forgotten, responses=LLM_ERRORS)
async def delete(session: WriteBank, fact: Name, idempotency: Idempotent) -> Response:
    """Delete one fact with what rests on it, and the messages that state nothing else."""
    return await idempotency.run(session, DeleteFactRequest(fact=fact), record)


@router.get("/history", response_model=CursorPage[Fact], responses=READ_ERRORS)
async def history(session: ReadBank, fact: Name) -> Response:
    """List all versions of a fact, oldest first."""
    return page(CursorPage[Fact], await session.memory.history(fact))


@router.put("/pin", response_model=Fact, responses=BODY_ERRORS)
async def pin(session: WriteBank, fact: Name, idempotency: Idempotent, body: PinState | None = None) -> Response:
    """Pin a current fact, or unpin one; maintenance never closes a pinned one."""
    request = PinFactRequest(fact=fact, pinned=body is None or body.pinned)
    return await idempotency.run(session, request, record)
