"""Routes that create, configure, export, import and delete banks."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import anyio
from fastapi import Query, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from vmemo.errors import InvalidInput
from vmemo.models import FormerProfile, Profile
from vmemo.models.records import Text
from vmemo.models.requests import BackgroundRequest, CreateBankRequest, ProfileUpdate
from vmemo.models.results import Forgotten, Status
from vmemo_server import openapi
from vmemo_server.dependencies import (
    AnyPrincipal,
    AppState,
    CreateBank,
    DeleteBank,
    Idempotent,
    ImportBank,
    ReadBank,
    WriteBank,
)
from vmemo_server.responses import (
    BODY_ERRORS,
    LLM_ERRORS,
    READ_ERRORS,
    Cursor,
    CursorPage,
    Limit,
    one_more,
    page,
    page_up_to,
    record,
)

router = openapi.rest_router("banks", "/v1/banks")
_JSON_LINES = "application/x-ndjson"
Prefix = Annotated[Text, Query(max_length=512, description="Only banks whose names start with this.")]


@router.get("", name="list", response_model=CursorPage[str], responses=READ_ERRORS)
async def banks(
    request: Request, principal: AnyPrincipal, prefix: Prefix = "", cursor: Cursor = None, limit: Limit = 100
) -> Response:
    """List the names of the banks that the key may read, in order."""
    names = principal.readable(await AppState.of(request).memory.banks())
    found = [name for name in names if name.startswith(prefix) and (cursor is None or name > cursor)]
    return page_up_to(CursorPage[str], found[: one_more(limit)], limit, str)


@router.put("/{bank}", response_model=Status, responses=BODY_ERRORS, openapi_extra=openapi.PROFILE)
async def create(session: CreateBank, idempotency: Idempotent, body: Profile | None = None) -> Response:
    """Create a bank if it does not exist, and set its profile if one is given."""
    return await idempotency.run(session, CreateBankRequest(profile=body), record)


@router.get("/{bank}", response_model=Status, responses=READ_ERRORS)
async def status(session: ReadBank) -> Response:
    """Return the bank's counts, pending messages and processing errors."""
    return record(await session.memory.status())


@router.delete("/{bank}", response_model=Forgotten, responses=BODY_ERRORS)
async def delete(session: DeleteBank, idempotency: Idempotent) -> Response:
    """Delete the whole bank."""

    async def execute(_: object) -> Forgotten:
        memory = await session.principal.open_bank(session.memory, session.bank, "admin")
        async with session.erasing():
            return await memory.forget(bank=True)

    return await idempotency.execute(session, execute, record)


@router.get("/{bank}/profile", response_model=Profile, responses=READ_ERRORS)
async def profile(session: ReadBank) -> Response:
    """Return the bank's profile."""
    return record(await session.memory.profile())


@router.put("/{bank}/profile", response_model=Profile, responses=BODY_ERRORS, openapi_extra=openapi.PROFILE)
async def set_profile(session: WriteBank, body: Profile, idempotency: Idempotent) -> Response:
    """Replace the bank's profile; the previous one stays in its history."""
    return await idempotency.run(session, ProfileUpdate(profile=body), record)


@router.get("/{bank}/profile/history", response_model=CursorPage[FormerProfile], responses=READ_ERRORS)
async def former_profiles(session: ReadBank) -> Response:
    """List the bank's former profiles, oldest first."""
    return page(CursorPage[FormerProfile], await session.memory.former_profiles())


@router.post(
    "/{bank}/profile/background", response_model=Profile, responses=LLM_ERRORS, openapi_extra=openapi.BACKGROUND
)
async def add_background(session: WriteBank, body: BackgroundRequest, idempotency: Idempotent) -> Response:
    """Merge a text into the profile's background; this needs a language model."""
    return await idempotency.run(session, body, record)


@router.get(
    "/{bank}/export",
    responses={**READ_ERRORS, 200: {"content": {_JSON_LINES: {}}, "description": "The bank, one record per line"}},
    response_class=Response,
)
async def export(session: ReadBank) -> Response:
    """Export the whole bank as JSON Lines, embeddings included."""
    folder = tempfile.TemporaryDirectory()
    file = Path(folder.name) / "bank.jsonl"
    try:
        await session.memory.export(file)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(file, media_type=_JSON_LINES, background=BackgroundTask(folder.cleanup))


@router.post(
    "/{bank}/import",
    response_model=Status,
    responses=BODY_ERRORS,
    openapi_extra={"requestBody": {"required": True, "content": {_JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def import_bank(request: Request, session: ImportBank, idempotency: Idempotent) -> Response:
    """Import an exported bank under an unused name, completely or not at all."""
    with tempfile.TemporaryDirectory() as folder:
        file = anyio.Path(folder) / "bank.jsonl"
        digest = await _save(request.stream(), file)

        async def execute(_: object) -> Status:
            try:
                await session.memory.import_bank(Path(file))
            except InvalidInput as error:
                # Hide the temporary file's path from the error.
                raise InvalidInput(str(error).replace(str(file), "The body")) from error
            return await session.memory.status()

        return await idempotency.execute(session, execute, record, content=digest)


async def _save(body: AsyncGenerator[bytes], file: anyio.Path) -> bytes:
    """Write a body to a file and return its hash."""
    digest = sha256()
    async with await file.open("wb") as to:
        async for chunk in body:
            digest.update(chunk)
            await to.write(chunk)
    return digest.digest()
